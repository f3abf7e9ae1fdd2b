"""Comparisons of given configurations with the baseline, without a search. Pure.

All configurations of ``compare`` are measured together in blocks of certification, all of them
fresh, and are judged as finalists are. The error of a campaign is split evenly: with k
configurations, each interval has an error of ALPHA / k on either side. By the union bound, all of
them hold simultaneously with confidence 1 - 2 ALPHA at every look, and the fastest configuration
can be read off without further correction.

A word such as "faster" rests on the interval and on the guards, as a certificate does: if they
refuse, nothing is shown, and if they warn, the sign-flip test must show the same at the same error.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.judge.assumptions import Guard
from tuner.judge.certify import Certificate, CertificateOutcome
from tuner.judge.confidence import Interval
from tuner.judge.evalue import MIN_PAIRS, Floats
from tuner.judge.levels import ALPHA
from tuner.judge.robust import sign_flip_e_value
from tuner.judge.score import component_differences, margin
from tuner.judge.verdict import Verdict
from tuner.model import BASELINE, Trial
from tuner.plan.attempts import Attempt, attempts
from tuner.plan.certifying import Certification, guards, paired, refusal, single, suspicion
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
class Words:
    """What is shown of a configuration, unless the guards refuse: of the whole workload, and of
    each component. ``doubt``: why that of the whole is open although its interval shows something.
    """

    whole: Word
    components: tuple[Word, ...]
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Certificates of the configurations and what is shown of each, and the guards, including the
    second opinions.
    """

    certificates: Mapping[int, Certificate]
    words: Mapping[int, Words]
    guards: tuple[Guard, ...]


def judge(attempt: Attempt, rules: Rules, watched: Sequence[Guard] = ()) -> Judgement:
    """Judge each configuration against the baseline, in the blocks so far.

    A configuration that fails keeps its share of the error. ``watched``: the guards at that point.
    """
    alpha = level(len(attempt.finalists))
    judgements = {f: single(attempt.blocks, f, rules, watched, alpha) for f in attempt.finalists}
    return Judgement(
        {f: certificate for f, (certificate, _) in judgements.items()},
        {
            f: _words(certificate, attempt, f, rules, suspicion((*watched, *opinion)))
            for f, (certificate, opinion) in judgements.items()
        },
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


def _words(
    certificate: Certificate, attempt: Attempt, number: int, rules: Rules, warning: str | None
) -> Words:
    """``warning``: what undermines the t-type test, and so the intervals."""
    delta = rules.race.delta
    verdicts = (certificate.verdict, *(each.verdict for each in certificate.components))
    whole, *components = (word_of(each.interval, each.n, delta) for each in verdicts)
    if warning is None or certificate.verdict.n < MIN_PAIRS:
        return Words(whole, tuple(components))
    pairs = paired(attempt.blocks, number)
    d = component_differences([p.candidate_s for p in pairs], [p.baseline_s for p in pairs])
    certain = _by_signs(whole, d @ np.array(rules.weights), delta, certificate.alpha)
    return Words(
        certain,
        tuple(
            _by_signs(word, of_component, delta, certificate.alpha)
            for word, of_component in zip(components, d.T, strict=True)
        ),
        "" if certain is whole else f"{warning}; the sign-flip test does not show it",
    )


def _by_signs(word: Word, differences: Floats, delta: float, alpha: float) -> Word:
    """Return the word if the sign-flip test shows it too, otherwise ``open``."""
    within = margin(delta)
    towards = {
        Word.FASTER: (-differences,),
        Word.SLOWER: (differences,),
        Word.SAME: (within + differences, within - differences),
    }
    if all(sign_flip_e_value(each) >= 1.0 / alpha for each in towards.get(word, ())):
        return word
    return Word.OPEN


def still_open(judgement: Judgement, rules: Rules, failed: Collection[int]) -> tuple[int, ...]:
    """Return the configurations for which another block may show more.

    They may have more blocks, and nothing is shown of them yet, the difference is not known to
    within delta, or they are faster but not certified yet. A refusal of the guards alone is no
    reason to measure on: dependence does not go away with more blocks.
    """
    return tuple(
        number
        for number, certificate in judgement.certificates.items()
        if number not in failed
        and certificate.verdict.n < rules.certify_blocks
        and _unsettled(certificate, judgement.words[number].whole, rules.race.delta)
    )


def _unsettled(certificate: Certificate, word: Word, delta: float) -> bool:
    interval = certificate.verdict.interval
    if word is Word.FASTER and certificate.outcome is CertificateOutcome.UNDECIDED:
        return True
    return word is Word.OPEN or _width(interval) > 2.0 * margin(delta)


def _width(interval: Interval) -> float:
    return interval.upper - interval.lower


def finish(judgement: Judgement, failed: Collection[int]) -> Finish:
    """Return the answer: the fastest certified configuration, otherwise the nearest one."""
    candidates = {n: each for n, each in judgement.certificates.items() if n not in failed}
    standing = Certification(candidates, judgement.guards, ())
    if standing.best is None:
        return Finish(None, None)
    others = {n: each for n, each in candidates.items() if n != standing.best}
    return replace(standing.finish(standing.best), others=others)


def comparison(trials: Sequence[Trial], table: ScoreTable, rules: Rules) -> NamedComparison | None:
    """Return the results so far of a campaign that compares; None for one that searches."""
    compared = [trial for trial in trials if trial.origin.startswith(ORIGIN)]
    if not compared:
        return None
    all_attempts = attempts(table.ended_blocks)
    watched = guards(table)
    judgement = judge(all_attempts[0], rules, watched) if all_attempts else None
    alpha = level(len(compared))
    return NamedComparison(
        rows=tuple(
            _row(trial, trials[BASELINE], judgement, refusal(watched), rules) for trial in compared
        ),
        confidence=1.0 - 2.0 * alpha,
        together=1.0 - 2.0 * ALPHA,
        delta=rules.race.delta,
    )


def _row(
    trial: Trial, baseline: Trial, judgement: Judgement | None, forbids: str | None, rules: Rules
) -> ComparedConfiguration:
    """``forbids``: why nothing may be claimed."""
    certificate = None if judgement is None else judgement.certificates.get(trial.number)
    row = ComparedConfiguration(
        name=trial.origin.removeprefix(ORIGIN),
        trial=trial.number,
        changes=changes(baseline.configuration, trial.configuration),
        blocks=0 if certificate is None else certificate.verdict.n,
        whole=ShownEffect(Word.OPEN),
        components={},
    )
    if trial.state is TrialState.FAILED:
        return replace(row, whole=ShownEffect(Word.FAILED), reason=trial.reason)
    if judgement is None or certificate is None or not certificate.verdict.n:
        return row
    words = judgement.words[trial.number]
    if forbids is not None:
        words = Words(Word.OPEN, (Word.OPEN,) * len(words.components), forbids)
    components = {
        name: _effect(each.verdict, word)
        for name, each, word in zip(
            rules.components, certificate.components, words.components, strict=True
        )
    }
    whole = _effect(certificate.verdict, words.whole)
    return replace(row, whole=whole, components=components, reason=words.doubt)


def _effect(verdict: Verdict, word: Word) -> ShownEffect:
    interval = verdict.interval
    ratio, lower, upper = map(math.exp, (verdict.estimate, interval.lower, interval.upper))
    return ShownEffect(word, Estimate(ratio, lower, upper))
