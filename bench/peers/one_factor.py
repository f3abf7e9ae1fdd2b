"""One factor at a time: try some values of one parameter, keep the best, go on with the next."""

from __future__ import annotations

import math
import random

from bench.peers.questions import WHETHER, Question, configuration, questions
from bench.peers.service import Service
from search_spaces import Value

_LEVELS = 4
_REPEATS = 3


def one_factor(service: Service) -> None:
    """Each parameter in random order: unset and four values over its range, three runs each; the
    best mean is kept. Round after round, until the hours are used up.
    """
    order = [q for q in questions(service.surface) if q.name.endswith(WHETHER)]
    values = {q.name: q for q in questions(service.surface) if not q.name.endswith(WHETHER)}
    chance = random.Random(service.seed)
    answers: dict[str, Value] = {}
    while True:
        chance.shuffle(order)
        for whether in order:
            name = whether.name.removesuffix(WHETHER)
            best, best_answers = math.inf, answers
            visited = set()
            for candidate in (answers, *_changes(answers, name, values.get(name))):
                proposed = configuration(service.surface, candidate)
                if proposed in visited:
                    continue
                visited.add(proposed)
                mean = service.mean(proposed, _REPEATS)
                if mean < best:
                    best, best_answers = mean, candidate
            answers = best_answers
            service.believe(configuration(service.surface, answers))


def _changes(
    answers: dict[str, Value], name: str, value: Question | None
) -> list[dict[str, Value]]:
    """The answers with this parameter unset, and with each of some values."""
    unset = {n: v for n, v in answers.items() if n not in (name, name + WHETHER)}
    switched = unset | {name + WHETHER: True}
    if value is None:
        return [unset, switched]
    return [unset, *(switched | {name: level} for level in levels(value))]


def levels(question: Question) -> list[Value]:
    """Values evenly over the range of a question, its ends among them; all of its options."""
    if question.options:
        return list(question.options)
    low, high = question.low, question.high
    shares = [step / (_LEVELS - 1) for step in range(_LEVELS)]
    if question.log:
        return [round(low * (high / low) ** share) for share in shares]
    return [round(low + (high - low) * share) for share in shares]
