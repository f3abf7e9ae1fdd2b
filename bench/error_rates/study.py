"""The rows of the study and their output: CSV files, a plot and Markdown tables.

Defines sizes, seeds and formats. The same sizes give the same figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bench.error_rates.guards import CANDIDATES, MISTAKES, PILOTS, Look
from bench.error_rates.noise import NOISES, ON_TWO_TESTBEDS, Noise
from bench.error_rates.rules import RULES, errors

HORIZONS: Final = (10, 20, 50)
"""Numbers of blocks with a look after each: those of a race, of a certification, and many."""

RACES: Final = (4, 12)
"""Numbers of races in a short and in a long campaign."""

_NORMAL: Final = (NOISES[0].name, ON_TWO_TESTBEDS[0].name)
_SEED: Final = 1
_BATCH: Final = 10_000


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """How often a rule showed a nonexistent difference within `blocks` looks.

    promised: whether the project promises `nominal` for this rule under this noise. error_se:
    standard error of the simulation at the nominal error. kept: whether error <= nominal + 3
    error_se.
    """

    noise: str
    rule: str
    blocks: int
    nominal: float
    promised: bool
    paths: int
    wrong: int
    error: float
    error_se: float
    kept: bool


@dataclass(frozen=True, slots=True)
class GuardRow:
    """How the guards treat campaigns with a mistake; counts as in `guards.Detection`.

    pilot: one of `guards.PILOTS`; the campaigns are the same for each.
    """

    noise: str
    mistake: str
    candidates: int
    pilot: str
    promised: float
    rate: float
    matters: bool
    campaigns: int
    seen: int
    warned_share: float
    rate_left: float
    warned_without_cause: float


def error_rows(paths: int) -> list[ErrorRow]:
    """Return a row for each noise, rule and horizon, from `paths` paths per noise."""
    return [row for number in range(len(NOISES)) for row in _error_rows(number, paths)]


def _error_rows(number: int, paths: int) -> list[ErrorRow]:
    noise, rng = NOISES[number], np.random.default_rng([_SEED, number])
    counts: Counter[tuple[str, int]] = Counter()
    for start in range(0, paths, _BATCH):
        batch = min(_BATCH, paths - start)
        counts.update(errors(noise.draw(rng, (batch, max(HORIZONS), 2)), HORIZONS))
    rows = []
    for rule in RULES:
        error_se = math.sqrt(rule.nominal * (1.0 - rule.nominal) / paths)
        for blocks in HORIZONS:
            wrong = counts[rule.name, blocks]
            error = wrong / paths
            rows.append(
                ErrorRow(
                    noise=noise.name,
                    rule=rule.name,
                    blocks=blocks,
                    nominal=rule.nominal,
                    promised=rule.ours and noise.promised,
                    paths=paths,
                    wrong=wrong,
                    error=error,
                    error_se=error_se,
                    kept=error <= rule.nominal + 3.0 * error_se,
                )
            )
    return rows


def guard_rows(campaigns: int, look: Look) -> list[GuardRow]:
    """Return a row for each noise, mistake, campaign length and pilot."""
    return [
        row
        for number, noise in enumerate((*NOISES, *ON_TWO_TESTBEDS))
        for races in RACES
        for kind, mistake in enumerate(MISTAKES)
        for row in _guard_rows(noise, mistake, races, campaigns, look, [_SEED, number, races, kind])
    ]


def _guard_rows(
    noise: Noise, mistake: str, races: int, campaigns: int, look: Look, seed: list[int]
) -> list[GuardRow]:
    detections = MISTAKES[mistake](noise, np.random.default_rng(seed), campaigns, races, look)
    return [
        GuardRow(
            noise=noise.name,
            mistake=mistake,
            candidates=races * CANDIDATES,
            pilot=pilot,
            promised=detection.promised,
            rate=detection.mistakes / detection.chances,
            matters=detection.matters,
            campaigns=campaigns,
            seen=detection.seen,
            warned_share=detection.warned / max(detection.seen, 1),
            rate_left=detection.wrong * detection.left / max(detection.seen, 1),
            warned_without_cause=detection.noisy / max(detection.quiet, 1),
        )
        for pilot, detection in detections.items()
    ]


def error_table(rows: Sequence[ErrorRow], blocks: int) -> str:
    """Return a Markdown table of noises by rules; bold where a promise is not kept."""
    names = [rule.name for rule in RULES]
    nominal = [f"{_share(rule.nominal)}" for rule in RULES]
    lines = [_line(["noise", *names]), _line(["---"] * (len(names) + 1))]
    lines.append(_line(["*nominal*", *nominal]))
    for noise in NOISES:
        of_noise = {r.rule: r for r in rows if r.noise == noise.name and r.blocks == blocks}
        cells = [_cell(of_noise[name]) for name in names]
        lines.append(_line([noise.name if noise.promised else f"*{noise.name}*", *cells]))
    return "\n".join(lines)


def _cell(row: ErrorRow) -> str:
    share = _share(row.error)
    return f"**{share}**" if row.promised and not row.kept else share


def guard_table(rows: Sequence[GuardRow]) -> str:
    """Return a Markdown table of the rows with a broken promise, and sound ones for comparison.

    Shares are listed by pilot, in the order of PILOTS.
    """
    heads = ["noise", "mistake", "candidates", "rate (promised)", "caught", "rate left"]
    heads.append("warned without a mistake")
    lines = [_line(heads), _line(["---"] * len(heads))]
    of_pilots = [rows[i : i + len(PILOTS)] for i in range(0, len(rows), len(PILOTS))]
    sound = [group for group in of_pilots if group[0].noise in _NORMAL]
    for group in [*[g for g in of_pilots if g[0].matters], *sound]:
        row = group[0]
        certificate = row.mistake == "false certificate"
        cells = [row.noise, row.mistake, str(row.candidates)]
        cells.append(f"{_share(row.rate)} ({_share(row.promised)})")
        cells.append(", ".join(f"{r.warned_share:.0%}" for r in group))
        cells.append(", ".join(_share(r.rate_left) for r in group) if certificate else "-")
        cells.append(", ".join(f"{r.warned_without_cause:.0%}" for r in group))
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _share(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def plot(rows: Sequence[ErrorRow], path: Path) -> None:
    """Plot each rule's error over its nominal error, one panel per noise; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    # Makes the file reproducible; keeping text as text makes it small.
    matplotlib.rcParams |= {"svg.hashsalt": "error rates", "svg.fonttype": "none"}
    from matplotlib import pyplot

    names = [rule.name for rule in RULES]
    figure, axes = pyplot.subplots(
        3, 4, figsize=(13.0, 9.0), sharex=True, sharey=True, layout="constrained"
    )
    for axis, noise in zip(axes.flat, NOISES, strict=False):
        for blocks, marker in zip(HORIZONS, "ovs", strict=True):
            of_noise = {r.rule: r for r in rows if r.noise == noise.name and r.blocks == blocks}
            ratios = [of_noise[name].error / of_noise[name].nominal for name in names]
            plotted = [max(ratio, 0.02) for ratio in ratios]
            colours = ["tab:blue" if rule.ours else "tab:orange" for rule in RULES]
            axis.scatter(plotted, range(len(names)), c=colours, marker=marker, s=22, alpha=0.8)
        axis.axvline(1.0, color="black", linewidth=1.0)
        axis.set_title(noise.name + ("" if noise.promised else " (not promised)"), fontsize=10)
        axis.set_xscale("log")
        axis.set_xticks([0.1, 1.0, 10.0], ["0.1", "1", "10"])
        axis.grid(axis="x", alpha=0.3)
    axes[0, 0].set_yticks(range(len(names)), names)
    axes[0, 0].invert_yaxis()
    for axis in list(axes.flat)[len(NOISES) :]:
        axis.set_axis_off()
        for blocks, marker in zip(HORIZONS, "ovs", strict=True):
            axis.scatter([], [], c="grey", marker=marker, label=f"looks up to block {blocks}")
        axis.scatter([], [], c="tab:blue", label="fstune")
        axis.scatter([], [], c="tab:orange", label="other rules")
        axis.legend(loc="center", frameon=False)
    figure.supxlabel("error over nominal error (at most 1 is right; drawn from .02)")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
