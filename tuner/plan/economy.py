"""What to spend the rest of the budget on: more search, a certificate, or nothing. Pure.

A certificate is worth its blocks when it is likely to succeed: when both the gain and the floors
are likely to be shown, according to what the search knows of the candidate. It is attempted early
if that costs a few blocks or little of the remaining budget, and no more than what was spent so
far, or if nothing better is in prospect, and at the latest when the remaining budget would
otherwise become too small.
The same holds for a candidate that is delta better than what has been certified: users get it at
once, and the search continues.

Once nothing better is in prospect or could still be certified, the certified configuration gets
further fresh blocks, which narrow its intervals.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.levels import FLOOR_ALPHA, planned_blocks
from tuner.judge.power import Forecast, power_by
from tuner.judge.robust import fewest_pairs
from tuner.judge.score import margin
from tuner.model import Configuration
from tuner.plan.answering import least_step
from tuner.plan.attempts import alpha_of
from tuner.plan.batches import whole_batches
from tuner.plan.guide import Noise, View
from tuner.plan.rules import Floors, Rules
from tuner.propose.prediction import Prediction

#: Probability of success at which an attempt is worth making before it has to be.
_LIKELY = 0.85
#: The same for a further attempt that must be made now or never.
_WORTH = 0.3
#: What an early attempt may cost: this share of the remaining budget, or this many blocks if they
#: are more. In campaigns of 80 arms, the share alone allows no attempt that has to show floors.
_CHEAP, _CHEAP_BLOCKS = 0.15, 6
#: The last attempts that may be made early, for a larger gain and for fewer settings: each has a
#: smaller share of the error than the one before.
_LAST_FOR_GAIN, _LAST_FOR_FEWER = 3, 6
#: Remaining share of the budget from which a simpler configuration than the certified one is tried.
_SETTLED = 0.5
#: Probability at or below which nothing better is in prospect.
_HOPELESS = 0.2
#: Fresh blocks to plan for at least: they certify an effect of a few times its noise.
_FEWEST = 5
#: More measurements than any campaign has.
_MANY = 10**12
#: Nodes and weights of the Gauss-Hermite rule that averages over the uncertainty of the gain.
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)


class Move(StrEnum):
    """The next kind of step."""

    SEARCH = "search"
    CERTIFY = "certify"
    NARROW = "narrow"
    FINISH = "finish"


def forecast_of(
    prediction: Prediction,
    noise: Noise,
    rules: Rules,
    attempt: int,
    blocks: int,
    fewest: int = MIN_PAIRS,
) -> Forecast:
    """Forecast attempt number ``attempt`` with this finalist, given at most ``blocks`` fresh
    blocks.

    ``fewest``: blocks needed in any case.
    """
    most = min(blocks, planned_blocks(rules.certify_blocks))
    if most < MIN_PAIRS or noise.score <= 0.0:
        return Forecast(float(noise.score <= 0.0 < prediction.gain), float(MIN_PAIRS))
    gains = (prediction.gain + prediction.error * _POINTS) / noise.score
    weights = _WEIGHTS / _WEIGHTS.sum()
    alpha = _alpha(attempt, rules)
    by_block = power_by(gains, most, planned_blocks(rules.certify_blocks), alpha).T @ weights
    by_block = by_block * _floors(prediction, noise, rules, attempt, most)
    by_block[: max(0, fewest - MIN_PAIRS)] = 0.0
    return Forecast.of(by_block)


def _alpha(attempt: int, rules: Rules) -> float:
    """Error that the best of the finalists of an attempt must keep, see ``judge.certify``."""
    return alpha_of(attempt) / rules.finalists


def _floors(
    prediction: Prediction, noise: Noise, rules: Rules, attempt: int, most: int
) -> np.ndarray:
    """Probability that every floor is shown to be met, by number of blocks. Components are treated
    as partly dependent: each contributes the square root of its probability.
    """
    alpha = _alpha(attempt, rules) if rules.floors is Floors.STRICT else FLOOR_ALPHA
    room = margin(rules.race.floor)
    chances = np.ones(most - MIN_PAIRS + 1)
    for (mean, error), spread in zip(prediction.components, noise.components, strict=True):
        if spread > 0.0:
            effect = (room - mean) / math.hypot(spread, error)
            by_block = power_by(
                np.array([effect]), most, planned_blocks(rules.certify_blocks), alpha
            )[0]
            chances = chances * np.sqrt(by_block)
    return chances


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The state of a campaign that the next move depends on.

    ``attempt``: the number of the next attempt at a certificate. ``answers``: the predictions for
    the answers so far, of which the last counts; ``wide``: further fresh blocks would tell more
    about it. ``proven``: the configurations that have a certificate. ``arms_left``, ``total_arms``:
    of the budget, at the pace so far. ``measured``: arms in complete blocks; unlike all arms, the
    same after an interruption. ``can_search``: whether a further block of the search has something
    to measure, called only where it matters: choosing that takes most of the time of a decision.
    ``may_add``: it may have new configurations; ``own_trials``: what is expected of the campaign's
    own, asked for where no others may be added. ``refuted``: since the newest block of the search,
    an attempt has failed. ``suspect``: the guards require a certificate to pass the sign-flip test
    too. ``searched``: a block of the search is complete.
    """

    attempt: int
    arms_left: float
    total_arms: float
    measured: int
    can_search: Callable[[], bool]
    may_add: bool = True
    own_trials: Callable[[], Sequence[Prediction]] = tuple
    refuted: bool = False
    answers: tuple[Prediction, ...] = ()
    wide: bool = False
    proven: frozenset[Configuration] = frozenset()
    suspect: bool = False
    searched: bool = True

    @property
    def certified(self) -> Prediction | None:
        """The prediction for the answer so far."""
        return self.answers[-1] if self.answers else None

    def fewest(self, rules: Rules) -> int:
        """Minimum number of blocks of the next attempt."""
        smallest = fewest_pairs(_alpha(self.attempt, rules)) if self.suspect else 0
        return max(MIN_PAIRS, smallest)

    @property
    def is_late(self) -> bool:
        """Whether the search has had time to find out which settings matter."""
        return self.arms_left <= _SETTLED * self.total_arms

    def after_search(self, rules: Rules) -> float:
        """Arms left after one more block of the search."""
        return self.arms_left - rules.testbeds * (1 + rules.arms)

    def can_narrow(self, rules: Rules) -> bool:
        """Whether the certified configuration can be measured again, and that is worthwhile."""
        return self.certified is not None and self.wide and self.arms_left >= 2 * rules.testbeds


def attempt_rules(rules: Rules, at: Position) -> Rules:
    """Return the rules of the next attempt: with fewer finalists where the budget has no room left
    for all of them, so that a campaign that has found nothing so far can use the rest of it.

    The attempt's error is divided among the finalists of its first block, and their number depends
    on earlier blocks only. A campaign does not begin like that: see ``first_fresh_blocks``.
    """
    if not at.searched or fresh_blocks(at.arms_left, rules) >= MIN_PAIRS:
        return rules
    fit = int(at.arms_left / whole_batches(_FEWEST, rules.testbeds)) - 1
    return replace(rules, finalists=max(1, min(rules.finalists, fit)))


def candidate(view: View, rules: Rules, at: Position) -> Prediction | None:
    """Return the configuration that an attempt would certify; None if nothing looks better than the
    baseline.

    At first it has every setting that may add to the gain: users wait for a gain, and which
    settings matter shows late. Once a gain is certified and the search has had its time, it has
    only those that the gain needs. Where no configuration may be added, it is the best trial of
    which a certificate would be news, otherwise the best one.
    """
    if not at.may_add:
        own = [each for each in _best_first(at.own_trials()) if each.gain > 0.0]
        return next((each for each in own if _worth(each, rules, at)), next(iter(own), None))
    if at.answers and at.is_late:
        return view.simplest(max(at.answers, key=lambda each: each.gain).configuration)
    return view.best


def finalists(
    best: Prediction, trials: Sequence[Prediction], rules: Rules, at: Position
) -> tuple[Configuration, ...]:
    """Return the configurations to certify together: the candidate, and those of the ``trials``
    that promise most besides it, as many as the attempt may have. What has a certificate would only
    take blocks and a share of the error.
    """
    least, out = margin(rules.race.delta), {best.configuration, *at.proven}
    others = (each.configuration for each in _best_first(trials) if each.gain >= least)
    every = (best.configuration, *(each for each in others if each not in out))
    return every[: attempt_rules(rules, at).finalists]


def _best_first(predictions: Sequence[Prediction]) -> list[Prediction]:
    return sorted(predictions, key=lambda each: -each.gain * each.feasible)


def next_move(view: View, best: Prediction | None, rules: Rules, at: Position) -> Move:
    """Decide whether to search on, to begin an attempt with the candidate, to measure the certified
    configuration further, or to finish.

    ``best``: the candidate, see ``candidate``.
    """
    rules = attempt_rules(rules, at)
    per_block = 1 + rules.finalists
    blocks = fresh_blocks(at.arms_left, rules)
    if blocks < MIN_PAIRS or best is None or not _worth(best, rules, at):
        return _without_finalist(view, rules, at)
    forecast = forecast_of(best, view.noise, rules, at.attempt, blocks, at.fewest(rules))
    early = _large_step(best, rules, at) or _simpler(best, at)
    # Little was learned from the first blocks, and the next may find what takes fewer to certify.
    affordable = min(max(_CHEAP * at.arms_left, _CHEAP_BLOCKS * per_block), at.measured)
    cheap = early and per_block * max(forecast.mean_blocks, rules.testbeds) <= affordable
    share = max(_FEWEST, rules.certify_share * at.total_arms / per_block)
    enough = min(share, max(_FEWEST, math.ceil(1.3 * forecast.mean_blocks)), rules.certify_blocks)
    if at.after_search(rules) >= _arms_of(enough, rules):
        likely = forecast.power >= _LIKELY
        better = best.gain + margin(rules.race.delta)
        # After a failed attempt, what the search expects is not to be trusted before it has learned
        # more: otherwise one wrong expectation after another would be put to the test.
        if (
            at.refuted
            or not likely
            or not (cheap or view.hope(better, new=at.may_add) <= _HOPELESS)
        ) and at.can_search():
            return Move.SEARCH
    # The first attempt is always worth making: it bounds the gain that may remain.
    if at.attempt == 1 or forecast.power >= _WORTH:
        return Move.CERTIFY
    if at.can_narrow(rules):
        return Move.NARROW
    return Move.SEARCH if at.after_search(rules) >= 0 and at.can_search() else Move.FINISH


def _large_step(best: Prediction, rules: Rules, at: Position) -> bool:
    """Whether the best candidate gains delta more than the certified one, so that it should not
    wait for something better still. It must be so at one standard error below its expected gain: of
    many candidates, the one that looks best is usually overestimated.
    """
    if at.certified is None:
        return True
    more = best.gain - best.error - at.certified.gain
    return at.attempt <= _LAST_FOR_GAIN and more >= margin(rules.race.delta)


def _simpler(best: Prediction, at: Position) -> bool:
    """Whether the candidate has fewer settings than the certified configuration, and the search has
    had time to find out which settings matter. Waiting for the end would leave this to the last
    decision.
    """
    return (
        at.certified is not None
        and best.changes < at.certified.changes
        and at.attempt <= _LAST_FOR_FEWER
        and at.is_late
    )


def _without_finalist(view: View, rules: Rules, at: Position) -> Move:
    """Decide on the next move when no candidate is worth an attempt."""
    narrow = at.can_narrow(rules)
    after = at.after_search(rules)
    if at.certified is not None and narrow:
        better = at.certified.gain + margin(rules.race.delta)
        then = attempt_rules(rules, replace(at, arms_left=after))
        later = fresh_blocks(after, then)
        if (
            not _certifiable(better, at.certified, view.noise, then, at, later)
            or view.hope(better, new=at.may_add) <= _HOPELESS
        ):
            return Move.NARROW
    # Leave what the shortest attempt needs while a large effect may still turn up. More would be of
    # no use: the alternative is to finish, without having used it.
    shortest = replace(rules, finalists=1) if at.searched else rules
    room = _arms_of(MIN_PAIRS, shortest) if at.certified is None else 0.0
    if after >= room and at.can_search():
        return Move.SEARCH
    return Move.NARROW if narrow else Move.FINISH


def fresh_blocks(arms: float, rules: Rules) -> int:
    """How many blocks of an attempt these arms allow, measured on all testbeds at once.

    ``arms``: infinite before the first measurement.
    """
    per_batch = rules.testbeds * (1 + rules.finalists)
    batches = int(min(arms / per_batch, rules.certify_blocks))
    return min(batches * rules.testbeds, rules.certify_blocks)


def first_fresh_blocks(measurements: int, rules: Rules, *, guided: bool = False) -> int:
    """How many fresh blocks the first attempt of a campaign may have at most, or how few there are
    if the pilot advises against it because of that. At first come the shortest pilot and, unless
    other campaigns have ``guided`` the search, a block of the search.
    """
    arms = float(measurements)
    if rules.pilot is not None:
        limit = None if rules.compares or rules.pilot_override else rules.pilot
        if limit is not None and (few := limit.certify_room(measurements)) < MIN_PAIRS:
            return few
        arms -= 2 * min(rules.pilot.max_blocks, whole_batches(MIN_PAIRS, rules.testbeds))
    if not (rules.compares or guided):
        arms -= rules.testbeds * (1 + rules.arms)
    return fresh_blocks(max(0.0, arms), rules)


def least_measurements(rules: Rules, *, guided: bool = False) -> int:
    """With how many measurements a campaign can certify something at all; ``guided``: see
    ``first_fresh_blocks``.
    """
    return bisect_left(
        range(_MANY), MIN_PAIRS, key=lambda n: first_fresh_blocks(n, rules, guided=guided)
    )


def _arms_of(blocks: float, rules: Rules) -> float:
    """Arms that an attempt needs for this many blocks."""
    return whole_batches(blocks, rules.testbeds) * (1 + rules.finalists)


def _certifiable(
    gain: float, like: Prediction, noise: Noise, rules: Rules, at: Position, blocks: int
) -> bool:
    """Whether this many blocks would probably certify such a gain, with the floors of ``like``."""
    prediction = replace(like, gain=gain, error=0.0)
    forecast = forecast_of(prediction, noise, rules, at.attempt, blocks, at.fewest(rules))
    return forecast.power >= _WORTH


def _worth(best: Prediction, rules: Rules, at: Position) -> bool:
    """Whether certifying the best candidate would be news: it is the first gain, and compared with
    every answer so far a larger gain, or about the same gain with fewer settings.
    """
    if best.gain < margin(rules.race.delta) or best.configuration in at.proven:
        return False
    return all(_is_news(best, answer, rules) for answer in at.answers)


def _is_news(best: Prediction, answer: Prediction, rules: Rules) -> bool:
    more = best.gain - answer.gain
    step = least_step(best, answer, rules.race.delta)
    # Whether it loses too much is known only once it has fresh blocks, too.
    simpler = step < 0.0 and more >= step - best.error
    return simpler or more >= max(abs(step), best.error)
