"""Which estimate of a trial is shown, and what it rests on."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.report.samples import campaign
from tuner.model import BASELINE, BlockKind, Recommendation
from tuner.records.estimate import Estimate
from tuner.report.trial_estimates import TrialEstimate, strongest_estimates

SEARCHED, FRESH = Estimate(0.8, 0.7, 0.9), Estimate(0.9, 0.85, 0.95)


def test_a_verification_shows_the_interval_that_is_valid_at_every_look() -> None:
    answer = campaign().recommendation
    assert answer is not None
    assert answer.trial != BASELINE
    by_kind = {
        BlockKind.SEARCH: {answer.trial: (SEARCHED, 3)},
        BlockKind.CERTIFY: {answer.trial: (FRESH, 4)},
    }
    all_fresh = {answer.trial: TrialEstimate(FRESH, 4, "on 4 fresh blocks")}
    assert strongest_estimates(by_kind, None) == all_fresh
    certified = strongest_estimates(by_kind, answer)[answer.trial]
    assert (certified.estimate.ratio, certified.blocks) == (answer.ratio, answer.blocks)
    verified = replace(answer, reason=f"{Recommendation.VERIFICATION}20260301-120000-abcd holds")
    assert strongest_estimates(by_kind, verified) == all_fresh
