"""Many campaigns on one surface, and what they have in common. Pure but for ``run_all``."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from statistics import median

from tuner.records.standing import Standing
from tuner.simulate.campaign import Point, Result, Settings, run_campaign
from tuner.simulate.surface import Surface, load_surface

#: Hours on the testbed at which regret is reported.
HOURS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
#: The regret under which a configuration is as good as the best, in log score.
NEAR = 0.05


@dataclass(frozen=True, slots=True)
class Summary:
    """What some campaigns have in common.

    ``recommended``, ``false``: how many. ``regret``: the median; ``near``: how many end under NEAR.
    ``certified_h``: the median over all, None when less than half were recommended. ``near_h``:
    the median of the hours until the regret stays under NEAR, likewise.
    """

    campaigns: int
    recommended: int
    false: int
    regret: float
    near: int
    certified_h: float | None
    near_h: float | None


def summary(results: Sequence[Result]) -> Summary:
    """What these campaigns, at least one, have in common."""
    return Summary(
        campaigns=len(results),
        recommended=sum(result.certified_h is not None for result in results),
        false=sum(result.false for result in results),
        regret=median(result.regret for result in results),
        near=sum(result.regret < NEAR for result in results),
        certified_h=middle([result.certified_h for result in results]),
        near_h=middle([hours_until_near(result.curve) for result in results]),
    )


def middle(hours: Sequence[float | None]) -> float | None:
    """The median of times of which None never came; None when that is the median."""
    never = float("inf")
    value = median(never if one is None else one for one in hours)
    return None if value == never else value


def regret_at(curve: Sequence[Point], hours: float) -> float:
    """The regret after this many hours on the testbed; the curve begins with its first point."""
    regret = curve[0].regret
    for point in curve:
        if point.hours <= hours:
            regret = point.regret
    return regret


def hours_until_near(curve: Sequence[Point]) -> float | None:
    """From when on the regret stays under NEAR; None when it does not."""
    hours: float | None = None
    for point in curve:
        if point.regret >= NEAR:
            hours = None
        elif hours is None:
            hours = point.hours
    return hours


def run_all(
    surface: Surface,
    path: str,
    seeds: Sequence[int],
    settings: Settings,
    jobs: int = 1,
    tell: Callable[[int, Standing], None] = lambda seed, standing: None,
) -> Generator[Result]:
    """Run a campaign for each seed; each result as soon as it is there. ``path``: where the surface
    comes from. ``jobs``: so many at once, in processes of their own. ``tell``: where each stands,
    when one runs at a time.
    """
    if jobs == 1:
        for seed in seeds:
            yield run_campaign(surface, seed, settings, partial(tell, seed))
        return
    workers = ProcessPoolExecutor(min(jobs, len(seeds)), get_context("spawn"))
    try:
        with _own_signals():
            tasks = [workers.submit(_run_one, path, seed, settings) for seed in seeds]
        for task in as_completed(tasks):
            yield task.result()
    except BaseException:
        # Nobody waits for what they have begun.
        workers.shutdown(wait=False, cancel_futures=True)
        for child in active_children():
            child.terminate()
        raise
    workers.shutdown()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Processes that are started meanwhile never see a Ctrl-C; what comes meanwhile comes after."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_SURFACES: dict[str, Surface] = {}


def _run_one(path: str, seed: int, settings: Settings) -> Result:
    if path not in _SURFACES:
        _SURFACES[path] = load_surface(path)
    return run_campaign(_SURFACES[path], seed, settings)
