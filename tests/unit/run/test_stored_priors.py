"""Priors are differences to a baseline: which ones a campaign with another baseline can use."""

from __future__ import annotations

import pytest

from tuner.model import Configuration, Prior
from tuner.run.stored_priors import compared_with

ORIGINAL = Configuration.of({"fileserver.threads": 12})
APPLIED = Configuration.of({"fileserver.threads": 64})
OTHER = Configuration.of({"fileserver.threads": 100})

PRIORS = [Prior(APPLIED, -0.2, "earlier:1"), Prior(OTHER, -0.05, "earlier:2")]


def test_with_the_same_baseline_they_are_taken_as_they_are() -> None:
    assert compared_with(ORIGINAL, PRIORS, {"earlier": ORIGINAL}) == PRIORS


def test_once_a_recommendation_is_applied_its_gain_is_subtracted() -> None:
    (left,) = compared_with(APPLIED, PRIORS, {"earlier": ORIGINAL})
    assert left.configuration == OTHER
    assert left.difference == pytest.approx(0.15)


def test_a_campaign_that_never_measured_the_baseline_is_left_out() -> None:
    another = Configuration.of({"fileserver.threads": 7})
    assert compared_with(another, PRIORS, {"earlier": ORIGINAL}) == []
    assert compared_with(ORIGINAL, PRIORS, {}) == []
    mixed = [*PRIORS, Prior(OTHER, -0.1, "older:3")]
    assert compared_with(ORIGINAL, mixed, {"earlier": ORIGINAL, "older": another}) == PRIORS


def test_the_campaign_itself_need_not_be_known() -> None:
    """It may have been deleted, or the new one imported elsewhere."""
    complete = [*PRIORS, Prior(ORIGINAL, 0.0, "earlier:0")]
    assert compared_with(ORIGINAL, complete, {}) == PRIORS
    once, again = compared_with(APPLIED, complete, {})
    assert (once.configuration, again.configuration) == (OTHER, ORIGINAL)
    assert (once.difference, again.difference) == pytest.approx((0.15, 0.2))


def test_the_baseline_itself_is_no_prior() -> None:
    same = [*PRIORS, Prior(ORIGINAL, -0.3, "earlier:3")]
    assert compared_with(ORIGINAL, same, {"earlier": ORIGINAL}) == PRIORS


def test_the_newest_of_those_that_can_be_compared_counts() -> None:
    newest = [Prior(OTHER, -0.4, "newest:1"), Prior(APPLIED, -0.1, "newest:2")]
    both = {"newest": ORIGINAL, "earlier": ORIGINAL}
    assert compared_with(ORIGINAL, [*newest, *PRIORS], both) == newest
    another = Configuration.of({"fileserver.threads": 7})
    both = {"newest": another, "earlier": ORIGINAL}
    assert compared_with(ORIGINAL, [*newest, *PRIORS], both) == PRIORS
    # A baseline that both have measured: each is compared with its own measurement of it.
    left = compared_with(APPLIED, [*newest, *PRIORS], {"newest": ORIGINAL, "earlier": ORIGINAL})
    assert [prior.origin for prior in left] == ["newest:1"]
    only = [newest[1], *PRIORS]
    left = compared_with(APPLIED, only, {"newest": ORIGINAL, "earlier": ORIGINAL})
    assert [prior.origin for prior in left] == ["earlier:2"]
