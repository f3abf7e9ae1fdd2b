"""Content of a campaign's pages, from a campaign that really ran."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api import view
from api.activity import details, expected_end, headline
from api.comparison import compare_trials
from tuner.model import BASELINE, Answer, Block, BlockKind, Event
from tuner.page import why
from tuner.page.effects_cache import EffectsCache
from tuner.page.snapshot import Snapshot, SnapshotCache
from tuner.records.estimate import Estimate
from tuner.records.named_comparison import ComparedConfiguration, NamedComparison, ShownEffect, Word
from tuner.records.none_ran import NONE_RAN
from tuner.records.status import Absence
from tuner.report.answer import floor_text
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import Store
from tuner.text import confidence_text, faster, signed
from tuner.time_use import TimeUse


@pytest.fixture(scope="module")
def snapshot(measured: Path) -> Iterator[Snapshot]:
    """Return the snapshot of a finished campaign."""
    with Store.open(measured) as store:
        yield SnapshotCache(store).of(store.campaign("last").id)


def page_of(snapshot: Snapshot, absence: Absence | None = None) -> view.View:
    return view.of(snapshot, EffectsCache(files=False).of(snapshot), absence)


def event(kind: str) -> Event:
    return Event(10**6, datetime.now(UTC), kind, f"it was {kind}")


def in_the_middle(snapshot: Snapshot, arms: int) -> tuple[Snapshot, Block]:
    """The campaign as it was during its newest block, after ``arms`` measured arms."""
    whole = snapshot.recent[-1]
    block = replace(whole, state=BlockState.RUNNING, measurements=whole.measurements[:arms])
    campaign = replace(snapshot.campaign, state=CampaignState.RUNNING, recommendation=None)
    return replace(snapshot, campaign=campaign, running=(block,), recent=(block,)), block


def test_why_reads_blocks_that_were_measured_long_ago(
    measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "_MOST_BLOCKS", 1)
    with Store.open(measured) as store:
        campaign = store.campaign("last").id
        blocks = store.blocks(campaign)
        once = {m.trial for m in blocks[0].measurements}
        later = {m.trial for block in blocks[-1:] for m in block.measurements}
        (early, *_) = sorted(once - later) or [BASELINE + 1]
        last = max(b.number for b in blocks if early in {m.trial for m in b.measurements})
        assert last < blocks[-1].number
        assert [b.number for b in why.paired(store, campaign, early)] == [last]


def test_the_headline_of_a_comparison_is_that_of_its_table(snapshot: Snapshot) -> None:
    running = replace(
        snapshot,
        campaign=replace(snapshot.campaign, state=CampaignState.RUNNING, recommendation=None),
    )
    fast, slow = Estimate(0.8, 0.75, 0.85), Estimate(1.2, 1.1, 1.3)

    def headline(*effects: ShownEffect) -> tuple[str, str]:
        rows = [
            ComparedConfiguration(f"c{n}", n, "", 9, of, {})
            for n, of in enumerate(effects, start=1)
        ]
        table = NamedComparison(tuple(rows), 0.983, 0.95, 0.02)
        page = view.of(running, EffectsCache(files=False).of(running), None, table)
        return page.best, page.sure

    best, sure = headline(ShownEffect(Word.SLOWER, slow), ShownEffect(Word.FASTER, fast))
    assert best == "Shown: c2 is 25.0% faster than the baseline"
    assert sure.startswith("98.3% interval")
    assert "nothing is certified yet" in sure
    open_ = ShownEffect(Word.OPEN, fast)
    assert headline(ShownEffect(Word.SLOWER, slow), open_) == (
        "Nothing is shown to be faster than the baseline",
        "",
    )


def test_the_headline_of_a_certified_comparison_has_the_name_in_the_file(
    snapshot: Snapshot,
) -> None:
    answer = snapshot.campaign.recommendation
    assert answer is not None
    effect = ShownEffect(Word.FASTER, Estimate(0.8, 0.75, 0.85))
    row = ComparedConfiguration("more daemons", answer.trial, "", 9, effect, {})
    table = NamedComparison((row,), 0.983, 0.95, 0.02)
    page = view.of(snapshot, EffectsCache(files=False).of(snapshot), None, table)
    assert page.best.startswith(f"Certified: more daemons (trial {answer.trial}) is ")


def test_a_comparison_says_at_its_top_that_no_configuration_could_be_run(
    snapshot: Snapshot,
) -> None:
    answer = snapshot.campaign.recommendation
    assert answer is not None
    reason = f"{NONE_RAN}the host is gone"
    failed = replace(answer, answer=Answer.NO_IMPROVEMENT, trial=BASELINE, reason=reason)
    stopped = replace(snapshot, campaign=replace(snapshot.campaign, recommendation=failed))
    table = NamedComparison((), 0.983, 0.95, 0.02)
    page = view.of(stopped, EffectsCache(files=False).of(stopped), None, table)
    assert page.best == "No configuration could be run: keep the baseline"
    assert page.sure == reason


def test_the_current_arm_is_shown(snapshot: Snapshot) -> None:
    first, block = in_the_middle(snapshot, 0)
    kind = {BlockKind.SEARCH: "search", BlockKind.CERTIFY: "certification"}[block.kind]
    assert headline(first) == f"{kind}, round {block.round}, block {block.number}"
    (line,) = details(first)
    assert f"0 of {len(block.order)} arms measured; current arm 1" in line
    second, block = in_the_middle(snapshot, 1)
    line, before = details(second)
    assert "current arm 2" in line
    name = "the baseline" if block.order[1] == BASELINE else f"trial {block.order[1]}"
    assert name in line
    assert f"workload {block.measurements[0].workload_s:.1f} s" in before
    last, block = in_the_middle(snapshot, len(block.order))
    assert "it is being completed" in details(last)[0]


def test_an_arm_whose_trial_has_failed_is_skipped(snapshot: Snapshot) -> None:
    running, block = in_the_middle(snapshot, 0)
    failed = block.order[0]
    trials = tuple(
        replace(t, state=TrialState.FAILED) if t.number == failed else t for t in snapshot.trials
    )
    assert "current arm 2" in details(replace(running, trials=trials))[0]


def test_blocks_on_several_testbeds_are_told_apart(snapshot: Snapshot) -> None:
    running, block = in_the_middle(snapshot, 0)
    both = (replace(block, testbed="left"), replace(block, testbed="right", number=99))
    lines = details(replace(running, running=both))
    assert [line.partition(":")[0] for line in lines] == ["On left", "On right"]


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        (("pause-requested",), "A pause was requested"),
        (("cancel-requested", "measured"), "Cancellation was requested"),
        (("pause-requested", "campaign-paused", "resume-requested"), "A resume was requested"),
        (("pause-requested", "campaign-paused"), None),
        (("resume-requested", "testbed-ready"), None),
        ((), None),
    ],
)
def test_a_request_is_shown_until_it_is_done(
    snapshot: Snapshot, kinds: tuple[str, ...], text: str | None
) -> None:
    lines = details(replace(snapshot, events=tuple(map(event, kinds))))
    assert len(lines) == (text is not None)
    assert text is None or text in lines[0]


def test_the_expected_end_follows_from_what_the_budget_was_used_for(snapshot: Snapshot) -> None:
    running, _ = in_the_middle(snapshot, 0)
    assert running.rules is not None
    budget_s = running.rules.budget_s
    half = replace(
        running,
        measuring_s=budget_s / 2.0,
        campaign=replace(running.campaign, time_use=TimeUse(wall_s=2.0 * budget_s)),
    )
    end = expected_end(half)
    assert end is not None
    assert (end - half.campaign.updated).total_seconds() == pytest.approx(2.0 * budget_s)
    assert page_of(half).progress == 50
    over = replace(half, campaign=replace(half.campaign, state=CampaignState.FINISHED))
    assert page_of(over).progress == 50
    assert page_of(over).progress_text.startswith("50% of the budget used")
    assert expected_end(replace(half, measuring_s=0.0)) is None
    assert expected_end(replace(half, measuring_s=budget_s)) is None
    assert expected_end(replace(half, rules=None)) is None
    assert expected_end(snapshot) is None


def test_kinds_of_blocks_are_compared_separately(snapshot: Snapshot) -> None:
    finalist = snapshot.leader
    fresh, search = compare_trials(snapshot, snapshot.scored, BASELINE, finalist)
    assert (fresh.kind, search.kind) == ("certification", "search")
    for comparison, kind in ((fresh, BlockKind.CERTIFY), (search, BlockKind.SEARCH)):
        count = sum(finalist in scores for of, scores in snapshot.scored if of is kind)
        assert f"in the {count} blocks that measured both" in comparison.text
        assert comparison.rows[1][1] == str(count)
    first = next(one for one in snapshot.scored if finalist in one[1])
    (single,) = compare_trials(snapshot, [first], BASELINE, finalist)
    assert "in the 1 block that measured both" in single.text
    # The pilot's twin was measured only in the pilot, together with the baseline.
    (pilot,) = compare_trials(snapshot, snapshot.scored, BASELINE, 1)
    assert pilot.kind == "pilot"
    both = compare_trials(snapshot, snapshot.scored, 1, finalist)
    assert {of.text for of in both} == {f"No block has measured both trial 1 and trial {finalist}."}


def test_the_page_has_every_panel(snapshot: Snapshot) -> None:
    page = page_of(snapshot)
    (plot,) = page.effect_plots
    assert plot.name == "cache_manager.daemons"
    assert "faster than not set (95% interval" in plot.text
    assert page.standings == "1 parameter: 1 clear"
    assert page.stopped == ""
    assert page.now == ()


def test_diagnostics_are_shown(snapshot: Snapshot) -> None:
    block = next(b for b in snapshot.recent if snapshot.leader in b.order)
    arms = tuple(replace(m, diagnostics={"rx.resends": 3.0}) for m in block.measurements)
    page = page_of(replace(snapshot, recent=(replace(block, measurements=arms),)))
    assert page.diagnostics_of == ("The baseline", f"Trial {snapshot.leader}")
    (row,) = page.diagnostics
    assert (row.what, row.texts) == ("packets sent again", ("3", "3"))


def test_a_campaign_that_nobody_runs_says_so(snapshot: Snapshot) -> None:
    running, _ = in_the_middle(snapshot, 1)
    absence = Absence(snapshot.campaign.id, "its process (1 on x) has died", queued=False)
    page = page_of(running, absence)
    assert page.absence == absence
    assert page.doing == "its process is silent"
    assert page.now == ()
    assert page.expected_end is None
    assert (page.can_pause, page.can_resume, page.can_cancel) == (False, True, True)
    # A queued campaign is left to its worker.
    assert not page_of(running, replace(absence, queued=True)).can_resume
    assert not page_of(running, replace(absence, verifies=True)).can_resume


def test_a_campaign_that_stopped_says_why(snapshot: Snapshot) -> None:
    campaign = replace(snapshot.campaign, state=CampaignState.FAILED, reason="the host is gone")
    page = page_of(replace(snapshot, campaign=campaign))
    assert page.stopped == "the host is gone"
    assert page.can_resume
    # The rows of the baseline and of the recommended trial are not among those that were given up.
    (baseline, *_) = trials = [replace(t, state=TrialState.CANCELLED) for t in snapshot.trials]
    rows = page_of(replace(snapshot, campaign=campaign, trials=tuple(trials))).trials
    assert [row.number for row in rows if not row.out] == [baseline.number, snapshot.leader]


def test_the_first_screen_says_what_is_best_and_how_sure_that_is(snapshot: Snapshot) -> None:
    page = page_of(snapshot)
    assert page.best.startswith(f"Certified: trial {snapshot.leader} is ")
    assert "fresh blocks" in page.sure
    running, _ = in_the_middle(snapshot, 0)
    best = page_of(running)
    assert best.best.startswith(f"Best so far: trial {snapshot.leader} looks ")
    assert "nothing is certified yet" in best.sure
    nothing = page_of(replace(running, leader=BASELINE))
    assert (nothing.best, nothing.sure) == ("Nothing looks better than the baseline so far", "")
    assert best.incumbent_text.endswith(" so far.")


def test_a_cancelled_campaign_does_not_go_on(snapshot: Snapshot) -> None:
    campaign = replace(snapshot.campaign, state=CampaignState.CANCELLED, recommendation=None)
    over = replace(snapshot, campaign=campaign)
    for page in (page_of(over), page_of(replace(over, leader=BASELINE))):
        for text in (page.best, page.sure, page.incumbent_text):
            assert "so far" not in text
            assert "yet" not in text
    assert page_of(over).best.startswith(f"Best: trial {snapshot.leader} looks ")
    assert page_of(replace(over, steps=())).incumbent_text == "The search did not start."


def test_the_incumbent_is_the_certified_trial(snapshot: Snapshot) -> None:
    answer = snapshot.campaign.recommendation
    assert answer is not None
    assert answer.ratio is not None
    # The campaign ends with its certificate: no block of the search follows.
    assert snapshot.steps[-1].trial == answer.trial
    text = page_of(snapshot).incumbent_text
    assert f"the incumbent is trial {answer.trial}, {faster(answer.ratio)} than" in text


def test_a_trial_that_is_not_recommended_is_not_called_the_incumbent(snapshot: Snapshot) -> None:
    answer = snapshot.campaign.recommendation
    assert answer is not None
    nothing = replace(answer, answer=Answer.NO_IMPROVEMENT)
    campaign = replace(snapshot.campaign, recommendation=nothing)
    rows = page_of(replace(snapshot, campaign=campaign)).trials
    assert "incumbent" not in {row.state for row in rows}


def test_later_fresh_blocks_leave_the_numbers_of_the_answer(snapshot: Snapshot) -> None:
    answer = snapshot.campaign.recommendation
    assert answer is not None
    assert answer.ratio is not None
    other = next(t.number for t in snapshot.trials if t.number not in (BASELINE, answer.trial))
    later = Estimate(0.5, 0.4, 0.6)
    fresh = {answer.trial: (later, answer.blocks + 5), other: (later, 3)}
    page = page_of(
        replace(
            snapshot,
            estimates={**snapshot.estimates, BlockKind.CERTIFY: fresh},
            components=dict.fromkeys(snapshot.components, later),
        )
    )
    rows = {row.number: row for row in page.trials}
    row = rows[answer.trial]
    assert (row.blocks, row.effect) == (answer.blocks, signed(answer.ratio))
    assert row.basis == f"{confidence_text(answer.confidence)}, on {answer.blocks} fresh blocks"
    assert page.sure.startswith(confidence_text(answer.confidence))
    assert (rows[other].effect, rows[other].basis) == ("+100%", "on 3 fresh blocks")
    assert page.components_level == confidence_text(answer.confidence)
    effects = {name: signed(effect.ratio) for name, effect in answer.components.items()}
    assert {one.name: one.effect for one in page.components} == effects
    # Before there is an answer, all fresh blocks count.
    before = replace(snapshot, campaign=replace(snapshot.campaign, recommendation=None))
    assert page_of(before).components_level == "95% interval"
    assert {one.allowed for one in page.components} == {"5%"}
    floors = {name: floor_text(effect) for name, effect in answer.components.items()}
    assert {one.name: one.floor for one in page.components} == floors
    assert {one.floor for one in page_of(before).components} == {""}


def test_a_trial_shows_how_it_differs_from_the_baseline(snapshot: Snapshot) -> None:
    page = page_of(snapshot)
    rows = {trial.number: trial.changes for trial in page.trials}
    assert rows[BASELINE] == ()
    (row,) = rows[snapshot.leader]
    assert (row.name, row.before) == ("daemons", "not set")
    (one,) = page.slices
    assert str(one.drawing).count("<circle") > 3


def test_a_disturbance_is_marked_where_it_was(snapshot: Snapshot) -> None:
    middle = snapshot.drift[len(snapshot.drift) // 2]
    loss = Event(10**6, middle.started, "testbed-lost", "the host was gone")
    page = page_of(replace(snapshot, events=(loss,)))
    assert page.disturbed.endswith(f"after block {middle.block}: the host was gone")
    assert str(page.drift).count('class="disturbed"') == 1
    early = replace(loss, at=snapshot.drift[0].started - timedelta(seconds=1))
    assert page_of(replace(snapshot, events=(early,))).disturbed == ""


def test_the_best_trials_are_listed_and_those_without_measurements_last(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = snapshot.trials[BASELINE]
    trials = tuple(replace(template, number=number) for number in range(7))
    ratios = {1: 1.1, 2: 0.7, 3: 0.9, 4: 0.8}
    estimates = {n: (Estimate(r, r - 0.05, r + 0.05), 5) for n, r in ratios.items()}
    middle = replace(
        snapshot,
        campaign=replace(snapshot.campaign, recommendation=None),
        trials=trials,
        leader=4,
        estimates={BlockKind.SEARCH: estimates},
    )
    assert [row.number for row in page_of(middle).trials] == [0, 4, 2, 3, 1, 5, 6]
    monkeypatch.setattr(view, "_TRIALS_SHOWN", 4)
    assert [row.number for row in page_of(middle).trials] == [0, 4, 2, 3]
