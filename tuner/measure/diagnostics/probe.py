"""Reads all counters of one host in one command.

Owns the scripts that run there: constant texts that take arguments and print each source under a
heading. A source without output is reported as missing, never as an error. A glance reads only
processor times, without running the other tools, whose own processor time would be included.
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

#: $1: the program's name; only a process of root counts, since anybody may give a process any name.
#: Of several, it is the one that started the others. What its main thread has started counts too,
#: with what that has started: a server may have a process per client. Without such lists in /proc,
#: it counts alone.
#: The shell itself reads small files: starting a program for each would take most of the time.
GLANCE = """
first() { if IFS= read -r line < "$1"; then printf '%s\\n' "$line"; fi; }
root() {
    while read -r key real effective saved files; do
        if [ "$key" = PPid: ]; then parent=$real; fi
        if [ "$key" = Uid: ]; then [ "$real$effective$saved$files" = 0000 ]; return; fi
    done < "$1"
    return 1
}
pid=
named=" $(pidof "$1") "
for one in $named; do
    if root "/proc/$one/status" 2>/dev/null; then
        pid=$one
        case $named in *" $parent "*) ;; *) break ;; esac
    fi
done
pids= more=$pid
while [ -n "$more" ]; do
    pids="$pids $more" next=
    for one in $more; do
        line=
        { read -r line < "/proc/$one/task/$one/children"; } 2>/dev/null
        next="$next${line:+ $line}"
    done
    more=$next
done
if [ -n "$pid" ]; then
    echo "=== stat"
    for one in $pids; do first "/proc/$one/stat" 2>/dev/null; done
fi
echo "=== cpu"; first /proc/stat
echo "=== uptime"; first /proc/uptime
echo "=== boot"; first /proc/sys/kernel/random/boot_id
"""
#: The rest of a full reading, in one run of grep: reading lines in the shell takes longer. proc(5)
#: has no sum of the context switches of all threads. Memory and the number of threads, in the
#: status of each thread, are those of its process.
REST = """
echo "=== proc"
threads=
for one in $pids; do threads="$threads /proc/$one/task/*/status"; done
grep -hs -e ^Tgid: -e ^VmHWM: -e ^Threads: -e _ctxt_switches: -e ^Udp: $threads /proc/net/snmp
"""
COMMON = GLANCE + REST
Counters = Callable[[str], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one reading. ``samples``: by the prefix of their names; ``missing``: a sentence
    for each source without output, by source (``server disk``); ``machines``: unique names of
    machines, by the prefix of their numbers.
    """

    samples: Mapping[str, Sample] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    machines: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """A service-specific section of a script's output. ``prefix``: of the names of its numbers."""

    section: str
    prefix: str
    counters: Counters
    gauges: Counters | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Reads one host. ``where``: the prefix of its names (``server``). ``script``: prints sections,
    those of ``COMMON`` first; its first argument is the name of the program. ``sources``: the other
    sections that it prints. ``transfers``: the prefix of the source that has ``fetched_bytes`` and
    ``stored_bytes``. ``machine``: the prefix of the numbers of the machine. ``misses``: on a
    client, the name of its counter of cache misses, with its prefix; empty if it has none.
    ``wrapper``: a command that runs the script, which follows as its arguments, and adds sections.
    """

    host: Connector
    where: str
    script: str
    arguments: tuple[str, ...]
    sources: tuple[Source, ...]
    transfers: str
    machine: str
    misses: str = ""
    wrapper: tuple[str, ...] = ()

    def read(self) -> Reading:
        """Read all counters once."""
        argv = [*self.wrapper, "sh", "-c", self.script, "diagnostics", *self.arguments]
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
        """Parse the output of ``GLANCE``. Pure."""
        by_title = sections(text)
        missing: dict[str, str] = {}
        take = self._taker(by_title, missing)
        counters: Mapping[str, float] = {}
        if "stat" in by_title:
            counters = take(lambda stat: {"cpu_s": cpu_s(stat)}, "stat")
        else:
            missing[f"{self.where} process"] = f"root has no process called {self.arguments[0]}"
        machine = {**take(cpu_counters, "cpu"), **take(uptime_counters, "uptime")}
        try:
            machines = {self.machine: machine_name(by_title.get("boot", ""))}
        except ValueError as problem:
            missing[f"{self.where} boot"] = str(problem)
            machines = {}
        # A program in the kernel has no process, and lives as long as its host.
        life = process_life(by_title["stat"]) if counters else ""
        samples = {self.where: Sample(life, counters), self.machine: Sample("", machine)}
        return Reading(samples, missing, machines)

    def understand(self, text: str) -> Reading:
        """Parse the output of ``script``. Pure."""
        glance = self.understand_glance(text)
        by_title = sections(text)
        by_title |= dict.fromkeys(("status", "switches", "snmp"), by_title.get("proc", ""))
        missing = dict(glance.missing)
        take = self._taker(by_title, missing)
        program = glance.samples[self.where]
        counters, gauges = {**program.counters}, dict[str, float]()
        if "stat" in by_title:
            counters |= take(
                lambda lines: {"context_switches": context_switches(lines)}, "switches"
            )
            gauges |= take(process_gauges, "status")
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
        """Return a section parser; when parsing fails, it adds a sentence to ``missing``."""

        def take(parse: Counters, name: str) -> Mapping[str, float]:
            try:
                return parse(by_title.get(name, ""))
            except (ArithmeticError, ValueError) as problem:
                missing[f"{self.where} {name}"] = str(problem)
                return {}

        return take


def sections(text: str) -> dict[str, str]:
    """Split a script's output at headings of the form ``=== name``."""
    _, *rest = re.split(r"^=== (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(rest[::2], rest[1::2], strict=True))


def _prefixed(prefix: str, numbers: Mapping[str, float]) -> dict[str, float]:
    return {f"{prefix}.{name}": value for name, value in numbers.items()}
