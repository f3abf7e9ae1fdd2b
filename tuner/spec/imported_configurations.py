"""What the configurations of an imported campaign may contain, given its own search spaces.

Readers compute with their values, so each must have the type of its parameter. Limits and words are
not checked: they may have changed since the campaign was measured. The form of the rows is checked
in ``tuner.store.imported_rows``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from search_spaces import Kind
from tuner.errors import SpecError
from tuner.spec.campaign import CampaignSpec, UnknownKindError
from tuner.spec.space_section import stored_spaces

#: Columns with configurations that readers compute with, by table.
_CONFIGURATIONS = {
    "campaign": ("baseline",),
    "prior": ("configuration",),
    "trial": ("configuration",),
    "recommendation": ("configuration", "baseline"),
}
#: The aspect that describes the search space of a part: see ``tuner.run.identity``.
_ASPECT = "space of the "
#: The type of values that are not whole numbers, by kind of parameter, and what it is called.
_TYPES: Mapping[str, tuple[type, str]] = {
    Kind.BOOLEAN: (bool, "true or false"),
    Kind.CATEGORICAL: (str, "a word"),
}
_NUMBER = (int, "a whole number")


class RowChecker:
    """Checks the rows of one campaign, which come in the order in which they are exported.

    A parameter may have the kind that it has here, or the one that it had when the campaign was
    measured, which its own rows describe. A space in a file is known only from that description:
    the campaign may name any path, which is not opened.
    """

    def __init__(self) -> None:
        self._types: dict[str, set[tuple[type, str]]] = {}
        #: Parts whose search spaces, as they were measured, are known.
        self._parts: set[str] = set()
        #: The campaign's own row until the rows that describe its spaces have been read.
        self._campaign: tuple[str, Mapping[str, Any]] | None = None

    def check(self, where: str, table: str, row: Mapping[str, Any]) -> None:
        """Raise SpecError if a row, of which ``where`` tells the place, is wrong."""
        if table == "campaign":
            if problem := _unreadable(row["spec"]):
                raise SpecError(f"{where}: campaign.spec: {problem}")
            for part, space in stored_spaces(row["spec"], files=False).items():
                self._learn(part, {each.name: each.kind for each in space.parameters})
            self._campaign = where, row
        elif table == "measured_with":
            if row["aspect"].startswith(_ASPECT) and (kinds := dict(_kinds(row["document"]))):
                part = row["aspect"].removeprefix(_ASPECT)
                self._learn(part, kinds)
                self._parts.add(part)
        else:
            if self._campaign is not None:
                self._check_configurations(self._campaign[0], "campaign", self._campaign[1])
                self._campaign = None
            self._check_configurations(where, table, row)

    def _check_configurations(self, where: str, table: str, row: Mapping[str, Any]) -> None:
        for column in _CONFIGURATIONS.get(table, ()):
            for name, value in (row[column] or {}).items():
                # A prior is of another campaign, perhaps with parameters that this one lacks.
                if problem := self._wrong(name, value, complete=table != "prior"):
                    raise SpecError(f"{where}: {table}.{column}: {problem}")

    def _learn(self, part: str, kinds: Mapping[str, str]) -> None:
        for name, kind in kinds.items():
            self._types.setdefault(f"{part}.{name}", set()).add(_TYPES.get(kind, _NUMBER))

    def _wrong(self, name: str, value: object, *, complete: bool) -> str:
        types = self._types.get(name)
        if types is None:
            unknown = complete and name.partition(".")[0] in self._parts
            return f"{name} is no parameter of its search space" if unknown else ""
        if any(type(value) is each for each, _ in types):
            return ""
        return f"{name} takes {' or '.join(sorted(text for _, text in types))}"


def _unreadable(spec: str) -> str:
    """Return why this fstune cannot read a specification; "" if it can, or if only the kind of
    service is not installed here: its results can be read nevertheless.
    """
    try:
        CampaignSpec.from_json(spec)
    except UnknownKindError:
        return ""
    except SpecError as problem:
        return str(problem)
    return ""


def _kinds(document: object) -> Iterator[tuple[str, str]]:
    """Yield the names and kinds of the parameters in the description of a space, if it is one."""
    parameters = document.get("parameters") if isinstance(document, Mapping) else None
    for name, parameter in parameters.items() if isinstance(parameters, Mapping) else ():
        kind = parameter.get("kind") if isinstance(parameter, Mapping) else None
        if isinstance(kind, str) and kind in list(Kind):
            yield name, kind
