"""Guards around commands that change a host, so that they cannot collide with its restore.

The guard: the host itself checks that the lease is still ours. Changes and restores exclude each
other with one lock on the host, and the lease is checked under that lock. A change requested before
the lease was taken away therefore either finishes before the restore starts, or is refused.

The serial lock, for a node of a private cell, which has no lease: one change waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class LockUse(StrEnum):
    """How long a command holds the lock; see ``_SCRIPT``."""

    HOLD = "hold"
    BEGIN = "begin"
    RESTORING = "restoring"
    SERIAL = "serial"


class Reason(StrEnum):
    """Why a host refused to start a command."""

    NOT_HELD = "not-held"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that was not started. ``processes``: those that hold the lock, if that is why."""

    reason: Reason
    processes: str


#: Scripts are constant, so that ``bare`` recognises them: everything that varies is an argument.
_SCRIPT = r"""
# DIRECTORY MARK HOW WAIT_S COMMAND...: runs COMMAND only if the lease of this host belongs to MARK
# and no restore is under way. Sent with every command that changes something; every argument is
# data.
#
# HOW: "hold" keeps the lock while COMMAND and any processes that inherit its descriptors run; a
# restore waits for them. "begin" releases it when COMMAND starts: for workloads, which do not
# change any tuned setting. "restoring" is like "hold", for a host from which all our files may
# already have been removed. "serial" is like "hold", for a host without a lease.
#
# A refusal is reported on standard error, prefixed with MARK, which no command knows. That the lock
# is taken for more than WAIT_S is reported with the processes that hold it.
directory=$1 mark=$2 how=$3 wait_s=$4
shift 4

refuse() {
    printf '%s: %s\n' "$mark" "$1" >&2
    exit 9
}

held() {
    [ "$how" != serial ] || return 0
    owner=
    { IFS= read -r owner < "$directory/lease/owner"; } 2> /dev/null
    [ "$owner" = "$mark" ] || refuse not-held
}

# Others that wait for the lock have the directory open too; "lock:" tells its holders apart.
holders() {
    separator=' '
    for info in /proc/[0-9]*/fdinfo/9; do
        process=${info%/fdinfo/9}
        [ "$process/fd/9" -ef "$directory" ] && grep -qs '^lock:' "$info" || continue
        name=
        { IFS= read -r name < "$process/comm"; } 2> /dev/null
        printf '%s%s (%s)' "$separator" "${process#/proc/}" "$name"
        separator=', '
    done
}

[ "$how" != restoring ] || [ -e "$directory/heartbeat.sh" ] || exec "$@"
held
exec 9< "$directory" || refuse not-held
flock --timeout "$wait_s" 9 || refuse "busy$(holders 9<&-)"
# The previous holder of the lock may have restored this host.
held
[ "$how" != begin ] || exec 9<&-
exec "$@"
"""
#: How long a change waits for the lock of a host with a lease.
_WAIT_S = 30.0
#: The mark of refusals of commands that ``serial`` wrapped.
SERIAL_MARK = "serial"
_OWN_WORDS = 4
#: How many arguments each wrapper has before the command.
_WRAPPERS: dict[tuple[str, ...], int] = {("sh", "-c", _SCRIPT, "guard"): 4}


def guarded(argv: Sequence[str], directory: str, mark: str, how: LockUse) -> list[str]:
    """Wrap ``argv`` so that it runs only if the lease in ``directory`` belongs to ``mark``."""
    return ["sh", "-c", _SCRIPT, "guard", directory, mark, how, f"{_WAIT_S:.1f}", *argv]


def serial(argv: Sequence[str], directory: str, wait_s: float) -> list[str]:
    """Wrap ``argv`` so that it runs after any other change that holds the lock of ``directory``.
    If it waits longer than ``wait_s``, it is refused with SERIAL_MARK.
    """
    how, wait = LockUse.SERIAL, f"{wait_s:.1f}"
    return ["sh", "-c", _SCRIPT, "guard", directory, SERIAL_MARK, how, wait, *argv]


def bare(argv: Sequence[str]) -> Sequence[str]:
    """A command without what is wrapped around it, for display."""
    while (arguments := _WRAPPERS.get(tuple(argv[:_OWN_WORDS]))) is not None:
        argv = argv[_OWN_WORDS + arguments :]
    return argv


def refusal(stderr: str, mark: str) -> Refusal | None:
    """Why the guard refused the command; None if it started it."""
    line = stderr.removesuffix("\n")
    text = line.removeprefix(f"{mark}: ")
    reason, _, processes = text.partition(" ")
    if text == line or "\n" in text or reason not in list(Reason):
        return None
    return Refusal(Reason(reason), processes)
