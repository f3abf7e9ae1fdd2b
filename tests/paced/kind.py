"""``paced: {...}``: like ``simulated``, but every run of the workload lasts a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.measure.workload import Workload
from tuner.measure.workload_run import LEFTOVERS_S, Engine, Run
from tuner.services.kind import Kind, Needs
from tuner.services.simulated.document import SimulatedSection, world_of
from tuner.services.simulated.kind import SimulatedType
from tuner.services.simulated.testbed import SimulatedTestbed
from tuner.services.testbed import ReadyTestbed, Testbed

#: Long beside the work of a run, and short beside the patience of a test.
_RUN_S = 0.1


@dataclass
class _PacedEngine:
    """See Engine; the times in the report remain those of the simulation."""

    simulated: Engine

    def run(self, run_id: str, seed: int) -> AbstractContextManager[Run]:
        time.sleep(_RUN_S)
        return self.simulated.run(run_id, seed)

    def end_runs(self, prefix: str) -> None:
        self.simulated.end_runs(prefix)

    def clean_leftovers(self, prefix: str, within_s: float = LEFTOVERS_S) -> tuple[str, ...]:
        return self.simulated.clean_leftovers(prefix, within_s)


class _PacedTestbed(SimulatedTestbed):
    def open(self, workload: Workload, say: Callable[[str], None]) -> ReadyTestbed:
        ready = super().open(workload, say)
        return replace(ready, engine=_PacedEngine(ready.engine))


class PacedWay(SimulatedType):
    """The same section as that of ``simulated``."""

    key = "paced"
    example = "paced: {}"

    def testbed(
        self,
        section: SimulatedSection,
        where: str,
        needs: Needs,
        state_directory: Path,
    ) -> Testbed:
        world = world_of(section, needs.spaces, needs.workload.components, f"{where}.{self.key}")
        return _PacedTestbed(needs.spaces, world, section.found, needs.references)


PACED = Kind("paced", None, frozenset(), (PacedWay(),))
