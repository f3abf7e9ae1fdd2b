"""Reads the counters around every arm, and around each of its stages that needs a cold cache.

Owns when they are read and how they are used: as the diagnostics of a measurement, as proof that
its cold reads were cold (if this is refuted, the run is void), that it used the server that is
tuned, and that its data had been stored when the workload reported that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tuner.errors import TestbedError, WorkloadError
from tuner.measure.diagnostics.probe import Probe, Reading
from tuner.measure.diagnostics.proof import (
    Proof,
    cold_proofs,
    first_reads,
    stored_elsewhere,
    stored_proof,
)
from tuner.measure.diagnostics.sample import Sample, difference
from tuner.measure.together import part_seed
from workloads import Spec

Diagnostics = dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Watch:
    """The probes of an open testbed; without probes, nothing is read and nothing is proven.

    ``spec``: of the workload. ``servers``, ``clients``: the probes of the file servers and of the
    clients that run it. ``page_cache``: description of how the servers' page caches are treated
    before cold reads.
    """

    spec: Spec
    servers: tuple[Probe, ...] = ()
    clients: tuple[Probe, ...] = ()
    page_cache: str = ""
    _demands: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)

    def read(self, meanwhile: Callable[[], object] = lambda: None) -> Reading:
        """Read all counters of every host once, concurrently; call ``meanwhile`` while they do."""
        return self._together(Probe.read, meanwhile)

    def glance(self) -> Reading:
        """Read the processor times of every host once, concurrently."""
        return self._together(Probe.glance)

    def machines(self, reading: Reading) -> dict[str, str]:
        """The prefix of the numbers of each client's machine, by client; clients whose machine is
        unknown are omitted.
        """
        first: dict[str, str] = {}
        for prefix, machine in reading.machines.items():
            first.setdefault(machine, prefix)
        return {
            probe.where: first[reading.machines[probe.machine]]
            for probe in self.clients
            if probe.machine in reading.machines
        }

    def _together(
        self, read: Callable[[Probe], Reading], meanwhile: Callable[[], object] = lambda: None
    ) -> Reading:
        """Read all hosts. The numbers of a machine shared by several hosts are kept once, under the
        first of them; those of a machine that cannot be identified only if it is a server's.
        """
        probes = (*self.servers, *self.clients)
        if not probes:
            return Reading()
        with ThreadPoolExecutor(len(probes)) as pool:
            answers = pool.map(read, probes)
            meanwhile()
            readings = list(answers)
        samples = {name: one for reading in readings for name, one in reading.samples.items()}
        missing = {key: reason for reading in readings for key, reason in reading.missing.items()}
        machines = {key: name for reading in readings for key, name in reading.machines.items()}
        names = {*self.machines(Reading(machines=machines)).values()}
        for probe in self.clients:
            if probe.machine not in names:
                samples.pop(probe.machine, None)
        return Reading(samples, missing, machines)

    def demand(self, stage: str, seed: int) -> dict[str, int]:
        """See ``first_reads``; for all clients together, computed once for the arms of a block."""
        if (stage, seed) not in self._demands:
            for old in [key for key in self._demands if key[1] != seed]:
                del self._demands[old]
            seeds = [part_seed(seed, part) for part in range(len(self.clients))]
            self._demands[stage, seed] = first_reads(self.spec, stage, seeds)
        return self._demands[stage, seed]


class ArmWatch:
    """The counters around one arm: call ``begin``, then ``before_cold`` and ``stage`` as the driver
    gets there, then ``end``.
    """

    def __init__(self, watch: Watch, seed: int) -> None:
        self._watch = watch
        self._seed = seed
        self._cold = {stage.name for stage in watch.spec.stages if stage.cache == "cold"}
        self._stage = ""
        self._last: Mapping[str, Sample] = {}
        #: Processor times at the start of the stage that followed the last full reading.
        self._at_stage: Mapping[str, Sample] = {}
        self._read_just_now = False
        self._spans: list[dict[str, float]] = []
        self._gauges: dict[str, float] = {}
        self._words: Diagnostics = {}
        self._refuted: list[str] = []
        #: Warnings, as sentences by subject (``server disk``).
        self.remarks: dict[str, str] = {}

    def begin(self) -> None:
        """Call when the configuration is in effect, before the workload starts."""
        self._last = self._read(meanwhile=self._plan_demands)

    def before_cold(self) -> None:
        """Call before the caches are emptied, which may reset the counters of a client."""
        self._close()

    def stage(self, name: str) -> None:
        """Call before a stage starts.

        Processor times are counted from here on: the cost of reading the counters and of emptying
        the caches is not part of the run, and depends on the configuration.
        """
        if self._stage in self._cold:
            self._close()
        if self._read_just_now:
            glance = self._watch.glance()
            self._at_stage = {} if glance.missing.keys() - self.remarks.keys() else glance.samples
            self._read_just_now = False
        self._stage = name

    def end(self, written_bytes: float) -> Diagnostics:
        """Call after the workload has written ``written_bytes``. Returns all diagnostics.

        Raises WorkloadError when the counters refute that cold reads were cold, TestbedError when
        they show that another server was used.
        """
        if not (self._watch.servers or self._watch.clients):
            return {}
        self._close()
        every = set.intersection(*(set(span) for span in self._spans))
        counted = {name: sum(span[name] for span in self._spans) for name in every}
        self._check_server(counted, written_bytes)
        totals: Diagnostics = {**counted, **self._gauges, **self._words}
        totals |= self._storing_proof(counted, written_bytes)
        if self._watch.page_cache:
            totals["server.page_cache"] = self._watch.page_cache
        if self._refuted:
            raise WorkloadError("; ".join(self._refuted))
        return dict(sorted(totals.items()))

    def _plan_demands(self) -> None:
        for stage in self._cold:
            self._watch.demand(stage, self._seed)

    def _read(self, meanwhile: Callable[[], object] = lambda: None) -> Mapping[str, Sample]:
        reading = self._watch.read(meanwhile)
        self._read_just_now = True
        self._words |= {
            f"{where}.machine": prefix for where, prefix in self._watch.machines(reading).items()
        }
        self.remarks |= {
            source: f"diagnostics without {source}: {why}"
            for source, why in reading.missing.items()
        }
        for prefix, sample in reading.samples.items():
            for name, value in sample.gauges.items():
                whole = f"{prefix}.{name}"
                self._gauges[whole] = max(value, self._gauges.get(whole, value))
        return reading.samples

    def _close(self) -> None:
        """Read the counters, record the increase since the last reading, and end the stage."""
        now = self._read()
        span = {
            f"{prefix}.{name}": value
            for prefix, sample in now.items()
            for name, value in difference(self._last.get(prefix), sample).items()
        }
        for prefix, before in self._at_stage.items():
            if prefix in now:
                again = {name: now[prefix].counters.get(name) for name in before.counters}
                counters = {name: value for name, value in again.items() if value is not None}
                counted = difference(before, Sample(now[prefix].life, counters))
                span |= {f"{prefix}.{name}": value for name, value in counted.items()}
        self._last, self._at_stage = now, {}
        self._spans.append(span)
        if self._stage in self._cold:
            self._prove_cold(self._stage, span)
        self._stage = ""

    def _prove_cold(self, stage: str, span: Mapping[str, float]) -> None:
        demand = self._watch.demand(stage, self._seed)
        clients = len(self._watch.clients)
        fetched = self._counted(span, "fetched_bytes")
        misses = _summed(span, [f"{one.where}.{one.misses}" for one in self._watch.clients])
        self._words[f"cold.{stage}.needed_bytes"] = float(sum(demand.values()))
        if fetched is not None:
            self._words[f"cold.{stage}.fetched_bytes"] = fetched
        if misses is not None:
            self._words[f"cold.{stage}.cache_misses"] = misses
        for component, proof in cold_proofs(demand, fetched, clients).items():
            self._words[f"cold.{stage}.{component}"] = proof.value
            if proof is Proof.REFUTED:
                missed = "an unknown number of" if misses is None else f"{misses:.0f}"
                self._refuted.append(
                    f"{component} did not read from a cold cache: stage {stage} read "
                    f"{sum(demand.values())} bytes for the first time, but fetched {fetched:.0f} "
                    f"from the server ({missed} cache misses)"
                )

    def _check_server(self, counted: Mapping[str, float], written_bytes: float) -> None:
        client_bytes = _summed(counted, _names(self._watch.clients, "stored_bytes"))
        server_bytes = _summed(counted, _names(self._watch.servers, "stored_bytes"))
        if stored_elsewhere(written_bytes, client_bytes, server_bytes, len(self._watch.clients)):
            where = " and ".join(probe.where for probe in self._watch.servers)
            raise TestbedError(
                f"{where} was not used: the workload wrote {written_bytes:.0f} bytes, of which "
                f"{server_bytes:.0f} arrived there; its clients stored them on another server: "
                "does the path lead to another volume, or was the volume moved?"
            )

    def _storing_proof(self, counted: Mapping[str, float], written_bytes: float) -> Diagnostics:
        stored_bytes = self._counted(counted, "stored_bytes")
        proof = stored_proof(written_bytes, stored_bytes, len(self._watch.clients))
        if proof is Proof.REFUTED:
            self.remarks["stored"] = (
                f"times of writing may be too short: the workload wrote {written_bytes:.0f} bytes, "
                f"{stored_bytes:.0f} had reached the server when it continued"
            )
        return {"stored": proof.value, "written_bytes": float(written_bytes)}

    def _counted(self, span: Mapping[str, float], name: str) -> float | None:
        """The sum over the clients; if it is unknown for one of them, over the servers."""
        clients = _summed(span, _names(self._watch.clients, name))
        servers = _summed(span, _names(self._watch.servers, name))
        return servers if clients is None else clients


def _names(probes: Sequence[Probe], name: str) -> list[str]:
    """Full names of a transfer counter, for each probe."""
    return [f"{probe.where}.{probe.transfers}.{name}" for probe in probes]


def _summed(span: Mapping[str, float], names: list[str]) -> float | None:
    """The sum of these numbers; None when one of them is unknown or there are none."""
    if not names or not all(name in span for name in names):
        return None
    return sum(span[name] for name in names)
