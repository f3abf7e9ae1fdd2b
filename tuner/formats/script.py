"""A POSIX shell script that sets the options. Its first argument names the server or the file."""

from __future__ import annotations

import shlex

from tuner.formats import bos, client_cache
from tuner.formats.assigned import assigned, assignment
from tuner.formats.programs import FILESERVER, KERNEL_CLIENT
from tuner.services.form import Part, Whole, shell

_SERVER = "SERVER"
#: Before anything is stopped: without its programs bosserver does not create the instance.
_HAS_PROGRAMS = """set -eu
server=${{1:?name the server}}
status=$({status}) || true
for program in {programs}; do
    case $status in *"is '$program'"* | *"is '$program "*) continue ;; esac
    echo "no instance {instance} on $server has the command $program; nothing was changed." \\
        "Compare with: bos status $server -long. {otherwise[0]}" \\
        "{otherwise[1]}" >&2
    exit 1
done
lost=$(printf '%s\\n' "$status" |
    sed -n -e "/^ *Notifier  *is '/p" -e "/^ *Command [2-9] is '[^' ]* /p")
if [ -n "$lost" ]; then
    printf '%s\\n' "the instance {instance} on $server has what 'bos create' here would drop:" \\
        "$lost" "nothing was changed. {add_it}" "and remove this check" >&2
    exit 1
fi
case $({restricted} 2>&1) in
    *'{is_restricted}'*)
        echo "bosserver on $server is in restricted mode, in which it creates no instance;" \\
            "nothing was changed" >&2
        exit 1 ;;
esac
"""
_CLIENT = """#!/bin/sh
# sh SCRIPT [FILE [CACHEINFO]]
# Stops the client, empties its cache, sets the options of afsd in FILE (/etc/openafs/afs.conf) and
# starts it. They replace all options there: add any others that you have. A cache on disk is where
# -cachedir says, or else CACHEINFO (/etc/openafs/cacheinfo); one in memory needs no emptying.
set -eu
# Without lsmod, a module that stays loaded would not be seen.
PATH=$PATH:/usr/sbin:/sbin
file=$(readlink -e -- "${1:-/etc/openafs/afs.conf}") || {
    echo "there is no ${1:-/etc/openafs/afs.conf}; nothing was changed" >&2
    exit 1
}
"""
#: A client with files in use only seems to stop, and starting it then may crash the kernel. The
#: output is tested, since the exit status of findmnt is 0 in some forms without any mount.
_STOP = f"""systemctl stop openafs-client
if findmnt --noheadings --list --types afs | grep . || lsmod | grep -E '^(openafs|libafs) '; then
    echo "openafs-client has not stopped: end what uses its files and do" \\
        "{client_cache.REALLY_STOP}, or reboot;" \\
        "then run this again, since its options are as before" >&2
    exit 1
fi
"""
#: Before the client is stopped, since the disk may be full. A copy has its mode, owner and context.
_WRITE = """new=$file.new
trap 'rm -f -- "$new"' EXIT
cp --preserve=all --remove-destination -- "$file" "$new"
grep -v '^OPTIONS=' -- "$file" > "$new" || test $? = 1
printf '%s\\n' "$line" >> "$new"
"""
#: Last, so that a client which does not stop is not started with them after a reboot.
_START = """mv -f -- "$new" "$file"
systemctl start openafs-client
"""


class Script(Whole):
    """See ``about``."""

    name = "script"
    about = "a script for a POSIX shell that sets the options and restarts what is needed"
    where = "the server, with its address; a client with Debian's packages"
    mind = f"{bos.MIND}; {client_cache.EMPTIED}"
    programs = frozenset({FILESERVER, KERNEL_CLIENT})
    comment = "#"
    together = False

    def write(self, part: Part) -> str:
        """See Format.write."""
        if part.program == FILESERVER:
            head = f"#!/bin/sh\n# Sets the options of the fileserver at {_SERVER}.\n"
            head += "# They replace all options that it has: add any others that you have.\n"
            head += _HAS_PROGRAMS.format(
                status=_at_argument(bos.status(_SERVER)),
                programs=shell(bos.programs(part)),
                instance=bos.INSTANCE,
                otherwise=bos.OTHERWISE,
                add_it=bos.ADD_IT,
                restricted=_at_argument(bos.restricted(_SERVER)),
                is_restricted=bos.IS_RESTRICTED,
            )
            lines = [_at_argument(step) for step in bos.steps(part, _SERVER)]
            return head + "".join(f"{line}\n" for line in lines)
        line = f"line={shell([assignment('OPTIONS', part)])}\n"
        if client_cache.on_disk(part):
            return _CLIENT + line + client_cache.FIND + _WRITE + _STOP + client_cache.EMPTY + _START
        return _CLIENT + line + _WRITE + _STOP + _START

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        for line in text.splitlines():
            if line.startswith("line="):
                return assigned(shlex.split(line.removeprefix("line="))[0])
            if line.startswith("bos create "):
                return bos.words_of(shlex.split(line))
        raise ValueError("no line gives options")


def _at_argument(step: list[str]) -> str:
    """Return a command with the server replaced by the script's argument."""
    place = step.index(_SERVER)
    return f'{shell(step[:place])} "$server" {shell(step[place + 1 :])}'
