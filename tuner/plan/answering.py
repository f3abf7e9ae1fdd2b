"""Which certified finalist is the answer, and when that is decided. Pure.

Every block changes the estimates a little. So that configurations that gain about the same do not
take turns as the answer, it is decided at a few looks only, and what has replaced an earlier answer
keeps an advantage over it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from tuner.judge.score import margin
from tuner.model import Trial
from tuner.plan.attempts import Attempt
from tuner.plan.certifying import Certification, certified_finalists
from tuner.plan.guide import Guide
from tuner.plan.judging import Judge
from tuner.plan.rounds import measured
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import Finish
from tuner.propose.prediction import Prediction

#: The answer is decided again once there are this many times as many blocks.
_GROWTH = 1.25


@dataclass(frozen=True, slots=True)
class Look:
    """What was known when the answer was decided: the ``finalists`` certified by then, and the
    ``prediction`` for each of them from the measurements up to then.
    """

    finalists: Collection[int]
    prediction: Callable[[int], Prediction]


def look_blocks(certified_at: Collection[int], now: int) -> list[int]:
    """Return after how many complete blocks the answer is decided, up to ``now``: at each block of
    ``certified_at``, at which a finalist was certified, and whenever the blocks have grown by a
    quarter since.
    """
    looks: list[int] = []
    following = min(certified_at, default=math.inf)
    while following <= now:
        newest = int(following)
        looks.append(newest)
        later = (blocks for blocks in certified_at if blocks > newest)
        following = min(math.ceil(newest * _GROWTH), min(later, default=math.inf))
    return looks


def answers_so_far(
    attempts: Sequence[Certification], looks: Sequence[Look], delta: float
) -> tuple[Finish, ...]:
    """Return the answers so far, given the attempts in order; the last of them is the answer.

    A later attempt is made for a candidate that promises more, or as much with fewer settings. Its
    finalist becomes the answer only if that promise held: its estimated gain is not below the lower
    bound of the gain of any earlier answer, and the prediction for its trial, from all measurements
    up to a look, still favours it over each of them (``least_step``). If only the last answer
    counted, every step to fewer settings could lose delta. The same holds for the further finalists
    of an attempt. All certificates hold simultaneously, so choosing among them costs no error.

    What has replaced another answer at a look does so at the next one, too, if it is no worse than
    delta below the limit, or half of delta with as many settings.
    """
    answers: tuple[Finish, ...] = ()
    replaced: set[tuple[int, int]] = set()
    for look in looks:
        answers = _decide(attempts, look, delta, replaced)
    return answers


def _decide(
    attempts: Sequence[Certification], look: Look, delta: float, replaced: set[tuple[int, int]]
) -> tuple[Finish, ...]:
    """Return the answers at a look. ``replaced``: which finalist replaces which; updated."""
    answers: dict[int, Finish] = {}
    least = math.inf
    for number, each in enumerate(attempts, start=1):
        for finalist in each.certified:
            if finalist in answers or finalist not in look.finalists:
                continue
            favoured = True
            for other in answers:
                pair = finalist, other
                later, earlier = look.prediction(finalist), look.prediction(other)
                step = least_step(later, earlier, delta)
                if later.gain - earlier.gain >= (step - abs(step) if pair in replaced else step):
                    replaced.add(pair)
                else:
                    replaced.discard(pair)
                    favoured = False
            verdict = each.certificates[finalist].verdict
            if favoured and verdict.estimate <= least:
                answers[finalist] = each.finish(finalist, number)
                least = min(least, verdict.interval.upper)
    return tuple(answers.values())


def least_step(later: Prediction, earlier: Prediction, delta: float) -> float:
    """Return by how much ``later`` must gain more to be the better answer, log units. With more
    settings it must be better by delta, with as many by half of it; with fewer it may be worse by
    delta.
    """
    worth = margin(delta)
    if later.changes == earlier.changes:
        return worth / 2.0
    return worth if later.changes > earlier.changes else -worth


@dataclass(slots=True)
class Answers:
    """Decides the answers of one campaign.

    ``table``: grows with the campaign's blocks. The cache follows from the blocks alone: after an
    interruption, what was expected at each look is computed anew.
    """

    table: ScoreTable
    guide: Guide
    judge: Judge
    #: By number of complete blocks and trial.
    _predictions: dict[tuple[int, int], Prediction] = field(default_factory=dict)

    def so_far(
        self,
        attempts: Sequence[Attempt],
        standings: Sequence[Certification],
        trials: Sequence[Trial],
        out: Collection[int],
        rules: Rules,
    ) -> tuple[Finish, ...]:
        """Return the answers so far. ``standings``: the state of each attempt; ``out``: see
        ``Guide.look``.
        """

        def look(blocks: int) -> Look:
            by_then = [finalist for finalist, at in certified_at.items() if at <= blocks]
            return Look(by_then, lambda trial: self._prediction(blocks, trial, trials, out, rules))

        certified_at = self._certified_at(attempts, standings, rules)
        looks = look_blocks(set(certified_at.values()), len(self.table.scored))
        return answers_so_far(standings, [look(blocks) for blocks in looks], rules.race.delta)

    def _certified_at(
        self, attempts: Sequence[Attempt], standings: Sequence[Certification], rules: Rules
    ) -> dict[int, int]:
        """The number of complete blocks after which each certified finalist was first certified."""
        every = certified_finalists(standings)
        if len(every) < 2:  # a single one is the answer, whenever that was
            return dict.fromkeys(every, len(self.table.scored))
        complete = {one.block.number: n for n, one in enumerate(self.table.scored, start=1)}
        certified_at: dict[int, int] = {}
        for attempt, standing in zip(attempts, standings, strict=True):
            for finalist in standing.certified:
                fresh = self.judge.first_certified(attempt, rules)[finalist]
                certified_at.setdefault(finalist, complete[attempt.blocks[fresh - 1].number])
        return certified_at

    def _prediction(
        self, blocks: int, trial: int, trials: Sequence[Trial], out: Collection[int], rules: Rules
    ) -> Prediction:
        """What was expected of a trial after this many complete blocks."""
        if (blocks, trial) not in self._predictions:
            table = self.table.first(blocks)
            view = self.guide.look(measured(trials, table), table, out, rules.race.floor)
            self._predictions[blocks, trial] = view.prediction(trials[trial])
        return self._predictions[blocks, trial]
