"""Counters of a real cell: they increase as the workload demands, and prove cold caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.cell import Cell, Cells, CellSpec
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.node import SHARED
from tests.integration.conftest import attach_cache_manager, connect
from tuner.errors import WorkloadError
from tuner.hosts.connector import CommandResult
from tuner.hosts.node import NodeConnector
from tuner.measure.diagnostics.watch import ArmWatch, Watch
from tuner.measure.driver import ClientEngine
from tuner.measure.together import Together
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import Report
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.counters import client_probe, server_probe
from tuner.services.openafs.fileserver import Fileserver

pytestmark = pytest.mark.cell

SMALL = load_workload(str(Path(__file__).parents[1] / "data" / "small-workload.yaml"))
#: Bytes that its stages write, and read for the first time: 20 files of 4 KiB and one of 2 MiB.
BYTES = 20 * 4096 + (2 << 20)
#: Directories are fetched too.
OVERHEAD_BYTES = 64 << 10


def watch_of(cell: Cell) -> Watch:
    server = connect(cell.server)
    clients = [connect(node) for node in cell.clients]
    return Watch(
        SMALL.spec,
        (server_probe(server, server.host, "dafileserver", SERVER_ADDRESS),),
        tuple(client_probe(client, client.host, "afsd.fuse", SHARED) for client in clients),
    )


def measured(
    cell: Cell, run_id: str, make_cold: Callable[[], None], seed: int = 7
) -> tuple[dict[str, float | str], Report, ArmWatch]:
    """Run the small workload once and return its diagnostics, report and watch."""
    clients = [connect(node) for node in cell.clients]
    engine: ClientEngine | Together = (
        ClientEngine.install(clients[0], SHARED, VOLUME_PATH, SMALL)
        if len(clients) == 1
        else Together.install(clients, SHARED, VOLUME_PATH, SMALL)
    )
    arm = ArmWatch(watch_of(cell), seed)

    arm.begin()
    with engine.run(run_id, seed) as run:
        for stage in run.stages:
            if stage.cache == "cold":
                arm.before_cold()
                make_cold()
            arm.stage(stage.name)
            run.measure(stage)
        report = run.report()
    return arm.end(report.written_bytes), report, arm


def number(counts: dict[str, float | str], name: str) -> float:
    value: Any = counts[name]
    assert isinstance(value, float)
    return value


def test_counters_move_as_the_workload_demands(cell: Cell, cache_manager: CacheManager) -> None:
    cache_manager.make_cold()
    counts, report, arm = measured(cell, "diag-1", cache_manager.make_cold)
    assert report.written_bytes == BYTES
    for where in ("server.fs", "client1.cm"):
        for what in ("fetched_bytes", "stored_bytes"):
            assert BYTES <= number(counts, f"{where}.{what}") <= BYTES + OVERHEAD_BYTES
    assert number(counts, "server.fs.create_file_calls") == 22  # with the mark of the run directory
    assert number(counts, "server.fs.remove_file_calls") >= 20
    assert number(counts, "client1.cm.dcache_misses") >= 21
    assert number(counts, "server.rx.packets_received") * 1500 > BYTES
    assert number(counts, "server.udp.datagrams_received") > number(counts, "server.rx.resends")
    for where in ("server", "client1"):
        assert number(counts, f"{where}.context_switches") > 0
        assert number(counts, f"{where}.peak_memory_bytes") > 1 << 20
        assert number(counts, f"{where}.threads") > 1
        assert number(counts, f"{where}.cpu_s") >= 0
    assert number(counts, "host.busy_s") > 0
    assert number(counts, "host.steal_s") >= 0
    assert counts["stored"] == "proven"
    assert counts["cold.read.reading"] == "proven"
    assert counts["cold.read.needed_bytes"] == BYTES
    assert number(counts, "cold.read.fetched_bytes") >= BYTES
    assert number(counts, "cold.read.cache_misses") >= 21
    assert not arm.remarks


def test_a_cold_stage_that_was_warm_is_refuted(cell: Cell, cache_manager: CacheManager) -> None:
    cache_manager.make_cold()

    def forgotten() -> None:
        """Empty no cache."""

    with pytest.raises(WorkloadError, match=r"^reading did not read from a cold cache: stage read"):
        measured(cell, "diag-3", forgotten)


def test_a_memory_cache_counts_as_well(cell: Cell, cache_manager: CacheManager) -> None:
    cache_manager.apply({"memcache": True})
    counts, _, _ = measured(cell, "diag-4", cache_manager.make_cold)
    assert counts["cold.read.reading"] == "proven"


def test_a_restarted_server_counts_from_zero(
    cell: Cell, fileserver: Fileserver, cache_manager: CacheManager
) -> None:
    cache_manager.make_cold()
    watch = watch_of(cell)
    before = watch.read().samples["server"]
    fileserver.apply({"threads": 24})
    after = watch.read().samples["server"]
    assert before.life != after.life
    assert after.counters["fs.store_data_calls"] == 0
    counts, _, _ = measured(cell, "diag-5", cache_manager.make_cold)
    assert number(counts, "server.fs.stored_bytes") >= BYTES


def test_reading_everything_takes_little_of_an_arm(
    cell: Cell, cache_manager: CacheManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_manager.make_cold()
    watch = watch_of(cell)
    commands: list[Sequence[str]] = []
    real = NodeConnector.run

    def run(host: NodeConnector, argv: Sequence[str], **options: Any) -> CommandResult:
        commands.append(argv)
        return real(host, argv, **options)

    monkeypatch.setattr(NodeConnector, "run", run)
    assert not watch.read().missing
    # Few commands compared with the many that restarting programs takes for each arm.
    assert 0 < len(commands) <= 6


@pytest.fixture
def two_clients(cells: Cells) -> Iterator[Cell]:
    cells.down("diagnosed")
    yield cells.up(CellSpec("diagnosed", clients=2))
    cells.down("diagnosed")


def test_several_clients_are_counted_together(two_clients: Cell) -> None:
    manager = attach_cache_manager(two_clients)
    counts, _, arm = measured(two_clients, "diag-6", manager.make_cold)
    assert counts["cold.read.needed_bytes"] == 2 * BYTES
    assert counts["cold.read.reading"] == "proven"
    assert counts["stored"] == "proven"
    assert number(counts, "client2.cm.stored_bytes") >= BYTES
    assert not arm.remarks
