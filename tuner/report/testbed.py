"""Render the facts of a testbed's hosts, problems found there, and commands that would be run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tuner.report.drawing import Printable
from tuner.report.listing import Column, Listing
from tuner.report.styles import FASTER, QUIET, SLOWER, STRONG, literal
from tuner.services.facts import HostFacts
from tuner.services.kind import Finding
from tuner.text import clean

_GIB = 1 << 30


def hosts_page(
    name: str, hosts: Sequence[HostFacts], service: str, lines: Mapping[str, str]
) -> RenderableType:
    """Render the hosts, and labelled ``lines`` about the ``service`` that runs there."""
    columns = (
        Column("Host", rigid=True),
        Column("System"),
        Column("CPUs", rigid=True, right=True),
        Column("Memory", rigid=True, right=True),
        Column("Free", rigid=True, right=True),
        Column("Clock", rigid=True, right=True),
    )
    table = Listing(columns, tuple(_row(facts) for facts in hosts))
    title = Text(f"Testbed {clean(name)}", style=STRONG)
    heading = Text(clean(service), style=STRONG)
    body = "\n".join(f"{label:<9} {clean(text)}" for label, text in lines.items())
    return Printable(Group(title, "", table, "", heading, Text(body)))


def _row(facts: HostFacts) -> tuple[Text, ...]:
    free = min((count for _, count in facts.free_bytes), default=0)
    exact = abs(facts.clock_ahead_s) <= facts.asked_s
    return (
        literal(facts.host, STRONG),
        literal(f"{facts.system}, {facts.kernel}, Python {facts.python}"),
        Text(str(facts.cpus)),
        Text(f"{facts.available_bytes / _GIB:.1f} of {facts.memory_bytes / _GIB:.1f} GiB"),
        Text(f"{free / _GIB:.1f} GiB"),
        Text("in sync" if exact else f"{facts.clock_ahead_s:+.1f} s"),
    )


def findings_page(findings: Sequence[Finding], *, partly: bool = False) -> RenderableType:
    """Render the problems found on the hosts, refusals first. ``partly``: without a dry run, which
    finds more.
    """
    if not findings and partly:
        return Text("No problem found so far; --dry-run also reads the settings of the clients.")
    if not findings:
        return Text(
            "No problem found: a campaign can be run here, if its clients may write to the path.",
            style=FASTER,
        )
    lines = Text()
    for finding in sorted(findings, key=lambda f: not f.refuses):
        word, style = ("error", SLOWER) if finding.refuses else ("warning", STRONG)
        lines.append(f"{word}  ", style)
        lines.append(f"{clean(finding.host)}: {clean(finding.message)}\n")
    lines.rstrip()
    return Printable(lines)


def commands_page(commands: Iterable[tuple[str, tuple[str, ...]]]) -> RenderableType:
    """Render commands, one line each, with their host, quoted for a shell."""
    lines = Text()
    for host, argv in commands:
        lines.append(f"{clean(host)}: ", QUIET)
        lines.append(f"{clean(shlex.join(argv))}\n")
    lines.rstrip()
    return Printable(lines)
