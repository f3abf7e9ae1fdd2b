"""Runs a campaign: does what the plan says, stores it as it happens, and puts the testbed back.

Owns the life of one run, from opening the testbed to giving it back, whatever comes between. What
to do next is the plan's decision, what a block costs and how it can fail is ``measuring``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tuner.campaign import answer
from tuner.campaign.certifying import guards_due
from tuner.campaign.holding import Held
from tuner.campaign.identity import differences, programs
from tuner.campaign.ledger import Ledger
from tuner.campaign.measuring import BlockRunner
from tuner.campaign.piloting import TWIN_ORIGIN
from tuner.campaign.plan import Planner
from tuner.campaign.proposing import proposals_for
from tuner.campaign.rules import rules_of
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.standing import standing
from tuner.campaign.steering import StopRequested
from tuner.campaign.steps import Finish, Halt, Phase, Plan, Propose, RunBlock
from tuner.campaign.stopping import undisturbed
from tuner.campaign.times import mean_differences
from tuner.errors import (
    CampaignHalted,
    ConflictError,
    TestbedError,
    TunerError,
    evidence,
)
from tuner.judge.monitors import Alarm
from tuner.judge.pilot import Pilot
from tuner.judge.race import Action
from tuner.measure.workload import Workload
from tuner.model import BASELINE, Aspect, Block, Campaign, Event, Trial, Wish
from tuner.report.observer import Observer
from tuner.states import CampaignState, TrialState
from tuner.store import NewEvent, Store
from tuner.testbed.testbed import Bench, Testbed

Data = Mapping[str, str | int | float | bool | None]

#: Kinds of events that a campaign tells once, however often their cause is seen.
_TOLD_ONCE = ("guard", "trial-promoted")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: the campaign as stored, and a sentence for each thing that was put back."""

    campaign: Campaign
    restored: tuple[str, ...]
    error: TunerError | None = None


class Runner:
    """One run of a campaign, new or taken up again.

    ``aspects``: what it measures with, held to what was measured before. ``held``: the testbed, by
    this process.
    """

    def __init__(
        self,
        store: Store,
        campaign: str,
        spec: CampaignSpec,
        workload: Workload,
        testbed: Testbed,
        observer: Observer,
        *,
        aspects: Mapping[str, Aspect] | None = None,
        held: Held | None = None,
        pilot_only: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._id = campaign
        self._spec = spec
        self._workload = workload
        self._rules = rules_of(spec, workload)
        self._testbed = testbed
        self._aspects = aspects or {}
        self._held = held
        self._observer = observer
        self._now = now
        self._pilot_only = pilot_only
        self._once: list[tuple[str, Data]] | None = None
        self.pilot: Pilot | None = None
        self._ledger = Ledger(testbed.clock)
        self._before = store.campaign(campaign).time_use
        self._planner = Planner(self._rules)
        self._blocks: list[Block] = []
        self._earlier_blocks = 0

    def run(self) -> Outcome:
        """Run to the campaign's end, or to the first thing that stops it.

        Ctrl-C pauses the campaign, a request pauses or cancels it, an error fails it; all but a
        cancelled one can be resumed. The testbed is put back in every case, and only what could not
        be put back is raised (TunerError) beside what the store may raise.
        """
        bench: Bench | None = None
        state, reason, error = CampaignState.FINISHED, "", None
        try:
            self._void_cut_off()
            self._move(CampaignState.RUNNING, "", "campaign-started", "campaign started")
            self._check_workload()
            self._check_identity(self._aspects)
            with self._ledger.on("testbed"):
                if self._testbed.claim(self._id):
                    self._tell("testbed-owned", "the testbed is brought up for this campaign")
                bench = self._testbed.open(self._workload, self._doing)
            self._prepare(bench)
            self._conduct(bench)
        except KeyboardInterrupt as stop:
            state, reason = CampaignState.PAUSED, f"stopped by {str(stop) or 'Ctrl-C'}"
        except StopRequested as asked:
            state, reason = asked.state, str(asked)
        except TunerError as problem:
            state, reason, error = CampaignState.FAILED, str(problem), problem
        except BaseException as problem:
            self._end(bench, CampaignState.FAILED, f"a defect of fstune: {problem!r}")
            raise
        restored = self._end(bench, state, reason, error)
        return Outcome(self._store.campaign(self._id), restored, error)

    def _end(
        self,
        bench: Bench | None,
        state: CampaignState,
        reason: str,
        error: TunerError | None = None,
    ) -> tuple[str, ...]:
        """Put the testbed back, then write down how the run ended."""
        with undisturbed(self._doing):
            restored, failure = self._give_back(bench)
            for kind, sentence in restored:
                self._tell(kind, sentence)
            if failure is not None:
                said = f"not everything could be put back: {failure}"
                self._tell("restore-failed", said, evidence(failure))
            if self._store.campaign(self._id).state is not CampaignState.RUNNING:
                return ()  # stopped before it had begun
            if self._held is not None and self._held.superseded():
                return ()  # the campaign goes on elsewhere, and what is stored is of that run
            self._void_cut_off()
            self._store.add_time_use(self._id, self._ledger.unwritten())
            asked = self._store.request(self._id)
            if state is CampaignState.PAUSED and asked is not None and asked.wish is Wish.CANCEL:
                state = CampaignState.CANCELLED  # asked after the run had begun to end
            kind = f"campaign-{state}"
            said = f"campaign {state}: {reason}" if reason else f"campaign {state}"
            self._move(state, reason, kind, said, {} if error is None else evidence(error))
        if failure is not None:
            said = f"{failure}; to put back what is left, or to go on: fstune resume {self._id}"
            raise TestbedError(said, failure.details) from failure
        return tuple(sentence for _, sentence in restored)

    def _void_cut_off(self) -> None:
        """Void the block that a kill, or a stop in the middle of a write, left running."""
        void = self._event("block-void", "the block that was cut off is void; it is measured again")
        self._store.void_running_blocks(self._id, "the run was cut off", void)

    def _give_back(self, bench: Bench | None) -> tuple[list[tuple[str, str]], TunerError | None]:
        """Restore and close, without the store: it may be what failed. Kinds and sentences."""
        done: list[tuple[str, str]] = []
        failure: TunerError | None = None
        with self._ledger.on("testbed"):
            if bench is not None:
                try:
                    done += [("restored", said) for said in bench.target.restore(self._doing)]
                except TunerError as problem:
                    failure = problem
            try:
                if (closed := self._testbed.close()) is not None:
                    done.append(("testbed-closed", closed))
            except TunerError as problem:
                failure = failure or problem
        self._doing("")
        return done, failure

    def _check_workload(self) -> None:
        """Whether it still is the one that was measured: its file may have been changed since."""
        self._blocks = self._store.blocks(self._id)
        self._earlier_blocks = len(self._blocks)
        measured = {n for b in self._blocks for m in b.measurements for n in m.components}
        if measured and measured != set(self._workload.components):
            raise ConflictError(
                f"workload {self._spec.workload.name} has other components than what was measured "
                "so far; put it back or begin a new campaign"
            )

    def _check_identity(self, now: Mapping[str, Aspect]) -> None:
        """Whether this is what the campaign was measured with, which is noted when it is new."""
        if not any(block.measurements for block in self._blocks):
            self._store.set_measured_with(self._id, now)
            return
        stored = self._store.measured_with(self._id)
        changed = differences(stored, now)
        if changed:
            raise ConflictError(
                f"campaign {self._id} was measured with something else: {'; '.join(changed)}; put "
                f"it back, or begin a new one from it with 'fstune branch {self._id} FILE'"
            )
        new = {name: aspect for name, aspect in now.items() if name not in stored}
        self._store.set_measured_with(self._id, new)

    def _safe_point(self) -> None:
        """Where a run may end: somebody may have asked for it, or taken over."""
        if self._held is not None:
            self._held.check()
        if (asked := self._store.request(self._id)) is not None:
            raise StopRequested(asked)

    def _prepare(self, bench: Bench) -> None:
        """Take stock of the testbed; on the first run, what is found is the baseline."""
        identity = bench.target.identity
        self._check_identity(programs(identity))
        self._tell("testbed-ready", f"testbed ready: {identity}", {"identity": identity})
        bench.engine.clean_leftovers(self._id)
        for reference in bench.references:
            reference.clean_leftovers(self._id)
        found = bench.target.baseline
        try:
            event = self._event("baseline", "the baseline is the configuration as found")
            stored = self._store.set_baseline(self._id, found, event)
        except ConflictError as problem:
            raise ConflictError(
                f"{problem}: the testbed is not as it was; put it back or begin a new campaign"
            ) from problem
        if stored is not None:
            self._observer.say(stored)
        trials = self._store.trials(self._id)
        flags = bench.target.flags(found)
        references = [Trial(BASELINE, found, 0, "as found", TrialState.RUNNING, flags)]
        if self._rules.pilot is not None:
            twin = Trial(BASELINE + 1, found, 0, TWIN_ORIGIN, TrialState.RUNNING, flags)
            references.append(twin)
        if not trials:
            added = [(trial, self._trial_event(trial)) for trial in references]
            for event_stored in self._store.add_trials(self._id, added):
                self._told(event_stored)

    def _conduct(self, bench: Bench) -> None:
        blocks = BlockRunner(
            self._store,
            self._id,
            bench,
            self._ledger,
            self._observer,
            self._event,
            self._spec.seed,
            lease=None if self._held is None else self._held.lease,
            safe_point=self._safe_point,
        )
        if self._store.campaign(self._id).recommendation is not None:
            return  # the last run was cut off just after its answer
        while True:
            trials = self._store.trials(self._id)
            now = self._planner.plan(trials, self._blocks, earlier_blocks=self._earlier_blocks)
            self._settle(trials, now)
            self._tell_pilot(trials, now)
            self._tell_guards(now)
            self._show(trials, now)
            if self._pilot_only and now.phase is not Phase.PILOT and not trials[-1].race:
                raise KeyboardInterrupt("the end of its pilot")
            match now.step:
                case Propose():
                    self._propose(bench, now.step, trials)
                case RunBlock():
                    if (reason := self._testbed.unavailable()) is not None:
                        raise KeyboardInterrupt(reason)
                    self._safe_point()
                    blocks.run(now.step, {t.number: t for t in trials})
                    # A block that has ended never changes: only the new ones need to be read.
                    last = self._blocks[-1].number if self._blocks else 0
                    self._blocks += self._store.blocks(self._id, after=last)
                case Halt():
                    raise CampaignHalted(f"the campaign halted: {now.step.reason}")
                case Finish():
                    self._finish(bench, now)
                    return

    def _settle(self, trials: list[Trial], now: Plan) -> None:
        """Write down what the judge decided, once."""
        for number, ending in now.endings.items():
            if trials[number].state is TrialState.RUNNING:
                kind = "trial-pruned" if ending.state is TrialState.PRUNED else "trial-complete"
                event = self._event(kind, f"trial {number}: {ending.reason}", {"trial": number})
                self._told(
                    self._store.move_trial(self._id, number, ending.state, ending.reason, event)
                )
        for decision in now.decisions:
            if decision.action is Action.PROMOTE and decision.trial == now.incumbent:
                said = f"trial {decision.trial} is the incumbent: {decision.reason}"
                self._tell_once("trial-promoted", said, {"trial": decision.trial})

    def _tell_pilot(self, trials: list[Trial], now: Plan) -> None:
        """Once the pilot has ended: say what it found, and let the twin go."""
        self.pilot = now.pilot
        twin = next((t for t in trials if t.origin == TWIN_ORIGIN), None)
        over = now.phase is not Phase.PILOT
        if now.pilot is None or twin is None or not over or twin.state is not TrialState.RUNNING:
            return
        pilot = now.pilot
        for warning in pilot.warnings:
            self._tell("pilot-warning", f"pilot: {warning}")
        reason = f"the pilot is over: {pilot.outcome}"
        said = f"pilot {pilot.outcome}: {pilot.verdict.reason}; {pilot.outlook.reason}"
        event = self._event(
            "pilot",
            said,
            {
                "outcome": str(pilot.outcome),
                "blocks": pilot.verdict.n,
                "sd_difference": pilot.noise.sd_difference,
                "cv": pilot.noise.cv,
            },
        )
        self._told(
            self._store.move_trial(self._id, twin.number, TrialState.COMPLETE, reason, event)
        )

    def _tell_guards(self, now: Plan) -> None:
        """Say each alarm once, at the looks that are due."""
        for guard in now.guards if guards_due(self._blocks) else ():
            if guard.alarm is not Alarm.NONE:
                data: Data = {"guard": str(guard.kind), "alarm": str(guard.alarm)}
                message = f"{guard.alarm}: {guard.reason}"
                self._tell_once("guard", message, data, {"value": guard.value})

    def _tell_once(self, kind: str, message: str, what: Data, more: Data | None = None) -> None:
        """Tell of ``what`` unless this or an earlier run of the campaign has; ``more`` goes with
        it.
        """
        if self._once is None:
            past = self._store.events(self._id)
            self._once = [(e.kind, e.data) for e in past if e.kind in _TOLD_ONCE]
        for told_kind, told in self._once:
            if told_kind == kind and what.items() <= told.items():
                return
        data = {**what, **(more or {})}
        self._once.append((kind, data))
        self._tell(kind, message, data)

    def _propose(self, bench: Bench, step: Propose, trials: list[Trial]) -> None:
        self._observer.doing(f"proposing configurations for race {step.race}")
        estimates = mean_differences(self._blocks, self._rules.components, self._rules.weights)
        priors = self._store.priors(self._id)
        proposals = proposals_for(bench.target, self._spec, trials, step.count, estimates, priors)
        if not proposals:
            self._tell("space-exhausted", "every configuration of the search space has been tried")
            tried = sum(trial.race > 0 for trial in trials)
            self._planner.rules = replace(self._rules, max_trials=tried)
        added: list[tuple[Trial, NewEvent]] = []
        for number, proposal in enumerate(proposals, start=len(trials)):
            flags = bench.target.flags(proposal.configuration)
            trial = Trial(
                number,
                proposal.configuration,
                step.race,
                proposal.origin,
                TrialState.RUNNING,
                flags,
            )
            added.append((trial, self._trial_event(trial)))
        for event in self._store.add_trials(self._id, added):
            self._told(event)

    def _finish(self, bench: Bench, now: Plan) -> None:
        trials = self._store.trials(self._id)
        found = answer.recommendation(
            now, trials, self._rules, bench.target.flags, bench.target.risks
        )
        for trial in trials:
            if trial.state is TrialState.RUNNING:
                reason = "the campaign ended"
                event = self._event(
                    "trial-complete", f"trial {trial.number}: {reason}", {"trial": trial.number}
                )
                self._store.move_trial(self._id, trial.number, TrialState.COMPLETE, reason, event)
        event = self._event("recommendation", f"{found.answer.replace('_', ' ')}: {found.reason}")
        self._told(self._store.save_recommendation(self._id, found, event))

    def _show(self, trials: list[Trial], now: Plan) -> None:
        elapsed_s = (self._before + self._ledger.total()).wall_s
        measuring_s = sum(block.duration_s for block in self._blocks)
        pace = 1.0 if measuring_s == 0.0 else max(1.0, elapsed_s / measuring_s)
        self._observer.standing(standing(trials, self._blocks, now, self._rules, elapsed_s, pace))

    # Telling

    def _event(self, kind: str, message: str, data: Data | None = None) -> NewEvent:
        return NewEvent(self._now(), kind, message, data or {})

    def _trial_event(self, trial: Trial) -> NewEvent:
        lines = [
            f"{name}: {' '.join(flags) or '(defaults)'}" for name, flags in trial.flags.items()
        ]
        message = f"trial {trial.number} ({trial.origin}): {'; '.join(lines)}"
        return self._event("trial-added", message, {"trial": trial.number, "race": trial.race})

    def _tell(self, kind: str, message: str, data: Data | None = None) -> None:
        self._told(self._store.add_event(self._id, self._event(kind, message, data)))

    def _told(self, event: Event) -> None:
        self._observer.say(event)

    def _move(
        self,
        state: CampaignState,
        reason: str,
        kind: str,
        message: str,
        data: Data | None = None,
    ) -> None:
        event = self._event(kind, message, data)
        self._told(self._store.move_campaign(self._id, state, reason, event))

    def _doing(self, what: str) -> None:
        self._observer.doing(what)
