"""The content of a space file: the parameters, options and limits of one program, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from search_spaces.expressions import Value
from search_spaces.model import (
    Constraint,
    Fact,
    Form,
    Option,
    Parameter,
    Preset,
    SpaceError,
    Use,
    nearest,
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The content of a space file for one program, without what is computed from it.

    ``component`` qualifies the parameters' names outside (``fileserver.threads``). ``parameters``
    are in the order of the file, which is the order on the command line; ``order`` has each after
    those it depends on. ``preset_parameter`` names the one that chooses the column of defaults,
    empty if there is none, and ``preset_fields`` those that it sets. ``options``: everything the
    program takes, in the order of its own help. ``foreign_options``: options it does not know are
    handed on to something else. ``evidence``: what limits and options were checked against.
    ``uses``: what it can be used for.
    """

    name: str
    component: str
    title: str
    program: str
    versions: str
    parameters: tuple[Parameter, ...]
    facts: Mapping[str, Fact]
    constraints: tuple[Constraint, ...]
    options: tuple[Option, ...]
    presets: tuple[Preset, ...] = ()
    order: tuple[Parameter, ...] = ()
    preset_parameter: str = ""
    preset_fields: tuple[str, ...] = ()
    form: Form = Form.LIBCMD
    evidence: str = ""
    foreign_options: bool = False
    uses: tuple[Use, ...] = tuple(Use)
    by_name: Mapping[str, Parameter] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Parameter:
        """The parameter of that name. Raises SpaceError, which names the nearest one."""
        try:
            return self.by_name[name]
        except KeyError:
            raise SpaceError(f"{self.name}: no parameter {name!r}{self.hint(name)}") from None

    def hint(self, name: str) -> str:
        """Which parameter an unknown name may mean: one that is spelt like it, or has that
        option.
        """
        for parameter in self.parameters:
            if name.lstrip("-") in [flag.lstrip("-") for flag in parameter.flags]:
                return f" (did you mean {parameter.name!r}?)"
        return nearest(name, self.by_name)

    @property
    def searched(self) -> tuple[Parameter, ...]:
        """The parameters for which values are proposed, in the order of asking."""
        return tuple(p for p in self.order if p.searched and p.fixed is None)

    def assume(self, facts: Mapping[str, int] | None = None) -> dict[str, Value]:
        """Every fact of this space: as given, otherwise as assumed. Facts of other spaces are
        passed over.
        """
        known_facts = facts or {}
        return {name: known_facts.get(name, fact.assumed) for name, fact in self.facts.items()}
