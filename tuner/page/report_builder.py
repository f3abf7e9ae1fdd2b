"""Puts a campaign's report together from what is stored of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

import tuner
from tuner.campaign.comparing import stored_comparisons
from tuner.campaign.expiry import with_expiry
from tuner.campaign.rules import Rules
from tuner.campaign.spec import CampaignSpec, stored_spaces
from tuner.campaign.stored_named import stored_named
from tuner.errors import SpecError
from tuner.model import (
    BASELINE,
    Answer,
    Block,
    Campaign,
    Configuration,
    Event,
)
from tuner.page.conditions import hosts_found, noise, told
from tuner.page.disturbances import DISTURBING
from tuner.page.document import (
    Applying,
    Counter,
    Disturbance,
    Drift,
    Fact,
    ReportDocument,
    SettingChange,
    TrialVerdict,
    compared,
)
from tuner.page.effects_seen import EffectsSeen
from tuner.page.names import called, names
from tuner.page.snapshot import Judged, Seen, Sight
from tuner.page.threats import Evidence, threats
from tuner.page.why import chosen, paired
from tuner.records.differences import changes, differences
from tuner.report.answer import claim, headline
from tuner.report.applying import meanings, steps
from tuner.report.diagnostics import diagnostics_rows
from tuner.report.parameter_effects import effects_document
from tuner.report.recommend import Effect, effect, recommendation_document
from tuner.report.summary import Effort, effort_text, time_rows
from tuner.report.why import reasons
from tuner.states import BlockState, CampaignState
from tuner.text import (
    clean,
    confidence_text,
    counted,
    duration,
    faster,
    interval,
    moment,
    value_text,
)

_DISTURBANCES_SHOWN = 200


@dataclass(frozen=True, slots=True)
class _Look:
    """What is read of a campaign, once."""

    seen: Seen
    spec: CampaignSpec | None
    judged: Sequence[Judged]
    events: Sequence[Event]
    effort: Effort
    identities: Mapping[str, None]
    limits: Mapping[str, None]
    hosts: Mapping[str, str]
    digests: Mapping[str, str]
    paired: Sequence[Block]

    @property
    def campaign(self) -> Campaign:
        return self.seen.campaign

    @property
    def clients(self) -> int:
        """So many ran the workload at once; 0 before anything was measured."""
        every = [m for block in (*self.paired, *self.seen.recent) for m in block.measurements]
        return max((max(1, len(m.clients)) for m in every), default=0)


def report_document(
    sight: Sight, campaign: str, effects: EffectsSeen | None = None
) -> ReportDocument:
    """The report of a campaign, by its whole identifier. ``effects``: works out those of its
    parameters, and says whether space files may be opened; None: they may. NotFoundError.
    """
    effects = EffectsSeen(files=True) if effects is None else effects
    look = _look(sight, campaign)
    seen, found = look.seen, with_expiry(sight.store, look.campaign)
    answer, named = found.recommendation, names(found)
    spaces = stored_spaces(found.spec, files=effects.files)
    references = (
        stored_comparisons(found, sight.store.blocks(campaign))
        if sight.pages.has_references(campaign)
        else ()
    )
    given = stored_named(sight.store, found, seen.trials)
    baseline = seen.trials[BASELINE].configuration if seen.trials else Configuration()
    leading = seen.trials[seen.leader].configuration if seen.trials else baseline
    changed, equal = differences(baseline, leading)
    known = {trial.number for trial in seen.trials}
    # The one that is in front is the recommended one, once there is one.
    sentences = [] if seen.leader == BASELINE else reasons(chosen(look.paired), seen.leader)
    evidence = Evidence(
        campaign=found,
        spec=look.spec,
        programs=" ".join([*look.identities, *(space.program for space in spaces.values())]),
        clients=look.clients,
        trials=seen.trials,
        effort=look.effort,
        events=look.events,
        drift=seen.drift,
        readable=seen.readable,
        chosen_floor=seen.floor,
        hosts=bool(look.hosts),
    )
    return ReportDocument(
        fstune=tuner.__version__,
        campaign=found.id,
        campaign_name=found.name,
        state=found.state,
        as_of=found.updated,
        question=_question(look.spec, named.workload, seen.floor),
        answer=_answer(found),
        reason=_sentence(found.reason if answer is None else answer.reason),
        sure=list(_sure(look)),
        recommendation=None
        if answer is None
        else recommendation_document(
            found,
            answer,
            client=sight.store.measured(campaign),
            references=references,
            why=sentences,
        ),
        trial=seen.leader,
        measured=list(_measured(look)),
        settings=[
            SettingChange(name=d.name, before=value_text(d.old), after=value_text(d.new))
            for d in changed
        ],
        equal=equal,
        meanings=[] if answer is None else meanings(answer, spaces),
        components={
            name: Effect(**effect(e.ratio, e.lower, e.upper)) for name, e in _components(look)
        },
        verdicts=[_verdict(look, judged, baseline) for judged in look.judged],
        unmeasured=len(known - {BASELINE, *(one.trial for one in look.judged)}),
        drift=[
            Drift(block=p.block, kind=p.kind, started=p.started, ratio=p.ratio) for p in seen.drift
        ],
        disturbances=[
            Disturbance(at=e.at, kind=e.kind, message=e.message)
            for e in look.events[-_DISTURBANCES_SHOWN:]
        ],
        counters=[] if seen.leader == BASELINE else list(_counters(look)),
        why=sentences,
        effects=effects_document(effects.of(seen)),
        threats=threats(evidence),
        applying=[]
        if answer is None or answer.answer is not Answer.RECOMMENDED
        else [
            Applying(component=s.component, put=s.put, then=s.then, options=s.options, undo=s.undo)
            for s in steps(answer, spaces)
        ],
        campaign_file=_campaign_file(look.spec, found.spec),
        commands=[
            "fstune campaign check campaign.yaml",
            "fstune run campaign.yaml",
            f"fstune export {found.id} measurements.jsonl.gz",
        ],
        compared=None if given is None else compared(given),
        noise=noise(sight.store, campaign, seen.rules),
    )


def _look(sight: Sight, campaign: str) -> _Look:
    seen, store = sight.of(campaign), sight.store
    counts = sight.pages.block_counts(campaign)

    def number(state: BlockState) -> int:
        return sum(count.blocks for count in counts if count.state is state)

    ready = store.events(campaign, kinds=["testbed-ready"])
    try:
        spec = CampaignSpec.from_json(seen.campaign.spec)
    except SpecError:  # of another release, or of a server that keeps it to itself
        spec = None
    return _Look(
        seen=seen,
        spec=spec,
        # A trial may have been measured for the first time since the look.
        judged=[one for one in sight.verdicts(campaign) or () if one.trial < len(seen.trials)],
        events=store.events(campaign, kinds=DISTURBING),
        effort=Effort(
            trials=sum(trial.race > 0 for trial in seen.trials),
            blocks=number(BlockState.COMPLETE),
            measurements=sum(count.measurements for count in counts),
            void_blocks=number(BlockState.VOID),
        ),
        identities=told(ready, "identity"),
        limits=told(ready, "facts"),
        hosts=hosts_found(told(ready, "hosts")),
        digests={name: a.digest for name, a in store.measured_with(campaign).items()},
        paired=paired(store, campaign, seen.leader),
    )


def _question(spec: CampaignSpec | None, workload: str, chosen_floor: float | None) -> str:
    if spec is None:
        return "Is there a configuration that is faster than the one that was found?"
    tuned = list(spec.spaces)
    programs = " and ".join(f"the {component.replace('_', ' ')}" for component in tuned)
    delta, floor = 100.0 * spec.statistics.delta, spec.statistics.given_floor or chosen_floor
    more = "its pilot is to choose" if floor is None else f"{100.0 * floor:g}%"
    return (
        f"Which settings of {programs} make the workload {workload} at least {delta:g}% faster "
        f"than the settings as found, with no component of it more than {more} slower?"
    )


def _sentence(reason: str) -> str:
    """A reason as a sentence of its own; "" stays so."""
    return reason and f"{reason[0].upper()}{reason[1:].rstrip('.')}."


def _answer(campaign: Campaign) -> str:
    answer, state = campaign.recommendation, campaign.state
    if answer is not None:
        said = headline(answer).plain
        goes_on = state in (CampaignState.RUNNING, CampaignState.PAUSED)
        return f"{said} (so far: the campaign is {state})" if goes_on else said
    if state is CampaignState.CANCELLED:
        return "No answer: the campaign was cancelled before it had one"
    if state is CampaignState.FAILED:
        return "No answer: the campaign failed before it had one"
    return f"No answer yet: the campaign is {state}"


def _sure(look: _Look) -> Iterator[str]:
    answer, seen = look.campaign.recommendation, look.seen
    if answer is None:
        known = [of[seen.leader] for of in seen.estimates.values() if seen.leader in of]
        if seen.leader == BASELINE or not known:
            yield "Nothing is claimed: no configuration has been certified."
            return
        best, n = known[-1]
        yield (
            f"Nothing is claimed. {called(seen.leader).capitalize()} looks {faster(best.ratio)} "
            f"in {counted(n, 'block')} (95% interval {interval(best.lower, best.upper)}), and was "
            "chosen because it looks so."
        )
        return
    yield claim(answer)
    if answer.lower is not None and answer.upper is not None and answer.ratio is not None:
        yield (
            f"{called(answer.trial).capitalize()}: {faster(answer.ratio)}, "
            f"{confidence_text(answer.confidence)} {interval(answer.lower, answer.upper)}, on "
            f"{counted(answer.blocks, 'fresh block')} measured after it had been chosen: choosing "
            "among many does not flatter these."
        )


def _measured(look: _Look) -> Iterator[Fact]:
    campaign, named, spec = look.campaign, names(look.campaign), look.spec
    if named.testbed:
        yield Fact(what="Testbed", text=_testbed(spec, named.testbed))
    if look.identities:
        yield Fact(what="Programs and versions", text=clean("; ".join(look.identities)))
    for host, text in look.hosts.items():
        yield Fact(what=f"Host {clean(host)}", text=clean(text))
    if look.limits:
        yield Fact(what="Limits of the hosts", text=clean("; ".join(look.limits)))
    if look.clients:
        yield Fact(what="Clients at once", text=str(look.clients))
    if named.workload:
        yield Fact(what="Workload", text=_workload(look.seen.rules, named.workload, spec))
    for component, space in named.spaces.items():
        yield Fact(what=f"Search space, {component.replace('_', ' ')}", text=clean(space))
    yield Fact(what="Measured", text=effort_text(look.effort))
    span = f"{moment(campaign.created)} to {moment(campaign.updated)}"
    yield Fact(what="From, to", text=span)
    if campaign.time_use.wall_s > 0.0:
        parts = ", ".join(f"{what} {duration(s)}" for what, s in time_rows(campaign.time_use))
        text = f"{duration(campaign.time_use.wall_s)}: {parts}"
        yield Fact(what="Time of the runs", text=text)
    if spec is not None:
        budget = spec.budget
        most = "" if budget.measurements is None else f", {budget.measurements} measurements"
        yield Fact(what="Budget", text=f"{duration(budget.wall_time)} of measuring{most}")
    yield Fact(what="Seed", text=f"{campaign.seed}; each run keeps the seed of its own files")
    engines = {m.engine_sha256 for b in look.paired for m in b.measurements if m.engine_sha256}
    for digest in sorted(engines):
        yield Fact(what="Workload engine, SHA-256", text=digest)
    for name, digest in sorted(look.digests.items()):
        yield Fact(what=f"Fingerprint, {name.replace('_', ' ')}", text=digest[:16])


def _testbed(spec: CampaignSpec | None, named: str) -> str:
    places = () if spec is None else spec.places
    found = [place.way.summary(place.section) for place in places]
    return clean("; ".join(dict.fromkeys(found)) or named)


def _workload(rules: Rules | None, name: str, spec: CampaignSpec | None) -> str:
    scale = "" if spec is None or spec.workload.scale == 1.0 else f" at {spec.workload.scale:g}"
    if rules is None:
        return clean(f"{name}{scale}")
    weights = zip(rules.components, rules.weights, strict=True)
    return clean(f"{name}{scale}: {', '.join(f'{c} (weight {w:.2g})' for c, w in weights)}")


def _components(look: _Look) -> Iterator[tuple[str, Any]]:
    answer = look.campaign.recommendation
    yield from (look.seen.components if answer is None else answer.components).items()


def _verdict(look: _Look, judged: Judged, baseline: Configuration) -> TrialVerdict:
    trial, verdict = look.seen.trials[judged.trial], judged.verdict
    bounds = effect(
        *map(_ratio, (verdict.estimate, verdict.interval.lower, verdict.interval.upper))
    )
    return TrialVerdict(
        **bounds,
        trial=judged.trial,
        kind=judged.kind,
        outcome=verdict.outcome,
        blocks=verdict.n,
        changes=changes(baseline, trial.configuration) or "as found",
        state=str(trial.state),
        ended=trial.reason,
    )


def _counters(look: _Look) -> Iterator[Counter]:
    """Of the newest blocks that measured both, so that both were counted in the same company."""
    for row in diagnostics_rows(chosen(look.paired), (BASELINE, look.seen.leader)):
        yield Counter(what=row.what, baseline=row.texts[0], trial=row.texts[1])


def _campaign_file(spec: CampaignSpec | None, stored: str) -> str:
    """The specification as a campaign file, without what is as by default; "" for what is none."""
    if spec is not None:
        document = spec.model_dump(mode="json", exclude_defaults=True) | {"seed": spec.seed}
        return _yaml(_without_directories(document))
    try:
        document = json.loads(stored)
    except ValueError:
        return ""
    if not isinstance(document, dict) or not document:
        return ""
    return _yaml(
        _without_directories({k: each for k, each in document.items() if each is not None})
    )


def _yaml(document: object) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _without_directories(value: Any) -> Any:
    """A report goes to people who need not know where files are."""
    if isinstance(value, dict):
        return {name: _without_directories(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_directories(each) for each in value]
    if isinstance(value, str) and value.startswith("/"):
        return value.rstrip("/").rpartition("/")[2]
    return value


def _ratio(difference: float) -> float:
    """exp of a log difference, 0 or infinite where it has no bound."""
    return math.exp(difference) if difference < 700.0 else math.inf
