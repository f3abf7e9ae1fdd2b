"""Restoring a host from the journals stored on it, after checking that they can be trusted.

The scripts in that directory are run as root. Anyone who can write to one of its parent directories
could replace it, so all of them are checked.
"""

from __future__ import annotations

from importlib.resources import files

from tuner.errors import TestbedError
from tuner.hosts.connector import CommandFailed, Connector

RESTORE_ALL = "restore-all.sh"
#: Longer than the slowest restores of all parts, after the wait for another one already under way.
_RESTORE_ALL_TIMEOUT_S = 5400.0

#: Argument: the directory. Prints what is wrong, nothing when all is well; the directory need not
#: exist yet. In a sticky directory such as /tmp nobody can replace other users' entries.
_LOOK = r"""
own=$(id -u)
at=$1
real=$(readlink -m -- "$at")
[ "$real" = "$at" ] || { echo "its path contains a symbolic link; name $real instead"; exit 0; }
while :; do
    if found=$(stat -c '%u 0%a %F' -- "$at" 2> /dev/null); then
        user=${found%% *} mode=${found#* } kind=${found#* * } mode=${mode%% *}
        [ "$kind" = directory ] || { echo "$at is not a directory"; exit 0; }
        if [ "$user" != 0 ] && [ "$user" != "$own" ]; then
            echo "$at belongs to user $user"; exit 0
        elif [ "$at" = "$1" ] && [ "$user" != "$own" ]; then
            echo "$at belongs to user $user"; exit 0
        elif [ $((mode & 022)) != 0 ] && { [ "$at" = "$1" ] || [ $((mode & 01000)) = 0 ]; }; then
            echo "others can write $at"; exit 0
        fi
    fi
    [ "$at" != / ] || exit 0
    at=${at%/*}
    at=${at:-/}
done
"""


def check_own(connector: Connector, directory: str) -> None:
    """Raise TestbedError when another user could write to a directory or replace it.

    ``directory``: an absolute path; it need not exist yet.
    """
    result = connector.ask(["sh", "-c", _LOOK, "sh", directory])
    if result.status != 0:
        raise CommandFailed(connector.host, result)
    if why := result.stdout.strip():
        raise TestbedError(
            f"{connector.host}: {directory} must be a private directory of the account that "
            f"changes this host, since scripts are run from there: {why}"
        )


def restore_all(connector: Connector, directory: str, mark: str = "") -> list[str]:
    """Restore a host from all journals below ``directory``; return a sentence for each. This ends
    the current lease. ``mark``: do nothing if the lease no longer belongs to this owner by then.

    Raises CommandFailed, quoting the output, when a journal cannot be restored; the others still
    are.
    """
    if connector.ask(["test", "-d", directory]).status != 0:
        return []
    check_own(connector, directory)
    # The script is sent as input, so that it also runs on a host whose disk is not writable.
    argv = ["sh", "-s", directory, *([mark] if mark else [])]
    script = (files("tuner.hosts") / "scripts" / RESTORE_ALL).read_bytes()
    result = connector.change(argv, input=script, timeout_s=_RESTORE_ALL_TIMEOUT_S)
    if result.status != 0:
        raise CommandFailed(connector.host, result)
    parts = (line.partition(" ") for line in result.stdout.splitlines() if line)
    return [f"{part} on {connector.host} {outcome}" for part, _, outcome in parts]
