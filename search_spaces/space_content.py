"""Content of a space file: the parameters, options and limits of one program, in order."""

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
class SpaceContent:
    """Content of a space file for one program, without anything computed from it.

    ``part``: qualifies the parameters' names outside (``fileserver.threads``).
    ``parameters``: in file order, which is the order on the command line; ``order``: each after
    those it depends on. ``preset_parameter``: the one that selects the set of defaults, empty if
    there is none; ``preset_fields``: the parameters it sets. ``options``: all options of the
    program that was the evidence, in the order of its own help. ``left_out``: the options without a
    parameter, by flag, also those of other versions. ``foreign_options``: the program passes
    unknown options on. ``evidence``: what limits and options were checked against. ``uses``: what
    the space can be used for.
    """

    name: str
    part: str
    title: str
    program: str
    versions: str
    parameters: tuple[Parameter, ...]
    facts: Mapping[str, Fact]
    constraints: tuple[Constraint, ...]
    options: tuple[Option, ...]
    left_out: Mapping[str, Option]
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
        """The parameter of that name. Raises SpaceError with a suggestion if unknown."""
        try:
            return self.by_name[name]
        except KeyError:
            raise SpaceError(f"{self.name}: no parameter {name!r}{self.hint(name)}") from None

    @property
    def every_option(self) -> tuple[Option, ...]:
        """All options, those of other versions last."""
        flags = {option.flag for option in self.options}
        return (*self.options, *(o for o in self.left_out.values() if o.flag not in flags))

    def hint(self, name: str) -> str:
        """Suggest a parameter for an unknown name: one with such an option, or a similar name."""
        for parameter in self.parameters:
            if name.lstrip("-") in [flag.lstrip("-") for flag in parameter.flags]:
                return f" (did you mean {parameter.name!r}?)"
        return nearest(name, self.by_name)

    @property
    def searched(self) -> tuple[Parameter, ...]:
        """The parameters for which values are proposed, in the order of proposal."""
        return tuple(p for p in self.order if p.searched and p.fixed is None)

    def assume(self, facts: Mapping[str, int] | None = None) -> dict[str, Value]:
        """All facts of this space, with assumed values where not given. Others are ignored."""
        known_facts = facts or {}
        return {name: known_facts.get(name, fact.assumed) for name, fact in self.facts.items()}
