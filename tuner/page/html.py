"""A report as one self-contained HTML file: inline style and drawings, no scripts, no links out."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tuner.judge.verdict import Outcome
from tuner.model import BASELINE, Answer, BlockKind, Event
from tuner.page import svg
from tuner.page.disturbances import disturbances
from tuner.page.document import ReportDocument, TrialVerdict
from tuner.page.effect_plots import basis, effect_plots, standings
from tuner.page.names import KINDS, called
from tuner.page.rows import SettingRow, drift_drawing, effect_rows, varies
from tuner.records.estimate import Estimate
from tuner.report.answer import arguments
from tuner.report.noise import HEADINGS, adjusted
from tuner.report.recommendation_document import Effect
from tuner.results.drift import DriftPoint
from tuner.text import confidence_text, counted, moment, signed, signed_interval

#: Maximum number of trials drawn; the others are listed in a collapsed table.
_MOST_DRAWN = 12

#: Label of each outcome in a table.
OUTCOMES = {
    Outcome.BETTER: "faster",
    Outcome.WORSE: "slower",
    Outcome.WORSE_BY_DELTA: "slower by more than delta",
    Outcome.EQUIVALENT: "equivalent",
    Outcome.UNDECIDED: "undecided",
}


#: What the verdicts rest on, as opposed to the answer.
RESTS_ON = (
    "Results of the search are biased upwards by the choice that was made there. Those of "
    "certification are not: they rest on all fresh blocks, and so may differ from the "
    "numbers of the answer."
)


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A verdict as a row of a table."""

    of: TrialVerdict
    kind: str
    outcome: str
    effect: str
    interval: str
    drawing: Markup


@cache
def _style() -> str:
    return files("tuner.page").joinpath("static/fstune.css").read_text(encoding="utf-8")


@cache
def policy() -> str:
    """Return the content security policy of a report, which allows only its own style."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'none'; "
        "base-uri 'none'"
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("tuner.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"arguments": arguments, "counted": counted, "moment": moment}
    return environment


def report_html(document: ReportDocument) -> str:
    """Return the HTML file. All external text is escaped."""
    d = document
    estimates = {name: own for name, e in d.components.items() if (own := estimate(e))}
    components_axis, components = effect_rows(estimates, floors(d))
    mattering = _mattering(d)
    intervals = [own for one in mattering if (own := estimate(one))]
    axis = svg.Axis.around(intervals)
    drift = [DriftPoint(p.block, p.kind, p.started, p.ratio) for p in d.drift]
    text = (
        _templates()
        .get_template("report.html")
        .render(
            d=d,
            # The policy contains the digest of exactly this text.
            style=Markup(_style()),
            policy=Markup(policy()),
            subject=subject(d),
            settings=[SettingRow(s.name, s.before, s.after, True, s.gain) for s in d.settings],
            components=components,
            components_axis=components_axis,
            components_legend=f"{subject(d)}: percent faster (to the right).",
            components_level=level(d),
            axis=svg.heading(axis),
            shown=[_row(one, axis) for one in mattering],
            verdicts=[_row(one) for one in d.verdicts],
            rests_on=RESTS_ON,
            effect_plots=effect_plots(d.effects),
            effects_basis=basis(d.effects),
            standings=standings(d.effects),
            drift=drift_drawing(drift, _after(d, drift)),
            varies=varies(drift),
            noise_headings=HEADINGS,
            adjusted="" if d.noise is None else adjusted(d.noise.adjustment),
        )
    )
    return f"{text}\n"


def subject(document: ReportDocument) -> str:
    """Name the trial that settings and components describe."""
    d, answer = document, document.recommendation
    if answer is not None and answer.answer is Answer.RECOMMENDED:
        return "Recommended"
    if d.trial == BASELINE:
        return "Baseline"
    return f"{called(d.trial).capitalize()}, not recommended"


def level(document: ReportDocument) -> str:
    """Name the intervals of the components."""
    answer = document.recommendation
    return "95% interval" if answer is None else confidence_text(answer.improvement.confidence)


def estimate(effect: Effect) -> Estimate | None:
    """Convert an effect to an estimate for drawing; None if nothing was measured."""
    if effect.ratio is None:
        return None
    lower = 0.0 if effect.lower_ratio is None else effect.lower_ratio
    return Estimate(
        effect.ratio, lower, math.inf if effect.upper_ratio is None else effect.upper_ratio
    )


def floors(document: ReportDocument) -> dict[str, str]:
    """Describe the state of each component's floor; empty as long as there is no answer."""
    if document.recommendation is None:
        return {}
    of = document.recommendation.components
    return {name: _floor(one.floor_held, one.lower_ratio) for name, one in of.items()}


def _floor(holds: bool, lower: float | None) -> str:
    if holds:
        return "met"
    return "slower" if lower is not None and lower > 1.0 else "not settled"


def _after(d: ReportDocument, drift: Sequence[DriftPoint]) -> list[int]:
    events = [Event(n, one.at, one.kind, one.message) for n, one in enumerate(d.disturbances)]
    return [block for block, _ in disturbances(events, drift)]


def _mattering(d: ReportDocument) -> Sequence[TrialVerdict]:
    """Return the verdicts to draw: on the report's trial, then certification, then search.

    Within these groups, those with the best upper bounds come first.
    """

    def key(one: TrialVerdict) -> tuple[bool, bool, float]:
        # By upper bound; a verdict without one comes last.
        upper = one.upper_ratio if one.upper_ratio is not None else math.inf
        return one.trial != d.trial, one.kind is not BlockKind.CERTIFY, upper

    candidates = [one for one in d.verdicts if one.kind is not BlockKind.PILOT]
    bounded = [one for one in candidates if one.upper_ratio is not None]
    return sorted(bounded or candidates, key=key)[:_MOST_DRAWN]


def _row(of: TrialVerdict, axis: svg.Axis | None = None) -> VerdictRow:
    interval = estimate(of)
    return VerdictRow(
        of=of,
        kind=KINDS[of.kind],
        outcome=OUTCOMES[of.outcome],
        effect="" if interval is None else signed(interval.ratio),
        interval="" if interval is None else signed_interval(interval.lower, interval.upper),
        drawing=Markup("") if axis is None else svg.interval(axis, interval),
    )
