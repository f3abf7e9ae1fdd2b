"""Measure the references of a campaign, each at a random position among the arms of a block.

A reference that fails is reported but voids nothing, since no decision rests on it.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime

from tuner.errors import WorkloadError
from tuner.interruption import finishing
from tuner.measure.workload_run import Report
from tuner.model import PageCache, ReferenceRun
from tuner.plan.steps import RunBlock
from tuner.run.context import RunContext
from tuner.services.testbed import Reference
from tuner.states import EventData, EventKind

#: Consecutive failures after which a run of the campaign leaves a reference out.
_MOST_FAILURES = 2


def workload_seed(campaign_seed: int, block: int) -> int:
    """Seed of all measurements of a block, which use the same files; the next block uses others."""
    return random.Random(f"{campaign_seed}:workload:{block}").randrange(2**32)


class ReferenceRuns:
    """Measures the references of one campaign on one open testbed."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._references = context.ready.references
        self._ledger = context.ledger
        self._failures: dict[str, int] = {}

    def run(self, step: RunBlock, position: int) -> None:
        """Measure the references due before the arm at ``position``, or after the last arm.

        Raises TestbedError if the host does not answer.
        """
        draw = random.Random(f"{self._context.rules.seed}:references:{step.number}")
        for number, reference in enumerate(self._references):
            index = draw.randrange(len(step.order) + 1)
            due = (step.number - 1) % reference.plan.every == 0
            if due and index == position and not self._is_left_out(reference):
                self._measure(step, position, number, reference)

    def _is_left_out(self, reference: Reference) -> bool:
        return self._failures.get(reference.plan.name, 0) >= _MOST_FAILURES

    def _measure(self, step: RunBlock, position: int, number: int, reference: Reference) -> None:
        context, name = self._context, reference.plan.name
        started, before_s = datetime.now(UTC), self._ledger.seconds_on("workload")
        seed = workload_seed(context.rules.seed, step.number)
        context.check_stop()
        try:
            with finishing(), self._ledger.on("workload"):
                run_id = f"{context.campaign}-{step.number}-ref{number + 1}"
                report, page_cache = self._run(reference, run_id, seed)
        except WorkloadError as problem:
            self._failed(step, reference, problem)
            return
        self._failures.pop(name, None)
        run = ReferenceRun(
            name,
            position,
            started,
            self._ledger.seconds_on("workload") - before_s,
            report.components,
            page_cache,
            report.engine_sha256,
            seed,
        )
        times = ", ".join(f"{n} {c.elapsed_s:.2f} s" for n, c in run.components.items())
        event = context.writer.event(
            EventKind.REFERENCE_MEASURED,
            f"block {step.number}, {name}: {times}",
            {"block": step.number, "reference": name},
        )
        event_row = context.store.add_reference(context.campaign, step.number, run, event)
        context.writer.show(event_row)

    def _run(self, reference: Reference, run_id: str, seed: int) -> tuple[Report, PageCache | None]:
        """Run the workload; also return whether the page cache was dropped before the cold stages,
        None if there are none.
        """
        cold: set[PageCache | None] = set()
        with reference.engine.run(run_id, seed) as run:
            for stage in run.stages:
                if stage.cache == "cold":
                    cold.add(reference.make_cold(run_id))
                self._context.observer.doing(f"{reference.plan.name}: workload, stage {stage.name}")
                run.measure(stage)
            report = run.report()
        if PageCache.NOT_CONTROLLABLE in cold:
            return report, PageCache.NOT_CONTROLLABLE
        return report, PageCache.DROPPED if PageCache.DROPPED in cold else None

    def _failed(self, step: RunBlock, reference: Reference, problem: WorkloadError) -> None:
        name = reference.plan.name
        self._failures[name] = self._failures.get(name, 0) + 1
        message = f"block {step.number}, {name}: {problem}"
        if self._is_left_out(reference):
            message += f"; {name} is left out for the rest of this run"
        about: EventData = {"block": step.number, "reference": name}
        self._context.writer.tell(EventKind.REFERENCE_FAILED, message, about)
