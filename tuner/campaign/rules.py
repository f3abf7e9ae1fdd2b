"""The rules by which a campaign is planned."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.judge.pilot import PilotRules
from tuner.judge.race import RaceRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a campaign is planned by, fixed before its first block.

    ``components`` and ``weights`` in the same order. ``budget_s``: measuring time;
    ``budget_measurements``: None for no limit. ``max_trials``: most proposals, None for no limit.
    ``certify_share``: the part of the budget that the search leaves to certification. ``pilot``:
    None for a campaign without one; ``pilot_override``: go on although it advises against.
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
    pilot: PilotRules | None = None
    pilot_override: bool = False
