"""The target on a real cell: changes are applied, read back, refused if invalid, and undone."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.cell import Cell
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS
from tests.integration.conftest import (
    BOS_CONFIG,
    PLACE,
    attach_cache_manager,
    attach_fileserver,
    environment,
    process_in,
    wait_for,
)
from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.connector import CommandResult
from tuner.hosts.node import NodeConnector
from tuner.model import Configuration, Value
from tuner.services.openafs import parse
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.cell import RESTORE
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.part import Part
from tuner.services.target import Target

pytestmark = pytest.mark.cell

Values = Mapping[str, Value]


def silent(text: str) -> None:
    """Ignore the message."""


def file_log(cell: Cell) -> str:
    return (cell.server.directory / "log" / "FileLog").read_text()


def bos_config(cell: Cell) -> bytes:
    return (cell.server.directory / BOS_CONFIG).read_bytes()


def commands_now(cell: Cell) -> tuple[str, ...]:
    """The command lines of the instance now."""
    status = parse.bos_status(
        cell.server.check(["bos", "status", SERVER_ADDRESS, "dafs", "-long", "-localauth"])
    )
    return status.commands


def effective(part: Part, values: Values) -> dict[str, Value]:
    target = Target({"it": part})
    configuration = Configuration.of({f"it.{name}": value for name, value in values.items()})
    return target.apply(configuration, silent).effective.part("it")


@pytest.fixture
def unchanged(cell: Cell) -> Iterator[None]:
    """Check afterwards that the server's configuration file is unchanged and no other is left."""
    before = bos_config(cell)
    yield
    assert bos_config(cell) == before
    assert list(cell.server.shared.glob("*.json")) == []


@pytest.mark.parametrize(
    "values",
    [
        {
            "threads": 24,
            "dir_buffers": 200,
            "large_vnodes": 900,
            "small_vnodes": 1600,
            "volume_cache": 500,
            "callbacks": 90000,
        },
        {"preset": "L", "jumbograms": True, "vlru_disable": True},
        {
            "jumbograms": False,
            "udp_buffer": 131072,
            "sync_behavior": "always",
            "send_buffer": 20000,
        },
    ],
)
def test_flags_are_applied_and_read_back(
    unchanged: None, cell: Cell, fileserver: Fileserver, values: Values
) -> None:
    assert effective(fileserver, values) == values
    started = [line for line in file_log(cell).splitlines() if "File server starting" in line]
    flags = " ".join(fileserver.space.render(values))
    assert started[-1].endswith(f"-fs-state-dont-save -fs-state-dont-restore {flags})")
    cell.clients[0].check(["ls", VOLUME_PATH])


def test_values_that_the_server_raises_or_the_kernel_lowers_are_reported(
    unchanged: None, fileserver: Fileserver
) -> None:
    most = fileserver.facts["net_core_rmem_max"]
    settings: dict[str, Value] = {"threads": 64, "large_vnodes": 100, "udp_buffer": 16 * most}
    expected = settings | {"large_vnodes": 129, "udp_buffer": most}
    assert effective(fileserver, settings) == expected


def test_reading_back_finds_a_value_that_is_not_in_effect(
    unchanged: None, fileserver: Fileserver
) -> None:
    effective(fileserver, {"threads": 12})
    for other in ({"threads": 13}, {"dir_buffers": 91}, {"callbacks": 70000}, {"preset": "L"}):
        with pytest.raises(ConfigurationError, match="is not in effect"):
            fileserver.read_back(other)


def test_a_buffer_that_the_kernel_lowers_unknown_to_the_space_is_refused(
    unchanged: None, fileserver: Fileserver
) -> None:
    parameter = replace(fileserver.space["udp_buffer"], at_most=None)
    parameters = dict(fileserver.space.by_name, udp_buffer=parameter)
    order = tuple(parameters[p.name] for p in fileserver.space.order)
    unaware = replace(
        fileserver.space, by_name=parameters, order=order, parameters=tuple(parameters.values())
    )
    most = fileserver.facts["net_core_rmem_max"]
    believing = replace(fileserver, space=unaware)
    with pytest.raises(
        ConfigurationError,
        match=rf"udp_buffer = {8 * most} is not in effect: ss\.rb should show {16 * most}, "
        rf"it shows {2 * most}$",
    ):
        effective(believing, {"udp_buffer": 8 * most})
    fileserver.running = ()


def test_the_server_is_restarted_only_for_a_change(
    unchanged: None, cell: Cell, fileserver: Fileserver
) -> None:
    assert fileserver.apply({"threads": 20}) == "restart"
    first, starts = process_in(cell.server, "/dafileserver"), file_log(cell).count("starting (")
    assert fileserver.apply({"threads": 20}) is None
    assert process_in(cell.server, "/dafileserver") == first
    assert file_log(cell).count("starting (") == starts
    assert fileserver.apply({"threads": 21}) == "restart"
    assert process_in(cell.server, "/dafileserver") != first
    assert file_log(cell).count("starting (") == starts + 1


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"vlru_interval": 0},
            r"with these options: by file, due to signal 8; it printed nothing$",
        ),
        ({"callbacks": 9999}, r"code 255; it printed: number of cbs 9999 invalid; must be between"),
        ({"rx_max_mtu": 100}, r"code 1; FileLog: .*rxMaxMTU 100 is invalid"),
    ],
)
def test_a_configuration_that_does_not_start_says_why_and_the_baseline_runs_again(
    unchanged: None, cell: Cell, fileserver: Fileserver, values: Values, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        effective(fileserver, values)
    assert "\n" not in str(caught.value)
    assert fileserver.apply(fileserver.initial) == "restart"
    fileserver.read_back(fileserver.initial)
    cell.clients[0].check(["ls", VOLUME_PATH])


def test_a_command_line_that_bosserver_would_cut_is_refused_before_anything_is_done(
    cell: Cell, fileserver: Fileserver
) -> None:
    before = process_in(cell.server, "/dafileserver")
    longer = replace(fileserver, rest=(*fileserver.rest, "-realm", "R" * 180))
    with pytest.raises(ConfigurationError, match="bosserver keeps 244"):
        longer.apply({"threads": 20})
    assert process_in(cell.server, "/dafileserver") == before


def test_a_server_that_dies_after_its_start_is_the_configuration_s_fault(
    unchanged: None, cell: Cell, fileserver: Fileserver
) -> None:
    fileserver.apply({"threads": 20})
    fileserver._bos("stop", "-wait")
    with pytest.raises(ConfigurationError, match=r"does not stay up: .*disabled"):
        fileserver.read_back({"threads": 20})
    fileserver.running = ()


def test_a_server_that_is_still_starting_is_queried_again(
    cell: Cell, fileserver: Fileserver
) -> None:
    """It answers calls before its counters can be read."""
    node = cell.server
    real = node.check(["sh", "-c", "command -v xstat_fs_test"]).strip()
    starting = node.shared / "xstat_fs_test"
    starting.write_text(
        "#!/bin/sh\n"
        'if mkdir /tmp/asked-"$4" 2>/dev/null; then\n'
        '    echo "** Data size mismatch in full performance collection!"\n'
        "else\n"
        '    exec /tmp/xstat_fs_test "$@"\n'
        "fi\n"
    )
    starting.chmod(0o755)
    node.check(["sh", "-c", "rm -rf /tmp/asked-*"])
    node.check(["cp", real, "/tmp/xstat_fs_test"])
    node.check(["mount", "--bind", "/fstune/xstat_fs_test", real])
    try:
        fileserver.read_back(fileserver.initial)
    finally:
        node.check(["umount", real])
    assert node.check(["sh", "-c", "ls -d /tmp/asked-*"]).split() == [
        "/tmp/asked-2",
        "/tmp/asked-3",
    ]


def test_a_run_that_was_cut_off_is_undone_by_the_next(unchanged: None, cell: Cell) -> None:
    first = attach_fileserver(cell)
    initial = dict(first.initial)
    first.apply({"threads": 20})
    journal = cell.server.shared / "restore" / "fileserver"
    for path in (journal, *journal.iterdir()):
        assert path.stat().st_mode & 0o077 == 0
    # The state after a run that ended between "bos delete" and "bos create".
    first._bos("stop", "-wait")
    first._bos("delete")
    second = attach_fileserver(cell)
    assert (second.original, dict(second.initial)) == (first.original, initial)
    assert "fileserver on server restarted as found" in second.restore()
    assert not journal.exists()
    assert attach_fileserver(cell).running == first.original
    assert attach_fileserver(cell).restore().startswith("fileserver on server left as found")
    second.read_back(initial)


def test_a_damaged_journal_is_never_guessed_at(cell: Cell) -> None:
    journal = cell.server.shared / "restore" / "fileserver"
    journal.mkdir(parents=True)
    for text in (None, "", "without its end"):
        if text is not None:
            (journal / "commands").write_text(text)
        with pytest.raises(TestbedError, match=r"journal .* is damaged"):
            attach_fileserver(cell)
    shutil.rmtree(journal)


@pytest.mark.parametrize("name", ["commands", "sums", "restore.sh"])
def test_a_damaged_journal_deletes_no_instance(unchanged: None, cell: Cell, name: str) -> None:
    server = attach_fileserver(cell)
    server.apply({"threads": 20})
    path = cell.server.shared / "restore" / "fileserver" / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TestbedError, match=r"restore\.sh: exit status"):
        server.restore()
    assert commands_now(cell) == server.running
    path.write_bytes(whole)
    assert "restarted as found" in server.restore()


def test_somebody_elses_change_of_the_instance_is_not_overwritten(
    unchanged: None, cell: Cell
) -> None:
    """That is, not by the next arm; in the end the original is restored, and both are reported."""
    server = attach_fileserver(cell)
    server.apply({"threads": 20})
    theirs = (f"{server.original[0]} -p 33", *server.original[1:])
    server._bos("stop", "-wait")
    server._bos("delete")
    server._bos("create", "dafs", *theirs)
    with pytest.raises(TestbedError, match=r"somebody else has changed .* -p 33; nothing was"):
        server.apply({"threads": 21})
    assert commands_now(cell) == theirs
    again = attach_fileserver(cell)  # as when the campaign is resumed
    with pytest.raises(TestbedError, match="somebody else has changed"):
        again.apply({"threads": 21})
    assert re.search(
        r"restarted as found; somebody else had created it: .* -p 33;", again.restore()
    )


def test_a_journal_that_somebody_removed_is_rewritten_for_restoring(
    unchanged: None, cell: Cell
) -> None:
    server, manager = attach_fileserver(cell), attach_cache_manager(cell)
    server.apply({"threads": 20})
    manager.apply({"blocks": 150000})
    for node in cell.nodes:
        shutil.rmtree(node.shared / "restore")
    assert "restarted as found" in server.restore()
    assert "mounted again as found" in manager.restore()
    assert commands_now(cell) == server.original


def test_a_client_is_restored_although_nothing_can_be_written(
    cell: Cell, cache_manager: CacheManager
) -> None:
    """As on a machine whose disk has failed and become read-only."""
    client = cell.clients[0]
    cache_manager.apply({"blocks": 150000})
    client.check(["mount", "--bind", RESTORE, RESTORE])
    try:
        client.check(["mount", "--options", "remount,bind,ro", RESTORE])
        command = ["sh", f"{RESTORE}/cache_manager/restore.sh"]
        assert client.check(command) == "mounted again as found\n"
        assert client.check(command) == "left as found\n"
    finally:
        client.check(["umount", RESTORE])


def test_a_cache_manager_that_does_not_answer_fails_the_read_back(
    cell: Cell, cache_manager: CacheManager
) -> None:
    cache_manager.apply({"blocks": 150000})
    hung = process_in(cell.clients[0], "afsd.fuse")
    assert hung is not None
    os.kill(hung.pid, signal.SIGSTOP)
    with pytest.raises(ConfigurationError, match=r"client1: afsd\.fuse does not answer: cmdebug"):
        cache_manager.read_back({"blocks": 150000})
    cache_manager.apply({"blocks": 100000})
    cache_manager.read_back({"blocks": 100000})


def test_without_an_instance_nothing_is_attached(cell: Cell) -> None:
    server = attach_fileserver(cell)
    absent = replace(PLACE, instance="absent")
    with pytest.raises(TestbedError, match="bosserver has no instance 'absent'"):
        Fileserver.attach(server.host, absent, server.space)


@pytest.mark.parametrize(
    "values",
    [
        {
            "chunksize": 16,
            "files": 4000,
            "dcache": 2500,
            "stat": 3000,
            "volumes": 300,
            "daemons": 6,
        },
        {"memcache": True, "blocks": 60000, "chunksize": 15, "stat": 2000},
        {"blocks": 150000},
    ],
)
def test_options_are_mounted_and_read_back(cache_manager: CacheManager, values: Values) -> None:
    assert effective(cache_manager, values) == values
    assert cache_manager.apply(values) is None
    other = dict(values, stat=1234)
    with pytest.raises(ConfigurationError, match=r"stat = 1234 is not in effect: cmdebug\.stat"):
        cache_manager.read_back(other)


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


def test_a_cache_manager_that_hangs_is_ended(cell: Cell, cache_manager: CacheManager) -> None:
    hung = process_in(cell.clients[0], "afsd.fuse")
    assert hung is not None
    subprocess.run(["kill", "-STOP", str(hung.pid)], check=True)
    assert cache_manager.apply({"blocks": 150000}) == "remount"
    assert not hung.is_alive()
    cache_manager.read_back({"blocks": 150000})


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


@pytest.mark.parametrize("part", ["fileserver", "cache_manager"])
@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.2])
def test_an_interruption_at_any_moment_can_be_undone(
    unchanged: None, state: Path, root: Path, cell: Cell, part: str, delay_s: float
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.churn", str(state), cell.spec.name, part],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=root,
        env=environment(state),
    )
    assert child.stdout is not None
    with child:
        for _ in range(2):
            assert child.stdout.readline() == "changing\n"
        time.sleep(delay_s)
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        assert child.wait() != 0
    server, manager = attach_fileserver(cell), attach_cache_manager(cell)
    target = Target({"fileserver": server, "cache_manager": manager})
    target.restore(silent)
    for node in cell.nodes:
        assert list((node.shared / "restore").glob("*/restore.sh")) == []
    target.apply(target.baseline, silent)
    cell.clients[0].check(["ls", VOLUME_PATH])
    target.restore(silent)


def test_a_server_that_crashed_and_restarted_is_detected(
    cell: Cell, fileserver: Fileserver
) -> None:
    fileserver.apply({"threads": 30})
    before = fileserver.incarnation()
    assert fileserver.incarnation() == before
    process = process_in(cell.server, "dafileserver")
    assert process is not None
    process.kill()
    wait_for(lambda: process_in(cell.server, "dafileserver") not in (None, process), "bosserver")
    assert fileserver.incarnation() != before


@pytest.mark.parametrize("words", ["bos status", "bos stop", "bos delete", "bos create", "sh "])
def test_a_bosserver_that_crashes_costs_nothing(
    cell: Cell, fileserver: Fileserver, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Neither while the fileserver is changed nor while a script restores it."""
    run = NodeConnector.run
    crashed: list[int] = []

    def crashing(host: NodeConnector, argv: Sequence[str], **options: Any) -> CommandResult:
        if " ".join(argv).startswith(words) and not crashed:
            process = process_in(cell.server, "bosserver")
            assert process is not None
            os.kill(process.pid, signal.SIGSEGV)
            crashed.append(process.pid)
        return run(host, argv, **options)

    monkeypatch.setattr(NodeConnector, "run", crashing)
    fileserver.apply({"threads": 31})
    assert "-p 31" in commands_now(cell)[0]
    assert len(cell.server.check(["pidof", "dafileserver"]).split()) == 1
    fileserver.restore()
    assert len(crashed) == 1
    assert "-p 31" not in commands_now(cell)[0]
