"""Reads all counters of one host in one command.

Owns the scripts that run there: constant texts that get their particulars as arguments and print
each source under a heading. A source that gives nothing is missing, never an error. A glance reads
processor times alone, without the tools, whose own time would be counted along.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.errors import TestbedError
from tuner.hosts.connector import Connector
from tuner.measure.diagnostics.machine import (
    cpu_counters,
    machine_name,
    udp_counters,
    uptime_counters,
)
from tuner.measure.diagnostics.process import (
    context_switches,
    cpu_s,
    process_gauges,
    process_life,
)
from tuner.measure.diagnostics.sample import Sample

_TIMEOUT_S = 30.0

#: $1: the program's name; only root's counts, since anybody may give a process any name. Small
#: files are read by the shell itself: to start a program for each takes most of the time.
GLANCE = """
first() { if IFS= read -r line < "$1"; then printf '%s\\n' "$line"; fi; }
root() {
    while read -r key real effective saved files; do
        if [ "$key" = Uid: ]; then [ "$real$effective$saved$files" = 0000 ]; return; fi
    done < "$1"
    return 1
}
pid=
for one in $(pidof "$1"); do
    if root "/proc/$one/status" 2>/dev/null; then pid=$one; break; fi
done
if [ -n "$pid" ]; then
    echo "=== stat"; first "/proc/$pid/stat"
fi
echo "=== cpu"; first /proc/stat
echo "=== uptime"; first /proc/uptime
echo "=== boot"; first /proc/sys/kernel/random/boot_id
"""
#: Of the program's threads every one's context switches; proc(5) sums none of them.
COMMON = (
    GLANCE
    + """
beginning() {
    while IFS= read -r line; do
        case $line in "$2"*|"$3"*) printf '%s\\n' "$line" ;; esac
    done < "$1"
}
if [ -n "$pid" ]; then
    echo "=== status"; beginning "/proc/$pid/status" VmHWM: Threads:
    echo "=== switches"; grep -hs _ctxt_switches "/proc/$pid/task/"*/status
fi
echo "=== snmp"; beginning /proc/net/snmp Udp: Udp:
"""
)
Counters = Callable[[str], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reading gave: samples by the prefix of their names, and a sentence for each source
    that gave nothing, by source (``server disk``). ``machines``: by the prefix of a machine's own
    numbers, what tells it from others.
    """

    samples: Mapping[str, Sample] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    machines: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """A section of what a script prints that only this service has. ``prefix``: of its numbers."""

    section: str
    prefix: str
    counters: Counters
    gauges: Counters | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Reads one host. ``where``: the prefix of its names (``server``). ``script``: prints sections,
    those of ``COMMON`` first; its first argument is the name of the program. ``sources``: what it
    prints besides. ``transfers``: the prefix among them under which the program counts
    ``fetched_bytes``, ``stored_bytes`` and, of a client, ``dcache_misses``. ``machine``: the prefix
    of the machine's own numbers.
    """

    host: Connector
    where: str
    script: str
    arguments: tuple[str, ...]
    sources: tuple[Source, ...]
    transfers: str
    machine: str

    def read(self) -> Reading:
        """Read everything once."""
        argv = ["sh", "-c", self.script, "diagnostics", *self.arguments]
        return self._ask(argv, self.understand)

    def glance(self) -> Reading:
        """Read the processor times of the program and of the machine."""
        argv = ["sh", "-c", GLANCE, "diagnostics", *self.arguments]
        return self._ask(argv, self.understand_glance)

    def _ask(self, argv: Sequence[str], understand: Callable[[str], Reading]) -> Reading:
        try:
            result = self.host.ask(argv, timeout_s=_TIMEOUT_S)
        except TestbedError as problem:
            return Reading(missing={self.where: str(problem)})
        return understand(result.stdout)

    def understand_glance(self, text: str) -> Reading:
        """The samples in what the script of a glance printed. Pure."""
        by_title = sections(text)
        missing: dict[str, str] = {}
        take = self._taker(by_title, missing)
        counters = take(lambda stat: {"cpu_s": cpu_s(stat)}, "stat")
        machine = {**take(cpu_counters, "cpu"), **take(uptime_counters, "uptime")}
        try:
            machines = {self.machine: machine_name(by_title.get("boot", ""))}
        except ValueError as problem:
            missing[f"{self.where} boot"] = str(problem)
            machines = {}
        # A program in the kernel shows no process, and lives as long as its host.
        life = process_life(by_title["stat"]) if counters else ""
        samples = {self.where: Sample(life, counters), self.machine: Sample("", machine)}
        return Reading(samples, missing, machines)

    def understand(self, text: str) -> Reading:
        """The samples in what the script printed. Pure."""
        glance = self.understand_glance(text)
        by_title = sections(text)
        missing = dict(glance.missing)
        take = self._taker(by_title, missing)
        program = glance.samples[self.where]
        counters = {
            **program.counters,
            **take(lambda lines: {"context_switches": context_switches(lines)}, "switches"),
        }
        gauges = {**take(process_gauges, "status")}
        for source in self.sources:
            counters |= _prefixed(source.prefix, take(source.counters, source.section))
            if source.gauges is not None:
                gauges |= _prefixed(source.prefix, take(source.gauges, source.section))
        samples = {
            **glance.samples,
            self.where: Sample(program.life, counters, gauges),
            f"{self.where}.udp": Sample("", take(udp_counters, "snmp")),
        }
        return Reading(samples, missing, glance.machines)

    def _taker(
        self, by_title: Mapping[str, str], missing: dict[str, str]
    ) -> Callable[[Counters, str], Mapping[str, float]]:
        """Reads a section by its name; one that gives nothing becomes a sentence in ``missing``."""

        def take(parse: Counters, name: str) -> Mapping[str, float]:
            try:
                return parse(by_title.get(name, ""))
            except (ArithmeticError, ValueError) as problem:
                missing[f"{self.where} {name}"] = str(problem)
                return {}

        return take


def sections(text: str) -> dict[str, str]:
    """What stands under each heading of the form ``=== name``."""
    _, *rest = re.split(r"^=== (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(rest[::2], rest[1::2], strict=True))


def _prefixed(prefix: str, numbers: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}.{name}": value for name, value in numbers.items()}
