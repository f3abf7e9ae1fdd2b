"""Comparisons of given configurations with the baseline, without a search. Pure.

All configurations of ``compare`` are measured together, in blocks of certification that are all
fresh, and judged as finalists are. The error of a campaign is split evenly between them: of k
configurations each interval is made at ALPHA / k on either side. So all of them hold together with
the confidence 1 - 2 ALPHA, whenever one looks, and which is fastest may be read off without a
further correction (union bound).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.campaign.attempts import Attempt, attempts
from tuner.campaign.certifying import single
from tuner.campaign.rules import Rules
from tuner.campaign.scores import ScoreTable
from tuner.campaign.steps import Finish
from tuner.judge.certify import Certificate, CertificateOutcome
from tuner.judge.confidence import Interval
from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.levels import ALPHA
from tuner.judge.monitors import Guard
from tuner.judge.score import margin
from tuner.model import BASELINE, Trial
from tuner.records.differences import changes
from tuner.records.estimate import Estimate
from tuner.records.named_comparison import ComparedConfiguration, NamedComparison, ShownEffect, Word
from tuner.states import TrialState

#: How the trials of a comparison begin to say where they come from; their name follows.
ORIGIN = "compare "


def level(count: int) -> float:
    """The one-sided error of each of ``count`` configurations."""
    return ALPHA / count


@dataclass(frozen=True, slots=True)
class Judgement:
    """How the configurations stand, and what the guards say: the search's, the second opinions."""

    certificates: Mapping[int, Certificate]
    guards: tuple[Guard, ...]


def judge(attempt: Attempt, rules: Rules, watched: Sequence[Guard] = ()) -> Judgement:
    """Each configuration against the baseline, in the blocks so far. One that fails keeps its
    share of the error. ``watched``: what the guards saw by then.
    """
    alpha = level(len(attempt.finalists))
    judgements = {f: single(attempt.blocks, f, rules, watched, alpha) for f in attempt.finalists}
    return Judgement(
        {f: certificate for f, (certificate, _) in judgements.items()},
        (*watched, *(guard for _, opinion in judgements.values() for guard in opinion)),
    )


def word_of(interval: Interval, n: int, delta: float) -> Word:
    """What an interval of log time ratios shows after ``n`` blocks."""
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
    """The configurations that another block may tell more of: nothing is shown of them yet, the
    difference is not known to within delta, or one that is faster is not certified yet; and they
    may have more blocks.
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
    """The answer: the fastest that would be certified, or else the one that came nearest."""
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
    """What a campaign that compares comes to so far; None for one that searches."""
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
