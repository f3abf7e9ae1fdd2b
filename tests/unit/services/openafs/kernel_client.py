"""A stand-in, in a directory, for a host with the kernel client.

The scripts of fstune are real. The programs that they call are stand-ins that imitate the observed
behaviour of real hosts: a stop that succeeds although everything stays mounted, a start with a bad
option, connections that keep the encryption that they were created with.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tuner.hosts.local import LocalConnector
from tuner.services.openafs.kernel_client import KernelClient, KernelPlace
from tuner.services.openafs.shell_options import options_in
from tuner.services.openafs.tokens import TokenPlace

ORIGINAL = '# local settings\nAFS_CLIENT=true\nOPTIONS="-chunksize 18 -afsdb"\n'
SERVER = "192.0.2.9"

#: Each keeps the state of the host in files in the directory $HERE.
STAND_INS = {
    "systemctl": """
case $1 in
cat) [ ! -e "$HERE/no-unit" ] || { echo "No files found for $3." >&2; exit 1; } ;;
show)
    case $2 in
    *State) cat "$HERE/unit" ;;
    *TimeoutStartUSec) cat "$HERE/start-limit" ;;
    *=BoundBy) [ "$4" != /afs ] || echo "BoundBy=www.service backup.service" ;;
    *) printf '%s\n' RequiredBy= "BoundBy=backup.service web.service" ConsistsOf=backup.service ;;
    esac ;;
is-active)
    shift 2
    for one; do [ -e "$HERE/$one" ] && echo activating || echo inactive; done
    exit 3 ;;
stop)
    echo stop >> "$HERE/calls"
    [ -e "$HERE/busy" ] || rm -f "$HERE/mounted" "$HERE/loaded" "$HERE/connection" "$HERE"/*token ;;
start)
    echo start >> "$HERE/calls"
    grep -q -e -nosuch "$HERE/afs.conf" && exit 1
    echo "crypt (data security)" > "$HERE/crypt"
    echo 0 > "$HERE/storebehind"
    echo -1 > "$HERE/bypassthreshold"
    touch "$HERE/mounted" "$HERE/loaded" ;;
esac""",
    "findmnt": """
[ -e "$HERE/mounted" ] || exit 1
case $* in *TARGET*) echo "$HERE/afs"; [ ! -e "$HERE/second" ] || echo /srv/afs ;; esac""",
    "cat": """
case $* in
/etc/openafs/cacheinfo) echo "$HERE/afs:$HERE/cache:100000" ;;
*) exec /bin/cat "$@" ;;
esac""",
    "cmdebug": """
cat <<END
Chunk files:   6250
Stat caches:   4687
Data caches:   3125
Volume caches: 200
Chunk size:    262144
Cache size:    200000 kB
Cache type:    disk
END""",
    "lsmod": '[ ! -e "$HERE/loaded" ] || echo "openafs 1 0"',
    "modinfo": """
[ ! -e "$HERE/no-module" ] || { echo "modinfo: ERROR: Module $1 not found." >&2; exit 1; }""",
    # As seen by what happens while a cache is wiped.
    "find": """
case $* in *-xdev*)
    [ ! -e "$HERE/immutable" ] || { echo "find: cannot delete './V1'" >&2; exit 1; }
    [ ! -e "$HERE/timer" ] || touch "$HERE/mounted" "$HERE/loaded" ;;
esac
exec /usr/bin/find "$@\"""",
    "timeout": """
case $* in *"systemctl start"*) echo "$1" >> "$HERE/limits" ;; esac
exec /usr/bin/timeout "$@\"""",
    "umount": '[ ! -e "$HERE/busy" ] && rm -f "$HERE/mounted"',
    "afsd": 'echo "afsd $*" >> "$HERE/calls"',
    "rmmod": '[ ! -e "$HERE/stuck" ] && rm -f "$HERE/loaded"',
    "journalctl": "echo afsd: Unknown option -nosuch",
    "fs": """
[ "$1" != -version ] || { echo "openafs 1.8.9-1-debian"; exit 0; }
[ -e "$HERE/mounted" ] || exit 1
case $*:$1 in
wscell:*) echo "This workstation belongs to cell 'example.org'" ;;
*:getcrypt) echo "Security level is currently $(cat "$HERE/crypt")." ;;
*:setcrypt)
    shift; [ $# = 1 ] || shift
    echo "setcrypt $1" >> "$HERE/calls"
    [ "$1" = on ] && echo "crypt (data security)" > "$HERE/crypt" || echo clear > "$HERE/crypt" ;;
storebehind:*) echo "Default store asynchrony is $(cat "$HERE/storebehind") kbytes." ;;
bypassthreshold:*) echo "Cache bypass threshold $(cat "$HERE/bypassthreshold")" ;;
*:storebehind | *:bypassthreshold | *:precache)
    echo "$*" >> "$HERE/calls"
    echo "$3" > "$HERE/$1" ;;
*:listquota)
    [ ! -e "$HERE/token" ] || [ -e "$HERE/silent" ] && exit 0
    [ -e "$HERE/connection" ] || echo 1 > "$HERE/serial"
    [ -e "$HERE/connection" ] || cut -d' ' -f1 "$HERE/crypt" > "$HERE/connection"
    echo $(($(cat "$HERE/serial") + 1)) > "$HERE/serial" ;;
esac""",
    "rxdebug": """
echo "Trying 127.0.0.1 (port 7001):"
case $* in *-version)
    echo version >> "$HERE/versions"
    [ ! -e "$HERE/version" ] || echo "AFS version: $(cat "$HERE/version")"
    exit 0 ;;
esac
echo "Showing only client connections"
echo "Connection from host 192.0.2.9, port 7003, Cuid 1/1"
echo "  serial 3,  natMTU 1444, security index 0, client conn"
[ -e "$HERE/connection" ] || exit 0
echo "Connection from host 192.0.2.9, port 7000, Cuid 1/2"
echo "  serial $(cat "$HERE/serial"),  natMTU 1444, security index 2, client conn"
echo "  rxkad: level $(cat "$HERE/connection"), flags pktCheckSum"
echo Done.""",
    "kinit": """
[ ! -e "$HERE/no-kdc" ] || { echo "kinit: Cannot contact any KDC" >&2; exit 1; }
echo "kinit $*" >> "$HERE/calls"
case $KRB5CCNAME in FILE:*) echo ticket > "${KRB5CCNAME#FILE:}" ;; esac""",
    "aklog": """
[ -e "${KRB5CCNAME#FILE:}" ] || exit 1
echo "aklog $*" >> "$HERE/calls"
[ -e "$HERE/no-token" ] || touch "$HERE/token"
rm -f "$HERE/connection\"""",
    "tokens": """
printf '\\nTokens held by the Cache Manager:\\n\\n'
[ ! -e "$HERE/token" ] || echo "User's (AFS ID 1) rxkad tokens for example.org [Expires Nov 22]"
[ ! -e "$HERE/second-token" ] || echo "User's rxkad tokens for second.example.org [Expires Nov 22]"
echo "   --End of list--\"""",
    "klist": """
echo "Ticket cache: $KRB5CCNAME"
printf 'Valid starting     Expires            Service principal\\n'
echo "11/22/26 12:46:23  11/22/26 12:56:23  krbtgt/EXAMPLE.ORG@EXAMPLE.ORG\"""",
    "kdestroy": 'echo kdestroy >> "$HERE/calls"; rm -f "${3#FILE:}"',
    "unlog": """
echo "unlog $*" >> "$HERE/calls"
[ ! -e "$HERE/stays" ] || exit 1
case $* in
"-cell example.org") rm -f "$HERE/token" ;;
"") rm -f "$HERE"/*token ;;
*) exit 1 ;;
esac""",
}


@dataclass
class Machine:
    """A stand-in for a client host, in a directory."""

    here: Path

    def client(self, *, token: bool = False, lifetime_s: float | None = None) -> KernelClient:
        place = self.place(token=token, lifetime_s=lifetime_s)
        return KernelClient.attach(LocalConnector(), place)

    def place(self, *, token: bool = False, lifetime_s: float | None = None) -> KernelPlace:
        here = str(self.here)
        directory = f"{here}/restore"
        keytab = TokenPlace("/etc/keytab", "bench", lifetime_s, None, "EXAMPLE.ORG", directory)
        return KernelPlace(
            unit="openafs-client",
            file=f"{here}/afs.conf",
            variable="OPTIONS",
            mount=f"{here}/afs",
            cache=f"{here}/cache",
            probe=here,
            directory=directory,
            token=keytab if token else None,
        )

    def set(self, *marks: str) -> None:
        for mark in marks:
            (self.here / mark).touch()

    def replace(self, program: str, old: str, new: str) -> None:
        """Change the code of a stand-in."""
        path = self.here / "bin" / program
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def journals(self) -> list[str]:
        """Names of the open journals, from which the host would restore itself."""
        scripts = (self.here / "restore").glob("*/restore.sh")
        return sorted(script.parent.name for script in scripts)

    def calls(self) -> list[str]:
        path = self.here / "calls"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def options(self) -> tuple[str, ...]:
        return options_in((self.here / "afs.conf").read_text(), "OPTIONS")

    def text(self, name: str) -> str:
        return (self.here / name).read_text().strip()


def machine_in(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Create one with a running client and the options in ORIGINAL."""
    programs = directory / "bin"
    programs.mkdir()
    for name, body in STAND_INS.items():
        path = programs / name
        path.write_text(f"#!/bin/sh\n{body.strip()}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HERE", str(directory))
    (directory / "afs.conf").write_text(ORIGINAL)
    (directory / "afs.conf").chmod(0o640)
    (directory / "unit").write_text("LoadState=loaded\nActiveState=active\n")
    (directory / "start-limit").write_text("TimeoutStartUSec=1min 30s\n")
    (directory / "crypt").write_text("crypt (data security)")
    (directory / "storebehind").write_text("0")
    (directory / "bypassthreshold").write_text("-1")
    (directory / "cache").mkdir()
    (directory / "cache" / "V1").write_text("cached")
    machine = Machine(directory)
    machine.set("mounted", "loaded")
    return machine
