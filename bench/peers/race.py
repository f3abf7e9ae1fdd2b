"""The participants of the race, one run of one of them, and the runs as rows.

Defines the list of peers; fstune is one of them, run by the function behind ``fstune simulate``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Final, get_type_hints

from bench.peers.service import Method, run_method
from tuner.model import Answer
from tuner.simulate.campaign import Result, Settings, run_campaign
from tuner.simulate.study import hours_until_near, regret_at
from tuner.simulate.surface import Surface, load_surface

FSTUNE: Final = "fstune"
#: What fstune believes to be the best without a certificate, comparable to the other peers.
BEST: Final = "fstune, best"
#: Hours on the testbed at which the regret is recorded.
HOURS: Final = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Peer:
    """A way to find settings.

    ``where``: its method, imported on use; ``about``: how it is used; ``slow``: a simulated hour
    takes minutes of processor time rather than seconds.
    """

    name: str
    where: str
    about: str
    slow: bool = False


_OPTIMISERS: Final = "bench.peers.optimisers"

PEERS: Final = (
    Peer(FSTUNE, "", "a whole campaign: what it has certified"),
    Peer("2011", "bench.peers.published:published", "each published preset six times, Student's t"),
    Peer("one factor", "bench.peers.one_factor:one_factor", "one parameter at a time, three runs"),
    Peer("random", f"{_OPTIMISERS}:random_search", "random configurations, one run each"),
    Peer("TPE x1", f"{_OPTIMISERS}:tpe_1", "Optuna's default, one run each"),
    Peer("TPE x3", f"{_OPTIMISERS}:tpe_3", "the same, three runs each"),
    Peer("TPE x5", f"{_OPTIMISERS}:tpe_5", "the same, five runs each"),
    Peer("TPE Wilcoxon", f"{_OPTIMISERS}:tpe_pruned", "Optuna's pruner for noise, up to six runs"),
    Peer("NSGA-II", f"{_OPTIMISERS}:nsga2", "Optuna's, small files against large ones"),
    Peer("CMA-ES", f"{_OPTIMISERS}:cmaes", "Optuna's, every parameter set, one run each"),
    Peer("irace", "bench.peers.irace:irace", "races with Friedman's test over blocks"),
    Peer("GP x5", "bench.peers.gaussian:gaussian", "scikit-optimize's, five runs each", slow=True),
    Peer("SMAC3", "bench.peers.smac3:smac3", "its facade for noisy black boxes", slow=True),
)
#: The subjects of rows, in the order of the tables.
ROWS: Final = (FSTUNE, BEST, *(peer.name for peer in PEERS[1:]))
_BY_NAME: Final = {peer.name: peer for peer in PEERS}


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a peer for ``budget_s`` on the testbed, with this component ``noise``."""

    peer: str
    surface: str
    noise: float
    seed: int
    budget_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a task; see ``Result``.

    ``near_h``: hours until the regret stays under .05; ``breaks``: the recommendation fails or
    breaks the floor. ``gain``: the best possible log score. ``regrets``: at each of the HOURS.
    """

    peer: str
    surface: str
    noise: float
    seed: int
    gain: float
    score: float
    regret: float
    near_h: float | None
    certified_h: float | None
    recommended: bool
    false: bool
    breaks: bool
    hours: float
    trials: int
    measurements: int
    regrets: tuple[float, ...]


def run_task(task: Task) -> list[Row]:
    """Run one task, which takes seconds, or minutes for a slow peer; one row, or two for fstune."""
    surface = _surface(task.surface)
    if task.peer != FSTUNE:
        method = _method(_BY_NAME[task.peer])
        result = run_method(method, surface, task.seed, task.budget_s, task.noise)
        return [_row(task, surface, result)]
    result = run_campaign(surface, task.seed, Settings(task.budget_s, task.noise))
    certified = result.answer == Answer.RECOMMENDED
    answer = result.configuration if certified else surface.baseline
    certified_result = replace(result, best=answer, curve=result.certified)
    return [
        _row(task, surface, certified_result),
        _row(replace(task, peer=BEST), surface, replace(result, certified_h=None)),
    ]


@lru_cache(maxsize=64)
def _surface(name: str) -> Surface:
    return load_surface(name)


def _method(peer: Peer) -> Method:
    module, _, name = peer.where.partition(":")
    method: Method = getattr(import_module(module), name)
    return method


def _row(task: Task, surface: Surface, result: Result) -> Row:
    """Return the row of a task, by its best configuration at the end."""
    score = surface.truth(result.best).score
    recommended, keeps = result.best != surface.baseline, surface.keeps(result.best)
    return Row(
        peer=task.peer,
        surface=task.surface,
        noise=task.noise,
        seed=task.seed,
        gain=surface.best[1],
        score=score,
        regret=surface.regret(result.best),
        near_h=hours_until_near(result.curve),
        certified_h=result.certified_h,
        recommended=recommended,
        false=recommended and (score >= 0.0 or not keeps),
        breaks=not keeps,
        hours=result.hours,
        trials=result.trials,
        measurements=result.measurements,
        regrets=tuple(regret_at(result.curve, hours) for hours in HOURS),
    )


_HEADS: Final = tuple(f"regret_{hours:g}h" for hours in HOURS)


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Write one line per run, floats with five digits, ordered by peer, surface, noise and seed."""
    places = {name: place for place, name in enumerate(ROWS)}
    ordered = sorted(rows, key=lambda row: (places[row.peer], row.surface, row.noise, row.seed))
    names = [field.name for field in fields(Row)][:-1]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, *_HEADS])
        for row in ordered:
            values = [getattr(row, name) for name in names]
            writer.writerow([_text(value) for value in (*values, *row.regrets)])


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.5g}" if isinstance(value, float) else "" if value is None else str(value)


def read_rows(path: Path) -> list[Row]:
    """Read such a file; returns no rows when there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [_parsed(line) for line in csv.DictReader(file)]


def _parsed(line: dict[str, str]) -> Row:
    kinds = get_type_hints(Row)
    values: dict[str, object] = {}
    for name in [field.name for field in fields(Row)][:-1]:
        text, kind = line[name], kinds[name]
        if kind is bool:
            values[name] = text == "1"
        elif kind is str or kind is int:
            values[name] = kind(text)
        else:
            values[name] = float(text) if text else None
    regrets = tuple(float(line[head]) for head in _HEADS)
    return Row(**values, regrets=regrets)  # type: ignore[arg-type]


def tasks(
    peers: Sequence[str],
    surfaces: Sequence[str],
    noises: Sequence[float],
    seeds: Sequence[int],
    budget_s: float,
    slow_seeds: int,
) -> list[Task]:
    """Return all runs of these; slow peers have only the first ``slow_seeds`` seeds."""
    return [
        Task(peer, surface, noise, seed, budget_s)
        for seed in seeds
        for noise in noises
        for surface in surfaces
        for peer in peers
        if not _BY_NAME[peer].slow or seed in seeds[:slow_seeds]
    ]
