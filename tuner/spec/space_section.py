"""The ``spaces:`` section of a campaign file: which parameters of which part may be changed.

Owns its keys, and loads the search spaces that it names.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

import search_spaces
from search_spaces import Risk, Space, SpaceError, Use, describe
from tuner.documents import ParameterValue, Section, wrong_key
from tuner.errors import SpecError
from tuner.services.kind import Kind
from tuner.services.kinds import part_order

#: A part that only the file of a testbed names. Its name precedes those of its parameters, with a
#: period in between.
_PART = re.compile("[a-z][a-z0-9_]*")


class SpaceSection(Section):
    """A search space and how the campaign narrows it.

    ``only``: search only these parameters. ``also``: search these in addition to the usual
    ones (negative controls, for example). ``fix``: always set these. ``range``: ``[low, high]`` or
    a list of words. ``allow_risk``: risk classes that may be searched. ``presets``: configurations
    of the space, by name, to try first.
    """

    name: str
    only: tuple[str, ...] | None = None
    also: tuple[str, ...] = ()
    fix: dict[str, ParameterValue] = Field(default_factory=dict)
    range: dict[str, tuple[ParameterValue, ...]] = Field(default_factory=dict)
    allow_risk: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()


def as_section(value: object) -> object:
    """Expand a bare name, which is short for a section with nothing else in it."""
    return {"name": value} if isinstance(value, str) else value


NamedSpace = Annotated[SpaceSection, BeforeValidator(as_section)]


def _without_nulls(value: object) -> object:
    """Drop nulls: earlier releases stored campaigns with a null for a part that was not tuned."""
    if not isinstance(value, dict):
        return value
    untouched = [part for part in part_order() if part in value and value[part] is None]
    return {part: space for part, space in value.items() if part not in untouched}


#: Which parameters may be changed: a packaged search space or a file for each part of the service.
#: A part without one keeps its original settings.
Spaces = Annotated[dict[str, NamedSpace], BeforeValidator(_without_nulls)]


def by_part(spaces: Mapping[str, SpaceSection], kind: Kind) -> dict[str, SpaceSection]:
    """Return the spaces in the order of the service's parts. Raises an error for a part that the
    service does not have, and for a missing one.
    """
    parts = part_order() if kind.parts is None else kind.parts
    if kind.any_part:
        parts += tuple(part for part in spaces if part not in parts and _PART.fullmatch(part))
    for part in [part for part in spaces if part not in parts]:
        nearest = difflib.get_close_matches(part, parts, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(parts)}"
        hint = "use lower-case letters, digits and _" if kind.any_part else hint
        raise wrong_key(part, f"{_not_for_campaigns(spaces[part].name)}unknown key; {hint}")
    for part in sorted(kind.required - spaces.keys()):
        raise wrong_key(part, "missing")
    if not spaces:
        raise ValueError(f"name the search space of a part{': ' * bool(parts)}{', '.join(parts)}")
    return {part: spaces[part] for part in parts if part in spaces}


def _not_for_campaigns(name: str) -> str:
    """Return a clause saying that a packaged space is not for campaigns; "" for others."""
    if name not in search_spaces.names():
        return ""
    space = search_spaces.load(name)
    if Use.CAMPAIGNS in space.uses or Use.SIMULATION in space.uses:
        return ""
    return f"{name} is not for campaigns, but for {describe.purpose(space)}; "


def load_space(section: SpaceSection, part: str) -> Space:
    """Return the search space that a section names, narrowed as it specifies. Raises SpecError."""
    try:
        space = search_spaces.load(section.name)
        if space.part != part:
            message = f"{_not_for_campaigns(section.name)}{space.name} is a space of {space.part}"
            raise SpecError(f"spaces.{part}: {message}")
        narrowed = space.narrow(
            only=section.only,
            also=section.also,
            fix=section.fix,
            ranges=section.range,
            allow_risk=section.allow_risk,
        )
        return narrowed if section.only is not None else _with_presets(narrowed, section)
    except SpaceError as problem:
        raise SpecError(f"spaces.{part}: {problem}") from problem


def stored_spaces(text: str, *, files: bool = True) -> dict[str, Space]:
    """Return the spaces of a stored specification, not narrowed, by part; empty if one of them is
    gone.

    ``files``: also load spaces from files, not only packaged ones. Of a campaign on a server only
    the names of its spaces are known.
    """
    try:
        names = {p: section["name"] for p, section in json.loads(text)["spaces"].items() if section}
        if not files and not set(names.values()) <= set(search_spaces.names()):
            return {}
        return {part: search_spaces.load(name) for part, name in names.items()}
    except (SpaceError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _with_presets(space: Space, section: SpaceSection) -> Space:
    """Return the space with the risky parameters of the selected presets searched too: naming a
    preset allows whatever it sets, alone and in combination with others.
    """
    parameters = {
        name
        for preset in space.presets
        if preset.name in section.presets
        for name in preset.values
        if space[name].risk is not Risk.PERFORMANCE and space[name].fixed is None
    }
    return space.searching(parameters)
