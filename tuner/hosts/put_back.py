"""Putting a host back from what was written down on it; and whether that can be believed.

What lies there is run by us, as root. Whoever can write a directory above it can put another in its
place, so all of them are looked at.
"""

from __future__ import annotations

from importlib.resources import files

from tuner.errors import TestbedError
from tuner.hosts.connector import CommandFailed, Connector

PUT_BACK = "put-back.sh"
#: Longer than a host takes at its slowest, when another is putting it back already.
_PUT_BACK_TIMEOUT_S = 1800.0

#: Takes the directory. Says what is wrong, and nothing when all is well; what is not there yet is
#: well. In a directory like /tmp nobody can replace what is another's.
_LOOK = r"""
own=$(id -u)
at=$1
real=$(readlink -m -- "$at")
[ "$real" = "$at" ] || { echo "a link is on the way to it; name $real instead"; exit 0; }
while :; do
    if found=$(stat -c '%u 0%a %F' -- "$at" 2> /dev/null); then
        user=${found%% *} mode=${found#* } kind=${found#* * } mode=${mode%% *}
        [ "$kind" = directory ] || { echo "$at is no directory"; exit 0; }
        if [ "$user" != 0 ] && [ "$user" != "$own" ]; then
            echo "$at is of user $user"; exit 0
        elif [ "$at" = "$1" ] && [ "$user" != "$own" ]; then
            echo "$at is of user $user"; exit 0
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
    """Raises TestbedError when somebody else could put anything into a directory, or another in its
    place. ``directory``: an absolute path; one that is not there yet is well.
    """
    result = connector.ask(["sh", "-c", _LOOK, "sh", directory])
    if result.status != 0:
        raise CommandFailed(connector.host, result)
    if why := result.stdout.strip():
        raise TestbedError(
            f"{connector.host}: {directory} must be the own directory of the account that changes "
            f"this host, as its scripts are run from there: {why}"
        )


def restore_all(connector: Connector, directory: str, mark: str = "") -> list[str]:
    """Put a host back from all journals below ``directory``; a sentence for each. Whoever holds it
    holds it no longer. ``mark``: does nothing when somebody else than this one holds it by then.

    Raises CommandFailed, with what was said, when one cannot be put back; the others are.
    """
    if connector.ask(["test", "-d", directory]).status != 0:
        return []
    check_own(connector, directory)
    # By its input: a host whose disk takes nothing any more must not keep us from it.
    argv = ["sh", "-s", directory, *([mark] if mark else [])]
    script = (files("tuner.hosts") / "scripts" / PUT_BACK).read_bytes()
    result = connector.change(argv, input=script, timeout_s=_PUT_BACK_TIMEOUT_S)
    if result.status != 0:
        raise CommandFailed(connector.host, result)
    parts = (line.partition(" ") for line in result.stdout.splitlines() if line)
    return [f"{part} on {connector.host} {outcome}" for part, _, outcome in parts]
