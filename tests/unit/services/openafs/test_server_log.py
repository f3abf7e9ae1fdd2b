"""The fileserver's log: where it is, and what a start has added to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tuner.hosts.connector import CommandResult
from tuner.hosts.local import LocalConnector
from tuner.services.openafs.parse import StartLog
from tuner.services.openafs.server_log import log_end, log_since, why_no_log, why_not_started

HOST = LocalConnector()
START = "x File server starting (/x)\nx File Server started x\n"


@pytest.mark.parametrize("is_link", [False, True])
def test_only_what_was_added_counts(tmp_path: Path, is_link: bool) -> None:
    """Also behind a symbolic link, as where logs are kept on another disk."""
    log = tmp_path / "FileLog"
    if is_link:
        log.symlink_to(tmp_path / "elsewhere")
    log.write_text(START)
    end = log_end(HOST, str(log))
    assert not log_since(HOST, str(log), end).started
    with log.open("a") as file:
        file.write(START)
    assert log_since(HOST, str(log), end).started


@pytest.mark.parametrize("before", ["", "short\n", 5 * START])
def test_a_log_that_a_start_renames_is_read_from_its_beginning(tmp_path: Path, before: str) -> None:
    """With -transarc-logs; the new file may already be longer than the old one."""
    log = tmp_path / "FileLog"
    log.write_text(before)
    end = log_end(HOST, str(log))
    log.rename(tmp_path / "FileLog.old")
    assert not log_since(HOST, str(log), end).started
    log.write_text(START)
    assert log_since(HOST, str(log), end).started


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("-p 12", ""),
        ("-syslog", "remove -syslog"),
        ("-p 12 -syslog=2", "remove -syslog"),
        ("-logfile /elsewhere/FileLog -p 12", "the fileserver logs to /elsewhere/FileLog"),
        ("-logfile=/elsewhere/FileLog", "the fileserver logs to /elsewhere/FileLog"),
        ("-logfile", ""),
    ],
)
def test_a_server_that_logs_elsewhere_is_named(tmp_path: Path, options: str, reason: str) -> None:
    log = tmp_path / "FileLog"
    log.touch()
    why = why_no_log(HOST, f"/usr/lib/openafs/dafileserver {options}", str(log))
    assert why == "" if not reason else reason in why
    assert why_no_log(HOST, f"/x -logfile {log}", str(log)) == ""
    log.unlink()
    assert "cannot be read" in why_no_log(HOST, "/x", str(log))


@dataclass(frozen=True)
class Host(LocalConnector):
    """A host where df tells of this many free KiB."""

    free_kib: int = 0

    def ask(self, argv: Sequence[str], *_: object, **__: object) -> CommandResult:
        assert (argv[0], argv[-1]) == ("df", "/var/log/openafs/FileLog")
        return CommandResult(tuple(argv), 0, f" Avail Mounted on\n{self.free_kib:6} /var/log\n", "")


@pytest.mark.parametrize(
    ("free_kib", "last", "reason"),
    [
        (0, "", "no room for its log /var/log/openafs/FileLog: /var/log has 0 KiB free"),
        (63, "File se", "/var/log has 63 KiB free; FileLog: File se"),
        (64, "", "it printed nothing"),
        (64, "bind failed", "FileLog: bind failed"),
    ],
)
def test_a_full_file_system_is_why_a_log_does_not_tell_of_a_start(
    free_kib: int, last: str, reason: str
) -> None:
    log = StartLog(None, started=False, last_line=last)
    why = why_not_started(Host(free_kib=free_kib), "/var/log/openafs/FileLog", log)
    assert why.endswith(reason)


def test_a_log_that_does_not_exist_is_not_blamed(tmp_path: Path) -> None:
    log = StartLog(None, started=False, last_line="")
    assert why_not_started(HOST, str(tmp_path / "FileLog"), log) == "it printed nothing"
