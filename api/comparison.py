"""Side-by-side comparison of two trials from their measurements. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from markupsafe import Markup

from tuner.errors import NotFoundError
from tuner.model import BASELINE, BlockKind
from tuner.page import svg
from tuner.page.names import KINDS, called
from tuner.page.snapshot import Snapshot
from tuner.results.reference_comparison import estimate
from tuner.text import counted, faster, signed, signed_interval

#: A complete block: its kind, and the log score of each trial in it.
Scored = tuple[BlockKind, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two trials in blocks of one kind. ``text``: result of the blocks that measured
    both.
    """

    kind: str
    text: str
    drawing: Markup
    rows: tuple[tuple[str, str, str, str], ...]


def compare_trials(
    snapshot: Snapshot, scored: Sequence[Scored], a: int, b: int
) -> tuple[Comparison, ...]:
    """Compare two trials on their measurements, separately for each kind of block: search blocks
    are biased in favour of the trials they selected, fresh blocks are not.

    Raises NotFoundError for an unknown trial number, or if the workload no longer exists.
    """
    numbers = {trial.number for trial in snapshot.trials}
    for number in (a, b):
        if number not in numbers:
            raise NotFoundError(f"campaign {snapshot.campaign.id} has no trial {number}")
    if snapshot.rules is None:
        raise NotFoundError(f"the workload of campaign {snapshot.campaign.id} is gone")
    others = {a, b} - {BASELINE}
    comparisons = []
    for kind in (BlockKind.CERTIFY, BlockKind.SEARCH, BlockKind.PILOT):
        of_kind = [scores for block_kind, scores in scored if block_kind is kind]
        # Every block measures the baseline, so skip kinds that measured neither of the others.
        if any(others & scores.keys() for scores in of_kind):
            comparisons.append(_compare(KINDS[kind], of_kind, a, b))
    return tuple(comparisons)


def _compare(kind: str, scored: Sequence[Mapping[int, float]], a: int, b: int) -> Comparison:
    groups, rows = [], []
    middle = fmean(scores[BASELINE] for scores in scored)
    for number in (a, b):
        differences = [
            scores[number] - (middle if number == BASELINE else scores[BASELINE])
            for scores in scored
            if number in scores
        ]
        groups.append((called(number), differences))
        e = estimate(differences, None) if differences and number != BASELINE else None
        effect = "" if e is None else signed(e.ratio)
        interval = "" if e is None else signed_interval(e.lower, e.upper)
        rows.append((called(number), str(len(differences)), effect, interval))
    title = f"{called(a)} and {called(b)}, one dot per block of the {kind}"
    return Comparison(kind, _difference(scored, a, b), svg.dots(groups, title), tuple(rows))


def _difference(scored: Sequence[Mapping[int, float]], a: int, b: int) -> str:
    pairs = [scores[b] - scores[a] for scores in scored if a in scores and b in scores]
    if a == b:
        return "Both are the same trial."
    if not pairs:
        return f"No block has measured both {called(a)} and {called(b)}."
    e = estimate(pairs, None)
    bounds = signed_interval(e.lower, e.upper)
    return (
        f"{called(b).capitalize()} is {faster(e.ratio)} than {called(a)} "
        f"(95% interval {bounds}) in the {counted(len(pairs), 'block')} that measured both."
    )
