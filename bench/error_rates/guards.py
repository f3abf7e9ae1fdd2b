"""Whether the guards warn in campaigns that come to a wrong answer.

Simulates campaigns in which no configuration differs from the baseline, or all are exactly delta
faster, and counts those in which a rule is wrong and a guard has warned.

A campaign consists of a pilot (the baseline against a twin with the same configuration); races of
CANDIDATES new candidates, each measured in up to RACE_BLOCKS blocks with the baseline and dropped
as soon as it is shown to be futile; then up to CERTIFY_BLOCKS fresh blocks of one finalist and the
baseline. A single noise path runs through all of it. The guards examine the same campaign with each
of the PILOTS.

Guards matter in campaigns with a wrong answer: a certificate without a gain, or a candidate dropped
although it is delta faster. In a campaign with a right answer nothing is lost if they are silent.
A mistake counts as caught if any guard warns or refuses, given the measurements up to that point
(certificate) or up to the end of the search (dropped candidate). The pilot's own warnings do not
count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.error_rates.noise import Noise, Stage
from bench.error_rates.rules import ALPHA_CERTIFY, ALPHA_PRUNE, Flags, Paths, certified, confirmed
from tuner.judge.assumptions import (
    Alarm,
    Guard,
    GuardKind,
    dependence,
    disagreement,
    skewness,
    trend,
)
from tuner.judge.evalue import MIN_PAIRS, Floats, e_values
from tuner.judge.power import detectable_effect
from tuner.judge.score import margin
from tuner.judge.thresholds import threshold

CANDIDATES: Final = 3
RACE_BLOCKS: Final = 10
CERTIFY_BLOCKS: Final = 20
PILOT_BLOCKS: Final = 20
FEWEST_PILOT_BLOCKS: Final = 8

PILOTS: Final = ("none", "as run", "20 blocks")
"""No pilot; one that ends once it finds the baseline equal to its twin, as in a campaign; and one
that always runs all its blocks.
"""

_DELTA: Final = 0.02
_ALPHA_EQUAL: Final = 0.05
_SIGHT: Final = 1.75
_ASKS_ROBUST: Final = (GuardKind.SKEWNESS, GuardKind.DEPENDENCE, GuardKind.DISAGREEMENT)


@dataclass(frozen=True, slots=True)
class Detection:
    """Counts for one kind of mistake under one kind of noise.

    chances: opportunities for the mistake; mistakes: how often it was made, promised to be at most
    the share `promised` of the chances. wrong: share of the campaigns with a mistake. seen: such
    campaigns that the guards examined; warned: those of them with a warning; left: those in which
    the mistake remains when the guards' advice is followed. quiet: campaigns without a mistake that
    the guards examined; noisy: those of them with a warning.
    """

    promised: float
    chances: int
    mistakes: int
    wrong: float
    seen: int
    warned: int
    left: int
    quiet: int
    noisy: int

    @property
    def matters(self) -> bool:
        """Whether the promise is broken, that is by more than 3 standard errors."""
        error = math.sqrt(self.promised * (1.0 - self.promised) / self.chances)
        return self.mistakes / self.chances > self.promised + 3.0 * error


@dataclass(frozen=True, slots=True)
class Look:
    """The maximum numbers of campaigns with and without a mistake that the guards examine."""

    wrong: int
    quiet: int

    def at(self, wrong: Flags) -> tuple[list[int], list[int]]:
        """Return the first campaigns of either kind. wrong: shape (campaigns,)."""
        with_one, without = (np.flatnonzero(kind).tolist() for kind in (wrong, ~wrong))
        return with_one[: self.wrong], without[: self.quiet]


@dataclass(frozen=True, slots=True)
class Campaigns:
    """Measured differences (NaN once a candidate has ended), and which candidates were dropped.

    pilot: (campaigns, blocks), to its last block; pilot_ends: the number of blocks after which a
    campaign's pilot would end. search: (campaigns, candidates, blocks); dropped: (campaigns,
    candidates). fresh: log times, (campaigns, blocks, 2).
    """

    pilot: Floats
    pilot_ends: NDArray[np.int64]
    search: Floats
    dropped: Flags
    fresh: Floats

    def before(self, campaign: int, pilot: str) -> Floats:
        """Return all series before certification, shape (1 + candidates, blocks), pilot first."""
        search = self.search[campaign]
        blocks = {"none": 0, "as run": int(self.pilot_ends[campaign])}.get(pilot, PILOT_BLOCKS)
        series = np.full((1 + len(search), PILOT_BLOCKS + search.shape[1]), np.nan)
        series[0, :blocks] = self.pilot[campaign, :blocks]
        series[1:, PILOT_BLOCKS:] = search
        return series


def campaigns_of(
    noise: Noise, rng: np.random.Generator, campaigns: int, races: int, gain: float
) -> Campaigns:
    """Simulate campaigns in which all true log times are `gain` below the baseline's."""
    stages = [Stage(PILOT_BLOCKS, 2, twin=True)]
    stages += [Stage(RACE_BLOCKS, 1 + CANDIDATES)] * races
    pilot, *log_s, fresh = noise.through(rng, campaigns, [*stages, Stage(CERTIFY_BLOCKS, 2)])
    width = races * CANDIDATES
    d = np.full((campaigns, width, races * RACE_BLOCKS), np.nan)
    dropped = np.zeros((campaigns, width), dtype=np.bool_)
    level = threshold(ALPHA_PRUNE, RACE_BLOCKS)
    for race, of_arms in enumerate(log_s):
        of_race = np.moveaxis(of_arms[..., 1:] - of_arms[..., :1], 2, 1) - gain
        is_worse = e_values(of_race + margin(_DELTA)) >= level
        is_worse[..., : MIN_PAIRS - 1] = False
        ever = is_worse.any(axis=-1)
        last = np.where(ever, is_worse.argmax(axis=-1), RACE_BLOCKS - 1)
        is_out = np.arange(RACE_BLOCKS) > last[..., None]
        rows = slice(race * CANDIDATES, (race + 1) * CANDIDATES)
        columns = slice(race * RACE_BLOCKS, (race + 1) * RACE_BLOCKS)
        d[:, rows, columns] = np.where(is_out, np.nan, of_race)
        dropped[:, rows] = ever
    twins = pilot[..., 1] - pilot[..., 0]
    return Campaigns(twins, pilot_ends(twins), d, dropped, fresh)


def pilot_ends(d: Floats) -> NDArray[np.int64]:
    """Return the number of blocks after which `tuner.judge.pilot` finds twins equal; else all.

    d: (campaigns, blocks). Never fewer than FEWEST_PILOT_BLOCKS. Equal means within delta, or
    within what the campaign can certify or the pilot can resolve at this noise if that is more.
    """
    most = d.shape[1]
    sight = max(
        detectable_effect(CERTIFY_BLOCKS, ALPHA_CERTIFY),
        _SIGHT * detectable_effect(most, _ALPHA_EQUAL),
    )
    level = threshold(_ALPHA_EQUAL, most)
    ends = np.full(len(d), most, dtype=np.int64)
    for n in range(most - 1, FEWEST_PILOT_BLOCKS - 1, -1):
        so_far = d[:, :n]
        within = np.maximum(margin(_DELTA), sight * so_far.std(axis=1, ddof=1))[:, None]
        above, below = (e_values(x)[:, -1] for x in (so_far + within, within - so_far))
        ends[np.minimum(above, below) >= level] = n
    return ends


def false_certificates(
    noise: Noise, rng: np.random.Generator, campaigns: int, races: int, look: Look
) -> Mapping[str, Detection]:
    """Count certificates issued although nothing differs, by pilot."""
    of = campaigns_of(noise, rng, campaigns, races, 0.0)
    paths = Paths(of.fresh)
    certificates, robust = (rule(paths, CERTIFY_BLOCKS) for rule in (certified, confirmed))
    wrong: Flags = np.logical_or.reduce(certificates, axis=1)
    sample, quiet = look.at(wrong)
    detections = {}
    for pilot in PILOTS:
        warned = standing = 0
        for one in sample:
            claimed = MIN_PAIRS + int(certificates[one].argmax())
            before = of.before(one, pilot)
            warned += bool(_warnings(noise, before, paths.d[one, :claimed]))
            standing += _stands(noise, before, paths.d[one], certificates[one], robust[one])
        noisy = sum(bool(_warnings(noise, of.before(one, pilot), paths.d[one])) for one in quiet)
        detections[pilot] = Detection(
            promised=ALPHA_CERTIFY,
            chances=campaigns,
            mistakes=int(wrong.sum()),
            wrong=float(wrong.mean()),
            seen=len(sample),
            warned=warned,
            left=standing,
            quiet=len(quiet),
            noisy=noisy,
        )
    return detections


def wrong_drops(
    noise: Noise, rng: np.random.Generator, campaigns: int, races: int, look: Look
) -> Mapping[str, Detection]:
    """Count candidates dropped although they are delta faster, by pilot."""
    of = campaigns_of(noise, rng, campaigns, races, margin(_DELTA))
    wrong: Flags = np.logical_or.reduce(of.dropped, axis=1)
    sample, quiet = look.at(wrong)
    detections = {}
    for pilot in PILOTS:
        warned, noisy = (
            sum(bool(_warnings(noise, of.before(one, pilot))) for one in some)
            for some in (sample, quiet)
        )
        detections[pilot] = Detection(
            promised=ALPHA_PRUNE,
            chances=of.dropped.size,
            mistakes=int(of.dropped.sum()),
            wrong=float(wrong.mean()),
            seen=len(sample),
            warned=warned,
            left=len(sample) - warned,
            quiet=len(quiet),
            noisy=noisy,
        )
    return detections


Mistake = Callable[[Noise, np.random.Generator, int, int, Look], Mapping[str, Detection]]
MISTAKES: Final[Mapping[str, Mistake]] = {
    "false certificate": false_certificates,
    "good one dropped": wrong_drops,
}


def _warnings(noise: Noise, before: Floats, fresh: Floats | None = None) -> list[Guard]:
    """Return the guards that warn, given pilot, search and the finalist's fresh differences so far.

    They examine the data of `tuner.judge.assumptions.watch`; the first series is the pilot's.
    """
    series = before if fresh is None else _together(before, fresh)
    testbed = np.arange(series.shape[1]) % noise.testbeds
    guards = [skewness(series[1:]), dependence(series, testbed), trend(series)]
    if fresh is not None:
        level = threshold(ALPHA_CERTIFY, CERTIFY_BLOCKS)
        guards.append(disagreement(fresh, threshold=level, alpha=ALPHA_CERTIFY))
    return [guard for guard in guards if guard.alarm is not Alarm.NONE]


def _stands(
    noise: Noise, before: Floats, fresh: Floats, certificates: Flags, robust: Flags
) -> bool:
    """Whether any look still certifies under the conditions that guards impose in campaigns."""
    for look in np.flatnonzero(certificates):
        warnings = _warnings(noise, before, fresh[: MIN_PAIRS + int(look)])
        is_refused = any(guard.alarm is Alarm.REFUSE for guard in warnings)
        needs_robust = any(guard.kind in _ASKS_ROBUST for guard in warnings)
        if not is_refused and (robust[look] or not needs_robust):
            return True
    return False


def _together(before: Floats, fresh: Floats) -> Floats:
    """Append the fresh differences as another series, on separate blocks."""
    series = np.full((len(before) + 1, before.shape[1] + fresh.size), np.nan)
    series[:-1, : before.shape[1]] = before
    series[-1, before.shape[1] :] = fresh
    return series
