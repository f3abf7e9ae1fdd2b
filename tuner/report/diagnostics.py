"""Summarise the diagnostics of arms for people: a few rows of numbers, and the proofs.

A service's kind decides which of its numbers deserve a row. This module chooses those of the
machines and owns the aggregation: the sum over hosts, then the median over a trial's arms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from tuner.measure.covariates import covariates
from tuner.model import Block
from tuner.services.diagnostic import BetterWhen, Diagnostic, Unit
from tuner.services.kinds import kinds
from tuner.states import BlockState

Diagnostics = Mapping[str, float | str]

_PROVEN = "proven"


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a label, and a text per requested trial ("" where nothing is known)."""

    what: str
    texts: tuple[str, ...]


def diagnostics_rows(blocks: Sequence[Block], trials: Sequence[int]) -> tuple[Row, ...]:
    """Return the non-empty rows for these trials' arms in complete blocks."""
    arms = {number: _arms(blocks, number) for number in trials}
    names = sorted({name for runs in arms.values() for arm in runs for name in arm})
    rows = [
        Row(one.name, tuple(_sum_text(runs, one.ending, one.unit) for runs in arms.values()))
        for one in known_diagnostics()
    ]
    for name, what in _COVARIATES:
        columns = [[covariates(arm).get(name) for arm in runs] for runs in arms.values()]
        rows.append(Row(what, tuple(_median_text(values, _processors) for values in columns)))
    for one in diagnostics_by_host(names):
        texts = tuple(_sum_text(runs, one.ending, one.unit) for runs in arms.values())
        rows.append(Row(one.name, texts))
    rows += [
        Row(what, tuple(_proof_text(runs, is_proof) for runs in arms.values()))
        for what, is_proof in _PROOFS
    ]
    pages = tuple(
        ", ".join(sorted({str(a[_PAGE_CACHE]) for a in runs if _PAGE_CACHE in a}))
        for runs in arms.values()
    )
    rows.append(Row("server's page cache before cold reads", pages))
    return tuple(row for row in rows if any(row.texts))


def known_diagnostics() -> tuple[Diagnostic, ...]:
    """Return the counters of the kinds of services, then those of every machine."""
    return (*(one for kind in kinds() for one in kind.diagnostics), *_MACHINE)


def diagnostics_by_host(names: Collection[str]) -> tuple[Diagnostic, ...]:
    """Return the counters of each host's program that occur in ``names``, labelled by host."""
    programs = {name.removesuffix(".peak_memory_bytes") for name in names}
    return tuple(
        replace(one, ending=name, name=f"{one.name}, {host}")
        for one in _BY_HOST
        for name in sorted(names)
        if (host := name.removesuffix(f".{one.ending}")) != name and host in programs
    )


def total(arm: Diagnostics, ending: str) -> float | None:
    """Sum all numbers of an arm whose names end with ``ending``; None if there are none."""
    values = [
        value
        for name, value in arm.items()
        if not isinstance(value, str) and (name == ending or name.endswith(f".{ending}"))
    ]
    return sum(values) if values else None


def _arms(blocks: Iterable[Block], trial: int) -> list[Diagnostics]:
    return [
        m.diagnostics
        for block in blocks
        if block.state is BlockState.COMPLETE
        for m in block.measurements
        if m.trial == trial
    ]


def _sum_text(arms: Sequence[Diagnostics], ending: str, unit: Unit) -> str:
    """Format the median over the arms of ``total(arm, ending)``."""
    totals = [sum_of_arm for arm in arms if (sum_of_arm := total(arm, ending)) is not None]
    return unit_text(median(totals), unit) if totals else ""


def _median_text(values: Sequence[float | None], form: Callable[[float], str]) -> str:
    numbers = [value for value in values if value is not None]
    return form(median(numbers)) if numbers else ""


def _proof_text(arms: Sequence[Diagnostics], is_proof: Callable[[str], bool]) -> str:
    """Return e.g. "proven in 11 of 12 runs"; "" if there was nothing to prove."""
    proofs = [
        [value for name, value in arm.items() if isinstance(value, str) and is_proof(name)]
        for arm in arms
    ]
    texts = [proof for proof in proofs if proof]
    if not texts:
        return ""
    proven = sum(all(value == _PROVEN for value in proof) for proof in texts)
    of = "" if proven == len(texts) else f"{proven} of "
    return f"{_PROVEN} in {of}{len(texts)} runs" if proven else f"not proven in {len(texts)} runs"


def unit_text(value: float, unit: Unit) -> str:
    """Format a number with its unit: "1 234", "42.5 MB", "0.50 s"."""
    match unit:
        case Unit.BYTES:
            return f"{value / 1e6:.1f} MB"
        case Unit.SECONDS:
            return f"{value:.2f} s"
        case Unit.COUNT:
            return f"{value:,.0f}".replace(",", " ")


def _processors(value: float) -> str:
    return f"{value:.2f}"


_PAGE_CACHE = "server.page_cache"

#: Counters of every machine.
_MACHINE = (
    Diagnostic(
        "host.steal_s",
        "processor time stolen",
        Unit.SECONDS,
        BetterWhen.FEWER,
        "Other guests of the same machine used the processors meanwhile.",
    ),
)
#: Covariates (load that others put on the machines) and their labels.
_COVARIATES: tuple[tuple[str, str], ...] = (
    ("others_server", "processors used by others, server"),
    ("others_clients", "processors used by others, clients"),
)
#: Counters that get one row per host's program; their names end with these words.
_BY_HOST = (
    Diagnostic(
        "cpu_s",
        "processor time",
        Unit.SECONDS,
        BetterWhen.FEWER,
        "Processor time of the service's own program; what it does not use is free for others.",
    ),
    Diagnostic(
        "context_switches",
        "context switches",
        Unit.COUNT,
        BetterWhen.EITHER,
        "How often the processors switched between threads of the program.",
    ),
    Diagnostic(
        "peak_memory_bytes",
        "peak memory",
        Unit.BYTES,
        BetterWhen.EITHER,
        "Larger caches and more threads cost memory.",
    ),
)
_PROOFS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("cold reads were cold", lambda name: name.startswith("cold.")),
    ("written data was stored", lambda name: name == "stored"),
)
