"""The fileserver's log (FileLog), by which its starts are judged."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.hosts.connector import Connector, understood
from tuner.services.openafs import parse

#: Where the log usually is: the paths of Debian, and of OpenAFS itself.
USUAL_LOGS = ("/var/log/openafs/FileLog", "/usr/afs/logs/FileLog")
#: With less free space than this, a start may not find room for its lines.
_LEAST_FREE_KIB = 64


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of the log at some moment. ``inode``: of its file, 0 if there was none; ``size``: of
    the file in bytes.
    """

    inode: int = 0
    size: int = 0


def log_end(host: Connector, path: str) -> LogEnd:
    """Return where the log ends now."""
    result = host.ask(["stat", "--dereference", "--format=%i %s", path])
    if result.status != 0:
        return LogEnd()
    with understood(host.host):
        inode, size = map(int, result.stdout.split())
    return LogEnd(inode, size)


def log_since(host: Connector, path: str, end: LogEnd) -> parse.StartLog:
    """Parse the part of the log after ``end``; all of it if the file is a new one.

    With -transarc-logs and -mrafslogs, every start renames the old file, and the new one may
    already be longer.
    """
    now = log_end(host, path)
    start = end.size if now.inode == end.inode and now.size >= end.size else 0
    result = host.ask(["tail", f"--bytes=+{start + 1}", path])
    return parse.file_log(result.stdout if result.status == 0 else "")


def why_no_log(host: Connector, command: str, path: str) -> str:
    """Why starts of a fileserver cannot be judged by the log at ``path``; "" if they can.

    ``command``: the fileserver's command line.
    """
    words = command.split()
    if any(word.partition("=")[0] == "-syslog" for word in words):
        return "the fileserver logs to syslog: remove -syslog from its options"
    other = named_log(command)
    if other not in ("", path):
        return f"the fileserver logs to {other}, the testbed file has {path} under server.log"
    if host.ask(["test", "-r", path]).status != 0:
        return f"{path} cannot be read: name the fileserver's log under server.log"
    return ""


def why_not_started(host: Connector, path: str, log: parse.StartLog) -> str:
    """Why the log at ``path`` does not say that a server has started. ``log``: of this start."""
    last = f"FileLog: {log.last_line}" if log.last_line else ""
    result = host.ask(["df", "--block-size=1K", "--output=avail,target", path])
    full = ""
    if result.status == 0:
        with understood(host.host):
            free, mount_point = result.stdout.splitlines()[-1].split(maxsplit=1)
            free_kib = int(free)
        if free_kib < _LEAST_FREE_KIB:
            full = f"no room for its log {path}: {mount_point} has {free_kib} KiB free"
    return "; ".join(part for part in (full, last) if part) or "it printed nothing"


def find_log(host: Connector, command: str) -> str:
    """Where a fileserver's log is, "" if unknown. ``command``: its command line."""
    places = (named_log(command), *sorted(USUAL_LOGS, key=lambda path: not _alike(path, command)))
    readable = (p for p in places if p and host.ask(["test", "-r", p]).status == 0)
    return next(readable, "")


def named_log(command: str) -> str:
    """The absolute path that a command line names with -logfile, "" if it names none.

    A relative one is below a directory that only the server knows.
    """
    words = command.replace(" -logfile=", " -logfile ").split()
    name = words[words.index("-logfile") + 1] if "-logfile" in words[:-1] else ""
    return name if name.startswith("/") else ""


def _alike(path: str, command: str) -> bool:
    """Whether both belong to an installation with OpenAFS's own paths, or neither does."""
    return path.startswith("/usr/afs/") == command.startswith("/usr/afs/")
