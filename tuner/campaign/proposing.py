"""What a race is to try: what the specification names, then the proposer's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tuner.campaign.equivalence import Facts
from tuner.campaign.spec import CampaignSpec, SpaceSection
from tuner.errors import SpecError
from tuner.model import BASELINE, Configuration, Prior, Trial
from tuner.propose.optuna_proposer import OptunaProposer, Tunable
from tuner.propose.proposer import Proposal, Told
from tuner.target.target import Target


def proposals_for(
    target: Target,
    facts: Facts,
    spec: CampaignSpec,
    trials: Sequence[Trial],
    count: int,
    estimates: Mapping[int, float],
    priors: Sequence[Prior],
) -> list[Proposal]:
    """At most ``count`` new configurations; fewer when the space holds no more.

    ``facts``: what the hosts allow, by component. ``estimates``: mean log time ratio to the
    baseline by trial. ``priors``: what an earlier campaign found; they guide, and are evidence for
    nothing. Raises SpecError when a configuration
    of the specification does not fit its host.
    """
    proposals = _named(target, facts, spec, trials)[:count]
    if len(proposals) == count:
        return proposals
    known = [Told(t.configuration, _value(t, estimates)) for t in trials]
    known += [Told(p.configuration, None) for p in proposals]
    known += [Told(p.configuration, p.difference, prior=True) for p in priors]
    tunables = {
        name: Tunable(part.space, facts[name], part.found) for name, part in target.parts.items()
    }
    proposer = OptunaProposer(tunables, spec.search.sampler, spec.seed)
    return proposals + proposer.propose(count - len(proposals), known)


def _value(trial: Trial, estimates: Mapping[int, float]) -> float | None:
    return 0.0 if trial.number == BASELINE else estimates.get(trial.number)


def _named(
    target: Target, facts: Facts, spec: CampaignSpec, trials: Sequence[Trial]
) -> list[Proposal]:
    """What the specification wants tried first and has not been, its presets before all."""
    tried = {t.configuration for t in trials}
    wanted: list[Proposal] = []
    for configuration, origin in (*_presets(target, facts, spec), *_first(target, facts, spec)):
        if configuration not in tried:
            tried.add(configuration)
            wanted.append(Proposal(configuration, origin))
    return wanted


def _first(target: Target, facts: Facts, spec: CampaignSpec) -> Iterator[tuple[Configuration, str]]:
    """The baseline with some values changed, as the specification lists them."""
    for number, values in enumerate(spec.first, start=1):
        configuration = Configuration.of(target.baseline.as_dict() | values)
        for component, part in target.parts.items():
            wrong = part.space.violations(configuration.part(component), facts[component])
            if wrong:
                raise SpecError(f"first.{number - 1}: {component}: {wrong[0]}")
        yield configuration, f"first {number}"


def _presets(
    target: Target, facts: Facts, spec: CampaignSpec
) -> Iterator[tuple[Configuration, str]]:
    """The presets asked for, each moved into what its host allows, over the baseline."""
    for component, part in target.parts.items():
        asked: SpaceSection = getattr(spec.spaces, component)
        others = {n: v for n, v in target.baseline if not n.startswith(f"{component}.")}
        for preset in part.space.presets:
            if preset.name in asked.presets:
                values = part.space.fit(preset.values, facts[component])
                own = {f"{component}.{name}": value for name, value in values.items()}
                yield Configuration.of(others | own), f"preset {preset.name}"
