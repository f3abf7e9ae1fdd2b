"""The final page of a campaign."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.report.samples import (
    NO_FINALIST,
    NOT_BETTER,
    RECOMMENDED,
    WIDTHS,
    Screen,
    campaign,
    printed,
    screen_of,
)
from tuner.cli.ending import no_answer
from tuner.model import Configuration, Recommendation
from tuner.report.recommendation_document import recommendation_page
from tuner.report.summary import Effort, campaign_summary
from tuner.states import CampaignState
from tuner.time_use import TimeUse

EFFORT = Effort(trials=11, blocks=20, measurements=96, void_blocks=1)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("answer", [RECOMMENDED, NOT_BETTER, NO_FINALIST, None])
def test_it_fits(width: int, answer: Recommendation | None) -> None:
    page = campaign_summary(campaign(answer), answer, effort=EFFORT, restored=["word " * 40])
    assert max(map(len, screen_of(page, width).lines)) <= width
    assert "\x1b" not in screen_of(page, width).text
    assert screen_of(page, width, encoding="ascii").text.isascii()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_recommendation_is_shown_with_its_numbers(width: int) -> None:
    page = campaign_summary(campaign(), RECOMMENDED, effort=EFFORT)
    text = printed(page, width)
    assert "Recommended: 12.4% faster than the baseline" in text
    assert "95% interval 9.8% to 15.1% faster, on 8 fresh blocks" in text
    assert "False-alarm risk of the campaign: at most 2.5%" in text
    assert "fresh blocks cannot show" not in text
    assert "e-value" not in text
    assert "fileserver -p 64 -label 'on close'" in text
    assert "afsd (no options)" in text


def test_a_share_of_the_error_is_not_reported_as_the_risk_of_the_campaign() -> None:
    shared = replace(RECOMMENDED, confidence=1.0 - 0.05 / 3)
    text = printed(campaign_summary(campaign(), shared, effort=EFFORT))
    assert "98.3% interval" in text
    assert "False-alarm risk of the campaign: at most 2.5%" in text
    open_ = replace(NOT_BETTER, confidence=1.0 - 0.05 / 3)
    text = printed(campaign_summary(campaign(open_), open_, effort=EFFORT))
    assert "up to 3.1% faster (97.5% confidence)" in text


def test_what_few_blocks_cannot_show_is_said() -> None:
    few = replace(RECOMMENDED, blocks=3)
    text = printed(campaign_summary(campaign(), few, effort=EFFORT))
    assert "if differences are roughly normal, which 3 fresh blocks cannot show." in text


def test_only_settings_that_differ_are_shown() -> None:
    lines = screen_of(campaign_summary(campaign(), RECOMMENDED, effort=EFFORT)).lines
    rows = [line.split() for line in lines]
    assert ["fileserver.threads", "12", "64", "+11.0%", "(+8.0%", "to", "+14.0%)"] in rows
    assert ["fileserver.vnodes", "not", "set", "5000", "+0.5%", "(-1.0%", "to", "+2.0%)"] in rows
    assert ["fileserver.label", "[red]", "[/]", "not", "known"] in rows
    assert not any("chunksize" in line for line in lines)
    assert any("2 more, equal in both" in line for line in lines)


def test_each_component_has_change_interval_and_floor() -> None:
    lines = screen_of(campaign_summary(campaign(), RECOMMENDED, effort=EFFORT)).lines
    read = next(line for line in lines if line.startswith("  read"))
    write = next(line for line in lines if line.startswith("  write"))
    assert "+14.2%  +11.0% to +17.0%" in read
    assert "-2.1%  -3.4% to +1.5%" in write
    assert read.endswith("met")
    assert "●" in read


def test_bars_are_omitted_on_a_narrow_terminal() -> None:
    text = screen_of(campaign_summary(campaign(), RECOMMENDED, effort=EFFORT), 60).text
    assert "+11.0% to +17.0%" in text
    assert "●" not in text


def test_effort_and_time() -> None:
    text = printed(campaign_summary(campaign(), RECOMMENDED, effort=EFFORT))
    assert "96 measurements in 20 blocks (and 1 void), 11 trials against the baseline" in text
    for what in (
        "workload 45 min 00 s 62.5%",
        "restarts 21 min 36 s 30.0%",
        "testbed 3 min 36 s 5.0%",
        "fstune itself 1 min 48 s 2.5%",
        "total 1 h 12 min",
    ):
        assert what in text


def test_no_time_is_shown_before_any_has_passed() -> None:
    young = replace(campaign(), time_use=TimeUse())
    assert "workload" not in printed(campaign_summary(young, RECOMMENDED, effort=EFFORT))


def test_what_was_restored_is_shown_literally() -> None:
    text = printed(
        campaign_summary(
            campaign(), RECOMMENDED, effort=EFFORT, restored=["fs1 [red]as \x1b[2Jfound"]
        )
    )
    assert "Restored fs1 [red]as [2Jfound" in text


def test_no_improvement_reports_what_is_still_possible() -> None:
    text = printed(campaign_summary(campaign(NOT_BETTER), NOT_BETTER, effort=EFFORT))
    assert "No improvement shown: keep the baseline" in text
    assert "A trial measured in fresh blocks may still be up to" in text
    assert (
        "may still be up to 3.1% faster (97.5% confidence). Trials measured only in the search may "
        "be faster still." in text
    )
    assert "2.0% slower to 3.1% faster, on 20 fresh blocks" in text
    assert "Best trial, not recommended" in text
    assert "write -1.0% not yet bounded" in text
    assert "not settled" in text
    assert "Options" not in text
    assert "Recommended" not in text


@pytest.mark.parametrize(
    ("largest", "words"),
    [
        (float("inf"), "Too little was measured to rule out a gain of any size"),
        (-0.01, "rule out that a trial measured in them is faster"),
        (None, "no improvement is claimed"),
    ],
)
def test_no_improvement_with_other_bounds(largest: float | None, words: str) -> None:
    answer = replace(NOT_BETTER, largest_compatible_improvement=largest)
    assert words in printed(campaign_summary(campaign(answer), answer, effort=EFFORT))


def test_without_a_finalist_nothing_is_claimed() -> None:
    text = printed(campaign_summary(campaign(NO_FINALIST), NO_FINALIST, effort=EFFORT))
    assert "no improvement is claimed" in text
    assert "4 settings, all as in the baseline" in text
    assert "Components" not in text


def test_a_baseline_without_settings_is_not_counted() -> None:
    empty = Configuration.of({})
    answer = replace(NO_FINALIST, baseline=empty, configuration=empty)
    text = printed(campaign_summary(campaign(answer), answer, effort=EFFORT))
    assert "no settings were changed" in text
    assert "0 settings" not in text


def test_a_campaign_that_was_stopped_has_no_answer() -> None:
    stopped = campaign(None, state=CampaignState.PAUSED, reason="stopped by [the] user")
    text = printed(campaign_summary(stopped, None, effort=EFFORT))
    assert "No answer yet: the campaign is paused stopped by [the] user" in text
    assert "96 measurements" in text


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (CampaignState.CANCELLED, "No answer: the campaign was cancelled before it had one"),
        (CampaignState.FAILED, "No answer: the campaign failed before it had one"),
    ],
)
def test_a_campaign_that_is_over_has_no_answer_to_wait_for(
    state: CampaignState, words: str
) -> None:
    text = printed(campaign_summary(campaign(None, state=state), None, effort=EFFORT))
    assert words in text
    assert "yet" not in text
    problem = str(no_answer(campaign(None, state=state)))
    assert ("resume" in problem) is (state is CampaignState.FAILED)


def test_colours_say_nothing_that_words_do_not() -> None:
    page = campaign_summary(campaign(), RECOMMENDED, effort=EFFORT)
    screen = Screen(colour=True)
    screen.console.print(page)
    assert "\x1b[" in screen.text
    assert "mixed on [red]fs1" in printed(page)


@pytest.mark.parametrize("width", [40, 80])
def test_where_the_time_went_is_complete_on_a_narrow_terminal(width: int) -> None:
    took = TimeUse(wall_s=4347.0, testbed_s=31.0, apply_s=1209.0, workload_s=2998.0)
    page = campaign_summary(campaign(time_use=took), RECOMMENDED, effort=EFFORT)
    text = printed(page, width)
    for account in ("workload 49 min 58 s 69.0%", "restarts 20 min 09 s", "total 1 h 12 min"):
        assert account in text
    assert ("█" in text.partition("Effort")[2]) is (width > 40)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (CampaignState.RUNNING, "So far: the campaign is running; it may find more"),
        (CampaignState.PAUSED, "So far: the campaign is paused; it may find more"),
        (CampaignState.CANCELLED, "The campaign was cancelled before its end."),
        (CampaignState.FAILED, "So far: the campaign failed; once resumed, it may find more"),
    ],
)
def test_an_answer_that_is_not_the_last_word_says_so(state: CampaignState, words: str) -> None:
    going_on = campaign(state=state)
    assert words in printed(campaign_summary(going_on, RECOMMENDED, effort=EFFORT), 80)
    page = printed(recommendation_page(going_on, RECOMMENDED), 80)
    assert words in page
    assert ("as it continues" in page) is (words.endswith("find more"))
    assert ("So far" in page) is (state is not CampaignState.CANCELLED)
    assert "So far" not in printed(recommendation_page(campaign(), RECOMMENDED), 80)
