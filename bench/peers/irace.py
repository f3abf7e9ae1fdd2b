"""irace's rule: races of configurations over blocks, eliminated by Friedman's test.

New configurations are drawn ever closer to the survivors of the last race (López-Ibáñez et al.
2016, The irace package, section 2). Differs from the package: survivors are measured again in the
next race rather than kept with their results, and the budget, which is testbed time, is converted
to a number of runs of a typical length.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy

from bench.peers.questions import Question, configuration, questions
from bench.peers.service import Service
from search_spaces import Value
from tuner.model import Configuration

_LEVEL = 0.05
#: Blocks before the first test.
_FIRST_TEST = 5
_WORST = 10.0
_A_RUN_S = 8.5

Answers = Mapping[str, Value]


def irace(service: Service) -> None:
    """Run race after race until the time is used up; the best of the last race wins."""
    all_questions = questions(service.surface)
    chance = random.Random(service.seed)
    parameters = len(all_questions)
    races = math.floor(2 + math.log2(parameters))
    fewest = races
    model = _Model(all_questions)
    elites: list[Answers] = []
    race = 0
    while True:
        race += 1
        runs_left = service.left_s / _A_RUN_S
        share = runs_left / max(1, races - race + 1)
        count = max(fewest + 1, math.floor(share / (_FIRST_TEST + min(5, race))))
        new = [model.draw(elites, race, chance) for _ in range(count - len(elites))]
        first: list[Answers] = [{}] if race == 1 else []
        candidates = _different(service, [*elites, *first, *new])
        elites = _race(service, candidates, fewest, share)
        model.learn(elites, race, races, count)


def _different(service: Service, candidates: Sequence[Answers]) -> dict[Configuration, Answers]:
    return {configuration(service.surface, answers): answers for answers in candidates}


def _race(
    service: Service,
    candidates: Mapping[Configuration, Answers],
    fewest: int,
    runs: float,
) -> list[Answers]:
    """Measure all surviving configurations once per block, and drop those that are worse.

    Returns the survivors, best first.
    """
    alive = list(candidates)
    scores: dict[Configuration, list[float]] = {one: [] for one in alive}
    before = service.runs
    while True:
        for one in alive:
            scores[one].append(min(service.measure(one).score, _WORST))
        blocks = len(scores[alive[0]])
        if blocks >= _FIRST_TEST:
            alive = survivors(alive, np.array([scores[one] for one in alive]))
        alive.sort(key=lambda one: sum(scores[one]))
        if blocks >= _FIRST_TEST:
            service.believe(alive[0])
        if len(alive) <= fewest or service.runs - before + len(alive) > runs:
            break
    return [candidates[one] for one in alive[:fewest]]


def survivors(
    alive: Sequence[Configuration], scores: npt.NDArray[np.float64]
) -> list[Configuration]:
    """Return those not shown to be worse than the best rank by Friedman's and then Conover's test.

    ``scores``: (configurations, blocks).
    """
    count, blocks = scores.shape
    if count < 3:
        return _paired(alive, scores)
    ranks = scipy.stats.rankdata(scores, axis=0)
    sums = ranks.sum(axis=1)
    if scipy.stats.friedmanchisquare(*scores).pvalue >= _LEVEL:
        return list(alive)
    free = (blocks - 1) * (count - 1)
    spread = 2.0 * (blocks * float((ranks**2).sum()) - float((sums**2).sum())) / free
    apart = float(scipy.stats.t.ppf(1.0 - _LEVEL / 2.0, free)) * math.sqrt(max(0.0, spread))
    return [one for one, total in zip(alive, sums, strict=True) if total <= sums.min() + apart]


def _paired(alive: Sequence[Configuration], scores: npt.NDArray[np.float64]) -> list[Configuration]:
    """Of two configurations, drop the worse if their mean difference is significant (t-test)."""
    if len(alive) < 2:
        return list(alive)
    differences = scores[0] - scores[1]
    spread = float(differences.std(ddof=1)) / math.sqrt(differences.size)
    beyond = float(scipy.stats.t.ppf(1.0 - _LEVEL / 2.0, differences.size - 1)) * spread
    mean = float(differences.mean())
    if abs(mean) <= beyond:
        return list(alive)
    return [alive[1] if mean > 0.0 else alive[0]]


@dataclass(slots=True)
class _Model:
    """Draws new configurations around a survivor, ever more narrowly."""

    questions: Sequence[Question]
    _width: float = 0.5
    _weights: dict[str, dict[Value, float]] = field(default_factory=dict)

    def draw(self, elites: Sequence[Answers], race: int, chance: random.Random) -> Answers:
        """Draw an answer to every question, uniformly in the first race."""
        parent: Answers | None = None
        if elites and race > 1:
            ranks = [len(elites) - place for place in range(len(elites))]
            parent = chance.choices(elites, ranks)[0]
        return {
            question.name: self._answer(question, parent, chance) for question in self.questions
        }

    def _answer(self, question: Question, parent: Answers | None, chance: random.Random) -> Value:
        if question.options:
            weights = self._weights.get(question.name)
            if weights is None:
                return chance.choice(question.options)
            return chance.choices(question.options, [weights[o] for o in question.options])[0]
        middle = None if parent is None else parent.get(question.name)
        if not isinstance(middle, int):
            return _at(question, chance.random())
        place = -1.0
        while not 0.0 <= place <= 1.0:
            place = chance.gauss(_place(question, middle), self._width)
        return _at(question, place)

    def learn(self, elites: Sequence[Answers], race: int, races: int, count: int) -> None:
        """Narrow the distribution around the elites from the next race on.

        The width shrinks with ``count``, the number of configurations in the race.
        """
        self._width *= (1.0 / max(1, count)) ** (1.0 / len(self.questions))
        keep = max(0.0, 1.0 - race / races)
        for question in self.questions:
            if not question.options:
                continue
            old = self._weights.get(question.name)
            even = 1.0 / len(question.options)
            best = elites[0].get(question.name, question.options[0])
            self._weights[question.name] = {
                option: keep * (even if old is None else old[option])
                + (1.0 - keep) * float(option == best)
                + 0.02
                for option in question.options
            }


def _place(question: Question, value: int) -> float:
    """Return a value's position in its range, 0 to 1 on the question's scale."""
    low, high = question.low, question.high
    if question.log:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def _at(question: Question, place: float) -> int:
    low, high = question.low, question.high
    if question.log:
        return round(low * math.exp(place * math.log(high / low)))
    return round(low + (high - low) * place)
