"""The part of a campaign's page on its incumbent over time. Pure functions."""

from __future__ import annotations

from markupsafe import Markup

from tuner.model import BASELINE, Answer
from tuner.page import svg
from tuner.page.names import called
from tuner.page.snapshot import Snapshot
from tuner.states import OVER
from tuner.text import faster, percent_faster


def incumbents_drawing(snapshot: Snapshot) -> Markup:
    """Draw the incumbent's gain by block; empty before the first block of the search."""
    points = []
    for step in snapshot.steps:
        e = step.estimate
        points.append(
            svg.Point(
                step.block,
                0.0 if e is None else _percent(e.ratio) or 0.0,
                None if e is None else _percent(e.upper),
                None if e is None else _percent(e.lower),
                "open" if step.trial == BASELINE else "faster",
            )
        )
    if not points:
        return Markup("")
    return svg.series(points, incumbents_text(snapshot), steps=True)


def _percent(ratio: float) -> float | None:
    value = percent_faster(ratio) if ratio > 0.0 else float("inf")
    return value if abs(value) < 1e6 else None


def incumbents_text(snapshot: Snapshot) -> str:
    """State in a sentence which trial is the incumbent, and how often that changed."""
    over = snapshot.campaign.state in OVER
    if not snapshot.steps:
        return "The search did not start." if over else "The search has not started."
    changes = sum(
        now.trial != before.trial
        for before, now in zip(snapshot.steps, snapshot.steps[1:], strict=False)
    )
    last, answer = snapshot.steps[-1], snapshot.campaign.recommendation
    ratio = None if last.estimate is None else last.estimate.ratio
    # The certificate's own numbers, where there is one.
    if answer is not None and answer.answer is Answer.RECOMMENDED and answer.trial == last.trial:
        ratio = answer.ratio
    gain = "" if ratio is None else f", {faster(ratio)} than the baseline"
    changed = {0: "did not change", 1: "changed once"}.get(changes, f"changed {changes} times")
    return (
        f"After block {last.block} the incumbent is {called(last.trial)}{gain}; "
        f"it {changed}{'' if over else ' so far'}."
    )
