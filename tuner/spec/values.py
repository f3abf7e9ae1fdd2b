"""The configurations and presets of a specification, checked against its spaces. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces import Space
from tuner.documents import ParameterValue, meant
from tuner.model import Configuration, Value
from tuner.spec.campaign import CampaignSpec
from tuner.spec.space_section import SpaceSection


def given_values(spec: CampaignSpec) -> list[tuple[str, dict[str, ParameterValue]]]:
    """Return the configurations that a specification gives, with their keys in the file: values by
    qualified name that differ from the baseline.
    """
    return [*first_values(spec), *compared_values(spec)]


def first_values(spec: CampaignSpec) -> list[tuple[str, dict[str, ParameterValue]]]:
    """Return the configurations that its search tries first."""
    return [(f"first.{number}", dict(values)) for number, values in enumerate(spec.first)]


def compared_values(spec: CampaignSpec) -> list[tuple[str, dict[str, ParameterValue]]]:
    """Return the configurations that it compares with the baseline instead of searching."""
    return [
        (
            f"compare.{name}",
            {f"{part}.{n}": v for part, several in parts.items() for n, v in several.items()},
        )
        for name, parts in spec.compare.items()
    ]


def laid_over(
    initial: Configuration, values: Mapping[str, Value], spaces: Mapping[str, Space]
) -> Configuration:
    """Return the original configuration with these values, by qualified name, in place of its own;
    a preset is expanded where one of the values that it sets is new.
    """
    new = Configuration.of(values)
    merged = initial.as_dict() | new.as_dict()
    for part, space in spaces.items():
        own = space.laid_over(initial.part(part), new.part(part))
        merged = {n: v for n, v in merged.items() if not n.startswith(f"{part}.")}
        merged |= {f"{part}.{name}": value for name, value in own.items()}
    return Configuration.of(merged)


def wrong_names(spec: CampaignSpec, spaces: Mapping[str, Space]) -> list[str]:
    """Return a sentence for each name in the specification that its spaces do not have."""
    parameters = [f"{c}.{p.name}" for c, space in spaces.items() for p in space.parameters]
    pairs = [(where, name) for where, values in given_values(spec) for name in values]
    wrong = []
    for part, space in spaces.items():
        wrong += _wrong_presets(spec.spaces[part], space)
    return wrong + [
        f"{where}: no parameter {name!r} in the campaign's search spaces{meant(name, parameters)}"
        for where, name in pairs
        if name not in parameters
    ]


def _wrong_presets(section: SpaceSection, space: Space) -> list[str]:
    """Return a sentence for each named preset that does not exist."""
    of = [preset.name for preset in space.presets]
    where = f"spaces.{space.part}.presets: {space.name} has no preset"
    return [
        f"{where} {name!r}{meant(name, of) or '; it has ' + ', '.join(of)}"
        for name in section.presets
        if name not in of
    ]
