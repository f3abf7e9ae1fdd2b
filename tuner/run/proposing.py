"""The configurations to try: those of the specification, and the guide that proposes the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.errors import SpecError
from tuner.model import Configuration, Prior
from tuner.plan.model_guide import ModelGuide
from tuner.plan.named_comparison import ORIGIN
from tuner.plan.rules import Rules
from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Proposal
from tuner.propose.strategies import proposer
from tuner.run.equivalence import Facts
from tuner.services.target import Target
from tuner.spec.campaign import CampaignSpec
from tuner.spec.checking import wrong_on
from tuner.spec.values import given_values, laid_over


def guide_of(
    target: Target,
    facts: Facts,
    spec: CampaignSpec,
    rules: Rules,
    priors: Sequence[Prior],
) -> ModelGuide:
    """Return the guide of a campaign on an open testbed.

    ``facts``: the facts of the hosts, by part. ``priors``: results of earlier campaigns, which
    guide the search but are no evidence. Raises SpecError if a configuration of the specification
    does not fit its host, or none does.
    """
    tunables = {
        name: Tunable(part.space, facts[name], part.initial) for name, part in target.parts.items()
    }
    for name, tunable in tunables.items():
        if wrong := next(wrong_on(tunable.space, tunable.facts, tunable.baseline), None):
            raise SpecError(f"spaces.{name}: {wrong}")
    strategy = proposer(spec.search.sampler, tunables, spec.seed)
    first = first_proposals(target, facts, spec)
    return ModelGuide(tunables, target.baseline, rules, first, priors, strategy)


def first_proposals(target: Target, facts: Facts, spec: CampaignSpec) -> list[Proposal]:
    """Return the first configurations to try, starting with presets. Raises SpecError if a
    configuration does not fit its host.
    """
    proposals: dict[Configuration, Proposal] = {}
    for configuration, origin in (*_presets(target, facts, spec), *_first(target, facts, spec)):
        if configuration != target.baseline:
            proposals.setdefault(configuration, Proposal(configuration, origin))
    return list(proposals.values())


def compared(target: Target, facts: Facts, spec: CampaignSpec) -> list[Proposal]:
    """Return the configurations of a comparison, in the order of the file; none for a search.

    Raises SpecError if one does not fit its host, or equals the baseline or another one.
    """
    proposals: dict[Configuration, Proposal] = {target.baseline: Proposal(target.baseline, "")}
    for name in spec.compare:
        configuration = _over_baseline(target, facts, f"compare.{name}", spec)
        if configuration in proposals:
            same = proposals[configuration].origin.removeprefix(ORIGIN) or "the baseline"
            raise SpecError(f"compare.{name}: it is the same as {same}")
        proposals[configuration] = Proposal(configuration, f"{ORIGIN}{name}")
    return list(proposals.values())[1:]


def _over_baseline(target: Target, facts: Facts, where: str, spec: CampaignSpec) -> Configuration:
    """The baseline with the values of one key of the file. Raises SpecError if it does not fit."""
    spaces = {name: part.space for name, part in target.parts.items()}
    configuration = laid_over(target.baseline, dict(given_values(spec))[where], spaces)
    for part_name, part in target.parts.items():
        wrong = part.space.violations(configuration.part(part_name), facts[part_name], part.initial)
        if wrong:
            raise SpecError(f"{where}: {part_name}: {wrong[0]}")
    return configuration


def _first(target: Target, facts: Facts, spec: CampaignSpec) -> Iterator[tuple[Configuration, str]]:
    """Yield the baseline with some values changed, as listed in the specification."""
    for number in range(len(spec.first)):
        yield _over_baseline(target, facts, f"first.{number}", spec), f"first {number + 1}"


def _presets(
    target: Target, facts: Facts, spec: CampaignSpec
) -> Iterator[tuple[Configuration, str]]:
    """Yield the selected presets over the baseline, each adjusted to the limits of its host.

    A preset replaces the values found on its part, but not those that nobody asked to change.
    """
    for part_name, part in target.parts.items():
        others = {n: v for n, v in target.baseline if not n.startswith(f"{part_name}.")}
        as_found = {n: v for n, v in part.initial.items() if part.space[n].stays_as_found}
        for preset in part.space.presets:
            if preset.name in spec.spaces[part_name].presets:
                values = part.space.fit(as_found | dict(preset.values), facts[part_name])
                own = {f"{part_name}.{name}": value for name, value in values.items()}
                yield Configuration.of(others | own), f"preset {preset.name}"
