"""The rules by which a campaign is planned, derived from its specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import workloads
from tuner.errors import SpecError
from tuner.judge.auto_floor import FLOORS
from tuner.judge.levels import ALPHA, FIRST_SHARE, FLOOR_ALPHA, planned_blocks
from tuner.judge.pilot import Pilot, PilotRules
from tuner.judge.race import RaceRules
from tuner.measure.workload import Workload, load_workload, workload_measured
from tuner.model import Aspect, Campaign
from tuner.spec.campaign import CampaignSpec

#: Power to show a floor at which ``auto`` selects strict floors.
_ENOUGH_POWER = 0.8
#: Measuring time (s) at which it may: in a shorter campaign an early certificate is worth more.
_LONG_S = 6 * 3600.0
#: Reads what a campaign measured with, by aspect, given its identifier.
MeasuredWith = Callable[[str], Mapping[str, Aspect]]


class Floors(StrEnum):
    """What components must satisfy before anything is recommended."""

    AUTO = "auto"
    STRICT = "strict"
    BOUNDED = "bounded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules by which a campaign is planned. They are fixed before its first block, except for
    the floor and ``floors``, which the pilot may settle (``settled_rules``).

    ``components`` and ``weights`` are in the same order. ``budget_s``: measuring time (s);
    ``budget_measurements``: None for no limit. ``arms``: of a block of the search, in addition to
    the baseline. ``max_trials``: maximum number of proposals, None for no limit.
    ``certify_blocks``: maximum number of fresh blocks of an attempt. ``certify_share``: the part of
    the budget that the search leaves to certification, of at most ``finalists`` trials at once.
    ``pilot``: None for a campaign without one; ``pilot_override``: continue although it advises
    against. ``testbeds``: the number of blocks measured at once. ``stop_certified``: finish with
    the first certificate. ``adjust``: judge gains by adjusted differences. ``compares``: compare
    given configurations and search nothing. ``auto_floor``: the floor of ``race`` is still to be
    chosen from the results of the pilot; ``floor_reason``: why it was chosen, a sentence; "" for a
    floor given in the campaign file.
    """

    components: tuple[str, ...]
    weights: tuple[float, ...]
    race: RaceRules
    arms: int
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
    floors: Floors = Floors.AUTO
    stop_certified: bool = False
    adjust: bool = False
    compares: bool = False
    auto_floor: bool = False
    floor_reason: str = ""

    @property
    def floor(self) -> float | None:
        """The largest loss allowed to one component, as a fraction; None until it is chosen."""
        return None if self.auto_floor else self.race.floor

    @property
    def most_measurements(self) -> int | None:
        """After how many measurements the campaign ends at the latest; None where time alone ends
        it. A comparison ends when every configuration has had all of its blocks; a block of the
        pilot has two runs.
        """
        if not self.compares:
            return self.budget_measurements
        pilot_runs = 0 if self.pilot is None else 2 * self.pilot.max_blocks
        every = pilot_runs + self.certify_blocks * (1 + self.finalists)
        return every if self.budget_measurements is None else min(every, self.budget_measurements)


def rules_of(spec: CampaignSpec, workload: Workload) -> Rules:
    """Derive the rules from a specification."""
    finalists, alpha = _finalists(spec), first_alpha(spec)
    floors, floor = Floors(spec.certification.floors), spec.statistics.given_floor
    strict = floors is Floors.STRICT or (floors is Floors.AUTO and spec.budget.wall_time >= _LONG_S)
    pilot = PilotRules(
        weights=workload.weights,
        delta=spec.statistics.delta,
        floor=floor,
        max_blocks=planned_blocks(max(3, spec.pilot.blocks)),
        budget_s=spec.budget.wall_time,
        arms=1 + spec.search.arms,
        certify_blocks=planned_blocks(spec.certification.blocks),
        certify_share=spec.certification.share,
        certify_arms=1 + finalists,
        alpha_certify=alpha,
        floor_alpha=alpha if strict else FLOOR_ALPHA,
        components=workload.components,
        budget_measurements=spec.budget.measurements,
        testbeds=len(spec.sections),
        compares=bool(spec.compare),
    )
    return Rules(
        components=workload.components,
        weights=workload.weights,
        race=RaceRules(
            delta=spec.statistics.delta,
            floor=FLOORS[-1] if floor is None else floor,
            max_blocks=spec.search.blocks_per_trial,
        ),
        arms=spec.search.arms,
        budget_s=spec.budget.wall_time,
        budget_measurements=spec.budget.measurements,
        max_trials=spec.search.max_trials,
        certify_blocks=spec.certification.blocks,
        certify_share=spec.certification.share,
        finalists=finalists,
        seed=spec.seed,
        pilot=pilot if spec.pilot.blocks else None,
        pilot_override=spec.pilot.override,
        testbeds=len(spec.sections),
        floors=floors,
        stop_certified=spec.stop == "certified",
        adjust=spec.statistics.adjust,
        compares=bool(spec.compare),
        auto_floor=floor is None,
    )


def first_alpha(spec: CampaignSpec) -> float:
    """Return the one-sided error at which each finalist of the first attempt is certified."""
    # A comparison has no other attempt.
    share = 1.0 if spec.compare else FIRST_SHARE
    return share * ALPHA / _finalists(spec)


def _finalists(spec: CampaignSpec) -> int:
    return len(spec.compare) or spec.certification.finalists


def settled_rules(rules: Rules, pilot: Pilot | None) -> Rules:
    """Return the rules once the pilot is over: with the floor that it chooses, if it is to choose
    one.

    Automatic floors become strict in a long campaign whose pilot finds that every one of them can
    be shown, and bounded otherwise.
    """
    if rules.auto_floor and pilot is not None:
        rules = with_floor(rules, pilot.outlook.floor.floor, pilot.outlook.floor.reason)
    if rules.floors is not Floors.AUTO:
        return rules
    powers = () if pilot is None else pilot.outlook.floors
    strict = rules.budget_s >= _LONG_S and bool(powers) and min(powers) >= _ENOUGH_POWER
    return replace(rules, floors=Floors.STRICT if strict else Floors.BOUNDED)


def with_floor(rules: Rules, floor: float, reason: str) -> Rules:
    """Return the rules with a chosen floor; ``reason``: a sentence."""
    race = replace(rules.race, floor=floor)
    return replace(rules, race=race, auto_floor=False, floor_reason=reason)


def stored_rules(campaign: Campaign, measured_with: MeasuredWith | None = None) -> Rules:
    """Return the rules of a stored campaign. Raises SpecError if its workload file is gone.

    ``measured_with``: given by a service, which does not open workload files: an imported campaign
    may name any path. The workload is then the one that the campaign has measured.
    """
    spec = CampaignSpec.from_json(campaign.spec)
    if measured_with is None or spec.workload.name in workloads.packaged():
        return rules_of(spec, load_workload(spec.workload.name, spec.workload.scale))
    aspect = measured_with(campaign.id).get("workload")
    if aspect is None:
        raise SpecError("its workload is a file, which is not opened here")
    return rules_of(spec, workload_measured(aspect.document))


def rules_if_known(campaign: Campaign, measured_with: MeasuredWith | None = None) -> Rules | None:
    """As ``stored_rules``; None if the workload's file is gone or has changed."""
    try:
        return stored_rules(campaign, measured_with)
    except (SpecError, KeyError, ValueError, OSError):
        return None
