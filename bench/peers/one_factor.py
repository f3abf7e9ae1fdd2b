"""One factor at a time: try some values of one parameter, keep the best, continue with the next."""

from __future__ import annotations

import math
import random

from bench.peers.questions import WHETHER, Question, configuration, questions
from bench.peers.service import Service
from search_spaces import Value

_LEVELS = 4
_REPEATS = 3


def one_factor(service: Service) -> None:
    """Take the parameters in random order, round after round, until the time is used up.

    Each is tried unset and at four values over its range, with three runs each; the best mean wins.
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
    """Return the answers with this parameter unset, and with each of several values."""
    unset = {n: v for n, v in answers.items() if n not in (name, name + WHETHER)}
    switched = unset | {name + WHETHER: True}
    if value is None:
        return [unset, switched]
    return [unset, *(switched | {name: level} for level in levels(value))]


def levels(question: Question) -> list[Value]:
    """Return evenly spaced values over a question's range, ends included, or all of its options."""
    if question.options:
        return list(question.options)
    low, high = question.low, question.high
    shares = [step / (_LEVELS - 1) for step in range(_LEVELS)]
    if question.log:
        return [round(low * (high / low) ** share) for share in shares]
    return [round(low + (high - low) * share) for share in shares]
