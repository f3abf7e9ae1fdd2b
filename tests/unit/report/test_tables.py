"""The list of campaigns and the page of one."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.report.samples import (
    AT,
    BASELINE,
    BETTER,
    NOT_BETTER,
    WIDTHS,
    campaign,
    event,
    printed,
    screen_of,
)
from tuner.model import Answer, Block, BlockKind, Measurement, Recommendation, Trial
from tuner.records.estimate import Estimate
from tuner.records.numbers import Numbers
from tuner.report.campaign_list import campaigns_table
from tuner.report.tables import EVENTS_SHOWN, block_counts, campaign_page
from tuner.states import BlockState, CampaignState, TrialState
from tuner.time_use import TimeUse

REASON = "futile: 8.0% slower [red] than trial 4 (95% interval 3.0 to 12.1%) after 5 blocks"
TRIALS = (
    Trial(0, BASELINE, 0, "baseline", TrialState.RUNNING),
    Trial(3, BETTER, 1, "tpe", TrialState.PRUNED, reason=REASON),
    Trial(4, BETTER, 1, "tpe", TrialState.COMPLETE, reason="promoted"),
)
ESTIMATES = {4: Estimate(1 / 1.123, 1 / 1.167, 1 / 1.081)}


def measured(trial: int) -> Measurement:
    return Measurement(trial, 0, AT, BASELINE, BASELINE, (), 1.0, 2.0, {})


BLOCKS = (
    Block(1, BlockKind.SEARCH, 1, (0, 4), BlockState.COMPLETE, (measured(0), measured(4))),
    Block(2, BlockKind.SEARCH, 1, (4, 0), BlockState.VOID, (measured(4),)),
    Block(3, BlockKind.CERTIFY, 1, (4, 0), BlockState.COMPLETE, (measured(4), measured(0))),
)


def test_no_campaigns() -> None:
    assert printed(campaigns_table([])) == "No campaigns yet."


def test_each_campaign_is_a_row() -> None:
    running = replace(
        campaign(None, state=CampaignState.RUNNING), id="b", name="other", time_use=TimeUse()
    )
    none = replace(campaign(NOT_BETTER), id="c")
    failed = replace(campaign(None, state=CampaignState.FAILED, reason="no [fs1]"), id="d")
    lines = screen_of(campaigns_table([campaign(), running, none, failed]), 120).lines
    assert lines[0].split() == ["Id", "Name", "State", "Created", "Took", "Answer"]
    assert lines[1].split("  ")[:2] == ["7f3a2b", "mixed on [red]fs1"]
    assert "2026-03-01T12:00:05Z  1 h 12 min  12.4% faster" in lines[1]
    assert lines[2].split() == ["b", "other", "running", "2026-03-01T12:00:05Z"]
    assert lines[3].rstrip().endswith("no improvement")
    assert lines[4].rstrip().endswith("no [fs1]")


def test_the_row_of_a_verification_claims_no_gain() -> None:
    verification = campaign()
    assert verification.recommendation is not None
    reason = f"{Recommendation.VERIFICATION}20260301-120000-abcd holds"
    answer = replace(verification.recommendation, reason=reason)
    row = screen_of(campaigns_table([replace(verification, recommendation=answer)]), 120).lines[1]
    assert row.rstrip().endswith("  20260301-120000-abcd: holds")
    assert "faster" not in row


@pytest.mark.parametrize("width", [80, 100, 200])
def test_each_campaign_is_one_line_with_its_whole_identifier(width: int) -> None:
    every = [
        replace(
            campaign(None, state=CampaignState.FAILED, reason="the campaign halted " * 9),
            id=f"20261122-03205{n}-bns6",
        )
        for n in range(3)
    ]
    lines = screen_of(campaigns_table([*every, replace(campaign(), id="x")]), width).lines
    assert len(lines) == 5
    assert max(map(len, lines)) <= width
    for line, one in zip(lines[1:], every, strict=False):
        assert one.id in line
        assert "failed" in line
    assert "the campaign" in lines[1]
    assert "12.4% faster" in lines[4]


@pytest.mark.parametrize(("width", "below"), [(40, True), (60, True), (80, False)])
def test_a_name_that_would_be_unreadable_has_a_line_of_its_own(width: int, below: bool) -> None:
    name, identifier = "fileserver-threads-night", "20261122-032050-bns6"
    one = replace(campaign(name=name), id=identifier)
    lines = screen_of(campaigns_table([one, replace(one, id="x")]), width).lines
    assert max(map(len, lines)) <= width
    assert any(name in line for line in lines) or not below
    cards = [line.split(maxsplit=1) for line in lines]
    assert (["Name", name] in cards and ["Id", identifier] in cards) is below


def test_a_campaign_whose_process_is_gone_is_not_called_running() -> None:
    lost = replace(campaign(None, state=CampaignState.RUNNING), id="b")
    text = printed(campaigns_table([lost], {"b": "its process is gone: fstune resume b"}), 120)
    assert "stalled" in text
    assert "running" not in text
    assert "fstune resume b" in text


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (CampaignState.RUNNING, "active"),
        (CampaignState.PAUSED, "paused"),
        (CampaignState.FAILED, "paused"),
    ],
)
def test_no_trial_runs_while_its_campaign_does_not(state: CampaignState, word: str) -> None:
    trials = (*TRIALS, Trial(5, BETTER, 1, "tpe", TrialState.RUNNING))
    page = campaign_page(campaign(None, state=state), trials, BLOCKS, [], Numbers())
    rows = [line.split() for line in screen_of(page, 120).lines]
    states = {row[0]: row[1] for row in rows if row and row[0].isdigit()}
    assert states == {"0": word, "3": "pruned", "4": "complete", "5": word}
    (counts,) = [row for row in rows if row[:1] == ["Trials"] and len(row) > 1]
    assert " ".join(counts[1:]) == f"1 {word}, 1 complete, 1 pruned"


def test_a_summary_has_the_best_trials_and_no_diagnostics() -> None:
    trials = [
        Trial(n, BASELINE if n == 0 else BETTER, 1, "x", TrialState.RUNNING) for n in range(99)
    ]
    estimates = {n: Estimate(0.9, 0.8, 0.9 + 0.001 * (99 - n)) for n in range(1, 99)}
    page = campaign_page(
        campaign(), trials, BLOCKS, [], Numbers(estimates=estimates), everything=False
    )
    lines = screen_of(page, 120).lines
    listed = [line.split()[0] for line in lines if line.split()[1:2] == ["active"]]
    assert listed == ["0", "4", *map(str, range(98, 90, -1))]
    assert "and 89 more, see 'fstune show 7f3a2b --all'" in "\n".join(lines)


def test_the_answer_is_complete_on_a_narrow_terminal() -> None:
    text = printed(campaign_page(campaign(), [], [], [], Numbers()), 30)
    assert "Recommended: 12.4% faster than the baseline" in text


def test_the_answer_of_a_campaign_that_still_runs_may_change() -> None:
    remark = "So far: the campaign is running; it may find more as it continues"
    running = campaign(state=CampaignState.RUNNING)
    assert remark in printed(campaign_page(running, [], [], [], Numbers()), 100)
    assert "So far" not in printed(campaign_page(campaign(), [], [], [], Numbers()), 100)


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_a_terminal(width: int) -> None:
    page = campaign_page(campaign(), TRIALS, BLOCKS, [event()], Numbers(estimates=ESTIMATES))
    for content in (page, campaigns_table([campaign()])):
        assert max(map(len, screen_of(content, width).lines)) <= width


def test_a_narrow_terminal_gets_every_cell_one_below_the_other() -> None:
    page = campaign_page(campaign(), TRIALS, BLOCKS, [event()], Numbers(estimates=ESTIMATES))
    lines = screen_of(page, 40).lines
    assert max(map(len, lines)) <= 40
    rows = [tuple(line.split(maxsplit=1)) for line in lines]
    assert [value for name, *value in filter(None, rows) if name == "Trial"] == [
        ["0"],
        ["4"],
        ["3"],
    ]
    assert "95% interval  +9.8% to +15.1%" in "\n".join(lines)
    assert REASON.replace(" ", "") in "".join("".join(lines).split())


def test_where_no_room_is_left_beside_its_label_a_value_is_below_it() -> None:
    page = campaign_page(campaign(), TRIALS, BLOCKS, [event()], Numbers(estimates=ESTIMATES))
    text = "\n".join(line.rstrip() for line in screen_of(page, 20).lines)
    assert "\nState  finished\n" in text
    assert "\nBlocks\n  2 complete, 1 of\n  them for\n  certification, 1\n" in text
    assert "\n95% interval\n  +9.8% to +15.1%\n" in text


def test_a_pipe_gets_whole_rows_on_one_line_each() -> None:
    page = campaign_page(
        campaign(), TRIALS, BLOCKS, [event("x" * 200)], Numbers(estimates=ESTIMATES)
    )
    screen = screen_of(page, 60, terminal=False)
    assert "\x1b" not in screen.text
    pruned = next(line for line in screen.lines if line.startswith("3  "))
    assert pruned.endswith(REASON)
    assert "label=[/] threads=64 vnodes=5000" in pruned
    assert any(line.endswith("x" * 200) for line in screen.lines)
    rows = screen_of(campaigns_table([campaign(name="n" * 90)]), 60, terminal=False).lines
    assert len(rows) == 2
    assert "n" * 90 in rows[1]


def test_a_campaign_is_shown_with_trials_estimates_and_reasons() -> None:
    text = printed(campaign_page(campaign(), TRIALS, BLOCKS, [], Numbers(estimates=ESTIMATES)), 160)
    assert "Trials 1 complete, 1 pruned" in text
    assert "Blocks 2 complete, 1 of them for certification, 1 void, 4 measurements" in text
    assert "Took 1 h 12 min, 2.5% of it in fstune itself" in text
    assert "Seed 7" in text
    assert "Recommended: 12.4% faster than the baseline" in text
    assert "4 complete +12.4% +9.8% to +15.1%" in text
    assert text.count(" recommended: 95% interval, on 8 fresh blocks") == 1
    assert f"3 pruned label=[/] threads=64 vnodes=5000 {REASON}" in text
    assert "Last events" not in text


@pytest.mark.parametrize("everything", [True, False])
def test_trials_are_listed_best_first(everything: bool) -> None:
    trials = [
        Trial(n, BASELINE if n == 0 else BETTER, 1, "x", TrialState.COMPLETE) for n in range(8)
    ]
    estimates = {
        1: Estimate(0.98, 0.97, 0.99),
        2: Estimate(0.8, 0.0, math.inf),
        5: Estimate(0.85, 0.8, 0.9),
        6: Estimate(1.02, 1.01, 1.03),
        7: Estimate(0.95, 0.9, 1.01),
    }
    page = campaign_page(
        campaign(), trials, BLOCKS, [], Numbers(estimates=estimates), everything=everything
    )
    rows = [line.split() for line in screen_of(page, 160).lines]
    assert [row[0] for row in rows if row[1:2] == ["complete"]] == list("04512763")


def test_estimates_from_fresh_blocks_replace_those_of_the_search_and_say_so() -> None:
    trials = (*TRIALS, Trial(5, BETTER, 1, "tpe", TrialState.COMPLETE, reason="not needed"))
    fresh = {4: (Estimate(0.5, 0.4, 0.6), 9), 5: (Estimate(1 / 1.2, 1 / 1.3, 1 / 1.1), 3)}
    page = campaign_page(campaign(), trials, BLOCKS, [], Numbers(estimates=ESTIMATES, fresh=fresh))
    lines = printed(page, 160)
    assert "4 complete +12.4% +9.8% to +15.1%" in lines
    assert "recommended: 95% interval, on 8 fresh blocks" in lines
    assert "5 complete +20.0% +10.0% to +30.0%" in lines
    assert "not needed; on 3 fresh blocks" in lines
    # A comparison has its own table.
    page = campaign_page(campaign(), trials, BLOCKS, [], Numbers(fresh=fresh))
    assert "fresh blocks" not in printed(page, 160).partition("Trials Trial")[2]


def test_a_trial_that_was_not_certified_has_the_numbers_of_the_answer_too() -> None:
    recommendation = campaign().recommendation
    assert recommendation is not None
    answer = replace(recommendation, answer=Answer.NO_IMPROVEMENT)
    fresh = {4: (Estimate(0.5, 0.4, 0.6), 9)}
    record = replace(campaign(), recommendation=answer)
    lines = printed(
        campaign_page(record, TRIALS, BLOCKS, [], Numbers(estimates=ESTIMATES, fresh=fresh)), 160
    )
    assert "4 complete +12.4% +9.8% to +15.1%" in lines
    assert "95% interval, on 8 fresh blocks" in lines


def test_without_estimates_there_is_no_column_for_them() -> None:
    assert "Faster by" not in printed(campaign_page(campaign(), TRIALS, BLOCKS, [], Numbers()))


def test_a_campaign_without_anything_yet() -> None:
    young = replace(campaign(None, state=CampaignState.CREATED), baseline=None, time_use=TimeUse())
    text = printed(campaign_page(young, [], [], [], Numbers()))
    assert "State created" in text
    assert "Trials none yet" in text
    assert "Answer" not in text
    assert "Took" not in text


def test_the_last_events_are_shown() -> None:
    events = [replace(event(f"number {i}.", i), at=AT + timedelta(seconds=i)) for i in range(30)]
    text = printed(campaign_page(campaign(), [], [], events, Numbers()))
    assert "2026-03-01T12:00:34Z number 29." in text
    assert text.count("number") == EVENTS_SHOWN


def test_every_one_of_several_testbeds_is_shown_with_its_blocks() -> None:
    names = [f"cell {letter} in /{'long/' * 15}{letter}" for letter in "ab"]
    blocks = [
        replace(block, testbed=names[place % 2], batch=1, slot=place)
        for place, block in enumerate(BLOCKS)
    ]
    for terminal in (True, False):
        page = campaign_page(
            campaign(), TRIALS, blocks, [], Numbers(testbeds_differ="They differ.")
        )
        text = "".join(screen_of(page, 80, terminal=terminal).text.split())
        assert "".join(f"{names[0]}: 2 blocks".split()) in text
        assert "".join(f"{names[1]}: 0 blocks".split()) in text
        assert "Theydiffer." in text
    assert "Testbeds" not in printed(campaign_page(campaign(), TRIALS, BLOCKS, [], Numbers()))


def test_a_page_of_the_newest_blocks_counts_all() -> None:
    counts = block_counts((*BLOCKS, *BLOCKS))
    text = printed(campaign_page(campaign(), TRIALS, BLOCKS, [], Numbers(), counts=counts))
    assert "Blocks 4 complete, 2 of them for certification, 2 void, 8 measurements" in text
    counted = replace(
        BLOCKS[0], measurements=(replace(measured(0), diagnostics={"host.steal_s": 1.0}),)
    )
    page = campaign_page(campaign(), TRIALS, [counted], [], Numbers(), counts=counts)
    assert "Diagnostics (median of the newest 1 block)" in printed(page)
    assert "Diagnostics (median) " in printed(
        campaign_page(campaign(), TRIALS, [counted], [], Numbers())
    )
