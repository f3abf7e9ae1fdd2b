"""Measure one block: every arm once, and handle each failure by its kind.

A configuration that does not run fails its trial, and the block continues without it. A workload
run that fails is repeated at once; if it fails again, the block continues without that trial, which
fails if it is to blame (``failures``). A failure of the baseline or of its twin, or of two trials
one after the other, voids the block, and so does a lost connection. A second lost connection in a
row ends the run, as does a testbed that fails. An arm that was disturbed by other load is measured
again at the end of its block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from tuner.errors import (
    CampaignHalted,
    ConfigurationError,
    TestbedError,
    TransportError,
    TunerError,
    WorkloadError,
    evidence,
)
from tuner.model import BASELINE, Block, BlockKind, Event, Measurement, Trial
from tuner.plan.piloting import is_as_found
from tuner.plan.steps import RunBlock
from tuner.run.arm_runs import ArmRuns, arm_name
from tuner.run.context import RunContext
from tuner.run.failures import LeftOut
from tuner.run.leftovers import LEFTOVER_KINDS, Leftovers, sentences_on
from tuner.run.reference_runs import ReferenceRuns
from tuner.run.remeasuring import Usual
from tuner.states import BlockState, EventData, EventKind, TrialState
from tuner.store import NewEvent
from tuner.text import duration

#: Consecutive blocks that may be cut off by a lost connection before the run ends.
_MOST_CUT_OFF = 1


class _BlockVoid(Exception):
    """The block cannot be completed; the text says why."""


class BlockRunner:
    """Runs blocks of one campaign on one open testbed."""

    def __init__(self, context: RunContext) -> None:
        self._writing_use = context.writing_use
        self._testbed = testbed = context.testbed
        self._safe_point = context.safe_point
        self._check_stop = context.check_stop
        self._store = store = context.store
        self._id = campaign = context.campaign
        self._ready = ready = context.ready
        self._ledger = context.ledger
        self._observer = context.observer
        self._event = context.writer.event
        self._tell = context.writer.tell
        self._show = context.writer.show
        self._failures = context.failures
        self._cut_off = 0
        #: The trial during whose run in this block a host failed.
        self._failed_in: int | None = None
        sentences = sentences_on(store.events(campaign, kinds=LEFTOVER_KINDS), testbed)
        self.leftovers = Leftovers(ready, campaign, self._tell_left, sentences)
        self._arm_runs = ArmRuns(context, self.leftovers)
        self._usual = Usual.of_campaign(store, campaign, testbed, context.rules)
        self._reference_runs = ReferenceRuns(context)

    def beginning(self, step: RunBlock) -> tuple[Block, NewEvent]:
        """Return a new block for this testbed with its event, to be stored before it runs."""
        block = Block(
            step.number,
            step.kind,
            step.round,
            step.order,
            BlockState.RUNNING,
            testbed=self._testbed,
            batch=step.batch,
            slot=step.slot,
        )
        arms = ", ".join(map(arm_name, step.order))
        where = "" if step.batch is None else f" on {self._testbed}"
        message = f"block {step.number}{where}: {arms}"
        return block, self._event(EventKind.BLOCK_STARTED, message, {"block": step.number})

    def run(self, step: RunBlock, trials: Mapping[int, Trial], event: Event) -> None:
        """Measure a block that was stored with ``event``, and store how it ended.

        Raises TestbedError if a host fails or, for the second time in a row, does not answer;
        CampaignHalted if not even the baseline can be restored. The block is then void, as it is
        after a stop signal.
        """
        began = self._ledger.clock()
        self._failed_in = None
        try:
            self._show(event)
            self._arm_runs.restarts = step.restarts(trials)
            measurements = self._arms(step, trials)
            self._reference_runs.run(step, len(step.order))
            self._measure_again(step, trials, measurements)
        except _BlockVoid as problem:
            self._end(step, BlockState.VOID, str(problem), began, problem.__cause__)
            self._cut_off = 0
        except TransportError as problem:
            self._end(step, BlockState.VOID, f"cut off: {problem}", began, problem)
            self._cut_off += 1
            self.leftovers.expect(running=True)
            self._ready.distrust()
            if self._cut_off > _MOST_CUT_OFF:
                raise
        except BaseException as problem:
            why = f"cut off: {str(problem) or type(problem).__name__}"
            self._end(step, BlockState.VOID, why, began, problem)
            raise
        else:
            self._end(step, BlockState.COMPLETE, "", began)
            self._cut_off = 0

    def _end(
        self,
        step: RunBlock,
        state: BlockState,
        reason: str,
        began: float,
        problem: BaseException | None = None,
    ) -> None:
        seconds = self._ledger.clock() - began
        message = f"block {step.number} {state}" + (
            f": {reason}" if reason else f" in {duration(seconds)}"
        )
        data: EventData = {"block": step.number, **({} if problem is None else evidence(problem))}
        if isinstance(problem, TestbedError) and self._failed_in is not None:
            data = {**data, "trial": self._failed_in}
        event = self._event(f"block-{state}", message, data)
        with self._writing_use() as use:
            event_row = self._store.end_block(
                self._id, step.number, state, reason, seconds, event, use
            )
        self._show(event_row)

    def _arms(self, step: RunBlock, trials: Mapping[int, Trial]) -> dict[int, Measurement]:
        """Measure the arms of a block; returns the measurements by trial."""
        measurements: dict[int, Measurement] = {}
        left_out: list[tuple[Trial, WorkloadError]] = []
        in_doubt = False  # whether the testbed may be why the last of them failed
        for position, number in enumerate(step.order):
            if position:
                self._safe_point()
            self._reference_runs.run(step, position)
            try:
                measurement = self._arm(step, position, trials[number])
            except WorkloadError as problem:
                if is_as_found(trials[number]):
                    raise _BlockVoid(f"{arm_name(number)}: {problem}") from problem
                left_out.append((trials[number], problem))
                if in_doubt:
                    for each in left_out[-2:]:
                        self._left_out(step, *each, measurements, works=False)
                    raise _BlockVoid(f"{arm_name(number)}: {problem}") from problem
                in_doubt = True
                continue
            if measurement is not None:
                measurements[number] = measurement
                if in_doubt:
                    self._left_out(step, *left_out[-1], measurements, works=True)
                    in_doubt = False
        if in_doubt:
            self._left_out(step, *left_out[-1], measurements, works=False)
        # On several testbeds, whether the trial has failed may depend on which of them came first.
        may_be_void = in_doubt or self._failures.testbeds > 1
        if left_out and may_be_void and not measurements.keys() - {BASELINE}:
            trial, why = left_out[-1]
            raise _BlockVoid(f"{arm_name(trial.number)}: {why}") from why
        return measurements

    def _arm(self, step: RunBlock, position: int, trial: Trial) -> Measurement | None:
        """Measure one arm; returns None if its configuration does not run.

        Raises WorkloadError if the run fails, and again when it is repeated.
        """
        try:
            measurement = self._run(step, position, trial)
        except WorkloadError:
            measurement = self._run(step, position, trial, "again")
        if measurement is None:
            return None
        event = self._event(
            EventKind.MEASURED,
            f"block {step.number}, {arm_name(trial.number)}: {_seconds(measurement)}",
            {"block": step.number, "trial": trial.number},
        )
        self._show(self._store.add_measurement(self._id, step.number, measurement, event))
        return measurement

    def _measure_again(
        self, step: RunBlock, trials: Mapping[int, Trial], measurements: dict[int, Measurement]
    ) -> None:
        """Repeat the arms of a block that were disturbed, unless it is a fresh one: there, a
        configuration that causes load when it is slow would have exactly its slow runs replaced.
        ``measurements``: by trial.
        """
        again, limits = 0, self._usual.limits()
        while (
            step.kind is not BlockKind.CERTIFY
            and (disturbed := self._usual.disturbed(measurements, limits, again)) is not None
        ):
            self._safe_point()
            again += 1
            trial, first = trials[disturbed.trial], measurements[disturbed.trial]
            try:
                measurement = self._run(step, len(step.order) - 1 + again, trial, f"r{again}")
            except WorkloadError as problem:
                raise _BlockVoid(f"{arm_name(trial.number)}: {problem}") from problem
            if measurement is None:
                break
            who = f"block {step.number}, {arm_name(trial.number)}"
            data: EventData = {
                "block": step.number,
                "trial": trial.number,
                "testbed": self._testbed,
                disturbed.covariate: disturbed.value,
                "limit": disturbed.limit,
                **{f"first_{name}_s": c.elapsed_s for name, c in first.components.items()},
            }
            message = f"{who} measured again: {disturbed.reason}; now {_seconds(measurement)}"
            event = self._event(EventKind.MEASURED_AGAIN, message, data)
            self._show(self._store.replace_measurement(self._id, step.number, measurement, event))
            self._usual.again += 1
            measurements[trial.number] = measurement
        self._usual.learn(measurements.values())

    def _run(
        self, step: RunBlock, position: int, trial: Trial, which: str = ""
    ) -> Measurement | None:
        """Run a trial once; returns None if its configuration does not run.

        ``which``: distinguishes the run from an earlier one in the same block. Raises WorkloadError
        if the run fails.
        """
        try:
            return self._arm_runs.measure(step, position, trial, which)
        except TestbedError:
            self._failed_in = trial.number
            raise
        except ConfigurationError as problem:
            self.leftovers.expect()
            self._configuration_failed(trial, problem)
            return None
        except WorkloadError as problem:
            self._ready.distrust()
            self.leftovers.expect()
            self._check_stop()  # a stop may be why it failed
            # Asked once it has failed again: one failure is mended by repeating the run.
            failure = WorkloadError(self._explained(problem), problem.details) if which else problem
            what = "the run failed" if which else "the run failed and is repeated"
            message = f"block {step.number}, {arm_name(trial.number)}: {what}: {failure}"
            data = {"block": step.number, "trial": trial.number, **evidence(problem)}
            self._tell(EventKind.RUN_FAILED, message, data)
            raise failure from problem.__cause__

    def _configuration_failed(self, trial: Trial, problem: ConfigurationError) -> None:
        if is_as_found(trial):
            raise _BlockVoid(f"{arm_name(trial.number)}: {self._explained(problem)}") from problem
        # The server must not be left down, whatever comes next. If it does not start with the
        # baseline either, the trial was not at fault.
        baseline = self._ready.target.baseline
        try:
            with self._ledger.on("apply"):
                self._ready.target.apply(baseline, self._observer.doing)
        except ConfigurationError as worse:
            why = self._explained(worse)
            raise CampaignHalted(f"the baseline cannot be restored: {why}") from worse
        self._fail(trial, str(problem), problem)

    def _explained(self, problem: TunerError) -> str:
        """Return what failed, and why the servers' storage is to blame for it, if it is."""
        why = self._ready.why_unusable()
        # What it quotes may be a whole sentence.
        return f"{str(problem).rstrip(' .')}; {why}" if why else str(problem)

    def _left_out(
        self,
        step: RunBlock,
        trial: Trial,
        problem: WorkloadError,
        measurements: Mapping[int, Measurement],
        *,
        works: bool,
    ) -> None:
        """Store that a trial whose run failed twice is left out of a block; if it is to blame, it
        fails instead. ``measurements``: of the other arms so far. ``works``: whether another arm
        ran afterwards.
        """
        now = LeftOut(trial.number, self._testbed, others_ran=bool(measurements))
        if self._failures.is_to_blame(now, works=works):
            where = "" if step.batch is None else f" on {self._testbed}"
            self._fail(trial, f"the workload failed twice{where}: {problem}", problem)
            return
        message = f"trial {trial.number} is left out of block {step.number}: {problem}"
        data = {"block": step.number, **asdict(now)}
        self._tell(EventKind.LEFT_OUT, message, data)

    def _fail(self, trial: Trial, reason: str, problem: TunerError) -> None:
        message = f"trial {trial.number} failed: {reason}"
        data = {"trial": trial.number, **evidence(problem)}
        event = self._event(EventKind.TRIAL_FAILED, message, data)
        with self._failures.lock:
            if not self._failures.is_new(trial.number):
                return  # it failed on another testbed at the same time
            row = self._store.move_trial(self._id, trial.number, TrialState.FAILED, reason, event)
        self._show(row)

    def _tell_left(self, kind: str, sentence: str) -> None:
        self._tell(kind, sentence, {"testbed": self._testbed})


def _seconds(measurement: Measurement) -> str:
    return ", ".join(f"{name} {c.elapsed_s:.2f} s" for name, c in measurement.components.items())
