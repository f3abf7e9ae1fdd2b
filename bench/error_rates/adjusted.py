"""Claims based on adjusted differences: their error rate and their power.

Each history is a campaign of its own: 12 blocks of pilot and search, in all or some of which trial
1, the later finalist, is measured against the baseline together with two others.
`tuner.judge.adjustment` fits
the adjustment to them, and may refuse it. Then follow fresh blocks of finalist and baseline, many
paths for each history, with a look after each block from the third to the 20th.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import ndtr

from bench.error_rates.rules import ALPHA_CERTIFY, Flags
from tuner.judge.adjustment import Adjustment, fit_adjustment, raw_alpha
from tuner.judge.evalue import MIN_PAIRS, Floats, e_values
from tuner.judge.observations import Observations
from tuner.judge.thresholds import threshold
from tuner.model import COVARIATES

SEARCH_BLOCKS: Final = 12
SEARCH_ARMS: Final = 4
FRESH_BLOCKS: Final = 20
GAINS: Final = (0.0, 0.05, 0.08)
"""True gains of the finalist, in log units of time; 0 is the null."""

NOISE: Final = 0.06
"""Standard deviation of an arm's own score; that of a difference is 8.5%."""

COST: Final = 0.33
_LEVEL: Final = 0.18
"""Mean and deviation of the processors used by others; multiplied by COST, they account for half of
the variance of a difference."""

_LASTING: Final = 2.1
"""Factor on their use if it is autocorrelated, so that it still accounts for half."""

_OTHERS: Final = COVARIATES.index("others_server")
_HISTORIES_FRESH: Final = 40
_SEED: Final = 3

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
"""Draws the processors used by others in successive runs, along the last axis."""


def _exponential(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return rng.exponential(_LEVEL, shape)


def _lasting(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    x = rng.standard_normal(shape)
    for run in range(1, shape[-1]):
        x[..., run] = 0.8 * x[..., run - 1] + 0.6 * x[..., run]
    return np.asarray(-_LASTING * _LEVEL * np.log(ndtr(-x)), dtype=np.float64)


def _bursts(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return np.where(rng.random(shape) < 0.1, 0.63, 0.03)


def _quiet(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return rng.exponential(_LEVEL / 20.0, shape)


@dataclass(frozen=True, slots=True)
class World:
    """The processors that others use, their cost to a run, and the finalist's influence on them.

    cost: log time per processor, at most `most` in total. The finalist's configuration adds `more`
    processors and multiplies them by `times`. That part costs its runs nothing, which is the worst
    case: all of it appears as a false gain. blocks_searched: the number of blocks of the search,
    the last ones, that measure the finalist.
    """

    name: str
    draw: Draw = _exponential
    cost: float = COST
    most: float = math.inf
    more: float = 0.0
    times: float = 1.0
    blocks_searched: int = SEARCH_BLOCKS

    @property
    def influenced(self) -> bool:
        """Whether the finalist influences the covariate."""
        return self.more != 0.0 or self.times != 1.0

    def blocks(
        self, rng: np.random.Generator, shape: tuple[int, ...], arms: int
    ) -> tuple[Floats, Floats]:
        """Draw scores and covariates, both (..., blocks, arms), of successive blocks.

        Each block runs in random order; arm 1 is the finalist, and all arms are equally fast.
        """
        in_time = self.draw(rng, (*shape[:-1], shape[-1] * arms)).reshape(*shape, arms)
        z = rng.permuted(in_time, axis=-1)
        y = np.minimum(self.cost * z, self.most) + NOISE * rng.standard_normal(z.shape)
        z[..., 1] = self.times * z[..., 1] + self.more
        return y, z


WORLDS: Final[tuple[World, ...]] = (
    World("half explained"),
    World("half explained, lasting", _lasting),
    World("half explained, bursts", _bursts),
    World("half explained, cost bounded", most=0.1),
    World("nothing explained", cost=0.0),
    World("nothing to see", _quiet),
    World("influence .02", more=0.02),
    World("influence .05", more=0.05),
    World("influence .1", more=0.1),
    World("influence .2", more=0.2),
    World("influence .4", more=0.4),
    World("influence, a third more", times=1.33),
    World("influence, twice as much", times=2.0),
    World("influence .1, nothing explained", cost=0.0, more=0.1),
    World("influence .1, finalist in 8 blocks", more=0.1, blocks_searched=8),
    World("influence .15, finalist in 8 blocks", more=0.15, blocks_searched=8),
    World("influence .15, finalist in 7 blocks", more=0.15, blocks_searched=7),
    World("influence .4, finalist in no block", more=0.4, blocks_searched=0),
)

RULES: Final = ("raw", "adjusted alone", "adjusted")
"""Gain shown by raw differences; by adjusted ones; and, as in a campaign, by adjusted ones at the
same error and also by raw ones at eight times that error."""


@dataclass(frozen=True, slots=True)
class AdjustedRow:
    """How often a rule shows a gain on `paths` fresh paths of `histories` campaigns.

    used, refused: share of the campaigns with an adjustment, and with a refused covariate.
    error_se: standard error of `shown`, from its variation between campaigns. limit: the promise,
    NaN if there is none; kept: whether shown <= limit + 3 standard errors of the limit itself.
    """

    world: str
    gain: float
    rule: str
    histories: int
    paths: int
    used: float
    refused: float
    shown: float
    error_se: float
    limit: float
    kept: bool


def history(world: World, rng: np.random.Generator) -> Observations:
    """Draw pilot and search of a campaign. Trials 2 and 3 are replaced every four blocks, and so is
    the trial in the finalist's place before its first block.
    """
    before = SEARCH_BLOCKS - world.blocks_searched
    parts = (
        replace(world, more=0.0, times=1.0).blocks(rng, (before,), SEARCH_ARMS),
        world.blocks(rng, (world.blocks_searched,), SEARCH_ARMS),
    )
    y, z = (np.concatenate(of) for of in zip(*parts, strict=True))
    block = np.repeat(np.arange(SEARCH_BLOCKS), SEARCH_ARMS - 1)
    trial = np.tile(np.arange(1, SEARCH_ARMS), SEARCH_BLOCKS)
    trial = np.where(trial > 1, trial + (SEARCH_ARMS - 2) * (block // 4), trial)
    trial = np.where((trial == 1) & (block < before), 10 + block // 4, trial)
    covariates = np.full((len(trial), len(COVARIATES)), np.nan)
    covariates[:, _OTHERS] = (z[:, 1:] - z[:, :1]).ravel()
    return Observations(trial, block, (y[:, 1:] - y[:, :1]).reshape(-1, 1), covariates)


def gains_shown(
    adjustment: Adjustment, d: Floats, dz: Floats, max_n: int = FRESH_BLOCKS
) -> Mapping[str, Flags]:
    """Whether each of the RULES ever shows a gain, by path; d and dz: (paths, blocks)."""
    covariates = np.full((*dz.shape, len(COVARIATES)), np.nan)
    covariates[..., _OTHERS] = dz
    raw = e_values(-d)[:, MIN_PAIRS - 1 :]
    model = adjustment.score
    mine = e_values(-model.adjusted(d, covariates))[:, MIN_PAIRS - 1 :] if model.used else raw
    level, lower = (threshold(a, max_n) for a in (ALPHA_CERTIFY, raw_alpha(ALPHA_CERTIFY)))
    flags = (raw >= level, mine >= level, (mine >= level) & (raw >= lower))
    return {rule: np.any(by, axis=1) for rule, by in zip(RULES, flags, strict=True)}


def adjusted_rows(histories: int) -> Iterator[AdjustedRow]:
    """Yield a row for each world, gain and rule."""
    for number, world in enumerate(WORLDS):
        yield from _of_world(world, np.random.default_rng([_SEED, number]), histories)


def _of_world(world: World, rng: np.random.Generator, histories: int) -> Iterator[AdjustedRow]:
    shares = {(gain, rule): np.zeros(histories) for gain in GAINS for rule in RULES}
    used = refused = 0
    for number in range(histories):
        adjustment = fit_adjustment(history(world, rng), [1.0], finalist=1, seed=number)
        used += adjustment.score.used
        refused += bool(adjustment.refusals)
        y, z = world.blocks(rng, (_HISTORIES_FRESH, FRESH_BLOCKS), 2)
        d, dz = (x[..., 1] - x[..., 0] for x in (y, z))
        for gain in GAINS:
            for rule, flags in gains_shown(adjustment, d - gain, dz).items():
                shares[gain, rule][number] = flags.mean()
    paths = histories * _HISTORIES_FRESH
    for (gain, rule), share in shares.items():
        limit = math.nan
        if gain == 0.0 and rule == "adjusted":
            limit = raw_alpha(ALPHA_CERTIFY) if world.influenced else ALPHA_CERTIFY
        elif gain == 0.0 and rule == "raw":
            limit = ALPHA_CERTIFY
        share_shown = float(share.mean())
        yield AdjustedRow(
            world=world.name,
            gain=gain,
            rule=rule,
            histories=histories,
            paths=paths,
            used=used / histories,
            refused=refused / histories,
            shown=share_shown,
            error_se=float(share.std(ddof=1)) / math.sqrt(histories),
            limit=limit,
            kept=math.isnan(limit)
            or share_shown <= limit + 3.0 * math.sqrt(limit * (1.0 - limit) / paths),
        )


def adjusted_table(rows: Sequence[AdjustedRow]) -> str:
    """Return a Markdown table: per world, use of the adjustment and rates of each rule by gain."""
    heads = ["what others do", "adjusted", "refused"]
    heads += [
        f"{'no gain' if not gain else f'gain {gain:g}'}: {', '.join(RULES)}" for gain in GAINS
    ]
    lines = [heads, ["---"] * len(heads)]
    for world in WORLDS:
        by_rule = {(row.gain, row.rule): row for row in rows if row.world == world.name}
        one = by_rule[GAINS[0], RULES[0]]
        cells = [world.name, f"{one.used:.2f}", f"{one.refused:.2f}"]
        for gain in GAINS:
            digits = 4 if gain == 0.0 else 2
            cells.append(", ".join(f"{_share(by_rule[gain, rule]):.{digits}f}" for rule in RULES))
        lines.append(cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _share(row: AdjustedRow) -> float:
    """Round to whole paths, so that a row read back from the file is printed the same way."""
    return round(row.shown * row.paths) / row.paths
