"""Measure one arm of a block once: apply its configuration, run the workload, read diagnostics.

What becomes of an arm whose run fails is decided by ``measuring``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from tuner.errors import WorkloadError
from tuner.interruption import finishing
from tuner.measure.diagnostics.watch import ArmWatch
from tuner.measure.workload_run import Report
from tuner.model import BASELINE, Measurement, Trial
from tuner.plan.steps import RunBlock
from tuner.run.context import RunContext
from tuner.run.leftovers import Leftovers
from tuner.run.reference_runs import workload_seed
from tuner.states import EventKind


class ArmRuns:
    """Measures the trials of one campaign on one open testbed."""

    def __init__(self, context: RunContext, leftovers: Leftovers) -> None:
        self._context = context
        self._ready = context.ready
        self._ledger = context.ledger
        self._leftovers = leftovers
        self._remarked: set[str] = set()
        #: The parts that every arm of the present block restarts.
        self.restarts: frozenset[str] = frozenset()

    def measure(self, step: RunBlock, position: int, trial: Trial, which: str) -> Measurement:
        """Measure a trial once. ``which``: distinguishes the run from an earlier one in the block.

        Raises ConfigurationError, WorkloadError or TestbedError, and whatever ``check_stop`` does.
        """
        who = arm_name(trial.number)

        def doing(what: str) -> None:
            self._context.observer.doing(f"{who}: {what}")

        started = datetime.now(UTC)
        apply_before, workload_before = self._apply_and_workload_s()
        with self._ledger.on("apply"):
            self._leftovers.end_runs()
            applied = self._ready.target.apply(trial.configuration, doing, self.restarts)
            incarnations = self._ready.target.incarnations()
            self._leftovers.remove()
        self._context.check_stop()
        # All arms of a block do the same work; the next block does different work.
        seed = workload_seed(self._context.rules.seed, step.number)
        watch = ArmWatch(self._ready.watch, seed)
        with finishing():
            watch.begin()
            run_id = f"{self._context.campaign}-{step.number}-{trial.number}{which}"
            with self._ledger.on("workload"), self._ready.engine.run(run_id, seed) as run:
                for stage in run.stages:
                    if stage.cache == "cold":
                        self._make_cold(watch, doing)
                    with self._ledger.on(None):
                        watch.stage(stage.name)
                    doing(f"workload, stage {stage.name}")
                    run.measure(stage)
                report = run.report()
            self._check_incarnations(incarnations)
            diagnostics = self._diagnosed(watch, report)
        apply_after, workload_after = self._apply_and_workload_s()
        return Measurement(
            trial=trial.number,
            position=position,
            started=started,
            requested=trial.configuration,
            effective=applied.effective,
            actions=applied.actions,
            apply_s=apply_after - apply_before,
            workload_s=workload_after - workload_before,
            components=report.components,
            diagnostics=diagnostics,
            engine_sha256=report.engine_sha256,
            seed=seed,
            clients=report.clients,
        )

    def _check_incarnations(self, before: Mapping[str, str]) -> None:
        """Raise WorkloadError if a server crashed and was restarted, which invalidates the run."""
        with self._ledger.on("apply"):
            after = self._ready.target.incarnations()
        for name, life in before.items():
            if after[name] != life:
                raise WorkloadError(f"the {name} was restarted during the run: {after[name]}")

    def _diagnosed(self, watch: ArmWatch, report: Report) -> dict[str, float | str]:
        """Return the diagnostics of the run, and report each remark about them once.

        Raises WorkloadError if the counters contradict the run.
        """
        try:
            counters = watch.end(report.written_bytes)
            return {"engine_cpu_s": report.cpu_s, **report.diagnostics, **counters}
        finally:
            for about in sorted(watch.remarks.keys() - self._remarked):
                self._context.writer.tell(
                    EventKind.DIAGNOSTICS, watch.remarks[about], {"about": about}
                )
            self._remarked |= watch.remarks.keys()

    def _make_cold(self, watch: ArmWatch, doing: Callable[[str], None]) -> None:
        with self._ledger.on(None):
            watch.before_cold()
        doing("emptying the client's cache")
        with self._ledger.on("apply"):
            self._ready.make_cold()

    def _apply_and_workload_s(self) -> tuple[float, float]:
        return self._ledger.seconds_on("apply"), self._ledger.seconds_on("workload")


def arm_name(number: int) -> str:
    """What messages call a trial."""
    return "baseline" if number == BASELINE else f"trial {number}"
