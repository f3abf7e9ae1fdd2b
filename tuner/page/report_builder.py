"""Build a campaign's report from its stored records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

import tuner
from search_spaces import Space
from tuner.errors import SpecError
from tuner.model import BASELINE, Answer, Block, Campaign, Configuration, Event, Recommendation
from tuner.page.conditions import hosts_found, noise, recorded
from tuner.page.disturbances import CONCERNED, disturbing
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
from tuner.page.effects_cache import EffectsCache
from tuner.page.names import called, names
from tuner.page.rows import gain_of_setting
from tuner.page.snapshot import Snapshot, SnapshotCache, TrialComparison
from tuner.page.threats import Evidence, threats
from tuner.page.why import paired, sample
from tuner.plan.rules import Rules
from tuner.records.differences import Difference, changes, differences
from tuner.report.answer import claim, headline
from tuner.report.applying import meanings, steps, without_effect
from tuner.report.diagnostics import diagnostics_rows
from tuner.report.parameter_effects import effects_document
from tuner.report.recommendation_document import Effect, effect, recommendation_document
from tuner.report.summary import Effort, effort_text, no_answer_yet, time_rows
from tuner.report.why import reasons
from tuner.results.expiry import with_expiry
from tuner.results.overview import reference_comparisons
from tuner.spec.campaign import CampaignSpec
from tuner.spec.space_section import stored_spaces
from tuner.states import OVER, CampaignState, EventKind, state_now
from tuner.text import (
    clean,
    confidence_text,
    counted,
    duration,
    faster,
    interval,
    moment,
    ratio_of,
    value_text,
)

_MOST_DISTURBANCES = 200
#: The key of a campaign file whose paths are on a client.
_REFERENCES = "references"


@dataclass(frozen=True, slots=True)
class _Look:
    """The records of a campaign that a report needs, read once."""

    snapshot: Snapshot
    spec: CampaignSpec | None
    verdicts: Sequence[TrialComparison]
    events: Sequence[Event]
    effort: Effort
    identities: Mapping[str, None]
    limits: Mapping[str, None]
    hosts: Mapping[str, str]
    digests: Mapping[str, str]
    paired: Sequence[Block]

    @property
    def campaign(self) -> Campaign:
        return self.snapshot.campaign

    @property
    def clients(self) -> int:
        """Number of clients that ran the workload concurrently; 0 before anything was measured."""
        every = [m for block in (*self.paired, *self.snapshot.recent) for m in block.measurements]
        return max((max(1, len(m.clients)) for m in every), default=0)


def report_document(
    snapshots: SnapshotCache, campaign: str, effects: EffectsCache | None = None
) -> ReportDocument:
    """Build the report of a campaign, given its full identifier.

    ``effects``: computes the effects of parameters and decides whether search-space files may be
    opened; with None they may be. Raises NotFoundError.
    """
    effects = EffectsCache(files=True) if effects is None else effects
    look = _look(snapshots, campaign)
    store, measured_with = snapshots.store, snapshots.measured_with
    snapshot, record = look.snapshot, with_expiry(store, look.campaign)
    answer, all_names = record.recommendation, names(record)
    spaces = stored_spaces(record.spec, files=effects.files)
    references = reference_comparisons(store, record, measured_with)
    comparison = snapshots.comparison(record.id)
    baseline = snapshot.trials[BASELINE].configuration if snapshot.trials else Configuration()
    leading = snapshot.trials[snapshot.leader].configuration if snapshot.trials else baseline
    changed, equal = differences(baseline, leading)
    numbers = {trial.number for trial in snapshot.trials}
    # The leader is the recommended trial once there is one.
    sentences = [] if snapshot.leader == BASELINE else reasons(sample(look.paired), snapshot.leader)
    stay = frozenset[str]() if answer is None else without_effect(answer, spaces)
    return ReportDocument(
        fstune=tuner.__version__,
        campaign=record.id,
        campaign_name=record.name,
        state=record.state,
        as_of=record.updated,
        question=_question(look.spec, all_names.workload, snapshot.floor),
        answer=_answer(record),
        reason=_sentence(record.reason if answer is None else answer.reason),
        sure=list(_sure(look)),
        recommendation=None
        if answer is None
        else recommendation_document(
            record,
            answer,
            client=snapshots.store.measured_programs(campaign),
            references=references,
            why=sentences,
        ),
        trial=snapshot.leader,
        measured=list(_measurement_facts(look)),
        settings=[_setting(change, answer) for change in changed],
        equal=equal,
        meanings=[] if answer is None else meanings(answer, spaces, stay),
        components={
            name: Effect(**effect(e.ratio, e.lower, e.upper)) for name, e in _components(look)
        },
        verdicts=[_verdict(look, verdict, baseline) for verdict in look.verdicts],
        unmeasured=len(numbers - {BASELINE, *(one.trial for one in look.verdicts)}),
        drift=[Drift.model_validate(point, from_attributes=True) for point in snapshot.drift],
        disturbances=[
            Disturbance.model_validate(event, from_attributes=True)
            for event in look.events[-_MOST_DISTURBANCES:]
        ],
        counters=[] if snapshot.leader == BASELINE else list(_counters(look)),
        why=sentences,
        effects=effects_document(effects.of(snapshot)),
        threats=threats(_evidence(look, record, spaces, stay)),
        applying=[]
        if answer is None or answer.answer is not Answer.RECOMMENDED
        else [Applying.model_validate(s, from_attributes=True) for s in steps(answer, spaces)],
        campaign_file=_campaign_file(look.spec, record.spec),
        commands=[
            "fstune campaign check campaign.yaml",
            "fstune run campaign.yaml",
            f"fstune export {record.id} measurements.jsonl.gz",
        ],
        compared=None if comparison is None else compared(comparison),
        noise=noise(snapshots.store, campaign, snapshot.rules),
    )


def _evidence(
    look: _Look, campaign: Campaign, spaces: Mapping[str, Space], stay: frozenset[str]
) -> Evidence:
    snapshot = look.snapshot
    return Evidence(
        campaign=campaign,
        spec=look.spec,
        programs=" ".join([*look.identities, *(space.program for space in spaces.values())]),
        clients=look.clients,
        trials=snapshot.trials,
        effort=look.effort,
        events=look.events,
        drift=snapshot.drift,
        readable=snapshot.readable,
        chosen_floor=snapshot.floor,
        hosts=bool(look.hosts),
        without_effect=stay,
    )


def _setting(change: Difference, answer: Recommendation | None) -> SettingChange:
    return SettingChange(
        name=change.name,
        before=value_text(change.old),
        after=value_text(change.new),
        gain="" if answer is None else gain_of_setting(answer, change.name),
    )


def _look(snapshots: SnapshotCache, campaign: str) -> _Look:
    snapshot, store = snapshots.of(campaign), snapshots.store
    ready = store.events(campaign, kinds=[EventKind.TESTBED_READY])
    try:
        spec = CampaignSpec.from_json(snapshot.campaign.spec)
    except SpecError:  # from another release, or from a server that does not disclose it
        spec = None
    return _Look(
        snapshot=snapshot,
        spec=spec,
        # A trial may have been added and measured since the snapshot was taken.
        verdicts=[
            one for one in snapshots.verdicts(campaign) or () if one.trial < len(snapshot.trials)
        ],
        events=disturbing(store.events(campaign, kinds=CONCERNED)),
        effort=Effort.of_counts(snapshot.trials, snapshots.pages.block_counts(campaign)),
        identities=recorded(ready, "identity"),
        limits=recorded(ready, "facts"),
        hosts=hosts_found(recorded(ready, "hosts")),
        digests={name: a.digest for name, a in store.measured_with(campaign).items()},
        paired=paired(store, campaign, snapshot.leader),
    )


def _question(spec: CampaignSpec | None, workload: str, pilot_floor: float | None) -> str:
    if spec is None:
        return "Is there a configuration that is faster than the settings as found?"
    tuned = list(spec.spaces)
    programs = " and ".join(f"the {part.replace('_', ' ')}" for part in tuned)
    delta, floor = 100.0 * spec.statistics.delta, spec.statistics.given_floor or pilot_floor
    slower = "slower than its pilot allows"
    if floor is not None:
        slower = f"more than {100.0 * floor:g}% slower"
    return (
        f"Which settings of {programs} make the workload {workload} faster than the settings as "
        f"found, with no component of it {slower}? A difference of {delta:g}% is worth acting on."
    )


def _sentence(reason: str) -> str:
    """Turn a reason into a sentence; "" stays empty."""
    return reason and f"{reason[0].upper()}{reason[1:].rstrip('.')}."


def _answer(campaign: Campaign) -> str:
    answer, state = campaign.recommendation, campaign.state
    if answer is not None:
        sentence = headline(answer).plain
        if state is CampaignState.FAILED:
            return f"{sentence} (so far: the campaign failed)"
        return sentence if state in OVER else f"{sentence} (so far: the campaign is {state})"
    return no_answer_yet(state)


def _sure(look: _Look) -> Iterator[str]:
    answer, snapshot = look.campaign.recommendation, look.snapshot
    if answer is None:
        estimates = [
            of[snapshot.leader] for of in snapshot.estimates.values() if snapshot.leader in of
        ]
        if snapshot.leader == BASELINE or not estimates:
            yield "Nothing is claimed: no configuration has been certified."
            return
        best, n = estimates[-1]
        yield (
            f"Nothing is claimed. {called(snapshot.leader).capitalize()} looks "
            f"{faster(best.ratio)} in {counted(n, 'block')} "
            f"(95% interval {interval(best.lower, best.upper)}), and was chosen because it looks "
            "so."
        )
        return
    yield claim(answer)
    if answer.verification:
        return
    if answer.lower is not None and answer.upper is not None and answer.ratio is not None:
        yield (
            f"{called(answer.trial).capitalize()}: {faster(answer.ratio)}, "
            f"{confidence_text(answer.confidence)} {interval(answer.lower, answer.upper)}, on "
            f"{counted(answer.blocks, 'fresh block')} measured after it had been chosen: choosing "
            "among many does not bias these. Stopping when it is shown makes the estimate, not the "
            "interval, a little too large."
        )


def _measurement_facts(look: _Look) -> Iterator[Fact]:
    campaign, all_names, spec = look.campaign, names(look.campaign), look.spec
    if all_names.testbed:
        yield Fact(what="Testbed", text=_testbed(spec, all_names.testbed))
    if look.identities:
        yield Fact(what="Programs and versions", text=clean("; ".join(look.identities)))
    for host, text in look.hosts.items():
        yield Fact(what=f"Host {clean(host)}", text=clean(text))
    if look.limits:
        yield Fact(what="Limits of the hosts", text=clean("; ".join(look.limits)))
    if look.clients:
        yield Fact(what="Concurrent clients", text=str(look.clients))
    if all_names.workload:
        yield Fact(what="Workload", text=_workload(look.snapshot.rules, all_names.workload, spec))
    for part, space in all_names.spaces.items():
        yield Fact(what=f"Search space, {part.replace('_', ' ')}", text=clean(space))
    yield Fact(what="Measured", text=effort_text(look.effort))
    span = f"{moment(campaign.created)} to {moment(campaign.updated)}"
    yield Fact(what="Period", text=span)
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


def _testbed(spec: CampaignSpec | None, name: str) -> str:
    sections = () if spec is None else spec.sections
    summaries = [section.type.summary(section.section) for section in sections]
    return clean("; ".join(dict.fromkeys(summaries)) or name)


def _workload(rules: Rules | None, name: str, spec: CampaignSpec | None) -> str:
    scale = "" if spec is None or spec.workload.scale == 1.0 else f" at {spec.workload.scale:g}"
    if rules is None:
        return clean(f"{name}{scale}")
    weights = zip(rules.components, rules.weights, strict=True)
    return clean(f"{name}{scale}: {', '.join(f'{c} (weight {w:.2g})' for c, w in weights)}")


def _components(look: _Look) -> Iterator[tuple[str, Any]]:
    answer = look.campaign.recommendation
    yield from (look.snapshot.components if answer is None else answer.components).items()


def _verdict(look: _Look, comparison: TrialComparison, baseline: Configuration) -> TrialVerdict:
    trial, verdict = look.snapshot.trials[comparison.trial], comparison.verdict
    bounds = effect(
        *map(ratio_of, (verdict.estimate, verdict.interval.lower, verdict.interval.upper))
    )
    return TrialVerdict(
        **bounds,
        trial=comparison.trial,
        kind=comparison.kind,
        outcome=verdict.outcome,
        blocks=verdict.n,
        changes=changes(baseline, trial.configuration) or "as found",
        state=state_now(trial.state, look.campaign.state),
        ended=trial.reason,
    )


def _counters(look: _Look) -> Iterator[Counter]:
    """Yield diagnostics from blocks that measured both trials, under the same conditions."""
    for row in diagnostics_rows(sample(look.paired), (BASELINE, look.snapshot.leader)):
        yield Counter(what=row.what, baseline=row.texts[0], trial=row.texts[1])


def _campaign_file(spec: CampaignSpec | None, text: str) -> str:
    """Return the specification as a campaign file without default values; "" if it is invalid."""
    if spec is not None:
        document = spec.model_dump(mode="json", exclude_defaults=True) | {"seed": spec.seed}
        if "wall_time" in document.get("budget", {}):
            document["budget"]["wall_time"] = f"{spec.budget.wall_time:.15g}s"
        return _yaml(_without_directories(document))
    try:
        document = json.loads(text)
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
    """Reduce absolute paths to file names: readers need not know where files are stored. The paths
    of references stay: they are no files here but directories of the first client, and part of what
    was measured.
    """
    if isinstance(value, dict):
        return {
            name: each if name == _REFERENCES else _without_directories(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_without_directories(each) for each in value]
    if isinstance(value, str) and value.startswith("/"):
        return value.rstrip("/").rpartition("/")[2]
    return value
