"""When counters are read around an arm, and how they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.measure.diagnostics.hosts import Host, Machine
from tuner.errors import TestbedError, WorkloadError
from tuner.measure.diagnostics.watch import ArmWatch, Watch
from tuner.measure.workload import load_workload
from tuner.services.openafs.counters import client_probe, server_probe

HERE = Machine("2f1c7a56-0d5e-4e0b-9c53-7d9e3b8a4f11").name
THERE = Machine("8d3b6f0e-5c2a-4b7d-8e1f-6a9c0d2b4e35").name
SMALL = load_workload(str(Path(__file__).parents[3] / "data" / "small-workload.yaml"))
#: Size of the data that its stages write and read: 20 files of 4 KiB, one of 2 MiB.
KIB = 80 + 2048


class Testbed:
    """A server and a client, and an arm that runs the small workload on them."""

    __test__ = False

    def __init__(self) -> None:
        self.server, self.client = Host.server(), Host.client()
        watch = Watch(
            SMALL.spec,
            (server_probe(self.server, "fs1", "dafileserver", "10.77.0.1"),),
            (client_probe(self.client, "ws1", "afsd.fuse", "/srv"),),
            "kept",
        )
        self.arm = ArmWatch(watch, 7)

    def run(
        self,
        *,
        remount: bool = True,
        fetched_kib: int = KIB,
        stored_kib: int = KIB,
        elsewhere_kib: int = 0,
    ) -> dict[str, float | str]:
        self.arm.begin()
        self.arm.stage("write")
        self.client.count(stored_kib=stored_kib, cpu=50, peak_kib=900)
        self.server.count(stored_kib=stored_kib - elsewhere_kib)
        self.arm.before_cold()
        if remount:
            self.client.remount()
        self.arm.stage("read")
        self.client.count(fetched_kib=fetched_kib, misses=28, cpu=25, peak_kib=300)
        self.server.count(fetched_kib=fetched_kib)
        return self.arm.end(KIB * 1024)

    ask = change = run


def test_an_arm_is_counted_completely_although_the_client_was_remounted() -> None:
    testbed = Testbed()
    testbed.client.count(stored_kib=77777, cpu=9999)
    diagnostics = testbed.run()
    assert diagnostics["ws1.cm.stored_bytes"] == KIB * 1024
    assert diagnostics["ws1.cm.fetched_bytes"] == KIB * 1024
    assert diagnostics["fs1.fs.stored_bytes"] == KIB * 1024
    assert diagnostics["ws1.cpu_s"] == 0.75
    assert diagnostics["ws1.peak_memory_bytes"] == 900 * 1024
    assert diagnostics["server.page_cache"] == "kept"


def test_cold_reads_are_proven_with_their_numbers() -> None:
    diagnostics = Testbed().run()
    assert diagnostics["cold.read.reading"] == "proven"
    assert diagnostics["cold.read.needed_bytes"] == KIB * 1024
    assert diagnostics["cold.read.fetched_bytes"] == KIB * 1024
    assert diagnostics["cold.read.cache_misses"] == 28
    assert diagnostics["stored"] == "proven"


def test_reads_from_a_warm_cache_void_the_run() -> None:
    testbed = Testbed()
    with pytest.raises(
        WorkloadError,
        match=r"^reading did not read from a cold cache: stage read read 2179072 bytes for the "
        r"first time, but fetched 81920 from the server \(28 cache misses\)$",
    ):
        testbed.run(remount=False, fetched_kib=80)


def test_what_was_fetched_before_the_cold_stage_proves_nothing() -> None:
    testbed = Testbed()
    testbed.client.count(fetched_kib=10 * KIB)
    with pytest.raises(WorkloadError, match="but fetched 0 from the server"):
        testbed.run(remount=False, fetched_kib=0)


def test_without_the_clients_counters_those_of_the_server_count() -> None:
    testbed = Testbed()
    testbed.client.template = ""
    diagnostics = testbed.run()
    assert diagnostics["cold.read.reading"] == "proven"
    assert "cold.read.cache_misses" not in diagnostics
    assert testbed.arm.remarks["ws1 xstat"].startswith("diagnostics without ws1 xstat: xstat")


def test_without_any_counters_nothing_is_claimed() -> None:
    testbed = Testbed()
    testbed.client.reachable = testbed.server.reachable = False
    diagnostics = testbed.run(fetched_kib=0)
    assert diagnostics["cold.read.reading"] == "unknown"
    assert diagnostics["stored"] == "unknown"
    assert testbed.arm.remarks == {
        "fs1": "diagnostics without fs1: fs1: out of reach",
        "ws1": "diagnostics without ws1: ws1: out of reach",
    }


def test_a_source_that_stops_answering_is_left_out() -> None:
    testbed = Testbed()
    testbed.arm.begin()
    testbed.arm.stage("write")
    testbed.arm.before_cold()
    testbed.server.reachable = False
    testbed.arm.stage("read")
    testbed.client.count(fetched_kib=KIB)
    diagnostics = testbed.arm.end(0)
    assert not any(name.startswith("fs1.") for name in diagnostics)
    assert diagnostics["cold.read.reading"] == "proven"


def test_data_that_arrives_late_is_remarked() -> None:
    testbed = Testbed()
    diagnostics = testbed.run(stored_kib=100)
    assert diagnostics["stored"] == "refuted"
    assert testbed.arm.remarks["stored"].startswith("times of writing may be too short: ")


def test_what_another_server_has_stored_measures_no_configuration_of_this_one() -> None:
    with pytest.raises(
        TestbedError,
        match=r"^fs1 was not used: the workload wrote 2179072 bytes, of which 0 arrived there; "
        "its clients stored them on another server",
    ):
        Testbed().run(elsewhere_kib=KIB)


def test_what_other_programs_of_a_client_store_elsewhere_is_no_error() -> None:
    assert Testbed().run(stored_kib=100 * KIB, elsewhere_kib=99 * KIB)["stored"] == "proven"


def test_without_probes_there_are_no_diagnostics() -> None:
    arm = ArmWatch(Watch(SMALL.spec), 7)
    arm.begin()
    arm.stage("write")
    arm.before_cold()
    arm.stage("read")
    assert arm.end(5) == {}
    assert not arm.remarks


def test_only_what_runs_during_the_stages_counts_as_processor_time() -> None:
    testbed = Testbed()
    machine = testbed.server.machine = testbed.client.machine = Machine(HERE)
    arm, client = testbed.arm, testbed.client
    arm.begin()
    machine.busy += 30  # the tools that read the counters
    client.count(cpu=20)
    arm.stage("write")
    machine.busy += 400
    machine.softirq += 50
    machine.steal += 7
    machine.iowait += 3
    machine.uptime += 4
    client.count(stored_kib=KIB, cpu=110)
    testbed.server.count(stored_kib=KIB)
    arm.before_cold()
    machine.busy += 500  # unmounting and mounting
    machine.uptime += 9
    client.remount()
    client.count(cpu=60)
    arm.stage("read")
    machine.busy += 100
    machine.uptime += 2
    client.count(fetched_kib=KIB, cpu=25)
    diagnostics = arm.end(KIB * 1024)
    assert diagnostics["host.busy_s"] == 5.5
    assert diagnostics["host.softirq_s"] == 0.5
    assert diagnostics["host.irq_s"] == 0.0
    assert diagnostics["host.steal_s"] == 0.07
    assert diagnostics["host.iowait_s"] == 0.03
    assert diagnostics["host.elapsed_s"] == 6.0
    assert diagnostics["ws1.cpu_s"] == pytest.approx(1.35)
    assert diagnostics["ws1.machine"] == "host"
    assert "ws1.host.busy_s" not in diagnostics
    assert diagnostics["cold.read.reading"] == "proven"


def test_a_client_s_own_machine_is_counted_separately() -> None:
    testbed = Testbed()
    testbed.server.machine, testbed.client.machine = Machine(HERE), Machine(THERE)
    diagnostics = testbed.run()
    assert diagnostics["ws1.machine"] == "ws1.host"
    assert diagnostics["ws1.host.busy_s"] == diagnostics["host.busy_s"] == 0.0


def test_clients_on_one_machine_share_its_numbers() -> None:
    machine = Machine(THERE)
    server, clients = Host.server(), [Host.client(), Host.client()]
    server.machine = Machine(HERE)
    for client in clients:
        client.machine = machine
    watch = Watch(
        SMALL.spec,
        (server_probe(server, "fs1", "dafileserver", "10.77.0.1"),),
        tuple(client_probe(c, f"ws{n}", "afsd.fuse", "/srv") for n, c in enumerate(clients, 1)),
    )
    reading = watch.read()
    assert watch.machines(reading) == {"ws1": "ws1.host", "ws2": "ws1.host"}
    assert {"host", "ws1.host"} < set(reading.samples)
    assert "ws2.host" not in reading.samples


def test_a_client_s_machine_that_cannot_be_identified_is_left_out() -> None:
    testbed = Testbed()
    testbed.server.machine, testbed.client.machine = Machine(HERE), Machine("none")
    diagnostics = testbed.run()
    assert "ws1.machine" not in diagnostics
    assert "ws1.host.busy_s" not in diagnostics
    assert diagnostics["host.busy_s"] == 0.0
