"""All parsers for OpenAFS tools, on recorded output of real ones (OpenAFS 1.8.9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.measure.diagnostics.process import process_status
from tuner.services.openafs import parse

COMMAND = "/usr/lib/openafs/dafileserver -fs-state-dont-save -fs-state-dont-restore"

Recorded = Callable[[str], str]


@pytest.fixture(scope="module")
def recorded(root: Path) -> Recorded:
    return lambda name: (root / "tests/data/openafs" / f"{name}.txt").read_text()


def test_a_running_instance(recorded: Recorded) -> None:
    status = parse.bos_status(recorded("bos-status-running"))
    assert status.running
    assert not status.given_up
    assert status.last_error == ""
    programs = ("davolserver", "salvageserver", "dasalvager")
    assert status.commands == (COMMAND, *(f"/usr/lib/openafs/{name}" for name in programs))


def test_a_notifier(recorded: Recorded) -> None:
    text = recorded("bos-status-running")
    assert parse.bos_status(text).notifier == ()
    line = "    Notifier  is '/usr/local/sbin/tell'\n"
    status = parse.bos_status(f"{text}{line}")
    assert (status.notifier, len(status.commands)) == (("/usr/local/sbin/tell",), 4)


BOS_CONFIG = f"""restrictmode 0
restarttime 16 0 0 0 0
checkbintime 16 0 0 0 0
bnode simple vlserver 1
parm /usr/lib/openafs/vlserver
end
bnode dafs dafs 1 /usr/local/sbin/tell
parm {COMMAND}
parm /usr/lib/openafs/davolserver
parm /usr/lib/openafs/salvageserver
parm /usr/lib/openafs/dasalvager
end
"""


def test_bosserver_s_own_file_is_as_what_it_runs(recorded: Recorded) -> None:
    first = "Instance vlserver, (type is simple) currently running normally.\n"
    command = "    Command 1 is '/usr/lib/openafs/vlserver'\n"
    notifier = "    Notifier  is '/usr/local/sbin/tell'\n"
    text = f"{first}{command}{recorded('bos-status-running')}{notifier}"
    running, entries = parse.bos_instances(text), parse.bos_config(BOS_CONFIG)
    assert list(running) == list(entries) == ["vlserver", "dafs"]
    assert all(entries[name].is_as(running[name]) for name in entries)
    for old, new in [("dafileserver ", "dafileserver -L "), ("/tell", "/told"), ("dafs d", "fs d")]:
        edited = parse.bos_config(BOS_CONFIG.replace(old, new))
        assert not edited["dafs"].is_as(running["dafs"])
        assert edited["vlserver"].is_as(running["vlserver"])


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("refused", "-cb 9999", "by file, by exiting with code 255"),
        ("refused-stopped", "-cb 9999", "by file, by exiting with code 255"),
        ("divided-by-zero", "-vlruinterval 0", "by file, due to signal 8"),
    ],
)
def test_an_instance_that_was_given_up(
    recorded: Recorded, name: str, options: str, error: str
) -> None:
    status = parse.bos_status(recorded(f"bos-status-{name}"))
    assert status.given_up
    assert not status.running
    assert status.last_error == error
    assert status.commands[0] == f"{COMMAND} {options}"


def test_an_instance_whose_server_was_killed_runs_again(recorded: Recorded) -> None:
    status = parse.bos_status(recorded("bos-status-restarted"))
    assert status.running
    assert status.summary == "(type is dafs) has core file, currently running normally"


@pytest.mark.parametrize("name", ["bos-status-no-instance", "rxdebug-noconns", "cmdebug-no-answer"])
def test_no_instance_in_other_text(recorded: Recorded, name: str) -> None:
    with pytest.raises(ValueError, match="bos status: no instance"):
        parse.bos_status(recorded(name))


def test_a_log_of_several_starts_tells_of_the_newest(recorded: Recorded) -> None:
    text = recorded("filelog-restarted")
    command = f"{COMMAND} -p 12 -udpsize 131072"
    assert parse.file_log(text).started
    assert parse.file_log(text).command == command
    second = text.index("File server starting", 200)
    cut = parse.file_log(text[: text.index("\n", second) + 1])
    assert cut == parse.StartLog(command, False, cut.last_line)
    assert cut.last_line.endswith(f"File server starting ({command})")


def test_a_log_of_failing_tries_tells_why(recorded: Recorded) -> None:
    text = recorded("filelog-several-tries")
    assert text.count("File server starting") > 5
    log = parse.file_log(text)
    assert log.command == f"{COMMAND} -rxmaxmtu 100"
    assert not log.started
    assert log.last_line.endswith("rxMaxMTU 100 is invalid")


@pytest.mark.parametrize("text", ["", "Fri Nov 20 23:16:49 2026 File server has terminated\n"])
def test_a_log_without_a_start(text: str) -> None:
    log = parse.file_log(text)
    assert (log.command, log.started) == (None, False)
    assert log.last_line == text.strip()


def test_an_option_in_parentheses_is_part_of_the_command() -> None:
    line = f"Fri File server starting ({COMMAND} -realm A(B))\n"
    assert parse.file_log(line).command == f"{COMMAND} -realm A(B)"


def test_counters_of_the_server(recorded: Recorded) -> None:
    values = parse.xstat(recorded("xstat-fs-2"))
    expected = {
        "vcache_L_Entries": 400,
        "vcache_S_Entries": 400,
        "vcache_H_Entries": 400,
        "dir_Buffers": 90,
    }
    assert {name: values[name] for name in expected} == expected
    assert parse.xstat(recorded("xstat-fs-3"))["nblks"] == 60000


def test_idle_threads(recorded: Recorded) -> None:
    assert parse.idle_threads(recorded("rxdebug-noconns")) == 11
    assert parse.idle_threads("1 threads are idle\n") == 1
    assert parse.idle_threads("1 thread is idle\n") == 1


def test_the_receive_buffer_of_a_port(recorded: Recorded) -> None:
    text = recorded("ss-uamnH-server")
    assert parse.udp_receive_buffer(text) == 131072
    wider = text.replace(
        "0.0.0.0:7000 0.0.0.0:*\n\t skmem:(r0,rb131072", "0.0.0.0:7000 0.0.0.0:*\n\t skmem:(r0,rb9"
    )
    assert parse.udp_receive_buffer(wider) == 9
    assert parse.udp_receive_buffer(wider, port=7007) == 131072
    with pytest.raises(ValueError, match="port 7001"):
        parse.udp_receive_buffer(text, port=7001)


def test_the_port_of_a_program(recorded: Recorded) -> None:
    text = recorded("ss-uanpH-client")
    port = parse.udp_port_of(text, frozenset({6}))
    assert port is not None
    assert f":{port} " in text
    assert parse.udp_port_of(text, frozenset({66})) is None
    assert parse.udp_port_of(text, frozenset()) is None
    assert parse.udp_port_of("", frozenset({6})) is None


def test_the_configuration_of_a_disk_cache(recorded: Recorded) -> None:
    assert parse.cache_configuration(recorded("cmdebug-cache")) == {
        "chunk_files": 6250,
        "stat_caches": 4687,
        "data_caches": 3125,
        "volume_caches": 200,
        "chunk_size_bytes": 262144,
        "cache_size_kib": 200000,
        "memory_cache": False,
    }


def test_the_configuration_of_a_memory_cache(recorded: Recorded) -> None:
    values = parse.cache_configuration(recorded("cmdebug-cache-memory"))
    assert values["memory_cache"] is True
    assert (values["cache_size_kib"], values["chunk_size_bytes"]) == (50000, 65536)


def test_whether_a_client_encrypts() -> None:
    prefix = "Security level is currently"
    assert parse.encryption(f"{prefix} crypt (data security).\n") == "on"
    assert parse.encryption(f"{prefix} clear.\n") == "off"
    assert parse.encryption("fs: You don't have the required access rights\n") == ""


def test_where_a_client_keeps_its_cache() -> None:
    assert parse.cache_info("/afs:/usr/vice/cache:50000\n") == ("/afs", "/usr/vice/cache", 50000)
    with pytest.raises(ValueError, match="cacheinfo"):
        parse.cache_info("/afs:/usr/vice/cache\n")


def test_whether_a_client_has_tokens() -> None:
    none = "\nTokens held by the Cache Manager:\n\n   --End of list--\n"
    one = "User's (AFS ID 7) rxkad tokens for example.org [Expires Nov 21 16:00]\n"
    assert not parse.has_tokens(none)
    assert parse.has_tokens(none.replace("   --End", f"{one}   --End"))


def test_numbers_of_the_kernel(recorded: Recorded) -> None:
    assert process_status(recorded("meminfo"))["MemTotal"] == 24684092


GARBAGE = ("", "\n", "command not found", "server or network not responding\n", "\x00\xff 12")


@pytest.mark.parametrize("text", GARBAGE)
@pytest.mark.parametrize(
    ("parser", "tool"),
    [
        (parse.bos_status, "bos status"),
        (parse.xstat, "xstat_fs_test"),
        (parse.idle_threads, "rxdebug"),
        (parse.udp_receive_buffer, "ss"),
        (parse.cache_configuration, "cmdebug"),
    ],
)
def test_garbage_is_refused_by_the_tool_s_name(
    parser: Callable[[str], object], tool: str, text: str
) -> None:
    with pytest.raises(ValueError, match=tool):
        parser(text)


def test_a_tool_that_got_no_answer_is_refused(recorded: Recorded) -> None:
    with pytest.raises(ValueError, match="cmdebug"):
        parse.cache_configuration(recorded("cmdebug-no-answer"))
    cut = recorded("cmdebug-cache").rpartition("Cache size")[0]
    with pytest.raises(ValueError, match="Cache size"):
        parse.cache_configuration(cut)


def test_clients_connected(recorded: Recorded) -> None:
    text = recorded("rxdebug-server-connections")
    assert parse.clients_connected(text) == {"10.77.0.11", "10.77.0.12"}
    with pytest.raises(ValueError, match="rxdebug"):
        parse.clients_connected("getstats call failed with code -1\n")


def test_volumes_go_by_their_own_names_whatever_their_state(recorded: Recorded) -> None:
    assert parse.volumes(recorded("vos-listvol")) == {"bench"}
    more = recorded("vos-listvol").replace(
        "\nTotal volumes onLine",
        "bench.backup                      536870914 BK          2 K On-line\n"
        "off                               536870915 RW          2 K Off-line\n"
        "**** Could not attach volume 536870999 ****\n"
        "\nTotal volumes onLine",
    )
    assert parse.volumes(more) == {"bench", "off", "536870999"}
    assert parse.offline_volumes(more) == {"off"}
    with pytest.raises(ValueError, match="vos listvol"):
        parse.volumes("Could not fetch the list of partitions from the server\n")


def test_quota_and_use_of_a_volume(recorded: Recorded) -> None:
    assert parse.volume_quota(recorded("vos-examine")) == (0, 2)
    with pytest.raises(ValueError, match="vos examine"):
        parse.volume_quota("VLDB: no such entry\n")
