"""``fstune simulate``: campaigns on simulated services with known ground truth."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from tuner.cli.say import say
from tuner.documents import Duration
from tuner.errors import INTERRUPTED, SpecError
from tuner.records.standing import Standing
from tuner.report.listing import output, show
from tuner.report.simulate import (
    study_document,
    study_page,
    surfaces_document,
    surfaces_table,
)
from tuner.report.standing import where
from tuner.simulate.campaign import Result, Settings, specification
from tuner.simulate.study import parse_seeds, run_all
from tuner.simulate.surface import Surface, load_surface, surface_names
from tuner.stop_signals import stop_signals


def simulate(
    surface: Annotated[
        str | None,
        typer.Argument(
            help="A surface's name, or the path of a file; without it the surfaces are listed.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option("--seeds", help="Seeds, one campaign for each: 7, 1-50, or 1-5,9.")
    ] = "1-10",
    noise: Annotated[
        float | None,
        typer.Option(
            "--noise",
            min=0.0,
            max=10.0,
            help="Standard deviation of a component's log time, 0.10 for about 10%, in place of "
            "the surface's own.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", help="Measuring time of each campaign: 20m, 1h.")
    ] = "1h",
    sampler: Annotated[
        str | None,
        typer.Option(
            "--sampler",
            help="Sampler of configurations, as 'search.sampler' in a campaign file.",
            show_default=False,
        ),
    ] = None,
    pilot: Annotated[
        int,
        typer.Option(
            "--pilot", min=0, max=1000, help="Maximum number of pilot blocks; 0 for none."
        ),
    ] = 3,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, max=256, help="Number of concurrent campaigns.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
) -> None:
    """Run campaigns on a simulated service with known ground truth: what is found, how soon?

    A surface defines the true effect of each setting on the times of a workload, their noise, and
    the time that restarts take. Campaigns on it are real ones in virtual time: an hour takes
    seconds.

    Regret is how much slower the recommended configuration truly is than the best one that keeps
    the floor, as a difference of log scores: 0.05 is about 5%. Without a recommendation it is that
    of the finalist, otherwise that of the baseline. A recommendation is false if it is not faster
    than the baseline, or breaks a floor. Ctrl-C prints the campaigns completed so far.

    For example: fstune simulate sparse-five --seeds 1-20 --noise 0.15 --jobs 2
    """
    if surface is None and not (names := surface_names()):
        raise SpecError("no surfaces are installed with fstune; give the path of a surface file")
    if surface is None:
        with output(stderr=True).status("finding the best configuration of each surface"):
            surfaces = [load_surface(name) for name in names]
            document, table = surfaces_document(surfaces), surfaces_table(surfaces)
        if as_json:
            say(json.dumps(document, indent=2, ensure_ascii=False))
        else:
            show(output(), table)
        return
    all_seeds = parse_seeds(seeds)
    settings = Settings(_budget_s(budget), noise, sampler, pilot)
    loaded = load_surface(surface)
    specification(loaded, all_seeds[0], settings)  # reports invalid settings at once
    with stop_signals():
        results, interrupted = _run(loaded, surface, all_seeds, settings, jobs)
        if as_json:
            say(json.dumps(study_document(loaded, settings, results), indent=2))
        elif results:
            show(output(), study_page(loaded, results))
    if interrupted:
        say(f"fstune: stopped after {len(results)} of {len(all_seeds)} campaigns", err=True)
        raise typer.Exit(INTERRUPTED)


def _run(
    surface: Surface, path: str, seeds: Sequence[int], settings: Settings, jobs: int
) -> tuple[list[Result], bool]:
    """Return the results up to the end or a stop signal, and whether there was a stop signal."""
    results: list[Result] = []
    line = _Line(len(seeds))
    try:
        with closing(run_all(surface, path, seeds, settings, jobs, line.standing)) as campaigns:
            for result in campaigns:
                results.append(result)
                line.count(len(results))
    except KeyboardInterrupt:
        return results, True
    finally:
        line.clear()
    return results, False


class _Line:
    """A one-line progress display on a terminal; shows nothing elsewhere."""

    def __init__(self, campaigns: int) -> None:
        self._campaigns = campaigns
        self._count = 0
        self._is_terminal = sys.stderr.isatty()

    def standing(self, seed: int, standing: Standing) -> None:
        """Show the standing of the campaign with this seed."""
        minutes = standing.elapsed_s / 60.0
        self._write(f"seed {seed}: {where(standing)}, {minutes:.0f} min on the testbed")

    def count(self, count: int) -> None:
        """Show the number of campaigns that have ended."""
        self._count = count
        self._write("")

    def clear(self) -> None:
        """Erase the line."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _write(self, what: str) -> None:
        if self._is_terminal:
            text = f"{self._count} of {self._campaigns} campaigns" + (f"; {what}" if what else "")
            print(f"\r\x1b[K{text[:78]}", end="", file=sys.stderr, flush=True)


def _budget_s(text: str) -> float:
    try:
        seconds: float = TypeAdapter(Duration).validate_python(text)
    except ValidationError as problem:
        message = problem.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise SpecError(f"--budget {text!r}: {message[0].lower()}{message[1:]}") from None
    return seconds
