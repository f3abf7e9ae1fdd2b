"""What goes before a command that changes a host: the host's own word that it may.

A change and a put-back exclude each other by one lock on
the host, and the lease is looked at inside it: a change that was asked for before the lease was
taken away either is over before anything is put back, or is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class How(StrEnum):
    """How long a command needs the lock."""

    HOLD = "hold"
    BEGIN = "begin"
    SETTLING = "settling"


class Refusal(StrEnum):
    """Why a host did not begin a command."""

    NOT_HELD = "not-held"
    BUSY = "busy"


#: The same for every command: what differs is arguments of it.
_SCRIPT = r"""
# DIRECTORY MARK HOW COMMAND...: runs COMMAND only if MARK stands in the lease of this host, and
# while nobody puts it back. Sent along with every command that changes something; every argument
# is data.
#
# HOW: "hold" keeps the lock for as long as COMMAND runs, and all that it leaves in its process
# group: a put-back waits for that. "begin" gives it up as COMMAND begins: for workloads, which
# change nothing that is tuned. "settling" is "hold" for a host on which everything of ours may
# have been removed.
#
# What it refuses, it says on standard error by MARK, which no command knows.
directory=$1 mark=$2 how=$3
shift 3

refuse() {
    printf '%s: %s\n' "$mark" "$1" >&2
    exit 9
}

held() {
    owner=
    { IFS= read -r owner < "$directory/lease/owner"; } 2> /dev/null
    [ "$owner" = "$mark" ] || refuse not-held
}

[ "$how" != settling ] || [ -e "$directory/heartbeat.sh" ] || exec "$@"
held
exec 9< "$directory" || refuse not-held
flock --timeout 30 9 || refuse busy
# Whoever had the lock may have put this host back.
held
[ "$how" != begin ] || exec 9<&-
exec "$@"
"""
_OWN_WORDS = 4
_ARGUMENTS = 3


def guarded(argv: Sequence[str], directory: str, mark: str, how: How) -> list[str]:
    """The command that runs ``argv`` only while the lease in ``directory`` is that of ``mark``."""
    return ["sh", "-c", _SCRIPT, "guard", directory, mark, how, *argv]


def bare(argv: Sequence[str]) -> Sequence[str]:
    """A command without its guard: what is meant, for people."""
    if list(argv[:_OWN_WORDS]) == ["sh", "-c", _SCRIPT, "guard"]:
        return argv[_OWN_WORDS + _ARGUMENTS :]
    return argv


def refusal(stderr: str, mark: str) -> Refusal | None:
    """What the guard said, None when it let the command begin."""
    for reason in Refusal:
        if stderr == f"{mark}: {reason}\n":
            return reason
    return None
