"""Runs a campaign: does what the plan says, stores it as it happens, and puts its testbeds back.

Owns the life of one run, from opening the testbeds to giving them back, whatever comes between.
What to do next is the plan's decision, what a block costs and how it can fail is ``measuring``'s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from threadpoolctl import threadpool_limits

from tuner.campaign.equivalence import Facts, as_found, check_alike, least_facts
from tuner.campaign.event_writer import EventWriter
from tuner.campaign.floors import stored_floor
from tuner.campaign.holding import LeaseKeeper
from tuner.campaign.identity import programs
from tuner.campaign.lanes import Doings, Lane, LaneObserver, Site, Stopped, assigned, at_once
from tuner.campaign.ledger import Ledgers
from tuner.campaign.measuring import BlockRunner, Failures
from tuner.campaign.notes import Notes
from tuner.campaign.piloting import TWIN_ORIGIN
from tuner.campaign.plan import MAX_VOID_IN_A_ROW, Planner
from tuner.campaign.proposing import compared, guide_of
from tuner.campaign.resuming import blocks_so_far, check_identity, putting_back
from tuner.campaign.rounds import trials_and_blocks
from tuner.campaign.rules import rules_of
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.standing import standing
from tuner.campaign.steering import StopRequested
from tuner.campaign.steps import Explore, Finish, Halt, Phase, Plan, RunBatch, RunBlock
from tuner.campaign.stopping import undisturbed
from tuner.campaign.stored_priors import stored_priors
from tuner.errors import CampaignHalted, ConflictError, TestbedError, TunerError, evidence
from tuner.interruption import check
from tuner.judge.pilot import Pilot
from tuner.measure.workload import Workload
from tuner.model import BASELINE, Aspect, BlockTimes, Campaign, Event, Trial, Wish
from tuner.records.standing import Observer
from tuner.services.target import Target
from tuner.services.testbed import Bench
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import Store


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: the campaign as stored, and a sentence for each thing that was put back."""

    campaign: Campaign
    restored: tuple[str, ...]
    error: TunerError | None = None


class Runner:
    """One run of a campaign, new or resumed.

    ``sites``: where it measures, as many as the specification names. ``aspects``: what it measures
    with, held to what was measured before. ``leases``: on the testbeds, kept by this process.
    """

    def __init__(
        self,
        store: Store,
        campaign: str,
        spec: CampaignSpec,
        workload: Workload,
        sites: Sequence[Site],
        observer: Observer,
        *,
        aspects: Mapping[str, Aspect] | None = None,
        leases: LeaseKeeper | None = None,
        pilot_only: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
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
        self._writer = EventWriter(store, campaign, observer, now)
        self._pilot_only = pilot_only
        self._target: Target
        self._facts: Facts
        self._failures: Failures
        self.pilot: Pilot | None = None
        self._ledgers = Ledgers([site.testbed.clock for site in sites])
        each = zip(sites, self._ledgers.each, strict=True)
        self._lanes = [Lane(site, ledger) for site, ledger in each]
        self._together = spec.testbed is None
        self._doings = Doings(observer)
        self._halt = threading.Event()
        self._before = store.campaign(campaign).time_use
        self._planner: Planner
        self._notes: Notes
        self._blocks: list[BlockTimes] = []
        self._earlier_blocks = 0

    def run(self) -> Outcome:
        """Run to the campaign's end, or to the first thing that stops it.

        Ctrl-C pauses the campaign, a request pauses or cancels it, an error fails it; all but a
        cancelled one can be resumed. The testbeds are put back in every case, and only what could
        not be put back is raised (TunerError) beside what the store may raise.
        """
        state, reason, error = CampaignState.FINISHED, "", None
        try:
            self._void_cut_off()
            new = self._store.campaign(self._id).state is CampaignState.CREATED
            text = "campaign started" if new else "campaign resumed"
            self._writer.move(CampaignState.RUNNING, "", "campaign-started", text)
            self._blocks = blocks_so_far(self._store, self._id, self._rules, self._workload)
            self._earlier_blocks = len(self._blocks)
            self._check_identity(self._aspects)
            self._open()
            self._prepare()
            self._conduct()
        except KeyboardInterrupt as stop:
            state, reason = CampaignState.PAUSED, f"stopped by {str(stop) or 'Ctrl-C'}"
        except StopRequested as request:
            state, reason = request.state, str(request)
        except TunerError as problem:
            state, reason, error = CampaignState.FAILED, str(problem), problem
        except BaseException as problem:
            self._end(CampaignState.FAILED, f"a defect of fstune: {problem!r}")
            raise
        restored = self._end(state, reason, error)
        return Outcome(self._store.campaign(self._id), restored, error)

    def _end(
        self,
        state: CampaignState,
        reason: str,
        error: TunerError | None = None,
    ) -> tuple[str, ...]:
        """Put the testbeds back, then write down how the run ended."""
        with undisturbed(self._doing):
            restored: list[str] = []
            failure: TunerError | None = None
            with self._ledgers.run.on("testbed"):
                lanes = [lane for lane in self._lanes if not lane.is_back]
                ends = [(lane, lane.give_back(self._doing)) for lane in lanes]
            self._doing("")
            for lane, (events, problem) in ends:
                restored += self._tell_restored(lane, events, problem)
                failure = failure or problem
            if self._store.campaign(self._id).state is not CampaignState.RUNNING:
                return ()  # stopped before it had begun
            if self._leases is not None and self._leases.superseded():
                return ()  # the campaign goes on elsewhere, and what is stored is of that run
            self._void_cut_off()
            with self._ledgers.writing() as use:
                self._store.add_time_use(self._id, use)
            request = self._store.request(self._id)
            cancels = request is not None and request.wish is Wish.CANCEL
            if state is CampaignState.PAUSED and cancels:
                state = CampaignState.CANCELLED  # asked after the run had begun to end
            kind = f"campaign-{state}"
            text = f"campaign {state}: {reason}" if reason else f"campaign {state}"
            self._writer.move(state, reason, kind, text, {} if error is None else evidence(error))
        if failure is not None:
            text = f"{failure}; {putting_back(self._id, state)}"
            raise TestbedError(text, failure.details) from failure
        return tuple(restored)

    def _tell_restored(
        self, lane: Lane, events: Sequence[tuple[str, str]], failure: TunerError | None
    ) -> list[str]:
        """Tell what was put back on a testbed, and what could not be; returns the sentences."""
        sentences = [f"{self._on(lane)}{sentence}" for _, sentence in events]
        for (kind, _), sentence in zip(events, sentences, strict=True):
            self._writer.tell(kind, sentence, self._which(lane))
        if failure is not None:
            text = f"{self._on(lane)}not everything could be put back: {failure}"
            self._writer.tell("restore-failed", text, {**self._which(lane), **evidence(failure)})
        return sentences

    def _on(self, lane: Lane) -> str:
        """The beginning of a sentence about one of several testbeds."""
        return f"{lane.site.label}: " if self._together else ""

    def _which(self, lane: Lane) -> dict[str, str]:
        return {"testbed": lane.site.name or lane.site.label} if self._together else {}

    def _void_cut_off(self) -> None:
        """Void the blocks that a kill, or a stop in the middle of a write, left running."""
        void = self._writer.event(
            "block-void", "the block that was cut off is void; it is measured again"
        )
        self._store.void_running_blocks(self._id, "the run was cut off", void)

    def _check_identity(self, now: Mapping[str, Aspect]) -> None:
        has_measurements = any(block.times_s for block in self._blocks)
        check_identity(self._store, self._id, now, has_measurements=has_measurements)

    def _check_halt(self) -> None:
        """Raise Stopped when work on another testbed, or a stop signal, ends the run, and
        KeyboardInterrupt when a stop signal did not get through.
        """
        check()
        if self._halt.is_set():
            raise Stopped("the run ends")

    def _safe_point(self) -> None:
        """Where a run may end: somebody may have asked for it, or taken over."""
        self._check_halt()
        if self._leases is not None:
            self._leases.check()
        if (request := self._store.request(self._id)) is not None:
            raise StopRequested(request)

    def _open(self) -> None:
        """Make the testbeds ready. One of several that cannot be is lost; the last one raises."""
        for lane in self._lanes:
            with self._ledgers.run.on("testbed"):
                if lane.site.testbed.claim(self._id):
                    text = "the testbed is brought up for this campaign"
                    self._writer.tell("testbed-owned", f"{self._on(lane)}{text}", self._which(lane))
                try:
                    lane.open(self._workload, self._lane_observer(lane).doing)
                except TestbedError as problem:
                    if not self._together:
                        raise
                    self._lose(lane, problem)
        self._target = self._benches()[0].target

    def _benches(self) -> list[Bench]:
        """The benches of the testbeds that can be used. Raises what the last was lost for."""
        benches = [
            lane.bench for lane in self._lanes if lane.lost is None and lane.bench is not None
        ]
        if not benches:
            raise next(lane.lost for lane in reversed(self._lanes) if lane.lost is not None)
        return benches

    def _lose(self, lane: Lane, problem: TunerError) -> None:
        """Go on without a testbed, which is put back as far as that is possible now."""
        lane.lost = problem
        text = f"{self._on(lane)}not used any more: {problem}"
        self._writer.tell("testbed-lost", text, {**self._which(lane), **evidence(problem)})
        with self._ledgers.run.on("testbed"):
            events, failure = lane.give_back(self._doing)
        self._tell_restored(lane, events, failure)

    def _lane_observer(self, lane: Lane) -> Observer:
        if not self._together:
            return self._observer
        return LaneObserver(self._doings, lane.site.label)

    def _prepare(self) -> None:
        """Take stock of the testbeds; on the first run, what is found is the baseline."""
        lanes = [lane for lane in self._lanes if lane.lost is None]
        targets = {lane.site.label: lane.bench.target for lane in lanes if lane.bench is not None}
        check_alike(targets)
        if len(self._spec.places) > 1 and (text := self._spec.places[0].way.several):
            self._writer.once("shared-machine", f"warn: {text}", {})
        self._facts = least_facts(targets)
        self._check_identity(programs(self._target.identity))
        self._failures = failures = Failures()
        for lane in lanes:
            bench = lane.bench
            assert bench is not None
            identity = bench.target.identity
            text = f"{self._on(lane)}testbed ready: {identity}"
            data = {**self._which(lane), **as_found(bench)}
            self._writer.tell("testbed-ready", text, data)
            bench.engine.clean_leftovers(self._id)
            for reference in bench.references:
                reference.clean_leftovers(self._id)
            lane.blocks = BlockRunner(
                self._store,
                self._id,
                bench,
                lane.ledger,
                self._lane_observer(lane),
                self._writer.event,
                self._rules,
                writing_use=self._ledgers.writing,
                testbed=lane.site.name,
                failures=failures,
                safe_point=self._safe_point,
                check_stop=self._check_halt,
            )
        baseline = self._target.baseline
        try:
            event = self._writer.event("baseline", "the baseline is the configuration as found")
            event_row = self._store.set_baseline(self._id, baseline, event)
        except ConflictError as problem:
            raise ConflictError(
                f"{problem}: the testbed is not as it was; put it back or begin a new campaign"
            ) from problem
        if event_row is not None:
            self._observer.say(event_row)
        trials = self._store.trials(self._id)
        flags = self._target.flags(baseline)
        references = [Trial(BASELINE, baseline, 0, "as found", TrialState.RUNNING, flags)]
        if self._rules.pilot is not None:
            twin = Trial(BASELINE + 1, baseline, 0, TWIN_ORIGIN, TrialState.RUNNING, flags)
            references.append(twin)
        if not trials:
            self._add(references)
        priors = stored_priors(self._store, self._id, baseline)
        guide = guide_of(self._target, self._facts, self._spec, self._rules, priors)
        configurations = compared(self._target, self._facts, self._spec)
        self._planner = Planner(self._rules, guide, configurations)
        self._notes = Notes(
            self._store, self._id, self._planner, self._writer, together=self._together
        )

    def _conduct(self) -> None:
        while True:
            check()
            self._doing("deciding what to measure next")
            trials = self._store.trials(self._id)
            # The matrices of the model are small: several threads would wait for each other.
            with threadpool_limits(1, user_api="blas"):
                now = self._plan(trials)
            self.pilot = now.pilot
            self._notes.write(trials, now, self._planner.rules, self._target)
            self._show(trials, now)
            if self._pilot_only and now.phase is not Phase.PILOT and not trials[-1].race:
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
                    self._notes.answer(now, self._planner.rules, self._target)
                    return

    def _plan(self, trials: Sequence[Trial]) -> Plan:
        earlier = self._earlier_blocks
        if not self._together:
            return self._planner.plan(trials, self._blocks, earlier_blocks=earlier)
        testbeds = len(self._available())
        return self._planner.plan_batch(
            trials, self._blocks, testbeds=testbeds, earlier_blocks=earlier
        )

    def _available(self) -> list[Lane]:
        """The testbeds that may be used now. Raises what the last was lost for, or
        KeyboardInterrupt when only the hour is against it.
        """
        usable = [lane for lane in self._lanes if lane.usable]
        if not usable:
            raise next(lane.lost for lane in reversed(self._lanes) if lane.lost is not None)
        reasons = [lane.site.testbed.unavailable() for lane in usable]
        free = [lane for lane, reason in zip(usable, reasons, strict=True) if reason is None]
        if not free:
            raise KeyboardInterrupt(reasons[0])
        return free

    def _measure(self, steps: Sequence[RunBlock], trials: Sequence[Trial]) -> None:
        """Measure blocks at once, each on a testbed; one alone in this thread."""
        available = self._available()
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
        # A block that has ended never changes: only the new ones need to be read.
        last = self._blocks[-1].number if self._blocks else 0
        new = self._store.block_times(self._id, self._rules.components, after=last)
        self._blocks += new
        if self._together:
            self._look_at(lanes, endings, {block.number: block for block in new}, steps)

    def _begin(self, lanes: Sequence[Lane], steps: Sequence[RunBlock]) -> list[Event]:
        """Store the blocks: all or none, so that a batch is never begun in part."""
        blocks = [
            lane.blocks.beginning(step)
            for lane, step in zip(lanes, steps, strict=True)
            if lane.blocks is not None
        ]
        leases = []
        if self._leases is not None:
            leases = [self._leases.lease(lane.site.name) for lane in lanes if lane.site.name]
        if not self._together:
            (block, event), lease = blocks[0], next(iter(leases), None)
            return [self._store.begin_block(self._id, block, event, lease)]
        return self._store.begin_blocks(self._id, blocks, leases)

    def _look_at(
        self,
        lanes: Sequence[Lane],
        endings: Sequence[BaseException | None],
        blocks: Mapping[int, BlockTimes],
        steps: Sequence[RunBlock],
    ) -> None:
        """What became of blocks that were measured at once: a testbed that does not do its part is
        lost, anything else ends the run.
        """
        for problem in endings:
            if problem is not None and not isinstance(
                problem, TestbedError | CampaignHalted | Stopped
            ):
                raise problem
        for lane, step, problem in zip(lanes, steps, endings, strict=True):
            block = blocks[step.number]
            lane.voids = lane.voids + 1 if block.state is BlockState.VOID else 0
            if isinstance(problem, TestbedError | CampaignHalted):
                self._lose(lane, problem)
            elif lane.voids >= MAX_VOID_IN_A_ROW:
                text = f"{lane.voids} blocks in a row went void; the last one: {block.reason}"
                self._lose(lane, CampaignHalted(f"the campaign halted: {text}"))

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
        use = self._before + self._ledgers.total()
        self._observer.standing(
            standing(trials, self._planner.table, now, self._planner.rules, use)
        )
