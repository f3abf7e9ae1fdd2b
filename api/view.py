"""Content of a campaign's page: sentences and drawings from its snapshot. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from api.activity import budget_share, details, expected_end
from api.activity import headline as activity
from api.view_incumbents import incumbents_drawing, incumbents_text
from tuner.judge.score import margin
from tuner.model import (
    BASELINE,
    Answer,
    Campaign,
    Event,
    Recommendation,
    Trial,
)
from tuner.page import svg
from tuner.page.disturbances import disturbances
from tuner.page.effect_plots import Plot, basis, effect_plots, slices, standings
from tuner.page.names import called, names
from tuner.page.parallel_coordinates import parallel_coordinates
from tuner.page.rows import EffectRow, SettingRow, drift_drawing, varies
from tuner.page.snapshot import Snapshot
from tuner.records.differences import differences
from tuner.records.estimate import Estimate
from tuner.records.named_comparison import NamedComparison, Word
from tuner.records.none_ran import none_ran
from tuner.records.parameter_effects import ParameterEffects
from tuner.records.status import Absence
from tuner.report.answer import claim, estimates_of, floor_text, headline
from tuner.report.diagnostics import Row, diagnostics_rows
from tuner.report.parameter_effects import EffectsDocument, effects_document
from tuner.report.ranking import best_first
from tuner.report.trial_estimates import TrialEstimate, strongest_estimates
from tuner.states import OVER, CampaignState, EventKind, TrialState, state_now
from tuner.text import (
    confidence_text,
    counted,
    faster,
    interval,
    signed,
    signed_interval,
    value_text,
)

_EVENTS_SHOWN = 60
_TRIALS_SHOWN = 60
#: Number of items shown initially; the rest are collapsed.
_MATTERING = 12
_PENDING = ParameterEffects(0, 0, 0, (), (), "it is being computed")
#: Kinds of events whose messages are about the noise of the testbed.
_NOISE = (EventKind.PILOT, EventKind.PILOT_WARNING, EventKind.GUARD)
_OUT = (TrialState.PRUNED, TrialState.FAILED, TrialState.CANCELLED)


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A trial in the forest plot. ``basis``: the fresh blocks that its estimate rests on, "" if it
    has none. ``out``: it was pruned, failed or cancelled, and is not recommended.
    """

    number: int
    state: str
    origin: str
    changes: tuple[SettingRow, ...]
    reason: str
    blocks: int
    effect: str
    interval: str
    basis: str
    drawing: Markup
    out: bool


@dataclass(frozen=True, slots=True)
class View:
    """Content of a campaign's page."""

    campaign: Campaign
    names: object
    newest: int
    readable: bool
    doing: str
    now: tuple[str, ...]
    stopped: str
    measured: int
    absence: Absence | None
    expected_end: datetime | None
    best: str
    sure: str
    progress: int
    progress_text: str
    caveat: str
    axis: Markup
    trials: tuple[TrialRow, ...]
    mattering: int
    trials_left_out: int
    numbers: tuple[int, ...]
    incumbent: Markup
    incumbent_text: str
    components_of: str
    components_level: str
    components_axis: Markup
    components: tuple[EffectRow, ...]
    effects: EffectsDocument
    effects_pending: bool
    effect_plots: tuple[Plot, ...]
    effects_basis: str
    standings: str
    parallel: Markup
    parallel_text: str
    slices: tuple[Plot, ...]
    diagnostics_of: tuple[str, ...]
    diagnostics: tuple[Row, ...]
    drift: Markup
    disturbed: str
    noise: tuple[str, ...]
    events: tuple[Event, ...]
    events_left_out: int
    can_pause: bool
    can_resume: bool
    can_cancel: bool
    over: bool


def of(
    snapshot: Snapshot,
    effects: ParameterEffects | None,
    absence: Absence | None = None,
    comparison: NamedComparison | None = None,
    caveat: str = "",
    *,
    pending: bool = False,
) -> View:
    """Build the page content from a snapshot.

    ``effects``: of the parameters, None until computed; ``pending``: newer ones are being computed;
    ``absence``: why a running campaign makes no progress; ``comparison``: for a campaign that only
    compares; ``caveat``: why its certificate is in doubt, "" if it is not.
    """
    campaign, rules, pending = snapshot.campaign, snapshot.rules, pending or effects is None
    effects = _PENDING if effects is None else effects
    delta = margin(rules.race.delta) if rules is not None else None
    marks = () if delta is None else (-delta, delta)
    strongest = strongest_estimates(snapshot.estimates, campaign.recommendation)
    estimates = {n: one.estimate for n, one in strongest.items()}
    trials = best_first(snapshot.trials, (BASELINE, snapshot.leader), estimates)[:_TRIALS_SHOWN]
    estimates_shown = [estimates[t.number] for t in trials if t.number in estimates]
    axis = svg.Axis.around(estimates_shown, *marks)
    components, level = _components(snapshot)
    components_axis = svg.Axis.around(components.values())
    progress, progress_text = _progress(snapshot)
    document = effects_document(effects)
    best, sure = (
        _best(snapshot, strongest)
        if comparison is None
        else _best_of_comparison(snapshot, strongest, comparison)
    )
    by_trial = {n: (one.estimate, one.blocks) for n, one in strongest.items()}
    parallel, parallel_text = parallel_coordinates(
        effects, snapshot.trials, by_trial, snapshot.leader
    )
    disturbed = disturbances(snapshot.events, snapshot.drift)
    counted_of = (BASELINE,) if snapshot.leader == BASELINE else (BASELINE, snapshot.leader)
    state, absent = campaign.state, absence is not None
    stopped = state in (CampaignState.CREATED, CampaignState.PAUSED, CampaignState.FAILED)
    return View(
        campaign=campaign,
        names=names(campaign),
        newest=snapshot.newest,
        readable=snapshot.readable,
        doing=activity(snapshot, absent=absent),
        now=details(snapshot, absent=absent),
        stopped=campaign.reason if state is CampaignState.FAILED else "",
        measured=snapshot.measured,
        absence=absence,
        expected_end=None if absent else expected_end(snapshot),
        best=best,
        sure=sure,
        progress=progress,
        progress_text=progress_text,
        caveat=caveat,
        axis=svg.heading(axis),
        trials=tuple(_trial(t, snapshot, strongest, axis, marks) for t in trials),
        mattering=_MATTERING,
        trials_left_out=len(snapshot.trials) - len(trials),
        numbers=tuple(trial.number for trial in snapshot.trials),
        incumbent=incumbents_drawing(snapshot),
        incumbent_text=incumbents_text(snapshot),
        components_of=called(snapshot.leader),
        components_level=level,
        components_axis=svg.heading(components_axis),
        components=tuple(
            _component(name, e, components_axis, snapshot.floor, campaign.recommendation)
            for name, e in components.items()
        ),
        effects=document,
        effects_pending=pending,
        effect_plots=effect_plots(document),
        effects_basis=basis(document),
        standings=standings(document),
        parallel=parallel,
        parallel_text=parallel_text,
        slices=slices(effects, snapshot.trials, estimates),
        diagnostics_of=tuple(called(number).capitalize() for number in counted_of),
        diagnostics=diagnostics_rows(snapshot.recent, counted_of),
        drift=drift_drawing(snapshot.drift, [block for block, _ in disturbed]),
        disturbed=_disturbance_text(disturbed),
        noise=_noise(snapshot),
        events=tuple(reversed(snapshot.events[-_EVENTS_SHOWN:])),
        events_left_out=max(0, snapshot.newest - _EVENTS_SHOWN),
        can_pause=state is CampaignState.RUNNING and not absent,
        can_resume=stopped or (absence is not None and absence.can_be_resumed),
        can_cancel=state not in OVER,
        over=state in OVER,
    )


def _components(snapshot: Snapshot) -> tuple[dict[str, Estimate], str]:
    """The effects on components, those of the answer if it has any, and their intervals' level."""
    answer = snapshot.campaign.recommendation
    if answer is None or not answer.components:
        return snapshot.components, "95% interval"
    return estimates_of(answer.components), confidence_text(answer.confidence)


def _trial(
    trial: Trial,
    snapshot: Snapshot,
    strongest: Mapping[int, TrialEstimate],
    axis: svg.Axis,
    marks: Sequence[float],
) -> TrialRow:
    row = strongest.get(trial.number)
    e = None if row is None else row.estimate
    baseline = snapshot.trials[BASELINE].configuration
    state = state_now(trial.state, snapshot.campaign.state)
    if trial.number == BASELINE:
        state = "baseline"
    elif trial.number == snapshot.leader:
        # An answer that recommends nothing may be about another trial than the incumbent.
        if _is_recommended(snapshot.campaign):
            state = "recommended"
        elif snapshot.campaign.recommendation is None:
            state = "incumbent"
    return TrialRow(
        number=trial.number,
        state=state,
        origin=trial.origin,
        changes=tuple(
            SettingRow(d.name.rpartition(".")[2], value_text(d.old), value_text(d.new), True)
            for d in differences(baseline, trial.configuration)[0]
        ),
        reason=trial.reason,
        blocks=0 if row is None else row.blocks,
        effect="" if e is None else signed(e.ratio),
        interval="" if e is None else signed_interval(e.lower, e.upper),
        basis="" if row is None else row.basis,
        drawing=svg.interval(axis, e, marks),
        out=trial.number != BASELINE and state != "recommended" and trial.state in _OUT,
    )


def _is_recommended(campaign: Campaign) -> bool:
    answer = campaign.recommendation
    return answer is not None and answer.answer is Answer.RECOMMENDED


def _component(
    name: str, e: Estimate, axis: svg.Axis, floor: float | None, answer: Recommendation | None
) -> EffectRow:
    marks = () if floor is None else (margin(floor),)
    of = None if answer is None else answer.components.get(name)
    return EffectRow(
        name=name,
        effect=signed(e.ratio),
        interval=signed_interval(e.lower, e.upper),
        drawing=svg.interval(axis, e, marks),
        floor="" if of is None else floor_text(of),
        allowed="" if floor is None else f"{100.0 * floor:g}%",
    )


def _progress(snapshot: Snapshot) -> tuple[int, str]:
    """Percentage of the budget used, and the same in words."""
    measured = f"{snapshot.measured} measurements in {snapshot.blocks} blocks"
    share = budget_share(snapshot)
    if share is None:
        return 100 if snapshot.campaign.state is CampaignState.FINISHED else 0, measured
    percent = min(100, round(100.0 * share))
    return percent, f"{percent}% of the budget used, {measured}"


def _best(
    snapshot: Snapshot, strongest: Mapping[int, TrialEstimate], name: str = ""
) -> tuple[str, str]:
    """The best trial so far and the certainty of that, as text; empty before any estimate."""
    over = snapshot.campaign.state in OVER
    answer, leader = snapshot.campaign.recommendation, strongest.get(snapshot.leader)
    if answer is not None and answer.verification:
        return f"Verification: {answer.reason}", claim(answer)
    if answer is not None and answer.answer is Answer.RECOMMENDED and answer.ratio is not None:
        bounds = interval(answer.lower or 0.0, answer.upper or float("inf"))
        which = f"{name} (trial {answer.trial})" if name else f"trial {answer.trial}"
        return (
            f"Certified: {which} is {faster(answer.ratio)} than the baseline",
            f"{confidence_text(answer.confidence)} {bounds}, on "
            f"{counted(answer.blocks, 'fresh block')}.",
        )
    if answer is not None:
        return headline(answer).plain, answer.reason if none_ran(answer) else ""
    if snapshot.leader == BASELINE or leader is None:
        nothing = "Nothing looks better than the baseline" + ("" if over else " so far")
        return (nothing, "") if strongest else ("", "")
    e = leader.estimate
    bounds = interval(e.lower, e.upper)
    return (
        f"Best{'' if over else ' so far'}: trial {snapshot.leader} looks {faster(e.ratio)} than "
        "the baseline",
        f"95% interval {bounds}, in {counted(leader.blocks, 'block')}. It was chosen because it "
        f"looks faster: nothing is certified{'' if over else ' yet'}.",
    )


def _best_of_comparison(
    snapshot: Snapshot, strongest: Mapping[int, TrialEstimate], comparison: NamedComparison
) -> tuple[str, str]:
    """The best of the compared configurations, consistent with their table."""
    answer = snapshot.campaign.recommendation
    if answer is not None and none_ran(answer):
        return _best(snapshot, strongest)
    if answer is not None and answer.answer is Answer.RECOMMENDED:
        name = next((row.name for row in comparison.rows if row.trial == answer.trial), "")
        return _best(snapshot, strongest, name)
    faster_rows = [
        (row.name, row.whole.estimate)
        for row in comparison.rows
        if row.whole.word is Word.FASTER and row.whole.estimate is not None
    ]
    if not faster_rows:
        return "Nothing is shown to be faster than the baseline", ""
    name, e = min(faster_rows, key=lambda each: each[1].upper)
    certainty = "it is not certified: see the answer"
    if answer is None:
        over = snapshot.campaign.state in OVER
        certainty = f"nothing is certified{'' if over else ' yet'}"
    return (
        f"Shown: {name} is {faster(e.ratio)} than the baseline",
        f"{confidence_text(comparison.confidence)} {interval(e.lower, e.upper)}; {certainty}.",
    )


def _disturbance_text(of: Sequence[tuple[int, str]]) -> str:
    if not of:
        return ""
    block, message = of[-1]
    times = counted(len(of), "disturbance")
    return f"Dashed: {times}; the last one after block {block}: {message}"


def _noise(snapshot: Snapshot) -> tuple[str, ...]:
    """Notes about the noise of the testbed."""
    messages = [e.message for e in snapshot.events if e.kind in _NOISE]
    return (*messages, *filter(None, [varies(snapshot.drift)]))
