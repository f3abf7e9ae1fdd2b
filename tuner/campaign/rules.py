"""The rules by which a campaign is planned, and how they follow from its specification."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.campaign.spec import CampaignSpec
from tuner.judge.pilot import PilotRules
from tuner.judge.race import RaceRules
from tuner.measure.workload import Workload, load_workload
from tuner.model import Campaign

#: The error of all certificates of a campaign together, one-sided.
ALPHA = 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a campaign is planned by, fixed before its first block.

    ``components`` and ``weights`` in the same order. ``budget_s``: measuring time;
    ``budget_measurements``: None for no limit. ``max_trials``: most proposals, None for no limit.
    ``certify_share``: the part of the budget that the search leaves to certification, of
    ``finalists`` trials at most. ``pilot``: None for a campaign without one; ``pilot_override``: go
    on although it advises against. ``testbeds``: so many blocks are measured at once.
    """

    components: tuple[str, ...]
    weights: tuple[float, ...]
    race: RaceRules
    trials_per_race: int
    budget_s: float
    budget_measurements: int | None
    max_trials: int | None
    certify_blocks: int
    certify_share: float
    seed: int
    finalists: int = 1
    pilot: PilotRules | None = None
    pilot_override: bool = False
    testbeds: int = 1


def rules_of(spec: CampaignSpec, workload: Workload) -> Rules:
    """The rules by which a specification is planned."""
    pilot = PilotRules(
        weights=workload.weights,
        delta=spec.statistics.delta,
        floor=spec.statistics.floor,
        max_blocks=max(3, spec.pilot.blocks),
        budget_s=spec.budget.wall_time,
        arms=2 + spec.search.trials_per_race,
        certify_blocks=min(500, spec.certification.blocks),
        certify_share=spec.certification.share,
        certify_arms=1 + spec.certification.finalists,
        alpha_certify=ALPHA / spec.certification.finalists,
        components=workload.components,
    )
    return Rules(
        components=workload.components,
        weights=workload.weights,
        race=RaceRules(
            delta=spec.statistics.delta,
            floor=spec.statistics.floor,
            max_blocks=spec.search.blocks_per_race,
        ),
        trials_per_race=spec.search.trials_per_race,
        budget_s=spec.budget.wall_time,
        budget_measurements=spec.budget.measurements,
        max_trials=spec.search.max_trials,
        certify_blocks=spec.certification.blocks,
        certify_share=spec.certification.share,
        finalists=spec.certification.finalists,
        seed=spec.seed,
        pilot=pilot if spec.pilot.blocks else None,
        pilot_override=spec.pilot.override,
        testbeds=len(spec.places),
    )


def stored_rules(campaign: Campaign) -> Rules:
    """The rules of a stored campaign. Raises SpecError when its workload's file is gone."""
    spec = CampaignSpec.from_json(campaign.spec)
    return rules_of(spec, load_workload(spec.workload.name, spec.workload.scale))
