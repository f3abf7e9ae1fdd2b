"""What was counted around the arms, for a person: a few rows out of all numbers, and the proofs.

Owns which numbers are worth a row and how they are put together: the median over a trial's arms,
the sum over hosts where one number says more than many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tuner.measure.covariates import covariates
from tuner.model import Block
from tuner.states import BlockState

Diagnostics = Mapping[str, float | str]

_PROVEN = "proven"


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what it is, and a text for each trial asked for ("" where nothing is known)."""

    what: str
    texts: tuple[str, ...]


def diagnostics_rows(blocks: Sequence[Block], trials: Sequence[int]) -> tuple[Row, ...]:
    """The rows that say something of these trials' arms in complete blocks."""
    arms = {number: _arms(blocks, number) for number in trials}
    names = sorted({name for found in arms.values() for arm in found for name in arm})
    rows = [
        Row(what, tuple(_sum_text(found, suffix, form) for found in arms.values()))
        for what, suffix, form in _SUMS
    ]
    for name, what in _COVARIATES:
        known = [[covariates(arm).get(name) for arm in found] for found in arms.values()]
        rows.append(Row(what, tuple(_median_text(values, _processors) for values in known)))
    for suffix, what, form in _BY_HOST:
        for name in names:
            host, dot, last = name.rpartition(".")
            if dot and last == suffix and host in _programs(names):
                texts = tuple(_sum_text(found, name, form) for found in arms.values())
                rows.append(Row(f"{what}, {host}", texts))
    rows += [
        Row(what, tuple(_proof_text(found, is_proof) for found in arms.values()))
        for what, is_proof in _PROOFS
    ]
    pages = tuple(
        ", ".join(sorted({str(a[_PAGE_CACHE]) for a in found if _PAGE_CACHE in a}))
        for found in arms.values()
    )
    rows.append(Row("server's page cache before cold reads", pages))
    return tuple(row for row in rows if any(row.texts))


def _arms(blocks: Iterable[Block], trial: int) -> list[Diagnostics]:
    return [
        m.diagnostics
        for block in blocks
        if block.state is BlockState.COMPLETE
        for m in block.measurements
        if m.trial == trial
    ]


def _programs(names: Iterable[str]) -> set[str]:
    """The hosts on which a program was watched."""
    return {name.removesuffix(".peak_memory_bytes") for name in names}


def _sum_text(arms: Sequence[Diagnostics], suffix: str, form: Callable[[float], str]) -> str:
    """The median over the arms of the sum of all numbers with that end."""
    totals = []
    for arm in arms:
        found = [
            value
            for name, value in arm.items()
            if not isinstance(value, str) and (name == suffix or name.endswith(f".{suffix}"))
        ]
        if found:
            totals.append(sum(found))
    return form(median(totals)) if totals else ""


def _median_text(values: Sequence[float | None], form: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return form(median(known)) if known else ""


def _proof_text(arms: Sequence[Diagnostics], is_proof: Callable[[str], bool]) -> str:
    """ "proven in 12 runs", "proven in 11 of 12 runs"; nothing where nothing was to be proven."""
    proofs = [
        [value for name, value in arm.items() if isinstance(value, str) and is_proof(name)]
        for arm in arms
    ]
    told = [found for found in proofs if found]
    if not told:
        return ""
    proven = sum(all(value == _PROVEN for value in found) for found in told)
    of = "" if proven == len(told) else f"{proven} of "
    return f"{_PROVEN} in {of}{len(told)} runs" if proven else f"not proven in {len(told)} runs"


def _count(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.1f} MB"


def _processors(value: float) -> str:
    return f"{value:.2f}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


_PAGE_CACHE = "server.page_cache"

#: What, the end of the names that are summed, how it is written.
_SUMS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("fetched from the server", "cm.fetched_bytes", _megabytes),
    ("stored on the server", "cm.stored_bytes", _megabytes),
    ("misses of the data caches", "cm.dcache_misses", _count),
    ("calls that waited for a thread", "rx.calls_waited", _count),
    ("packets sent again", "rx.resends", _count),
    ("datagrams dropped, receive buffer full", "udp.rcvbuf_errors", _count),
    ("processor time stolen", "host.steal_s", _seconds),
)
#: What others did to the machines, and what it is called.
_COVARIATES: tuple[tuple[str, str], ...] = (
    ("others_server", "processors used by others, server"),
    ("others_clients", "processors used by others, clients"),
)
#: The last word of the names of which every host's program has a row.
_BY_HOST: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("cpu_s", "processor time", _seconds),
    ("context_switches", "context switches", _count),
    ("peak_memory_bytes", "peak memory", _megabytes),
)
_PROOFS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("cold reads were cold", lambda name: name.startswith("cold.")),
    ("written data was stored", lambda name: name == "stored"),
)
