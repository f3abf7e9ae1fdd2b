"""Reads all counters of one host in one command.

Owns the scripts that run there: constant texts that get their particulars as arguments and print
each source under a heading. A source that gives nothing is missing, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuner.errors import TestbedError
from tuner.measure.diagnostics import relay
from tuner.measure.diagnostics.machine import cpu_counters, udp_counters
from tuner.measure.diagnostics.process import (
    context_switches,
    cpu_s,
    process_gauges,
    process_life,
)
from tuner.measure.diagnostics.rx import rx_counters, rx_gauges
from tuner.measure.diagnostics.sample import Sample
from tuner.measure.diagnostics.xstat import cache_manager_counters, fileserver_counters
from tuner.testbed.connector import Connector

_TIMEOUT_S = 30.0

#: $1: the program's name. Of its threads every one's context switches; proc(5) sums none of them.
_COMMON = """
pid=$(pidof -s "$1")
if [ -n "$pid" ]; then
    echo "=== stat"; cat "/proc/$pid/stat"
    echo "=== status"; cat "/proc/$pid/status"
    echo "=== switches"; grep -hs _ctxt_switches "/proc/$pid/task/"*/status
fi
echo "=== cpu"; head -n 1 /proc/stat
echo "=== snmp"; cat /proc/net/snmp
"""
#: $2: the fileserver's address.
_SERVER = (
    _COMMON
    + """
echo "=== rxdebug"; timeout 5 rxdebug "$2" 7000 -rxstats -noconns
echo "=== xstat"; timeout 5 xstat_fs_test "$2" -collID 2 3 -onceonly
"""
)
#: $2: the relay. A cache manager in the kernel shows no program in ss, and has the usual port.
_CLIENT = (
    _COMMON
    + """
port=$(ss -uanpH | awk -v p="(\\"$1\\"," 'index($0, p) { n = split($4, a, ":"); print a[n]; exit }')
echo "=== rxdebug"; timeout 5 rxdebug 127.0.0.1 "${port:-7001}" -rxstats -noconns
echo "=== xstat"
set -- "$2" xstat_cm_test 127.0.0.1 -collID 2 -onceonly
relay=$1; shift
if [ "${port:-7001}" = 7001 ]; then timeout 5 "$@"; else python3 -I -S "$relay" "$port" "$@"; fi
"""
)

Counters = Callable[[str], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reading gave: samples by the prefix of their names, and a sentence for each source
    that gave nothing, by source (``server xstat``).
    """

    samples: Mapping[str, Sample] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Probe:
    """Reads one host. ``where``: the prefix of its names (``server``). ``statistics``: of the
    program's xstat output, prefixed ``xstat``. ``machine``: the prefix of the machine's own
    numbers, None where another probe reads the same machine.
    """

    host: Connector
    where: str
    script: str
    arguments: tuple[str, ...]
    xstat: str
    statistics: Counters
    machine: str | None = None

    @classmethod
    def server(cls, host: Connector, where: str, program: str, address: str) -> Probe:
        """A probe of a fileserver's host. ``address``: as its clients see it."""
        arguments = (program, address)
        return cls(host, where, _SERVER, arguments, "fs", fileserver_counters, "host")

    @classmethod
    def client(cls, host: Connector, where: str, program: str, directory: str) -> Probe:
        """A probe of a client's host; puts the relay into ``directory`` there."""
        path = f"{directory}/relay.py"
        host.put(path, Path(relay.__file__).read_bytes())
        return cls(host, where, _CLIENT, (program, path), "cm", cache_manager_counters)

    def read(self) -> Reading:
        """Read everything once."""
        argv = ["sh", "-c", self.script, "diagnostics", *self.arguments]
        try:
            result = self.host.run(argv, timeout_s=_TIMEOUT_S)
        except TestbedError as problem:
            return Reading(missing={self.where: str(problem)})
        return self.understand(result.stdout)

    def understand(self, text: str) -> Reading:
        """The samples in what the script printed. Pure."""
        found = sections(text)
        missing: dict[str, str] = {}

        def take(parse: Counters, name: str) -> Mapping[str, float]:
            try:
                return parse(found.get(name, ""))
            except ValueError as problem:
                missing[f"{self.where} {name}"] = str(problem)
                return {}

        counters = {
            **take(lambda stat: {"cpu_s": cpu_s(stat)}, "stat"),
            **take(lambda lines: {"context_switches": context_switches(lines)}, "switches"),
            **_prefixed("rx", take(rx_counters, "rxdebug")),
            **_prefixed(self.xstat, take(self.statistics, "xstat")),
        }
        gauges = {
            **take(process_gauges, "status"),
            **_prefixed("rx", take(rx_gauges, "rxdebug")),
        }
        # A program in the kernel shows no process, and lives as long as its host.
        life = process_life(found["stat"]) if "cpu_s" in counters else ""
        samples = {
            self.where: Sample(life, counters, gauges),
            f"{self.where}.udp": Sample("", take(udp_counters, "snmp")),
        }
        if self.machine is not None:
            samples[self.machine] = Sample("", take(cpu_counters, "cpu"))
        return Reading(samples, missing)


def sections(text: str) -> dict[str, str]:
    """What stands under each heading of the form ``=== name``."""
    _, *rest = re.split(r"^=== (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(rest[::2], rest[1::2], strict=True))


def _prefixed(prefix: str, numbers: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}.{name}": value for name, value in numbers.items()}
