"""Parsers of the tools' output, on recorded real output (OpenAFS 1.8.9, Linux 6)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.measure.diagnostics.hosts import Host
from tuner.measure.diagnostics.machine import (
    cpu_counters,
    machine_name,
    udp_counters,
    uptime_counters,
)
from tuner.measure.diagnostics.probe import sections
from tuner.measure.diagnostics.process import (
    context_switches,
    cpu_s,
    process_gauges,
    process_life,
)
from tuner.services.openafs.counters import client_probe, server_probe
from tuner.services.openafs.rx import rx_counters, rx_gauges
from tuner.services.openafs.xstat import cache_manager_counters, fileserver_counters

Recorded = Callable[[str], dict[str, str]]


@pytest.fixture(scope="module")
def text(root: Path) -> Callable[[str], str]:
    return lambda who: (root / f"tests/data/openafs/diagnostics-{who}.txt").read_text()


@pytest.fixture(scope="module")
def recorded(text: Callable[[str], str]) -> Recorded:
    return lambda who: sections(text(who))


def test_every_source_has_its_section(recorded: Recorded) -> None:
    for who in ("server", "client"):
        assert list(recorded(who)) == [
            *("stat", "cpu", "uptime", "boot"),
            *("proc", "rxdebug", "xstat"),
        ]


def test_rx(recorded: Recorded) -> None:
    counters = rx_counters(recorded("server")["rxdebug"])
    assert counters["resends"] == 32
    assert counters["calls_waited"] == 0
    assert counters["packets_sent"] == 90135
    assert rx_gauges(recorded("server")["rxdebug"]) == {"calls_waiting": 0, "idle_threads": 11}
    assert rx_counters(recorded("client")["rxdebug"])["duplicates_received"] == 3


def test_rx_of_a_busy_server(recorded: Recorded) -> None:
    busy = (
        recorded("server")["rxdebug"]
        .replace("0 calls waiting for a thread", "2 calls waiting for a thread")
        .replace("11 threads are idle", "1 thread is idle")
        .replace("0 calls have waited", "71 calls have waited")
        .replace("(rcv 0/0,send 0/0,ack 0)", "(rcv 1/2,send 3/4,ack 5)")
    )
    assert rx_gauges(busy) == {"calls_waiting": 2, "idle_threads": 1}
    assert rx_counters(busy)["calls_waited"] == 71
    assert rx_counters(busy)["allocation_failures"] == 15


def test_a_fileserver(recorded: Recorded) -> None:
    counters = fileserver_counters(recorded("server")["xstat"])
    assert counters["fetched_bytes"] == 113600 * 1024
    assert counters["stored_bytes"] == 113340 * 1024
    assert (counters["fetch_data_calls"], counters["fetch_data_s"]) == (2093, 0.894142)
    assert (counters["callbacks_added"], counters["callbacks_broken"]) == (5433, 4850)


def test_a_cache_manager(recorded: Recorded) -> None:
    assert cache_manager_counters(recorded("client")["xstat"]) == {
        "fetched_bytes": 55666 * 1024,
        "stored_bytes": 0,
        "dcache_hits": 9093,
        "dcache_misses": 998,
        "vcache_hits": 28454,
        "vcache_misses": 1618,
        "cache_files_reused": 0,
    }


def test_a_process(recorded: Recorded) -> None:
    texts = recorded("server")
    assert process_life(texts["stat"]) == "170 since 1138782"
    assert cpu_s(texts["stat"]) == pytest.approx(1.74)
    assert context_switches(texts["proc"]) == 145616
    assert process_gauges(texts["proc"]) == {"peak_memory_bytes": 10600 * 1024, "threads": 21}


def test_a_kernel_thread_has_no_memory_of_its_own() -> None:
    """The kernel client's afsd is one; its other numbers are still used."""
    assert process_gauges("Name:\tafsd\nPPid:\t2\nThreads:\t1\n") == {"threads": 1.0}


def test_the_processes_of_a_program_are_summed(recorded: Recorded) -> None:
    """A server may have a process per client; some of them have ended."""
    stat = recorded("server")["stat"]
    assert process_life(stat * 2) == process_life(stat)
    other = stat.rstrip().split(" ")
    other[15:17] = ["200", "50"]  # of its children that have ended
    assert cpu_s(stat + " ".join(other) + "\n") == pytest.approx(1.74 + 1.74 + 2.5)
    status = (
        "Tgid:\t7\nVmHWM:\t 300 kB\nThreads:\t2\nTgid:\t7\nVmHWM:\t 300 kB\nThreads:\t2\n"
        "Tgid:\t9\nVmHWM:\t 100 kB\nThreads:\t1\nUdp: a\n"
    )
    assert process_gauges(status) == {"peak_memory_bytes": 400 * 1024, "threads": 3}


def test_a_command_name_cannot_confuse_the_parser(recorded: Recorded) -> None:
    stat = recorded("server")["stat"].replace("(dafileserver)", "(a) 9 9 (b c)")
    assert cpu_s(stat) == pytest.approx(1.74)


def test_a_machine(recorded: Recorded) -> None:
    texts = recorded("server")
    assert cpu_counters(texts["cpu"]) == pytest.approx(
        {
            "busy_s": 12408.65,
            "irq_s": 0.0,
            "softirq_s": 323.54,
            "iowait_s": 250.74,
            "steal_s": 14.80,
        }
    )
    assert uptime_counters(texts["uptime"]) == {"elapsed_s": 12345.67}
    assert machine_name(texts["boot"]) == "2f1c7a56-0d5e-4e0b-9c53-7d9e3b8a4f11"
    assert udp_counters(texts["proc"]) == {
        "datagrams_received": 155569,
        "datagrams_sent": 134957,
        "receive_errors": 0,
        "rcvbuf_errors": 0,
        "sndbuf_errors": 0,
    }
    dropped = texts["proc"].replace("155569 3 0 134957 0", "155569 3 12 134957 11")
    assert udp_counters(dropped)["rcvbuf_errors"] == 11


@pytest.mark.parametrize(
    "parse",
    [
        *(rx_counters, rx_gauges, fileserver_counters, cache_manager_counters, process_gauges),
        *(process_life, cpu_s, context_switches, cpu_counters, udp_counters),
        *(uptime_counters, machine_name),
    ],
)
@pytest.mark.parametrize(
    "output",
    [
        "",
        "Trying 10.77.0.1 (port 7000):\ngetstats call failed with code -1\n",
        "CM_Handler: Probe 1, collection 2 to CM on 'localhost' failed, code=-1\n",
        "cpu 1 2 3\n",
        "Udp: InDatagrams NoPorts\nUdp: 1 2\n",
    ],
)
def test_invalid_output_is_an_error_that_names_what_is_missing(
    parse: Callable[[str], object], output: str
) -> None:
    with pytest.raises(ValueError, match=": no "):
        parse(output)


def test_a_probe_prefixes_all_names_with_its_host(text: Callable[[str], str]) -> None:
    server = server_probe(Host(), "fs1", "dafileserver", "10.77.0.1").understand(text("server"))
    assert set(server.samples) == {"fs1", "fs1.udp", "host"}
    assert server.samples["fs1"].life == "170 since 1138782"
    assert server.samples["fs1"].counters["fs.fetched_bytes"] == 113600 * 1024
    assert server.samples["fs1"].gauges["rx.idle_threads"] == 11
    client = client_probe(Host(), "ws1", "afsd.fuse", "/srv").understand(text("client"))
    assert set(client.samples) == {"ws1", "ws1.udp", "ws1.host"}
    assert server.machines == {"host": "2f1c7a56-0d5e-4e0b-9c53-7d9e3b8a4f11"}
    assert client.machines == {"ws1.host": "2f1c7a56-0d5e-4e0b-9c53-7d9e3b8a4f11"}
    assert client.samples["ws1"].counters["cm.dcache_misses"] == 998
    assert not server.missing
    assert not client.missing


def test_a_glance_is_the_processor_times_of_a_reading(text: Callable[[str], str]) -> None:
    probe = client_probe(Host(), "ws1", "afsd.fuse", "/srv")
    whole = probe.understand(text("client"))
    glance = probe.understand_glance(text("client").partition("=== proc")[0])
    assert glance.samples["ws1.host"] == whole.samples["ws1.host"]
    assert glance.samples["ws1"].life == whole.samples["ws1"].life
    assert glance.samples["ws1"].counters == {"cpu_s": whole.samples["ws1"].counters["cpu_s"]}
    assert (glance.machines, glance.missing) == (whole.machines, {})


def test_a_source_without_output_does_not_affect_the_others(text: Callable[[str], str]) -> None:
    output = text("client").partition("=== xstat")[0] + "=== xstat\n"
    reading = client_probe(Host(), "ws1", "afsd.fuse", "/srv").understand(output)
    assert list(reading.missing) == ["ws1 xstat"]
    assert not any(name.startswith("cm.") for name in reading.samples["ws1"].counters)
    assert reading.samples["ws1"].counters["cpu_s"] > 0


def test_a_client_in_the_kernel_has_no_process(text: Callable[[str], str]) -> None:
    output = "=== cpu" + text("client").partition("=== cpu")[2]
    before, _, after = output.partition("=== proc\n")
    output = before + "=== proc\n" + after[after.index("Udp:") :]
    reading = client_probe(Host(), "ws1", "afsd", "/srv").understand(output)
    assert reading.samples["ws1"].life == ""
    assert reading.samples["ws1"].counters["cm.dcache_misses"] == 998
    assert reading.missing == {"ws1 process": "root has no process called afsd"}


def test_an_unreachable_host_is_missing() -> None:
    reading = server_probe(Host(reachable=False), "fs1", "dafileserver", "10.77.0.1").read()
    assert reading.missing == {"fs1": "fs1: out of reach"}
    assert not reading.samples
