"""Certificates whose gain is shown at one error and whose floors are checked at a laxer one.

Seven components of equal weight have independent normal noise, with a look after each block from
the third on. Broken: one component loses as much as its floor allows, where the error of "not worse
than that" is largest, or half as much again. Sound: the finalist leaves components unchanged or
makes them faster, with the stated gain in score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.error_rates.rules import ALPHA_CERTIFY, Flags
from tuner.judge.evalue import MIN_PAIRS, Floats, e_values
from tuner.judge.score import margin
from tuner.judge.thresholds import threshold

COMPONENTS: Final = 7
FLOORS: Final = (0.05, 0.25)
DEVIATIONS: Final = (0.05, 0.1, 0.2, 0.3)
"""Standard deviations of a component's difference."""

HORIZONS: Final = (12, 20, 30)
FLOOR_ALPHAS: Final = (0.025, 0.1, 0.2)
_SEED: Final = 4
_BATCH: Final = 4_000


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth about a finalist: mean log time ratios of all its components but the first.

    The first loses `loss` times what the floor allows; if that is None, it equals the last.
    """

    name: str
    rest: tuple[float, ...]
    loss: float | None = None

    @property
    def breaks_floor(self) -> bool:
        """Whether the finalist must not be recommended."""
        return self.loss is not None

    def means(self, floor: float) -> Floats:
        """Return mean log time ratios, shape (components,)."""
        first = self.rest[-1] if self.loss is None else self.loss * margin(floor)
        return np.array([first, *self.rest])


_FASTER: Final = -0.2
TRUTHS: Final = (
    Truth("one at its floor", (_FASTER,) * 6, loss=1.0),
    Truth("one half beyond its floor", (_FASTER,) * 6, loss=1.5),
    Truth("all 10% faster", (-margin(0.1),) * 6),
    Truth("three 22% faster, four as they were", (0.0,) * 4 + (_FASTER,) * 2),
)


@dataclass(frozen=True, slots=True)
class FloorRow:
    """How often a finalist is recommended.

    error_se: standard error of `recommended`. limit: the promise for a broken floor, NaN for sound
    ones; kept: whether recommended <= limit + 3 standard errors.
    """

    truth: str
    floor: float
    sd: float
    blocks: int
    floor_alpha: float
    paths: int
    gain_shown: float
    recommended: float
    error_se: float
    limit: float
    kept: bool


def floor_rows(paths: int) -> Iterator[FloorRow]:
    """Yield a row for each truth, floor, deviation, horizon and error of the floors."""
    for number, truth in enumerate(TRUTHS):
        for floor in FLOORS:
            for place, sd in enumerate(DEVIATIONS):
                rng = np.random.default_rng([_SEED, number, place])
                yield from _rows(truth, floor, sd, paths, rng)


def recommended(d: Floats, floor: float, blocks: int, floor_alpha: float) -> tuple[Flags, Flags]:
    """Whether the gain is ever shown, and ever at a look that also shows all floors to hold.

    d: (paths, blocks, components); both results: (paths,).
    """
    (gain, floors), level = _evidence(d, floor), threshold(ALPHA_CERTIFY, blocks)
    return _decisions(gain, floors, blocks, level, threshold(floor_alpha, blocks))


def _evidence(d: Floats, floor: float) -> tuple[Floats, Floats]:
    """Return the e-values of the gain and of the weakest floor by look, (paths, blocks)."""
    gain = e_values(-d.mean(axis=-1))
    floors = e_values(margin(floor) - np.moveaxis(d, -1, 1)).min(axis=1)
    return gain, floors


def _decisions(
    gain: Floats, floors: Floats, blocks: int, level: float, floor_level: float
) -> tuple[Flags, Flags]:
    looks = slice(MIN_PAIRS - 1, blocks)
    is_faster = gain[:, looks] >= level
    holds_floor = floors[:, looks] >= floor_level
    return np.asarray(is_faster.any(axis=1)), np.asarray((is_faster & holds_floor).any(axis=1))


def _rows(
    truth: Truth, floor: float, sd: float, paths: int, rng: np.random.Generator
) -> Iterator[FloorRow]:
    cells = [(blocks, alpha) for blocks in HORIZONS for alpha in FLOOR_ALPHAS]
    counts = {cell: np.zeros(2) for cell in cells}
    for start in range(0, paths, _BATCH):
        shape = (min(_BATCH, paths - start), max(HORIZONS), COMPONENTS)
        gain, floors = _evidence(truth.means(floor) + sd * rng.standard_normal(shape), floor)
        for blocks, alpha in cells:
            level, floor_level = (threshold(a, blocks) for a in (ALPHA_CERTIFY, alpha))
            decisions = _decisions(gain, floors, blocks, level, floor_level)
            counts[blocks, alpha] += [one.sum() for one in decisions]
    for (blocks, alpha), count in counts.items():
        faster_share, recommended = (count / paths).tolist()
        limit = alpha if truth.breaks_floor else math.nan
        yield FloorRow(
            truth=truth.name,
            floor=floor,
            sd=sd,
            blocks=blocks,
            floor_alpha=alpha,
            paths=paths,
            gain_shown=faster_share,
            recommended=recommended,
            error_se=math.sqrt(recommended * (1.0 - recommended) / paths),
            limit=limit,
            kept=math.isnan(limit)
            or recommended <= limit + 3.0 * math.sqrt(limit * (1.0 - limit) / paths),
        )


def floor_table(rows: Sequence[FloorRow], blocks: int, floor: float) -> str:
    """Return a Markdown table of truths and errors of the floors by deviations."""
    heads = ["truth", "floors held at", *(f"sd {sd:g}" for sd in DEVIATIONS)]
    lines = [heads, ["---"] * len(heads)]
    for truth in TRUTHS:
        for alpha in FLOOR_ALPHAS:
            shares = [
                row.recommended
                for row in rows
                if (row.truth, row.floor, row.blocks, row.floor_alpha)
                == (truth.name, floor, blocks, alpha)
            ]
            lines.append([truth.name, f"{alpha:g}", *(f"{share:.3f}" for share in shares)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
