"""Fake hosts whose counters are set by tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.errors import TransportError
from tuner.hosts.connector import CommandResult

_CLIENT = """=== stat
{life} (afsd.fuse) S 1 1 1 0 -1 0 0 0 0 0 {cpu} 0 0 0 20 0 21 0 {life} 0 0
=== xstat
\t{misses} dcacheMisses
\t0 dcacheHits
\t0 vcacheMisses
\t0 vcacheHits
\t0 cacheFilesReused
FetchData: 1 xfers (1 OK), time sum=0.5
\t[bytes: sum={fetched_kib}, min=0, max=1]
StoreData: 1 xfers (1 OK), time sum=0.5
\t[bytes: sum={stored_kib}, min=0, max=1]
=== proc
VmHWM: {peak_kib} kB
Threads: 3
"""
_SERVER = """=== xstat
\t0 AddCallBack
\t0 BreakCallBacks
\t0 GotSomeSpaces
FetchData: 1 xfers (1 OK), time sum=0.5
\t[bytes: sum={fetched_kib}, min=0, max=1]
StoreData: 1 xfers (1 OK), time sum=0.5
\t[bytes: sum={stored_kib}, min=0, max=1]
"""


_MACHINE = """=== cpu
cpu {busy} 0 0 0 {iowait} 0 {softirq} {steal}
=== uptime
{uptime}.00 0
=== boot
{name}
"""


@dataclass
class Machine:
    """A machine that hosts may share: ticks of processor time, and ``uptime`` in seconds."""

    name: str
    busy: int = 1000
    iowait: int = 0
    softirq: int = 0
    steal: int = 0
    uptime: int = 500

    def report(self) -> str:
        return _MACHINE.format(**vars(self))


@dataclass
class Host:
    """Answers a probe with ``template``, filled in with the current ``numbers``."""

    template: str = ""
    host: str = "fs1"
    reachable: bool = True
    numbers: dict[str, int] = field(default_factory=dict)
    machine: Machine | None = None

    @classmethod
    def client(cls) -> Host:
        zero = dict.fromkeys(("cpu", "misses", "fetched_kib", "stored_kib", "peak_kib"), 0)
        return cls(_CLIENT, "ws1", numbers={"life": 100, **zero})

    @classmethod
    def server(cls) -> Host:
        return cls(_SERVER, "fs1", numbers={"fetched_kib": 0, "stored_kib": 0})

    def count(self, **more: int) -> None:
        for name, value in more.items():
            self.numbers[name] += value

    def remount(self) -> None:
        """Start a new cache manager, which counts from zero."""
        life = self.numbers["life"] + 1
        self.numbers = {**dict.fromkeys(self.numbers, 0), "life": life}

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        if not self.reachable:
            raise TransportError(f"{self.host}: out of reach")
        output = self.template.format(**self.numbers)
        if self.machine is not None:
            output += self.machine.report()
        return CommandResult(tuple(argv), 0, output, "")

    ask = change = run

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Ignored."""

    def get(self, path: str) -> bytes:
        raise TransportError(f"{self.host}: no file {path}")
