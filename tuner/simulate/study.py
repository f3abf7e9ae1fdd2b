"""Many campaigns on one surface, and summaries of them. Pure except for ``run_all``."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from statistics import median

from tuner.errors import SpecError
from tuner.records.standing import Standing
from tuner.simulate.campaign import Point, Result, Settings, run_campaign
from tuner.simulate.surface import Surface, load_surface

#: Hours on the testbed at which regret is reported.
HOURS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
#: Regret, in log score, below which a configuration counts as near the best.
NEAR = 0.05
_SEEDS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST_SEEDS = 10_000


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of several campaigns.

    ``recommended``, ``false``: counts. ``regret``: the median; ``near``: how many end below NEAR.
    ``certified_h``: the median over all campaigns, None if it is one without a certificate.
    ``near_h``: likewise for the hours until the regret stays below NEAR.
    """

    campaigns: int
    recommended: int
    false: int
    regret: float
    near: int
    certified_h: float | None
    near_h: float | None


def summary(results: Sequence[Result]) -> Summary:
    """Summarise campaigns; ``results`` must not be empty."""
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
    """Return the median of times, where None stands for never; None if that is the median."""
    never = float("inf")
    value = median(never if one is None else one for one in hours)
    return None if value == never else value


def regret_at(curve: Sequence[Point], hours: float) -> float:
    """Return the regret after this many hours on the testbed, and before the first point its
    regret.
    """
    regret = curve[0].regret
    for point in curve:
        if point.hours <= hours:
            regret = point.regret
    return regret


def hours_until_near(curve: Sequence[Point]) -> float | None:
    """Return the time from which the regret stays below NEAR; None if it does not."""
    hours: float | None = None
    for point in curve:
        if point.regret >= NEAR:
            hours = None
        elif hours is None:
            hours = point.hours
    return hours


def parse_seeds(text: str) -> list[int]:
    """Parse a list of numbers and ranges, such as 1-5,9, into distinct seeds. Raises SpecError."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        match = _SEEDS.fullmatch(part.strip())
        if match is None:
            raise SpecError(f"--seeds {text!r}: write numbers and ranges, such as 1-50 or 1-5,9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise SpecError(f"--seeds {text!r}: {first} is above {last}")
        if last - first >= _MOST_SEEDS or len(seeds) > _MOST_SEEDS:
            raise SpecError(f"--seeds {text!r}: at most {_MOST_SEEDS} seeds")
        seeds |= dict.fromkeys(range(first, last + 1))
    return list(seeds)


def run_all(
    surface: Surface,
    path: str,
    seeds: Sequence[int],
    settings: Settings,
    jobs: int = 1,
    tell: Callable[[int, Standing], None] = lambda seed, standing: None,
) -> Generator[Result]:
    """Run a campaign for each seed; yield each result as soon as it is available. ``path``: where
    the surface is loaded from. ``jobs``: number of campaigns at once, in separate processes if
    above 1. ``tell``: called with the progress of each, only if one runs at a time.
    """
    if jobs == 1:
        for seed in seeds:
            yield run_campaign(surface, seed, settings, partial(tell, seed))
        return
    with tempfile.TemporaryDirectory(prefix="fstune-") as place:
        workers = ProcessPoolExecutor(
            min(jobs, len(seeds)), get_context("spawn"), _work_below, (place,)
        )
        try:
            with _own_signals():
                tasks = [workers.submit(_run_one, path, seed, settings) for seed in seeds]
            for task in as_completed(tasks):
                yield task.result()
        except BaseException:
            # Nobody waits for the campaigns in progress. What they leave is removed with the place.
            workers.shutdown(wait=False, cancel_futures=True)
            children = active_children()
            for child in children:
                child.terminate()
            for child in children:
                child.join()
            raise
        workers.shutdown()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Block SIGINT: processes started inside never see a Ctrl-C; this one gets it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work_below(place: str) -> None:
    """Create temporary files below ``place`` in this process."""
    tempfile.tempdir = place


_SURFACES: dict[str, Surface] = {}


def _run_one(path: str, seed: int, settings: Settings) -> Result:
    if path not in _SURFACES:
        _SURFACES[path] = load_surface(path)
    return run_campaign(_SURFACES[path], seed, settings)
