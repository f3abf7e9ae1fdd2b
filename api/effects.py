"""What the values of each parameter went with, over the trials of a search. Pure.

These are marginal means: a trial differs from the baseline in several settings at once, and the
search tries what looks good more often. They show where to look, and prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tuner.model import BASELINE, Trial, Value
from tuner.records.estimate import Estimate
from tuner.text import value_text

_MOST_GROUPS = 4


@dataclass(frozen=True, slots=True)
class Marginal:
    """The trials that had a value, or numbers within a range, of a parameter.

    ``ratio``: their geometric-mean time over the baseline's, each trial weighted by its blocks.
    """

    values: str
    trials: int
    blocks: int
    ratio: float


@dataclass(frozen=True, slots=True)
class ParameterEffect:
    """One parameter that differed between trials, by value, numbers in order.

    ``spread``: largest ratio over smallest.
    """

    name: str
    marginals: tuple[Marginal, ...]
    spread: float


def parameter_effects(
    trials: Sequence[Trial], estimates: Mapping[int, tuple[Estimate, int]]
) -> tuple[ParameterEffect, ...]:
    """The parameters that differ between the trials of a search, the largest spread first.

    ``estimates``: of each trial against the baseline, with the number of blocks behind it. A number
    with more than four different values is put into four groups of about as many values each.
    """
    known = [t for t in trials if t.number != BASELINE and t.number in estimates]
    settings = {t.number: t.configuration.as_dict() for t in known}
    found = []
    for name in sorted({name for of in settings.values() for name in of}):
        by_value: dict[Value | None, list[int]] = {}
        for number, of in settings.items():
            by_value.setdefault(of.get(name), []).append(number)
        groups = _groups(by_value)
        if len(groups) > 1:
            marginals = tuple(_marginal(text, of, estimates) for text, of in groups)
            ratios = [marginal.ratio for marginal in marginals]
            found.append(ParameterEffect(name, marginals, max(ratios) / min(ratios)))
    return tuple(sorted(found, key=lambda effect: -effect.spread))


def _groups(by_value: Mapping[Value | None, list[int]]) -> list[tuple[str, list[int]]]:
    """Trials by value; many numbers by range. What is not set comes last."""
    numbers = sorted(v for v in by_value if isinstance(v, int) and not isinstance(v, bool))
    words = sorted((v for v in by_value if isinstance(v, str | bool)), key=value_text)
    rest: list[Value | None] = [*words, *([None] if None in by_value else [])]
    count = min(_MOST_GROUPS, len(numbers))
    ends = [round(place * len(numbers) / count) for place in range(count + 1)] if count else []
    ranges = [numbers[low:high] for low, high in pairwise(ends)]
    found = []
    for of in ranges:
        text = value_text(of[0]) + (f" to {value_text(of[-1])}" if len(of) > 1 else "")
        found.append((text, [trial for value in of for trial in by_value[value]]))
    return found + [(value_text(value), by_value[value]) for value in rest]


def _marginal(
    values: str, trials: Sequence[int], estimates: Mapping[int, tuple[Estimate, int]]
) -> Marginal:
    blocks = sum(estimates[trial][1] for trial in trials)
    total = math.fsum(math.log(estimates[t][0].ratio) * estimates[t][1] for t in trials)
    return Marginal(values, len(trials), blocks, math.exp(total / blocks))
