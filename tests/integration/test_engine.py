"""The workload engine on a real cell: it runs, verifies, cleans up and reports failures."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cell import Cell
from deploy.cell.client import VOLUME_PATH
from deploy.cell.node import SHARED
from tests.integration.conftest import connect, process_in
from tests.waiting import wait_for
from tuner.errors import WorkloadError
from tuner.measure.driver import ClientEngine
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import run_once
from tuner.services.openafs.cache_manager import CacheManager

pytestmark = pytest.mark.cell

SMALL: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "small-workload.yaml").read_text()
)


def install(cell: Cell, directory: Path, **changes: Any) -> ClientEngine:
    path = directory / "small.yaml"
    path.write_text(yaml.safe_dump(SMALL | changes))
    client = connect(cell.clients[0])
    return ClientEngine.install(client, SHARED, VOLUME_PATH, load_workload(str(path)))


def runs(cell: Cell) -> list[str]:
    return cell.clients[0].check(["ls", "-A", VOLUME_PATH]).split()


def silent() -> None:
    """Leave the cache as it is."""


def forever() -> list[dict[str, Any]]:
    """Return a first stage that never ends within a test, because of slowly paced stats."""
    leisure = {"operation": "stat", "fileset": "few", "passes": 1000, "rate_per_s": 40}
    phases = [*SMALL["stages"][0]["phases"], {**leisure, "component": "writing"}]
    return [{**SMALL["stages"][0], "phases": phases}]


def test_a_run_measures_every_component_and_leaves_nothing(
    cell: Cell, cache_manager: CacheManager, tmp_path: Path
) -> None:
    engine = install(cell, tmp_path)
    report = run_once(engine, "it-1", 7, cache_manager.make_cold)
    assert set(report.components) == {"writing", "large", "reading", "deleting"}
    assert all(one.elapsed_s > 0 and one.operations > 0 for one in report.components.values())
    assert report.engine_sha256 == engine.sha256
    assert runs(cell) == []


def test_an_engine_that_is_killed_voids_the_run(cell: Cell, tmp_path: Path) -> None:
    weights = {"writing": 0.5, "large": 0.5}
    engine = install(cell, tmp_path, stages=forever(), weights=weights)
    client = cell.clients[0]
    script = f"{SHARED}/workloads.pyz"
    caught: list[Exception] = []

    def run() -> None:
        try:
            run_once(engine, "it-4", 7, silent)
        except WorkloadError as problem:
            caught.append(problem)

    running = threading.Thread(target=run)
    running.start()
    wait_for(lambda: process_in(client, script) is not None and runs(cell) != [], "the engine")
    process = process_in(client, script)
    assert process is not None
    assert process.kill()
    running.join(60)
    assert [str(problem) for problem in caught] == [
        "stage write: the engine ended with -9: it printed nothing"
    ]
    wait_for(lambda: process_in(client, script) is None, "the end of its workers")
    engine.clean_leftovers("it-4")
    assert runs(cell) == []


def test_a_run_that_takes_too_long_is_void(cell: Cell, tmp_path: Path) -> None:
    weights = {"writing": 0.5, "large": 0.5}
    engine = install(cell, tmp_path, stages=forever(), weights=weights, wall_clock_limit_s=1)
    with pytest.raises(WorkloadError, match=r"stage write: wall-clock-limit in \w+ of"):
        run_once(engine, "it-5", 7, silent)
    assert runs(cell) == []


def test_leftovers_of_other_runs_and_of_other_people_stay(cell: Cell, tmp_path: Path) -> None:
    engine = install(cell, tmp_path)
    client = cell.clients[0]
    for run_id in ("it-6-1", "it-7-1"):
        engine.run_stage("write", run_id, 7)
    client.check(["mkdir", f"{VOLUME_PATH}/fstune-it-6-mine", f"{VOLUME_PATH}/it-6-1"])
    (sentence,) = engine.clean_leftovers("it-6-")
    mine = f"{VOLUME_PATH}/fstune-it-6-mine"
    assert (
        sentence
        == f"client1: {mine}: not removed: {mine}/.fstune-run.json: No such file or directory; "
        "remove it by hand"
    )
    assert sorted(runs(cell)) == ["fstune-it-6-mine", "fstune-it-7-1", "it-6-1"]
    assert engine.clean_leftovers("it-7-") == ()
    client.check(["rmdir", mine, f"{VOLUME_PATH}/it-6-1"])
    assert runs(cell) == []
