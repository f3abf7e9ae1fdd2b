"""Holds on a host in another restore directory than ours: a lease here would not exclude them.

Somebody may have changed ``restore.directory`` in a testbed file before the host was restored, or
two testbed files of one host may name different directories.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.errors import InUseError
from tuner.hosts.connector import check
from tuner.hosts.conversation import SpeakingConnector
from tuner.hosts.parallel import on_all

#: OURS: prints a line for each other directory that a watch of ours restores this host from, with
#: its holder. Nodes and containers on one machine are different hosts: they have mounts of their
#: own. A watch of ours is in a directory that nobody else can write. A program that runs as root on
#: behalf of another user, such as one that asks for a password, is where that user started it.
_OTHERS = r"""
ours=$1
mounts=$(readlink /proc/self/ns/mnt)
for file in $(grep -ls 'watch\.sh' /proc/[0-9]*/cmdline); do
    process=${file%/cmdline}
    [ -O "$process" ] && [ "$(readlink "$process/ns/mnt")" = "$mounts" ] || continue
    directory=$(readlink "$process/cwd") && [ -O "$directory" ] || continue
    [ -n "$(find "$directory" -maxdepth 0 -type d ! -perm /022)" ] || continue
    [ ! "$directory" -ef "$ours" ] || continue
    set -- "$directory"/restore/*/restore.sh
    [ -d "$directory/lease" ] || [ -e "$1" ] || continue
    printf '%s\t%s\n' "$directory" "$(cat "$directory/lease/owner" 2> /dev/null)"
done
"""


def other_holds(connector: SpeakingConnector, directory: str) -> list[str]:
    """Return a sentence for each other directory than ``directory`` that the host still has to be
    restored from. Raises TestbedError when the host does not answer.
    """
    sentences = []
    for line in check(connector, ["sh", "-c", _OTHERS, "sh", directory]).splitlines():
        other, _, mark = line.partition("\t")
        holder, machine, *_ = *mark.split(), "", ""
        who = f"by {holder} on {machine} " if machine else ""
        sentences.append(
            f"{connector.host} is held {who}with restore.directory {other}, and has not been "
            "restored from there: name that directory in the testbed file, or wait until the host "
            "has restored itself"
        )
    return sentences


def check_no_others(hosts: Sequence[SpeakingConnector], directory: str) -> None:
    """Raise InUseError if a host is held with another restore directory."""
    for sentences in on_all(hosts, lambda host: other_holds(host, directory)):
        for sentence in sentences:
            raise InUseError(sentence)
