"""The fileserver of a real cell: changes are applied, read back, and refused if invalid."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from deploy.cell import Cell
from deploy.cell.client import VOLUME_PATH
from deploy.cell.node import SHARED
from tests.integration.conftest import (
    PLACE,
    attach_fileserver,
    process_in,
    suspend,
)
from tests.integration.targets import Values, commands_now, effective, file_log
from tests.waiting import wait_for
from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.connector import CommandResult
from tuner.hosts.node import NodeConnector, SerialNode
from tuner.hosts.node_supervisor import NodeSupervisors
from tuner.services.openafs.bosserver import edited_config
from tuner.services.openafs.fileserver import Fileserver

pytestmark = pytest.mark.cell


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


def test_an_edit_of_its_configuration_is_found_before_bosserver_overwrites_it(
    unchanged: None, cell: Cell, fileserver: Fileserver
) -> None:
    config = "/etc/openafs/BosConfig"
    host, address = fileserver.host, fileserver.place.address
    assert edited_config(host, address) == ""
    before = cell.server.check(["cat", config])
    cell.server.check(["sed", "-i", "s/dafileserver/& -p 64/", config])
    try:
        assert edited_config(host, address) == f"{config} (dafs)"
        fileserver.apply({"threads": 20})
        assert edited_config(host, address) == ""
        assert "-p 64" not in cell.server.check(["cat", config])
    finally:
        fileserver.restore()
    assert cell.server.check(["cat", config]) == before


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
    fileserver._stop()
    with pytest.raises(ConfigurationError, match=r"does not stay up: .*disabled"):
        fileserver.read_back({"threads": 20})
    fileserver.running = ()


def test_a_server_that_somebody_stops_or_deletes_is_no_configuration_s_fault(
    unchanged: None, cell: Cell, fileserver: Fileserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it started again by the next change: somebody may be salvaging."""
    monkeypatch.setattr("tuner.services.openafs.bosserver._STARTS_WITHIN_S", 0.5)
    fileserver.apply({"threads": 20})
    commands = fileserver.running
    about = ["10.77.0.1", "dafs", "-localauth"]
    cell.server.check(["bos", "shutdown", *about, "-wait"])
    stopped = r"somebody else has stopped the instance dafs meanwhile: .*currently shutdown"
    for values in ({"threads": 20}, {"threads": 21}):
        with pytest.raises(TestbedError, match=stopped):
            effective(fileserver, values)
        assert process_in(cell.server, "dafileserver") is None
    cell.server.check(["bos", "delete", *about])
    with pytest.raises(TestbedError, match="somebody else has deleted the instance dafs"):
        fileserver.read_back({"threads": 20})
    cell.server.check(["bos", "create", "10.77.0.1", "dafs", "dafs", *commands, "-localauth"])


def test_a_server_that_fstune_has_stopped_is_started_without_another_change(
    unchanged: None, cell: Cell, fileserver: Fileserver
) -> None:
    """If it hangs, fstune stops it; the next arm may have the same options."""
    fileserver.apply({"threads": 20})
    fileserver._end_hanging()
    assert fileserver.apply({"threads": 20}) == "restart"
    assert process_in(cell.server, "dafileserver") is not None


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


def test_without_an_instance_nothing_is_attached(cell: Cell) -> None:
    server = attach_fileserver(cell)
    absent = replace(PLACE, instance="absent")
    with pytest.raises(TestbedError, match="bosserver has no instance 'absent'"):
        Fileserver.attach(server.host, absent, server.space)


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


def test_a_new_instance_is_another_incarnation_and_one_with_other_options_is_refused(
    cell: Cell, fileserver: Fileserver
) -> None:
    """bosserver counts the starts of its programs from when it created the instance."""
    fileserver.apply({"threads": 30})
    before = fileserver.incarnation()
    commands = fileserver.running
    # bos shows when it was started in whole seconds.
    time.sleep(1.0)
    _create(cell, commands)
    assert fileserver.incarnation() != before
    _create(cell, (f"{commands[0]} -sync always", *commands[1:]))
    with pytest.raises(TestbedError, match="somebody else has changed the instance dafs"):
        fileserver.incarnation()
    _create(cell, commands)


def _create(cell: Cell, commands: tuple[str, ...]) -> None:
    for words in (
        ["stop", "dafs", "-wait"],
        ["delete", "dafs"],
        ["create", "dafs", "dafs", *commands],
    ):
        verb, *rest = words
        cell.server.check(["bos", verb, "10.77.0.1", *rest, "-localauth"])


def test_stopping_a_server_that_hangs_does_not_outlive_fstune_for_long(
    unchanged: None, cell: Cell, fileserver: Fileserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop ends with the campaign that began it, and a resumed one need not wait for it."""
    monkeypatch.setattr("tuner.services.openafs.fileserver._PROMPT_S", 8.0)
    fileserver.apply({"threads": 30})
    hanging = process_in(cell.server, "dafileserver")
    assert hanging is not None
    suspend(hanging)
    try:
        pid = os.fork()
        if pid == 0:
            child = SerialNode(cell.server, NodeSupervisors(cell.server), SHARED)
            replace(fileserver, host=child).apply({"threads": 31})
            os._exit(0)
        wait_for(lambda: process_in(cell.server, "bos") is not None, "the stop")
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        with closing(NodeSupervisors(cell.server)) as supervisors:
            node = SerialNode(cell.server, supervisors, SHARED)
            assert node.change(["true"], timeout_s=60.0).status == 0
        assert process_in(cell.server, "dafileserver") == hanging
    finally:
        os.kill(hanging.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "words", ["bos status", "timeout 10 bos shutdown", "bos delete", "bos create", "sh "]
)
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


def test_the_limit_of_buffers_is_known_where_the_kernel_does_not_show_it(cell: Cell) -> None:
    """Kernels before 6.11 do not show it in network namespaces."""
    usual = attach_fileserver(cell).facts["net_core_rmem_max"]
    assert usual == int(cell.server.check(["cat", "/proc/sys/net/core/rmem_max"]))
    cell.server.check(["mount", "-t", "tmpfs", "none", "/proc/sys/net/core"])
    try:
        assert attach_fileserver(cell).facts["net_core_rmem_max"] == usual
    finally:
        cell.server.check(["umount", "/proc/sys/net/core"])
