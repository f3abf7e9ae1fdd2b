"""Comparisons of given configurations with the baseline, without a search. Pure.

All configurations of ``compare`` are measured together in blocks of certification, all of them
fresh, and are judged as finalists are. The error of a campaign is split evenly: with k
configurations, each interval has an error of ALPHA / k on either side. By the union bound, all of
them hold simultaneously with confidence 1 - 2 ALPHA at every look, and the fastest configuration
can be read off without further correction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.judge.assumptions import Guard
from tuner.judge.certify import Certificate, CertificateOutcome
from tuner.judge.confidence import Interval
from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.levels import ALPHA
from tuner.judge.score import margin
from tuner.model import BASELINE, Trial
from tuner.plan.attempts import Attempt, attempts
from tuner.plan.certifying import single
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import Finish
from tuner.records.differences import changes
from tuner.records.estimate import Estimate
from tuner.records.named_comparison import ComparedConfiguration, NamedComparison, ShownEffect, Word
from tuner.states import TrialState

#: Prefix of the origin of a comparison's trials; the configuration's name follows.
ORIGIN = "compare "


def level(count: int) -> float:
    """One-sided error of each of ``count`` configurations."""
    return ALPHA / count


@dataclass(frozen=True, slots=True)
class Judgement:
    """Certificates of the configurations, and the guards, including the second opinions."""

    certificates: Mapping[int, Certificate]
    guards: tuple[Guard, ...]


def judge(attempt: Attempt, rules: Rules, watched: Sequence[Guard] = ()) -> Judgement:
    """Judge each configuration against the baseline, in the blocks so far.

    A configuration that fails keeps its share of the error. ``watched``: the guards at that point.
    """
    alpha = level(len(attempt.finalists))
    judgements = {f: single(attempt.blocks, f, rules, watched, alpha) for f in attempt.finalists}
    return Judgement(
        {f: certificate for f, (certificate, _) in judgements.items()},
        (*watched, *(guard for _, opinion in judgements.values() for guard in opinion)),
    )


def word_of(interval: Interval, n: int, delta: float) -> Word:
    """Return what an interval of log time ratios shows after ``n`` blocks."""
    if n < MIN_PAIRS:
        return Word.OPEN
    if interval.upper < 0.0:
        return Word.FASTER
    if interval.lower > 0.0:
        return Word.SLOWER
    within = max(-interval.lower, interval.upper) <= margin(delta)
    return Word.SAME if within else Word.OPEN


def still_open(
    certificates: Mapping[int, Certificate], rules: Rules, failed: Collection[int]
) -> tuple[int, ...]:
    """Return the configurations for which another block may show more.

    They may have more blocks, and nothing is shown of them yet, the difference is not known to
    within delta, or they are faster but not certified yet.
    """
    return tuple(
        number
        for number, certificate in certificates.items()
        if number not in failed
        and certificate.verdict.n < rules.certify_blocks
        and _unsettled(certificate, rules.race.delta)
    )


def _unsettled(certificate: Certificate, delta: float) -> bool:
    interval = certificate.verdict.interval
    word = word_of(interval, certificate.verdict.n, delta)
    if word is Word.FASTER and certificate.outcome is CertificateOutcome.UNDECIDED:
        return True
    return word is Word.OPEN or _width(interval) > 2.0 * margin(delta)


def _width(interval: Interval) -> float:
    return interval.upper - interval.lower


def finish(certificates: Mapping[int, Certificate], failed: Collection[int]) -> Finish:
    """Return the answer: the fastest certified configuration, otherwise the nearest one."""
    candidates = {number: each for number, each in certificates.items() if number not in failed}
    if not candidates:
        return Finish(None, None)

    def rank(number: int) -> tuple[bool, float]:
        certificate = candidates[number]
        certified = certificate.outcome is CertificateOutcome.CERTIFIED
        return not certified, certificate.verdict.interval.upper

    best = min(candidates, key=rank)
    return Finish(best, candidates[best], {n: each for n, each in candidates.items() if n != best})


def comparison(trials: Sequence[Trial], table: ScoreTable, rules: Rules) -> NamedComparison | None:
    """Return the results so far of a campaign that compares; None for one that searches."""
    compared = [trial for trial in trials if trial.origin.startswith(ORIGIN)]
    if not compared:
        return None
    all_attempts = attempts(table.ended_blocks, [one.block for one in table.scored])
    certificates = judge(all_attempts[0], rules).certificates if all_attempts else {}
    alpha = level(len(compared))
    return NamedComparison(
        rows=tuple(
            _row(trial, trials[BASELINE], certificates.get(trial.number), rules)
            for trial in compared
        ),
        confidence=1.0 - 2.0 * alpha,
        together=1.0 - 2.0 * ALPHA,
        delta=rules.race.delta,
    )


def _row(
    trial: Trial, baseline: Trial, judgement: Certificate | None, rules: Rules
) -> ComparedConfiguration:
    row = ComparedConfiguration(
        name=trial.origin.removeprefix(ORIGIN),
        trial=trial.number,
        changes=changes(baseline.configuration, trial.configuration),
        blocks=0 if judgement is None else judgement.verdict.n,
        whole=ShownEffect(Word.OPEN),
        components={},
    )
    if trial.state is TrialState.FAILED:
        return replace(row, whole=ShownEffect(Word.FAILED), reason=trial.reason)
    if judgement is None or not judgement.verdict.n:
        return row
    delta, verdict = rules.race.delta, judgement.verdict
    components = {
        name: _effect(each.verdict.estimate, each.verdict.interval, each.verdict.n, delta)
        for name, each in zip(rules.components, judgement.components, strict=True)
    }
    whole = _effect(verdict.estimate, verdict.interval, verdict.n, delta)
    return replace(row, whole=whole, components=components)


def _effect(estimate: float, interval: Interval, n: int, delta: float) -> ShownEffect:
    ratio, lower, upper = map(math.exp, (estimate, interval.lower, interval.upper))
    return ShownEffect(word_of(interval, n, delta), Estimate(ratio, lower, upper))
