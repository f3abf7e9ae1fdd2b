"""Whether the guards speak up in the campaigns that go wrong.

Owns a simulated campaign in which no configuration differs from the baseline, or all are exactly
delta faster, and the count of the campaigns in which a rule is wrong and a guard has warned.

A campaign: races of CANDIDATES fresh candidates, each in up to RACE_BLOCKS blocks with the
baseline and dropped as soon as it is found futile; then up to CERTIFY_BLOCKS fresh blocks of one
finalist and the baseline.

Where guards matter: the campaigns that come to a wrong answer, a certificate without a gain or a
candidate dropped although it is delta faster. A campaign that ends right loses nothing by silence.
They count as caught where, on what was measured until then (certificate) or by the end of the
search (dropped candidate), any guard warns or refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.error_rates.noise import Noise
from bench.error_rates.rules import ALPHA_CERTIFY, ALPHA_PRUNE, Found, Paths, certified, confirmed
from tuner.judge.evalue import MIN_PAIRS, Floats, e_values
from tuner.judge.monitors import Alarm, Guard, dependence, disagreement, skewness, trend
from tuner.judge.score import margin
from tuner.judge.thresholds import threshold

CANDIDATES: Final = 3
RACE_BLOCKS: Final = 10
CERTIFY_BLOCKS: Final = 20
_DELTA: Final = 0.02


@dataclass(frozen=True, slots=True)
class Caught:
    """Counts of one mistake under one noise.

    chances: how often it could be made; mistakes: how often it was, promised at most `promised` of
    the chances. wrong: campaigns with a mistake; warned: those with a guard's warning; left: those
    in which it stands when the guards' advice is taken. looked_at: campaigns without one that were
    looked at; noisy: those with a warning.
    """

    promised: float
    chances: int
    mistakes: int
    campaigns: int
    wrong: int
    warned: int
    left: int
    looked_at: int
    noisy: int

    @property
    def matters(self) -> bool:
        """Whether the promise is broken: the mistake is too frequent by 3 standard errors."""
        error = math.sqrt(self.promised * (1.0 - self.promised) / self.chances)
        return self.mistakes / self.chances > self.promised + 3.0 * error


@dataclass(frozen=True, slots=True)
class Searches:
    """What the searches measured: differences (campaigns, candidates, blocks), NaN after the end of
    a candidate; dropped: (campaigns, candidates).
    """

    d: Floats
    dropped: Found


def searches(
    noise: Noise, rng: np.random.Generator, campaigns: int, races: int, gain: float
) -> Searches:
    """Search campaigns; every candidate's true log time is `gain` below the baseline's."""
    width = races * CANDIDATES
    d = np.full((campaigns, width, races * RACE_BLOCKS), np.nan)
    dropped = np.zeros((campaigns, width), dtype=np.bool_)
    level = threshold(ALPHA_PRUNE, RACE_BLOCKS)
    for race in range(races):
        log_s = noise.draw(rng, (campaigns, RACE_BLOCKS, 1 + CANDIDATES))
        of_race = np.moveaxis(log_s[..., 1:] - log_s[..., :1], 2, 1) - gain
        shown = e_values(of_race + margin(_DELTA)) >= level
        shown[..., : MIN_PAIRS - 1] = False
        ever = shown.any(axis=-1)
        last = np.where(ever, shown.argmax(axis=-1), RACE_BLOCKS - 1)
        gone = np.arange(RACE_BLOCKS) > last[..., None]
        rows = slice(race * CANDIDATES, (race + 1) * CANDIDATES)
        columns = slice(race * RACE_BLOCKS, (race + 1) * RACE_BLOCKS)
        d[:, rows, columns] = np.where(gone, np.nan, of_race)
        dropped[:, rows] = ever
    return Searches(d, dropped)


def false_certificates(
    noise: Noise, rng: np.random.Generator, campaigns: int, races: int, quiet: int
) -> Caught:
    """Certificates given although nothing differs. quiet: how many others to look at."""
    search = searches(noise, rng, campaigns, races, 0.0)
    paths = Paths(noise.draw(rng, (campaigns, CERTIFY_BLOCKS, 2)))
    shown, robust = (rule(paths, CERTIFY_BLOCKS) for rule in (certified, confirmed))
    wrong = shown.any(axis=1)
    warned = left = 0
    for one in np.flatnonzero(wrong):
        claimed = MIN_PAIRS + int(shown[one].argmax())
        warned += bool(_warnings(search.d[one], paths.d[one, :claimed]))
        left += _stands(search.d[one], paths.d[one], shown[one], robust[one])
    others = np.flatnonzero(~wrong)[:quiet]
    noisy = sum(bool(_warnings(search.d[one], paths.d[one])) for one in others)
    count = int(wrong.sum())
    return Caught(
        ALPHA_CERTIFY, campaigns, count, campaigns, count, warned, left, len(others), noisy
    )


def wrong_drops(
    noise: Noise, rng: np.random.Generator, campaigns: int, races: int, quiet: int
) -> Caught:
    """Candidates dropped although they are delta faster. quiet: how many others to look at."""
    search = searches(noise, rng, campaigns, races, margin(_DELTA))
    wrong = search.dropped.any(axis=1)
    warned = sum(bool(_warnings(search.d[one])) for one in np.flatnonzero(wrong))
    others = np.flatnonzero(~wrong)[:quiet]
    noisy = sum(bool(_warnings(search.d[one])) for one in others)
    count, drops = int(wrong.sum()), search.dropped
    return Caught(
        ALPHA_PRUNE,
        drops.size,
        int(drops.sum()),
        campaigns,
        count,
        warned,
        count - warned,
        len(others),
        noisy,
    )


MISTAKES: Final[Mapping[str, Callable[[Noise, np.random.Generator, int, int, int], Caught]]] = {
    "false certificate": false_certificates,
    "good one dropped": wrong_drops,
}


def _warnings(search: Floats, fresh: Floats | None = None) -> list[Guard]:
    """The guards that warn, given the search and the finalist's fresh differences so far."""
    series = search if fresh is None else _together(search, fresh)
    guards = [skewness(series), dependence(series), trend(series)]
    if fresh is not None:
        level = threshold(ALPHA_CERTIFY, CERTIFY_BLOCKS)
        guards.append(disagreement(fresh, threshold=level, alpha=ALPHA_CERTIFY))
    return [guard for guard in guards if guard.alarm is not Alarm.NONE]


def _stands(search: Floats, fresh: Floats, shown: Found, robust: Found) -> bool:
    """Whether a look certifies when advice is taken: any warning asks for the sign-flip test's
    consent at that look, strong dependence refuses.
    """
    for look in np.flatnonzero(shown):
        warnings = _warnings(search, fresh[: MIN_PAIRS + int(look)])
        refused = any(guard.alarm is Alarm.REFUSE for guard in warnings)
        if not refused and (robust[look] or not warnings):
            return True
    return False


def _together(search: Floats, fresh: Floats) -> Floats:
    """The fresh differences as one more series, on blocks of its own."""
    series = np.full((len(search) + 1, search.shape[1] + fresh.size), np.nan)
    series[:-1, : search.shape[1]] = search
    series[-1, search.shape[1] :] = fresh
    return series
