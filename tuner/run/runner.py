"""Run a campaign: execute the plan, store every result at once, and restore the testbeds.

Owns the life of one run, from opening the testbeds to giving them back, whatever happens. The plan
decides what to do next; ``measuring`` owns how a block is measured and how it can fail.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from tuner.errors import CampaignHalted, ConflictError, TestbedError, TunerError, evidence
from tuner.interruption import check
from tuner.judge.pilot import Pilot
from tuner.measure.workload import Workload
from tuner.model import Aspect, BlockTimes, Campaign, Event, Trial, Wish
from tuner.plan.piloting import TWIN_ORIGIN
from tuner.plan.planner import Planner
from tuner.plan.rounds import trials_and_blocks
from tuner.plan.rules import rules_of
from tuner.plan.steps import Explore, Finish, Halt, Phase, Plan, RunBatch, RunBlock
from tuner.propose.one_thread import one_thread
from tuner.records.standing import Observer
from tuner.results.standing import standing, stored_standing
from tuner.run.context import RunContext
from tuner.run.equivalence import as_found, check_alike, least_facts
from tuner.run.event_writer import EventWriter
from tuner.run.failures import RELEASE, Failures, left_out
from tuner.run.holding import LeaseKeeper
from tuner.run.identity import programs
from tuner.run.lane_group import Closed, LaneGroup
from tuner.run.lanes import CampaignTestbed, Lane, Stopped, assigned, at_once
from tuner.run.measuring import BlockRunner
from tuner.run.notes import Notes
from tuner.run.proposing import compared, guide_of
from tuner.run.resume_checks import (
    ChangedError,
    blocks_so_far,
    check_identity,
    check_testbed,
    earlier_findings,
    putting_back,
)
from tuner.run.steering import StopRequested
from tuner.run.stored_floor import stored_floor
from tuner.run.stored_priors import stored_priors
from tuner.services.target import Target
from tuner.spec.campaign import CampaignSpec
from tuner.states import CampaignState, EventKind, TrialState
from tuner.stop_signals import holding_off_stops
from tuner.store import Store


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended: the campaign as stored, and a sentence for each thing that was restored.

    ``until``: if it ended only because no testbed may be used now, when to continue.
    """

    campaign: Campaign
    restored: tuple[str, ...]
    error: TunerError | None = None
    until: datetime | None = None


class Runner:
    """One run of a campaign, new or resumed.

    ``testbeds``: those of the campaign, as many as the specification names. ``aspects``: what it
    measures with, checked against what earlier runs measured with. ``leases``: on the testbeds,
    held by this process. ``patient``: see ``LaneGroup``. ``admitted``: called once nothing that has
    changed can refuse the run any more.
    """

    def __init__(
        self,
        store: Store,
        campaign: str,
        spec: CampaignSpec,
        workload: Workload,
        testbeds: Sequence[CampaignTestbed],
        observer: Observer,
        *,
        aspects: Mapping[str, Aspect] | None = None,
        leases: LeaseKeeper | None = None,
        pilot_only: bool = False,
        patient: bool = False,
        admitted: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._id = campaign
        self._spec = spec
        self._workload = workload
        self._rules = stored_floor(store, campaign, rules_of(spec, workload))
        self._aspects = aspects or {}
        self._leases = leases
        self._observer = observer
        self._doing = observer.doing
        self._writer = EventWriter(store, campaign, observer)
        self._pilot_only = pilot_only
        self._admitted = admitted
        self._target: Target
        self._failures: Failures
        self.pilot: Pilot | None = None
        self._together = spec.testbed is None
        self._testbeds = LaneGroup(
            testbeds, self._writer, observer, together=self._together, patient=patient
        )
        self._ledgers = self._testbeds.ledgers
        self._halt = threading.Event()
        self._before = store.campaign(campaign)
        self._planner: Planner
        self._notes: Notes
        self._blocks: list[BlockTimes] = []
        self._latest: Plan | None = None
        #: The testbeds of the batch that was planned last: hours may end before it begins.
        self._planned_for: list[Lane] = []
        self._earlier_blocks = 0
        self._findings: Mapping[str, Mapping[str, str]] = {}

    def run(self) -> RunOutcome:
        """Run to the end of the campaign, or to the first thing that stops it.

        Ctrl-C and the end of its testbeds' hours pause the campaign, a request pauses or cancels
        it, an error fails it; all but a cancelled one can be resumed. The testbeds are restored in
        every case. Raises only TunerError for what could not be restored, ChangedError for a resume
        that is refused, which leaves a paused campaign paused, and whatever the store raises.
        """
        state, reason, error, until = CampaignState.FINISHED, "", None, None
        try:
            self._void_cut_off()
            new = self._before.state is CampaignState.CREATED
            text = "campaign started" if new else "campaign resumed"
            self._writer.move(CampaignState.RUNNING, "", EventKind.STARTED, text, RELEASE)
            self._findings = earlier_findings(self._store, self._id)
            self._testbeds.expect_changes(self._id, self._findings)
            self._blocks = blocks_so_far(self._store, self._id, self._rules, self._workload)
            self._earlier_blocks = len(self._blocks)
            self._check_identity(self._aspects)
            self._testbeds.open(self._id, self._workload)
            self._target = self._testbeds.ready().target
            self._prepare()
            self._admitted()
            self._conduct()
        except KeyboardInterrupt as stop:
            state, reason = CampaignState.PAUSED, f"stopped by {str(stop) or 'Ctrl-C'}"
        except Closed as closed:
            state, reason, until = CampaignState.PAUSED, str(closed), closed.until
        except StopRequested as request:
            state, reason = request.state, str(request)
        except TunerError as problem:
            state, reason, error = CampaignState.FAILED, str(problem), problem
            if isinstance(problem, ChangedError) and self._before.state is CampaignState.PAUSED:
                state = CampaignState.PAUSED
        except BaseException as problem:
            self._latest = None  # showing it may be what failed
            self._end(CampaignState.FAILED, f"a bug in fstune: {problem!r}")
            raise
        restored, until = self._end(state, reason, error, until)
        if isinstance(error, ChangedError):
            raise error
        return RunOutcome(self._store.campaign(self._id), restored, error, until)

    def _end(
        self,
        state: CampaignState,
        reason: str,
        error: TunerError | None = None,
        until: datetime | None = None,
    ) -> tuple[tuple[str, ...], datetime | None]:
        """Restore the testbeds, then store how the run ended. Return what was done there, and when
        the campaign may continue: None when somebody has requested its end.
        """
        with holding_off_stops(self._doing):
            restored: list[str] = []
            failure: TunerError | None = None
            ends = self._testbeds.give_back()
            self._doing("")
            for lane, events, problem in ends:
                restored += self._testbeds.tell_restored(lane, events, problem)
                failure = failure or problem
            if self._store.campaign(self._id).state is not CampaignState.RUNNING:
                return (), None  # stopped before it began
            if self._leases is not None and self._leases.superseded():
                return (), None  # another run has taken over the campaign and its stored state
            self._void_cut_off()
            with self._ledgers.writing() as use:
                self._store.add_time_use(self._id, use)
            if self._latest is not None:  # a block may have ended since then
                rules = self._planner.rules
                self._observer.standing(stored_standing(self._store, self._id, self._latest, rules))
            request = self._store.request(self._id)
            if request is not None:  # made after the run had begun to end
                until = None
                if request.wish is Wish.CANCEL and state is not CampaignState.FINISHED:
                    state = CampaignState.CANCELLED
            kind = f"campaign-{state}"
            text = f"campaign {state}: {reason}" if reason else f"campaign {state}"
            data = {} if error is None else evidence(error)
            if until is not None:
                data["until"] = until.isoformat()
            if state is CampaignState.PAUSED and request is not None:
                data["wish"] = str(request.wish)  # the event of the request may be an earlier run's
            self._writer.move(state, reason, kind, text, data)
        if failure is not None:
            advice = putting_back(self._id, state, by_hand=self._testbeds.have_file)
            text = f"{failure}; {advice}"
            raise TestbedError(text, failure.details) from failure
        return tuple(restored), until

    def _void_cut_off(self) -> None:
        """Void the blocks left running by a kill, or by a stop in the middle of a write."""
        void = self._writer.event(
            EventKind.BLOCK_VOID, "the block that was cut off is void; it is measured again"
        )
        self._store.void_running_blocks(self._id, "the run was cut off", void)

    def _check_identity(self, now: Mapping[str, Aspect]) -> None:
        has_measurements = any(block.times_s for block in self._blocks)
        check_identity(self._store, self._id, now, has_measurements=has_measurements)

    def _check_halt(self) -> None:
        """Raise Stopped if work on another testbed or a stop signal ends the run, and
        KeyboardInterrupt if a stop signal was lost.
        """
        check()
        if self._halt.is_set():
            raise Stopped("the run ends")

    def _safe_point(self) -> None:
        """Check, at a point where a run may end, for a request to stop or a lost lease."""
        self._check_halt()
        if self._leases is not None:
            self._leases.check()
        if (request := self._store.request(self._id)) is not None:
            raise StopRequested(request)

    def _prepare(self) -> None:
        """Inspect the testbeds, and begin to plan and to measure on them."""
        lanes = self._testbeds.in_use()
        targets = {lane.label: lane.ready.target for lane in lanes if lane.ready is not None}
        check_alike(targets)
        if len(self._spec.sections) > 1 and (text := self._spec.sections[0].type.several):
            self._writer.once(EventKind.SHARED_MACHINE, f"warn: {text}", {})
        facts = least_facts(targets)
        self._check_identity(programs(self._target.identity))
        self._failures = Failures(left_out(self._store, self._id, self._blocks))
        for lane in lanes:
            self._prepare_lane(lane)
        self._store_baseline()
        target = self._target
        priors = stored_priors(self._store, self._id, target.baseline)
        guide = guide_of(target, facts, self._spec, self._rules, priors)
        self._planner = Planner(self._rules, guide, compared(target, facts, self._spec))
        self._notes = Notes(
            self._store, self._id, self._planner, target, self._writer, together=self._together
        )

    def _prepare_lane(self, lane: Lane) -> None:
        """Check that a testbed is as it was measured before, and clear it of earlier runs."""
        ready, observer = lane.ready, self._testbeds.observer(lane)
        assert ready is not None
        text = f"{self._testbeds.prefix(lane)}testbed ready: {ready.target.identity}"
        name, findings = self._testbeds.event_data(lane), as_found(ready)
        if any(b.times_s for b in self._blocks if not name or b.testbed == lane.name):
            check_testbed(self._id, self._findings.get(name.get("testbed", ""), {}), findings)
        self._writer.tell(EventKind.TESTBED_READY, text, {**name, **findings})
        context = RunContext(
            store=self._store,
            campaign=self._id,
            rules=self._rules,
            testbed=lane.name,
            ready=ready,
            ledger=lane.ledger,
            observer=observer,
            writer=EventWriter(self._store, self._id, observer),
            failures=self._failures,
            writing_use=self._ledgers.writing,
            check_stop=self._check_halt,
            safe_point=self._safe_point,
        )
        lane.blocks = BlockRunner(context)
        lane.blocks.leftovers.remove_earlier()

    def _store_baseline(self) -> None:
        """In the first run, make the configuration as found the baseline, and the first trial."""
        baseline = self._target.baseline
        try:
            event = self._writer.event("baseline", "the baseline is the configuration as found")
            event_row = self._store.set_baseline(self._id, baseline, event)
        except ConflictError as problem:
            advice = "the testbed has changed; undo that or start a new campaign"
            raise ChangedError(f"{problem}: {advice}") from problem
        if event_row is not None:
            self._writer.show(event_row)
        if not self._store.trials(self._id):
            state, flags = TrialState.RUNNING, self._target.flags(baseline)
            origins = ["as found"] if self._rules.pilot is None else ["as found", TWIN_ORIGIN]
            self._add([Trial(n, baseline, 0, of, state, flags) for n, of in enumerate(origins)])

    def _conduct(self) -> None:
        while True:
            check()
            self._doing("deciding what to measure next")
            trials = self._store.trials(self._id)
            with one_thread():
                now = self._plan(trials)
            self.pilot = now.pilot
            self._notes.write(trials, now)
            self._show(trials, now)
            if self._pilot_only and now.phase is not Phase.PILOT and not trials[-1].round:
                raise KeyboardInterrupt("the end of its pilot")
            match now.step:
                case Explore():
                    self._explore(now.step, trials)
                case RunBlock():
                    self._measure((now.step,), trials)
                case RunBatch():
                    self._measure(now.step.blocks, trials)
                case Halt():
                    raise CampaignHalted(f"the campaign halted: {now.step.reason}")
                case Finish():
                    self._notes.answer(now)
                    return

    def _plan(self, trials: Sequence[Trial]) -> Plan:
        earlier = self._earlier_blocks
        if not self._together:
            return self._planner.plan(trials, self._blocks, earlier_blocks=earlier)
        self._planned_for = self._testbeds.available()
        return self._planner.plan_batch(
            trials, self._blocks, testbeds=len(self._planned_for), earlier_blocks=earlier
        )

    def _measure(self, steps: Sequence[RunBlock], trials: Sequence[Trial]) -> None:
        """Measure blocks concurrently, each on its testbed; a single block in this thread."""
        available = self._planned_for if self._together else self._testbeds.available()
        self._failures.testbeds = len(available)
        lanes = assigned(steps, available)
        self._safe_point()
        events = self._begin(lanes, steps)
        of = {trial.number: trial for trial in trials}
        work = [
            partial(lane.blocks.run, step, of, event)
            for lane, step, event in zip(lanes, steps, events, strict=True)
            if lane.blocks is not None
        ]
        if self._together:
            endings = at_once(lanes, work, self._halt, self._id, self._doing)
        else:
            work[0]()
            endings = [None]
        self._ledgers.elapsed.meet()
        # A block that has ended never changes, so only the new ones need to be read.
        last = self._blocks[-1].number if self._blocks else 0
        new = self._store.block_times(self._id, self._rules.components, after=last)
        self._blocks += new
        if self._together:
            by_number = {block.number: block for block in new}
            self._testbeds.look_at(lanes, endings, by_number, steps, self._failures.failed)

    def _begin(self, lanes: Sequence[Lane], steps: Sequence[RunBlock]) -> list[Event]:
        """Store the blocks, all or none, so that a batch is never begun in part."""
        blocks = [
            lane.blocks.beginning(step)
            for lane, step in zip(lanes, steps, strict=True)
            if lane.blocks is not None
        ]
        leases = []
        if self._leases is not None:
            leases = [self._leases.lease(lane.name) for lane in lanes if lane.name]
        if not self._together:
            (block, event), lease = blocks[0], next(iter(leases), None)
            return [self._store.begin_block(self._id, block, event, lease)]
        return self._store.begin_blocks(self._id, blocks, leases)

    def _explore(self, step: Explore, trials: Sequence[Trial]) -> None:
        """Store the new configurations of a round, then measure its blocks."""
        flags, seed = self._target.flags, self._spec.seed
        new, blocks = trials_and_blocks(step, trials, flags, seed, together=self._together)
        self._add(new)
        self._measure(blocks, [*trials, *new])

    def _add(self, trials: Sequence[Trial]) -> None:
        """Store new trials, all or none."""
        if trials:
            added = [(trial, self._writer.trial(trial)) for trial in trials]
            for event in self._store.add_trials(self._id, added):
                self._writer.show(event)

    def _show(self, trials: list[Trial], now: Plan) -> None:
        self._latest = now
        use = self._before.time_use + self._ledgers.total()
        self._observer.standing(
            standing(trials, self._planner.table, now, self._planner.rules, use)
        )
