"""The standing of a campaign that another process runs, built from its rows and events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tuner.model import BASELINE, Block, Event, Trial
from tuner.records.differences import changes
from tuner.records.estimate import Estimate
from tuner.records.standing import DroppedTrial, LiveTrial, Standing, state_word
from tuner.states import EventKind, TrialState

_DROPPED = 5


def outside_standing(
    trials: Sequence[Trial],
    last: Block,
    estimates: Mapping[int, tuple[Estimate, int]],
    *,
    incumbent: int,
    measurements: int,
    elapsed_s: float,
    blocks: int = 0,
) -> Standing:
    """Return the standing of a campaign in its ``last`` block.

    ``estimates``: for each trial, the estimate against the baseline in blocks of that kind and the
    number of those blocks. ``blocks``: complete blocks of that kind, each of which measured the
    baseline.
    """
    arms = [number for number in sorted(set(last.order)) if number not in (BASELINE, incumbent)]
    numbers = [BASELINE, *((incumbent,) if incumbent != BASELINE else ()), *arms]
    of = {trial.number: trial for trial in trials}
    baseline = of[BASELINE].configuration if BASELINE in of else None
    rows = []
    for trial in (of[number] for number in numbers if number in of):
        estimate, count = estimates.get(trial.number, (None, 0))
        if trial.number == BASELINE:
            count = blocks
        state = state_word(trial.number, last.kind, incumbent)
        difference = changes(baseline, trial.configuration) if baseline is not None else ""
        rows.append(LiveTrial(trial.number, trial.origin, state, count, difference, estimate))
    out = (TrialState.PRUNED, TrialState.FAILED)
    dropped = [DroppedTrial(t.number, t.reason) for t in reversed(trials) if t.state in out]
    return Standing(
        block=last.number,
        measurements=measurements,
        budget=None,
        elapsed_s=elapsed_s,
        expected_left_s=None,
        kind=last.kind,
        rows=tuple(rows),
        dropped=tuple(dropped[:_DROPPED]),
    )


def incumbent_after(events: Iterable[Event], incumbent: int = BASELINE) -> int:
    """Return the incumbent after these events, given the ``incumbent`` before them."""
    for event in events:
        trial = event.data.get("trial")
        if event.kind == EventKind.TRIAL_PROMOTED and isinstance(trial, int):
            incumbent = trial
        elif event.kind in (EventKind.TRIAL_PRUNED, EventKind.TRIAL_FAILED) and trial == incumbent:
            incumbent = BASELINE
    return incumbent
