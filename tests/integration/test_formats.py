"""Real servers obey the formats written for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.cell import Cell
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.node import SHARED
from search_spaces import Chance, draw
from tests.integration.conftest import BOS_CONFIG
from tuner.errors import TestbedError
from tuner.formats.programs import FILESERVER
from tuner.formats.registry import formats
from tuner.model import Value
from tuner.services.form import Part
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.openafs.option_file import SERVER_FILES, check_unset
from tuner.services.openafs.server_log import log_end

pytestmark = [pytest.mark.cell, pytest.mark.timeout(600)]

#: The largest configurations are limited to half of this.
_MEMORY_BYTES = 1 << 30


def configurations(fileserver: Fileserver) -> list[dict[str, Value]]:
    """Return some configurations with every form of option."""
    facts = {**fileserver.facts, "memory_bytes": _MEMORY_BYTES}
    samples = [draw(fileserver.space, Chance(seed, 0.6), facts) for seed in range(4)]
    return [{"preset": "L", "vlru_disable": True, "threads": 100}, *samples]


def part(words: list[str]) -> Part:
    return Part("fileserver", FILESERVER, tuple(words))


@pytest.fixture
def as_found(cell: Cell, fileserver: Fileserver) -> Iterator[None]:
    """Restore the server's options afterwards, and its configuration without the file."""
    config = cell.server.directory / BOS_CONFIG
    before = config.read_text()
    yield
    (cell.server.directory / "etc/server/openafs-server.conf").unlink(missing_ok=True)
    run_script(cell, fileserver, fileserver.original[0].split()[1:])
    assert config.read_text() == before


def run_script(cell: Cell, fileserver: Fileserver, words: list[str]) -> None:
    """Run the script for a server on its node, and wait until it serves."""
    script = cell.server.shared / "set.sh"
    script.write_text(formats()["script"].write(part(words)))
    before = log_end(fileserver.host, fileserver.place.log)
    cell.server.check(["sh", f"{SHARED}/{script.name}", SERVER_ADDRESS])
    script.unlink()
    fileserver._await_start(" ".join([fileserver.original[0].split()[0], *words]), before)


def test_a_script_is_in_effect_and_bosserver_writes_the_same_entry(
    cell: Cell, fileserver: Fileserver, as_found: None
) -> None:
    for values in configurations(fileserver):
        words = [*fileserver.rest, *fileserver.space.render(values)]
        run_script(cell, fileserver, words)
        assert fileserver.read_back(values) == values
        entry = formats()["bosconfig"].write(part(words))
        assert entry in (cell.server.directory / BOS_CONFIG).read_text()


def test_the_server_obeys_its_configuration_file(
    cell: Cell, fileserver: Fileserver, as_found: None
) -> None:
    file = cell.server.directory / "etc/server/openafs-server.conf"
    for values in configurations(fileserver):
        text = formats()["openafs-server.conf"].write(part(fileserver.space.render(values)))
        file.write_text(text)
        before = log_end(fileserver.host, fileserver.place.log)
        cell.server.check(["bos", "restart", SERVER_ADDRESS, "dafs", "-localauth"])
        fileserver._await_start(fileserver.original[0], before)
        assert fileserver.read_back(values) == values
        # So it must not be tuned by its command line alone.
        if values:
            with pytest.raises(TestbedError, match=r"openafs-server\.conf sets "):
                check_unset(fileserver.host, SERVER_FILES, "fileserver", fileserver.space)
