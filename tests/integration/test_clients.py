"""Two clients of a real cell in one run: a merged result, each other's files, a common end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cell import Cell
from deploy.cell.client import VOLUME_PATH
from deploy.cell.node import SHARED
from tests.integration.conftest import connect
from tuner.errors import SpecError
from tuner.measure.references import ReferencePlan, install_references
from tuner.measure.workload import Workload, load_workload
from tuner.model import PageCache

pytestmark = pytest.mark.cell

SMALL: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "small-workload.yaml").read_text()
)


def workload(directory: Path, **changes: Any) -> Workload:
    path = directory / "small.yaml"
    path.write_text(yaml.safe_dump(SMALL | changes))
    return load_workload(str(path))


def test_references_inside_a_client(cell: Cell, tmp_path: Path) -> None:
    client = connect(cell.clients[0])
    small = workload(tmp_path)
    plans = [ReferencePlan("disk", SHARED), ReferencePlan("memory", "/tmp")]
    disk, memory = install_references(client, SHARED, VOLUME_PATH, plans, small)
    for reference, expected in ((disk, PageCache.DROPPED), (memory, PageCache.NOT_CONTROLLABLE)):
        with reference.engine.run("two-3-ref1", 7) as run:
            for stage in run.stages:
                if stage.cache == "cold":
                    assert reference.make_cold("two-3-ref1") is expected
                run.measure(stage)
            assert set(run.report().components) == {"writing", "large", "reading", "deleting"}
    for path in (SHARED, "/tmp"):
        assert "fstune-" not in client.run(["ls", path]).stdout
    for path in (VOLUME_PATH, "/afs"):
        with pytest.raises(SpecError, match="on the file system that is tuned"):
            install_references(client, SHARED, VOLUME_PATH, [ReferencePlan("x", path)], small)
    with pytest.raises(SpecError, match="cannot be written to"):
        install_references(client, SHARED, VOLUME_PATH, [ReferencePlan("x", "/usr")], small)
