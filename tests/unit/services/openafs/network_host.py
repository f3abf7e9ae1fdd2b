"""A stand-in, in a directory, for a host with a fileserver and tunable network limits.

The scripts of fstune are real, but they read and write files in the directory, never the settings
of this machine. Like a real server, the stand-in keeps the socket buffers that the limits allowed
when it was started.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import search_spaces
from tuner.hosts.connector import CommandResult, Direct, write_whole
from tuner.hosts.local import LocalConnector
from tuner.services.openafs.bosserver import FileserverPlace
from tuner.services.openafs.fileserver import Fileserver

PROGRAM = "/usr/lib/openafs/dafileserver"
FILESERVER_SPACE = search_spaces.load("openafs-fileserver-1.8")
COMPANIONS = ("/usr/lib/openafs/davolserver", "/usr/lib/openafs/salvageserver")
USUAL = {"rmem_max": 212992, "wmem_max": 212992}

STAND_INS = {
    "cat": """
for one; do
    shift
    case $one in
    /proc/sys/*) set -- "$@" "$HERE/${one##*/}" ;;
    /proc/meminfo) set -- "$@" "$HERE/meminfo" ;;
    /etc/openafs/BosConfig) set -- "$@" "$HERE/BosConfig" ;;
    /usr/afs/local/BosConfig) set -- "$@" "$HERE/local-BosConfig" ;;
    *) set -- "$@" "$one" ;;
    esac
done
exec /bin/cat "$@\"""",
    "sync": 'echo "$*" >> "$HERE/synced"',
    "sysctl": """
echo "sysctl $*" >> "$HERE/calls"
name=${2%%=*}
if [ -e "$HERE/refuses" ]; then
    echo "sysctl: permission denied on key \\"$name\\"" >&2
    exit "$(cat "$HERE/refuses")"
fi
echo "${2#*=}" > "$HERE/${name##*.}"
echo "$name = ${2#*=}\"""",
    "bos": """
start() {
    echo start >> "$HERE/calls"
    echo >> "$HERE/starts"
    cp "$HERE/installed" "$HERE/version-7000"
    rm -f "$HERE/stopped"
    read -r first < "$HERE/commands"
    size=65536
    case $first in *-udpsize*) size=${first##*-udpsize } size=${size%% *} ;; esac
    limit=$(cat /proc/sys/net/core/rmem_max)
    [ "$size" -lt "$limit" ] || size=$limit
    echo "$size" > "$HERE/buffer"
    echo "x File server starting ($first)" >> "$HERE/FileLog"
    echo "x File Server started x" >> "$HERE/FileLog"
}
# Like bosserver, which ignores that it cannot.
write() {
    [ ! -e "$HERE/full" ] || return 0
    goal=1
    [ ! -e "$HERE/temporarily" ] || goal=0
    notifier=$(cat "$HERE/notifier" 2> /dev/null)
    for file in "$HERE/BosConfig" "$HERE/local-BosConfig"; do
        [ -e "$file" ] && [ ! -e "$file.unused" ] || continue
        : > "$file"
        [ -e "$HERE/commands" ] || continue
        { echo "bnode dafs dafs $goal${notifier:+ $notifier}"
        sed 's/^/parm /' "$HERE/commands"; echo end; } > "$file"
    done
}
unreachable() {
    echo "bos: communications failure (-1)" >&2
    exit 255
}
if [ -e "$HERE/away" ]; then
    sed -i 1d "$HERE/away" # a line for each call that fails
    [ -s "$HERE/away" ] || rm "$HERE/away"
    unreachable
fi
case $1 in
delete | create)
    [ ! -e "$HERE/restricted" ] || { echo "bos: you are not authorized" >&2; exit 6; }
esac
case $1 in
getrestart)
    echo "Server 192.0.2.9 restarts never"
    echo "Server 192.0.2.9 restarts for new binaries at sun 4:00 am" ;;
setrestart)
    echo "setrestart $3" >> "$HERE/calls"
    [ ! -e "$HERE/full" ] || unreachable
    write ;;
getrestricted) [ -e "$HERE/restricted" ] && echo "Restricted mode is on" ;;
status)
    [ -e "$HERE/commands" ] || { echo "bos: no such entity" >&2; exit 1; }
    state="currently running normally"
    [ ! -e "$HERE/temporarily" ] || state="temporarily enabled, $state"
    [ ! -e "$HERE/stopped" ] || state="temporarily disabled, currently shutdown"
    echo "Instance dafs, (type is $(cat "$HERE/type")) $state."
    starts=$(wc -l < "$HERE/starts")
    echo "    Process last started at Fri Nov 20 23:23:38 2026 ($starts proc starts)"
    [ ! -e "$HERE/notifier" ] || echo "    Notifier  is '$(cat "$HERE/notifier")'"
    number=0
    while IFS= read -r line; do
        number=$((number + 1))
        echo "    Command $number is '$line'"
    done < "$HERE/commands" ;;
shutdown)
    [ -e "$HERE/commands" ] || { echo "bos: no such entity" >&2; exit 1; }
    touch "$HERE/stopped" ;;
start) start; write ;;
delete)
    rm -f "$HERE/commands" "$HERE/notifier"
    write
    [ ! -e "$HERE/crash" ] || mv "$HERE/crash" "$HERE/away"
    [ ! -e "$HERE/lost-delete" ] || unreachable ;;
create)
    [ ! -e "$HERE/commands" ] || { echo "bos: already exists" >&2; exit 1; }
    echo dafs > "$HERE/type"
    before=
    for one; do
        case $before:$one in
        -notifier:*) echo "$one" > "$HERE/notifier" ;;
        *:/*) echo "$one" >> "$HERE/commands" ;;
        esac
        before=$one
    done
    start
    write
    [ ! -e "$HERE/lost-create" ] || unreachable ;;
esac""",
    "rxdebug": """
if [ "$2" = 7000 ] && [ -e "$HERE/stopped" ]; then
    echo "get version call failed with code -1, errno 0"
    exit 1
fi
case $3 in
-version) echo asked >> "$HERE/asked-$2"; cat "$HERE/version-$2" ;;
*) echo "11 threads are idle" ;;
esac""",
    "xstat_fs_test": 'printf "\\t 1 numPerfCalls\\n"',
    "ss": """
echo "UNCONN 0 0 0.0.0.0:7000 0.0.0.0:*"
echo " skmem:(r0,rb$((2 * $(cat "$HERE/buffer"))),t0)\"""",
}


@dataclass(frozen=True)
class NetworkHost(Direct):
    """The host, which is also the connector to it."""

    here: Path
    host: str

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        inside = ["env", f"HERE={self.here}", f"PATH={self.here}/bin:{os.environ['PATH']}"]
        done = LocalConnector().ask([*inside, *argv], input=input, timeout_s=timeout_s)
        return CommandResult(tuple(argv), done.status, done.stdout, done.stderr)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        write_whole(self, path, content, mode)

    def get(self, path: str) -> bytes:
        return Path(path).read_bytes()

    @property
    def directory(self) -> str:
        return f"{self.here}/restore"

    @property
    def place(self) -> FileserverPlace:
        return FileserverPlace("192.0.2.9", self.directory, "dafs", f"{self.here}/FileLog")

    def journals(self) -> list[str]:
        """Names of the open journals, from which the host would restore itself."""
        scripts = (self.here / "restore").glob("*/restore.sh")
        return sorted(script.parent.name for script in scripts)

    def calls(self) -> list[str]:
        """Commands that set or started something since the last call."""
        path = self.here / "calls"
        calls = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return calls

    def number(self, name: str) -> int:
        return int((self.here / name).read_text())

    @property
    def limits(self) -> tuple[int, int]:
        return self.number("rmem_max"), self.number("wmem_max")

    def write(self, name: str, value: object) -> None:
        (self.here / name).write_text(f"{value}\n")

    def set_up_server(self, options: str = "", *more: str) -> None:
        """Start a fileserver with the current limits. ``more``: further arguments of bos."""
        commands = [f"{PROGRAM} {options}".strip(), *COMPANIONS]
        self.run(["bos", "create", "192.0.2.9", "dafs", "dafs", *commands, *more, "-localauth"])
        self.calls()


def host_in(directory: Path, name: str, kernel: str = "", **limits: int) -> NetworkHost:
    """Create one with the usual limits except for these. ``kernel``: equal for a shared kernel."""
    here = directory / name
    (here / "bin").mkdir(parents=True)
    for program, body in STAND_INS.items():
        path = here / "bin" / program
        path.write_text(f"#!/bin/sh\n{body.strip()}\n")
        path.chmod(0o755)
    host = NetworkHost(here, name)
    for limit, value in {**USUAL, **limits}.items():
        host.write(limit, value)
    for of in ("installed", "version-7007"):
        host.write(of, "AFS version: OpenAFS 1.8.9")
    host.write("boot_id", kernel or name)
    host.write("meminfo", "MemTotal:       16777216 kB")
    return host


def attach(host: NetworkHost) -> Fileserver:
    return Fileserver.attach(host, host.place, FILESERVER_SPACE)
