"""Guard around commands that change a host: the host itself checks that the lease is still ours.

Changes and restores exclude each other with one lock on the host, and the lease is checked under
that lock. A change requested before the lease was taken away therefore either finishes before the
restore starts, or is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class LockUse(StrEnum):
    """How long a command holds the lock; see ``_SCRIPT``."""

    HOLD = "hold"
    BEGIN = "begin"
    RESTORING = "restoring"


class Refusal(StrEnum):
    """Why a host refused to start a command."""

    NOT_HELD = "not-held"
    BUSY = "busy"


#: Constant text, so that ``bare`` recognises it: everything that varies is an argument.
_SCRIPT = r"""
# DIRECTORY MARK HOW COMMAND...: runs COMMAND only if the lease of this host belongs to MARK and
# no restore is under way. Sent with every command that changes something; every argument is data.
#
# HOW: "hold" keeps the lock while COMMAND and any processes that inherit its descriptors run; a
# restore waits for them. "begin" releases it when COMMAND starts: for workloads, which do not
# change any tuned setting. "restoring" is like "hold", for a host from which all our files may
# already have been removed.
#
# A refusal is reported on standard error, prefixed with MARK, which no command knows.
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

[ "$how" != restoring ] || [ -e "$directory/heartbeat.sh" ] || exec "$@"
held
exec 9< "$directory" || refuse not-held
flock --timeout 30 9 || refuse busy
# The previous holder of the lock may have restored this host.
held
[ "$how" != begin ] || exec 9<&-
exec "$@"
"""
_OWN_WORDS = 4
_ARGUMENTS = 3


def guarded(argv: Sequence[str], directory: str, mark: str, how: LockUse) -> list[str]:
    """Wrap ``argv`` so that it runs only if the lease in ``directory`` belongs to ``mark``."""
    return ["sh", "-c", _SCRIPT, "guard", directory, mark, how, *argv]


def bare(argv: Sequence[str]) -> Sequence[str]:
    """A command without its guard, for display."""
    if list(argv[:_OWN_WORDS]) == ["sh", "-c", _SCRIPT, "guard"]:
        return argv[_OWN_WORDS + _ARGUMENTS :]
    return argv


def refusal(stderr: str, mark: str) -> Refusal | None:
    """Why the guard refused the command; None if it started it."""
    for reason in Refusal:
        if stderr == f"{mark}: {reason}\n":
            return reason
    return None
