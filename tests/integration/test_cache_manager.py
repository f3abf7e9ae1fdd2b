"""The cache manager of a real cell: changes are applied, read back, and refused if invalid."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import replace
from threading import Timer

import pytest

from deploy.cell import Cell
from deploy.cell.client import VOLUME_PATH
from tests.integration.conftest import process_in, suspend
from tests.integration.targets import Values, effective
from tuner.errors import ConfigurationError, TestbedError
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.fuse import PROGRAM, FuseClient

pytestmark = pytest.mark.cell


def test_a_cache_manager_that_does_not_answer_fails_the_read_back_and_is_replaced(
    cell: Cell, cache_manager: CacheManager
) -> None:
    cache_manager.apply({"blocks": 150000})
    hung = process_in(cell.clients[0], "afsd.fuse")
    assert hung is not None
    suspend(hung)
    with pytest.raises(ConfigurationError, match=r"client1: afsd\.fuse does not answer: cmdebug"):
        cache_manager.read_back({"blocks": 150000})
    assert cache_manager.apply({"blocks": 100000}) == "remount"
    assert not hung.is_alive()
    cache_manager.read_back({"blocks": 100000})


def test_a_client_that_died_is_restarted_after_a_failed_run(
    cell: Cell, cache_manager: CacheManager
) -> None:
    cache_manager.apply({"blocks": 150000})
    process = process_in(cell.clients[0], "afsd.fuse")
    assert process is not None
    process.kill()
    cache_manager.distrust()
    assert cache_manager.apply({"blocks": 150000}) == "remount"
    cache_manager.read_back({"blocks": 150000})


def test_options_are_mounted_and_read_back(cache_manager: CacheManager) -> None:
    values: Values = {"memcache": True, "blocks": 60000, "chunksize": 15, "stat": 2000}
    assert effective(cache_manager, values) == values
    assert cache_manager.apply(values) is None
    other = dict(values, stat=1234)
    with pytest.raises(ConfigurationError, match=r"stat = 1234 is not in effect: cmdebug\.stat"):
        cache_manager.read_back(other)


#: Longer than an unmounted client is given to exit.
_LONG_S = 7.0
#: Writes a file and closes it when told to.
_WRITER = """
import sys
with open(sys.argv[1], "w") as file:
    file.write("x" * 10000)
    file.flush()
    print("written", flush=True)
    sys.stdin.readline()
print("closed", flush=True)
"""


def test_a_file_that_is_being_stored_is_not_lost_at_a_remount(
    cell: Cell, cache_manager: CacheManager
) -> None:
    """A close does not wait until the client has stored the file."""
    (node,) = cell.clients
    path = f"{VOLUME_PATH}/being-stored"
    with subprocess.Popen(
        node.enter(["python3", "-c", _WRITER, path]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        server = process_in(cell.server, "dafileserver")
        assert server is not None
        suspend(server)
        resume = Timer(_LONG_S, os.kill, (server.pid, signal.SIGCONT))
        resume.start()
        try:
            writer.stdin.close()
            assert writer.stdout.readline() == "closed\n"
            cache_manager.make_cold()
        finally:
            resume.join()
    assert node.check(["wc", "-c", path]).split()[0] == "10000"
    node.check(["rm", path])


def test_an_upgrade_is_noticed_after_the_next_remount(cache_manager: CacheManager) -> None:
    (client,) = cache_manager.clients
    assert isinstance(client, FuseClient)
    cache_manager.make_cold()
    effective(cache_manager, {"blocks": 60000})
    version = client.version.text
    assert version.startswith("OpenAFS ")
    upgraded = f"{client.place.directory}/upgraded/{PROGRAM}"
    copying = 'mkdir -p "${2%/*}" && sed "s/$3/$4/g" "$1" > "$2" && chmod 755 "$2"'
    words = [client.program, upgraded, version, version.replace("OpenAFS", "Updated")]
    assert client.host.change(["sh", "-c", copying, "sh", *words]).status == 0
    client.program = upgraded
    message = f"client1: the cache manager has been replaced meanwhile: it was {version}, and since"
    with pytest.raises(TestbedError, match=re.escape(message)):
        effective(cache_manager, {"blocks": 70000})
    assert "mounted again as found" in cache_manager.restore()


@pytest.mark.parametrize(
    ("options", "reason"),
    [(["-no-such-option"], "unknown option"), (["-blocks", "1"], "cannot statx")],
)
def test_options_that_cannot_be_mounted_say_why(
    cell: Cell, cache_manager: CacheManager, options: list[str], reason: str
) -> None:
    wrong = replace(cache_manager, rests=[(*cache_manager.rests[0], *options)])
    with pytest.raises(ConfigurationError, match=f"does not start: afsd.*{reason}"):
        wrong.apply({})
    cache_manager.apply(cache_manager.initial)
    cell.clients[0].check(["ls", VOLUME_PATH])


def fetches(cell: Cell) -> int:
    """The number of FetchData calls that the server has answered."""
    argv = ["xstat_fs_test", "10.77.0.1", "-collID", "2", "-onceonly"]
    for line in cell.server.check(argv).splitlines():
        words = line.replace(",", " ").split()
        if words[:1] == ["FetchData:"] and words[2] == "ops":
            return int(words[1])
    raise AssertionError("no FetchData in the server's statistics")


def test_a_cold_cache_is_cold_and_a_warm_one_is_warm(
    cell: Cell, cache_manager: CacheManager
) -> None:
    client, path = cell.clients[0], f"{VOLUME_PATH}/to-read"
    client.check(["dd", "if=/dev/urandom", f"of={path}", "bs=64k", "count=16", "status=none"])

    def read() -> int:
        before = fetches(cell)
        client.check(["sha256sum", path])
        return fetches(cell) - before

    cache_manager.make_cold()
    assert read() > 0
    assert read() == 0
    cache_manager.make_cold()
    assert read() > 0
    client.check(["rm", path])


def test_a_process_with_its_directory_in_the_volume_does_not_block_a_remount(
    cell: Cell, cache_manager: CacheManager
) -> None:
    client = cell.clients[0]
    argv = client.enter(["sh", "-c", f"cd {VOLUME_PATH} && echo there && exec sleep 600"])
    sitting = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert sitting.stdout is not None
    with sitting:
        try:
            assert sitting.stdout.readline() == "there\n"
            assert cache_manager.apply({"blocks": 150000}) == "remount"
            cache_manager.read_back({"blocks": 150000})
            assert len(client.check(["pidof", "afsd.fuse"]).split()) == 1
            assert client.check(["cat", "/proc/self/mounts"]).count(" /afs fuse") == 1
        finally:
            sleeper = process_in(client, "sleep")
            if sleeper is not None:
                sleeper.kill()
            sitting.kill()


def test_a_cache_manager_that_has_died_is_detected_and_replaced(
    cell: Cell, cache_manager: CacheManager
) -> None:
    cache_manager.apply({"blocks": 150000})
    running = process_in(cell.clients[0], "afsd.fuse")
    assert running is not None
    assert running.kill()
    with pytest.raises(ConfigurationError, match=r"client1: afsd\.fuse is no longer running"):
        cache_manager.read_back({"blocks": 150000})
    cache_manager.make_cold()
    cache_manager.read_back({"blocks": 150000})
