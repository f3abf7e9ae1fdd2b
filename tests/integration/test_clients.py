"""Two clients of a real cell in one run: a merged result, each other's files, a common end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cell import Cell, Cells, CellSpec
from deploy.cell.client import VOLUME_PATH
from deploy.cell.node import SHARED
from tests.integration.conftest import attach_cache_manager, process_in
from tuner.errors import SpecError, WorkloadError
from tuner.hosts.node import NodeConnector
from tuner.measure.references import ReferencePlan, install_references
from tuner.measure.together import Together
from tuner.measure.workload import Workload, load_workload
from tuner.model import PageCache
from tuner.services.openafs.cache_manager import CacheManager

pytestmark = pytest.mark.cell

SMALL: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "small-workload.yaml").read_text()
)


@pytest.fixture(scope="module")
def pair(cells: Cells) -> Iterator[Cell]:
    """A cell with two clients; every test restores its state."""
    cells.down("pair")
    yield cells.up(CellSpec("pair", clients=2))
    cells.down("pair")


@pytest.fixture
def caches(pair: Cell) -> Iterator[CacheManager]:
    manager = attach_cache_manager(pair)
    yield manager
    manager.restore()


def workload(directory: Path, **changes: Any) -> Workload:
    path = directory / "small.yaml"
    path.write_text(yaml.safe_dump(SMALL | changes))
    return load_workload(str(path))


def together(pair: Cell, directory: Path, **changes: Any) -> Together:
    clients = [NodeConnector(node) for node in pair.clients]
    return Together.install(clients, SHARED, VOLUME_PATH, workload(directory, **changes))


def runs(pair: Cell) -> list[str]:
    return pair.clients[0].check(["ls", VOLUME_PATH]).split()


def silent(text: str = "") -> None:
    """Ignore the message."""


def test_two_clients_with_two_processes_are_one_run(
    pair: Cell, caches: CacheManager, tmp_path: Path
) -> None:
    directories: list[list[str]] = []

    def make_cold() -> None:
        directories.append(sorted(runs(pair)))
        caches.make_cold()

    report = together(pair, tmp_path).run("two-1", 7, make_cold, silent)
    assert directories == [["fstune-two-1-1", "fstune-two-1-2"]]
    assert set(report.clients) == {"client1", "client2"}
    assert set(report.components) == {"writing", "large", "reading", "deleting"}
    for name, merged in report.components.items():
        parts = [own[name] for own in report.clients.values()]
        assert merged.elapsed_s == max(part.elapsed_s for part in parts) > 0.0
        assert merged.operations == sum(part.operations for part in parts) > 0
        assert merged.bytes == sum(part.bytes for part in parts)
    assert runs(pair) == []


def test_a_client_that_loses_its_file_system_ends_both(
    pair: Cell, caches: CacheManager, tmp_path: Path
) -> None:
    both = together(pair, tmp_path)

    def break_second(stage: str) -> None:
        if stage == "read":
            process = process_in(pair.clients[1], "afsd.fuse")
            assert process is not None
            assert process.kill()

    with pytest.raises(WorkloadError, match=r"client2: stage read: "):
        both.run("two-2", 7, caches.make_cold, break_second)
    for node in pair.clients:
        assert process_in(node, f"{SHARED}/workloads.pyz") is None
    caches.make_cold()
    both.clean_leftovers("two-2")
    assert runs(pair) == []


def test_references_inside_a_client(pair: Cell, tmp_path: Path) -> None:
    client = NodeConnector(pair.clients[0])
    small = workload(tmp_path)
    plans = [ReferencePlan("disk", SHARED), ReferencePlan("memory", "/tmp")]
    disk, memory = install_references(client, SHARED, VOLUME_PATH, plans, small)
    report, page_cache = disk.run("two-3-ref1", 7, silent)
    assert set(report.components) == {"writing", "large", "reading", "deleting"}
    assert page_cache is PageCache.DROPPED
    assert memory.run("two-3-ref1", 7, silent)[1] is PageCache.NOT_CONTROLLABLE
    for path in (SHARED, "/tmp"):
        assert "fstune-" not in client.run(["ls", path]).stdout
    for path in (VOLUME_PATH, "/afs"):
        with pytest.raises(SpecError, match="on the file system that is tuned"):
            install_references(client, SHARED, VOLUME_PATH, [ReferencePlan("x", path)], small)
    with pytest.raises(SpecError, match="cannot be written to"):
        install_references(client, SHARED, VOLUME_PATH, [ReferencePlan("x", "/usr")], small)
