"""Campaigns that compare given configurations: what they measure, show and guarantee."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from api import pages
from api.app import create_app
from tests.unit.campaign.campaigns import THREADS, Recorder, failing, faster, sends, spec
from tests.unit.campaign.conftest import Begin
from tuner.compose import prepare
from tuner.errors import SpecError
from tuner.judge.assumptions import Alarm, Guard, GuardKind
from tuner.judge.certify import CertificateOutcome
from tuner.judge.confidence import Interval
from tuner.judge.levels import ALPHA
from tuner.judge.score import margin
from tuner.measure.workload import load_workload
from tuner.model import BASELINE, BlockKind, BlockTimes, Configuration, Trial
from tuner.page.html import report_html
from tuner.page.markdown import report_markdown
from tuner.page.report_builder import report_document
from tuner.page.snapshot import SnapshotCache
from tuner.plan.attempts import Attempt
from tuner.plan.named_comparison import ORIGIN, Words, comparison, judge, still_open, word_of
from tuner.plan.rules import Floors, Rules, rules_of
from tuner.plan.scores import ScoreTable
from tuner.records.named_comparison import NamedComparison, Word
from tuner.report.json_documents import compared_document
from tuner.report.named_comparison import claim
from tuner.results.named_comparison import stored_comparison
from tuner.settings import ServiceSettings
from tuner.spec.campaign import CampaignSpec
from tuner.spec.checking import check_measurements
from tuner.states import BlockState, CampaignState, TrialState
from tuner.stop_signals import stop_signals
from tuner.store import NewEvent, Store

pytestmark = pytest.mark.slow

COMPARE = {
    "many": {"fileserver": {"threads": 200}},
    "few": {"fileserver": {"threads": 20}},
    "daemons": {"cache_manager": {"daemons": 12}},
}
SLOWER = {"parameter": "cache_manager.daemons", "low": 10, "change": 0.2}


def comparing(
    *effects: dict[str, object], compare: object = None, **sections: object
) -> CampaignSpec:
    defaults = {"compare": compare or COMPARE, "first": [], "pilot": {"blocks": 0}}
    return spec(*effects, **(defaults | sections))  # type: ignore[arg-type]


def words(comparison: NamedComparison | None) -> dict[str, str]:
    assert comparison is not None
    return {row.name: str(row.whole.word) for row in comparison.rows}


def test_each_is_faster_slower_or_no_different(begin: Begin) -> None:
    campaign = begin(comparing(faster(-0.15), SLOWER, noise=0.01))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    comparison = stored_comparison(campaign.store, campaign.store.campaign(campaign.id))
    assert words(comparison) == {"many": "faster", "few": "same", "daemons": "slower"}
    assert comparison is not None
    assert comparison.together == 0.95
    assert comparison.confidence == pytest.approx(1.0 - 0.05 / 3)
    by_name = {row.name: row for row in comparison.rows}
    many = by_name["many"].whole.estimate
    assert many is not None
    assert many.lower < 0.85 < many.upper
    assert {effect.word for effect in by_name["daemons"].components.values()} == {Word.SLOWER}
    # Nothing is searched: every block is fresh and includes the baseline.
    assert {block.kind for block in campaign.blocks} == {BlockKind.CERTIFY}
    assert all(BASELINE in block.order for block in campaign.blocks)
    assert len(campaign.trials) == 1 + len(COMPARE)
    answer = campaign.store.campaign(campaign.id).recommendation
    assert answer is not None
    assert answer.trial == by_name["many"].trial


def test_pages_read_the_times_of_a_block_once(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(comparing(faster(-0.15), SLOWER, noise=0.01))
    cache, read = SnapshotCache(campaign.store), Store.block_times
    numbers: list[int] = []

    def note(store: Store, *arguments: Any, **options: Any) -> list[BlockTimes]:
        blocks = read(store, *arguments, **options)
        numbers.extend(block.number for block in blocks)
        return blocks

    assert cache.comparison(campaign.id) is None
    campaign.run()
    expected = stored_comparison(campaign.store, campaign.store.campaign(campaign.id))
    monkeypatch.setattr(Store, "block_times", note)
    for _ in range(2):
        assert cache.comparison(campaign.id) == expected
        # A new event, as at each refresh of a page of a campaign that runs.
        campaign.store.add_event(campaign.id, NewEvent(datetime.now(UTC), "told", "by a test"))
    assert expected is not None
    assert numbers == [block.number for block in campaign.blocks]


def test_progress_counts_on_the_blocks_that_a_comparison_can_have(begin: Begin) -> None:
    recorder = Recorder()
    begin(comparing(noise=0.1)).run(recorder)
    most = 12 * (1 + len(COMPARE))
    assert {(each.budget, each.estimated) for each in recorder.standings} == {(most, True)}
    assert recorder.standings[-1].expected_left_s == pytest.approx(0.0)


def test_one_that_does_not_run_is_reported_and_the_others_are_compared(begin: Begin) -> None:
    campaign = begin(comparing(failing("start"), SLOWER, noise=0.01))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    comparison = stored_comparison(campaign.store, campaign.store.campaign(campaign.id))
    assert words(comparison) == {"many": "failed", "few": "same", "daemons": "slower"}
    assert comparison is not None
    assert next(row.reason for row in comparison.rows if row.name == "many")
    # It keeps its share of the error, so the others are not judged more laxly.
    assert comparison.confidence == pytest.approx(1.0 - 0.05 / 3)


def test_a_used_up_budget_leaves_unproven_differences_open(begin: Begin) -> None:
    campaign = begin(comparing(noise=0.3, budget={"measurements": 16}))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    comparison = stored_comparison(campaign.store, campaign.store.campaign(campaign.id))
    assert set(words(comparison).values()) == {"open"}


@pytest.mark.parametrize("at", [3, 9, 20, 31])
def test_a_comparison_that_was_cut_off_goes_on(begin: Begin, at: int) -> None:
    campaign = begin(comparing(faster(-0.15), SLOWER, noise=0.01))
    observer = sends(at, signal.SIGINT)
    with stop_signals(observer.activities.append):
        paused = campaign.run(observer).campaign.state
    assert paused is CampaignState.PAUSED
    assert campaign.run().campaign.state is CampaignState.FINISHED
    comparison = stored_comparison(campaign.store, campaign.store.campaign(campaign.id))
    assert words(comparison) == {"many": "faster", "few": "same", "daemons": "slower"}
    assert len(campaign.trials) == 1 + len(COMPARE)


def test_several_testbeds_compare_together(begin: Begin) -> None:
    one = {"noise": 0.01, "effects": [faster(-0.15), SLOWER]}
    places = [{"simulated": {**one, "name": "a"}}, {"simulated": {**one, "name": "b", "seed": 2}}]
    campaign = begin(comparing(testbed=None, testbeds=places))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    comparison = stored_comparison(campaign.store, campaign.store.campaign(campaign.id))
    assert words(comparison)["many"] == "faster"
    measured = {b.testbed for b in campaign.blocks if b.state is BlockState.COMPLETE}
    assert len(measured) == 2


def test_a_search_compares_nothing(begin: Begin) -> None:
    campaign = begin(spec())
    campaign.run()
    assert stored_comparison(campaign.store, campaign.store.campaign(campaign.id)) is None


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"first": [{THREADS: 20}]}, "compare: nothing is searched; leave out first"),
        ({"statistics": {"adjust": True}}, "compare: adjust learns from a search"),
        ({"compare": {"x": {"fileserver": {"thread": 20}}}}, "did you mean 'fileserver.threads'"),
        ({"compare": {"x": {"server": {"threads": 20}}}}, "no parameter 'server.threads'"),
        ({"compare": {"x": {}}}, "name a part, and its settings that differ"),
        ({"compare": {"x": {"fileserver": {"threads": 10**6}}}}, "compare.x: fileserver: "),
    ],
)
def test_what_cannot_be_compared_is_refused(
    sections: dict[str, object], message: str, tmp_path: Path
) -> None:
    document = {"compare": COMPARE, "first": []} | sections
    with pytest.raises((SpecError, ValueError), match=message):
        prepare(spec(**document), tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize(("blocks", "least"), [(0, 12), (3, 18)])
def test_a_comparison_has_measurements_for_its_first_blocks(
    begin: Begin, blocks: int, least: int
) -> None:
    def limited(most: int) -> CampaignSpec:
        return comparing(budget={"measurements": most}, pilot={"blocks": blocks})

    with pytest.raises(SpecError, match=f"measurements: this comparison takes at least {least}"):
        check_measurements(limited(least - 1))
    check_measurements(limited(least))
    campaign = begin(limited(least))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert sum(len(block.measurements) for block in campaign.blocks) == least


@pytest.mark.parametrize(("most", "pilots"), [(18, 3), (26, 7)])
def test_a_long_pilot_keeps_to_the_measurements_of_a_comparison(
    begin: Begin, most: int, pilots: int
) -> None:
    """So noisy that neither the pilot nor the comparison ends early."""
    limits = {"budget": {"measurements": most}, "certification": {"share": 0.4}}
    campaign = begin(comparing(noise=1.0, pilot={"blocks": 20, "override": True}, **limits))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    kinds = [block.kind for block in campaign.blocks]
    assert kinds.count(BlockKind.PILOT) == pilots
    assert sum(len(block.measurements) for block in campaign.blocks) <= most
    assert kinds.count(BlockKind.CERTIFY) >= 3


def test_the_shortest_pilot_on_several_testbeds_is_whole_batches() -> None:
    halls = [{"simulated": {"name": f"hall {number}"}} for number in range(2)]

    def limited(most: int, blocks: int) -> CampaignSpec:
        sections = {"testbed": None, "testbeds": halls, "pilot": {"blocks": blocks}}
        return comparing(budget={"measurements": most}, **sections)

    for blocks, least in ((0, 16), (3, 22), (20, 24)):
        with pytest.raises(SpecError, match=f"takes at least {least}, not {least - 1}"):
            check_measurements(limited(least - 1, blocks))
        check_measurements(limited(least, blocks))


@pytest.mark.parametrize(
    ("compare", "message"),
    [
        ({"a": COMPARE["few"], "b": COMPARE["few"]}, "compare.b: it is the same as a"),
        ({"a": {"cache_manager": {"daemons": 4}}}, "compare.a: it is the same as the baseline"),
    ],
)
def test_what_would_be_measured_twice_is_refused(
    begin: Begin, compare: object, message: str
) -> None:
    campaign = begin(comparing(compare=compare, found={"cache_manager.daemons": 4}))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FAILED
    assert message in outcome.campaign.reason


def test_a_comparison_has_a_pilot_only_if_it_names_one() -> None:
    document = comparing().model_dump(mode="json", exclude_none=True)
    assert CampaignSpec.model_validate(document | {"pilot": {"blocks": 5}}).pilot.blocks == 5
    del document["pilot"]
    assert CampaignSpec.model_validate(document).pilot.blocks == 0
    assert CampaignSpec.model_validate(document | {"compare": {}}).pilot.blocks == 20


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (-0.3, -0.001, Word.FASTER),
        (0.001, 0.3, Word.SLOWER),
        (-0.019, 0.019, Word.SAME),
        (-0.03, 0.01, Word.OPEN),
        (-math.inf, math.inf, Word.OPEN),
    ],
)
def test_words_follow_from_intervals(lower: float, upper: float, expected: Word) -> None:
    assert word_of(Interval(lower, upper), 5, 0.02) is expected
    assert word_of(Interval(lower, upper), 1, 0.02) is Word.OPEN


def test_no_false_word_at_any_look_more_often_than_promised() -> None:
    """With three configurations that change nothing, looking after each block and stopping at the
    first difference is wrong in at most 5% of comparisons.
    """
    rules = rules_of(comparing(), load_workload("mixed-use"))
    chance = np.random.default_rng(20261122)
    wrong, campaigns = 0, 100
    for _ in range(campaigns):
        times = np.exp(chance.normal(0.0, 0.05, (rules.certify_blocks, 4, len(rules.components))))
        blocks = [_block(number, arms) for number, arms in enumerate(times, start=1)]
        wrong += any(
            certificate.verdict.interval.upper < 0.0 or certificate.verdict.interval.lower > 0.0
            for count in range(3, rules.certify_blocks + 1)
            for certificate in judge(
                Attempt(1, 1, 1, (1, 2, 3), tuple(blocks[:count])), rules
            ).certificates.values()
        )
    # 5% of 100 is 5; 12 or more have a probability below 1%.
    assert wrong < 12
    assert ALPHA == 0.025


def _block(number: int, arms: np.ndarray) -> BlockTimes:
    return BlockTimes(
        number=number,
        kind=BlockKind.CERTIFY,
        round=1,
        order=(0, 1, 2, 3),
        state=BlockState.COMPLETE,
        reason="",
        times_s={trial: tuple(map(float, row)) for trial, row in enumerate(arms)},
        duration_s=1.0,
        testbed=None,
    )


def _compared(count: int) -> list[Trial]:
    """Return the baseline and as many configurations to compare."""
    running, nothing = TrialState.RUNNING, Configuration()
    names = [f"{ORIGIN}{'xyz'[number]}" for number in range(count)]
    return [
        Trial(number, nothing, min(number, 1), origin, running)
        for number, origin in enumerate(["as found", *names])
    ]


def test_dependent_measurements_show_nothing() -> None:
    """Three configurations that change nothing; all arms are autocorrelated by .7 from block to
    block. A wrong word is promised in at most 5% of comparisons, 2 of 40; 7 or more have a
    probability below 1%.
    """
    rules = rules_of(comparing(), load_workload("mixed-use"))
    chance = np.random.default_rng(20261126)
    wrong, refused = 0, []
    for _ in range(40):
        logs = chance.normal(0.0, 0.05, (20, 4, 1))
        for block in range(1, 20):
            logs[block] = 0.7 * logs[block - 1] + math.sqrt(1.0 - 0.7**2) * logs[block]
        times = np.repeat(np.exp(logs), len(rules.components), axis=2)
        blocks = [_block(number, arms) for number, arms in enumerate(times, start=1)]
        table = ScoreTable.of(blocks, rules.components, rules.weights)
        result = comparison(_compared(3), table, rules)
        assert result is not None
        wrong += any(row.whole.word in (Word.FASTER, Word.SLOWER) for row in result.rows)
        if "depend on those of the block before" in result.rows[0].reason:
            refused.append(result)
    assert wrong < 7
    assert len(refused) > 30
    for row in refused[0].rows:
        every = {row.whole.word, *(each.word for each in row.components.values())}
        assert every == {Word.OPEN}
        assert row.whole.estimate is not None
    # The reason is the same for all, and is said once.
    assert claim(refused[0])[-1] == f"x, y, z not settled: {refused[0].rows[0].reason}"


@pytest.mark.parametrize(
    ("gain", "word"), [(-0.1, Word.FASTER), (0.1, Word.SLOWER), (0.0, Word.SAME)]
)
def test_a_warning_makes_every_word_rest_on_the_sign_flip_test(gain: float, word: Word) -> None:
    rules = rules_of(comparing(), load_workload("mixed-use"))
    chance = np.random.default_rng(5)
    times = np.ones((20, 2, len(rules.components)))
    times[:, 1] = np.exp(gain + chance.normal(0.0, 0.003, (20, 1)))
    blocks = tuple(_block(number, arms) for number, arms in enumerate(times, start=1))
    few, all_ = (Attempt(1, 1, 1, (1,), blocks[:count]) for count in (5, 20))
    warning = Guard(GuardKind.SKEWNESS, Alarm.WARN, 1.0, 4.0, 20, "they lean to one side")
    everywhere = (word,) * len(rules.components)
    assert judge(few, rules).words[1] == Words(word, everywhere)
    assert judge(all_, rules, (warning,)).words[1] == Words(word, everywhere)
    early = judge(few, rules, (warning,))
    assert {early.words[1].whole, *early.words[1].components} == {Word.OPEN}
    assert "they lean to one side; the sign-flip test" in early.words[1].doubt
    # Five blocks cannot pass the sign-flip test, so more are measured.
    assert still_open(early, rules, ()) == (1,)
    trend = Guard(GuardKind.TREND, Alarm.WARN, 1.0, 4.0, 20, "they grow")
    assert judge(few, rules, (trend,)).words[1].whole is word


def test_failed_ones_and_full_ones_are_measured_no_more() -> None:
    rules = rules_of(comparing(), load_workload("mixed-use"))
    chance = np.random.default_rng(1)
    times = np.exp(chance.normal(0.0, 0.2, (rules.certify_blocks, 4, len(rules.components))))
    blocks = [_block(number, arms) for number, arms in enumerate(times, start=1)]
    few = judge(Attempt(1, 1, 1, (1, 2, 3), tuple(blocks[:4])), rules)
    assert still_open(few, rules, {2}) == (1, 3)
    full = judge(Attempt(1, 1, 1, (1, 2, 3), tuple(blocks)), rules)
    assert still_open(full, rules, ()) == ()


def _faster_with_noisy_components(blocks: int, noise: float = 0.05) -> Attempt:
    """One configuration that is 10% faster; what one component gains by chance, another loses."""
    weights = np.array(load_workload("mixed-use").weights)
    components = len(weights)
    chance = np.random.default_rng(3)
    times = np.ones((blocks, 2, components))
    swing = chance.normal(0.0, noise, (blocks, components))
    swing -= (swing @ weights)[:, None]
    gain = -0.1 + chance.normal(0.0, 0.003, (blocks, 1))
    times[:, 1] = np.exp(swing + gain)
    measured = tuple(_block(number, arms) for number, arms in enumerate(times, start=1))
    return Attempt(1, 1, 1, (1,), measured)


def test_what_is_faster_is_measured_until_its_floors_are_settled() -> None:
    rules = rules_of(comparing(), load_workload("mixed-use"))
    strict, bounded = (replace(rules, floors=floors) for floors in (Floors.STRICT, Floors.BOUNDED))
    attempt = _faster_with_noisy_components(4, noise=0.06)
    early = judge(attempt, strict)
    interval = early.certificates[1].verdict.interval
    assert word_of(interval, 4, rules.race.delta) is Word.FASTER
    assert interval.upper - interval.lower <= 2.0 * margin(rules.race.delta)
    assert early.certificates[1].outcome is CertificateOutcome.UNDECIDED
    assert still_open(early, strict, ()) == (1,)
    # The campaign's kind of floors applies here too.
    looks = [_faster_with_noisy_components(n, noise=0.06) for n in range(3, 30)]

    def first_certified(of: Rules) -> int:
        outcomes = [judge(each, of).certificates[1].outcome for each in looks]
        return outcomes.index(CertificateOutcome.CERTIFIED)

    assert first_certified(bounded) < first_certified(strict)


def test_a_refusal_of_the_guards_leaves_no_claim() -> None:
    rules = rules_of(comparing(), load_workload("mixed-use"))
    attempt = _faster_with_noisy_components(20, noise=0.01)
    assert judge(attempt, rules).certificates[1].outcome is CertificateOutcome.CERTIFIED
    refusal = Guard(GuardKind.TREND, Alarm.REFUSE, 1.0, 9.0, 20, "the twins drift apart")
    refused = judge(attempt, rules, (refusal,))
    assert refused.certificates[1].outcome is CertificateOutcome.NOT_CERTIFIED
    assert "the twins drift apart" in refused.certificates[1].reason
    assert refusal in refused.guards


def test_a_warning_makes_the_claim_rest_on_the_sign_flip_test() -> None:
    rules = rules_of(comparing(), load_workload("mixed-use"))
    attempt = _faster_with_noisy_components(5, noise=0.01)
    assert judge(attempt, rules).certificates[1].outcome is CertificateOutcome.CERTIFIED
    warning = Guard(GuardKind.SKEWNESS, Alarm.WARN, 1.0, 4.0, 20, "they lean to one side")
    warned = judge(attempt, rules, (warning,)).certificates[1]
    assert warned.outcome is CertificateOutcome.UNDECIDED
    assert "sign-flip" in warned.reason


def test_every_form_has_the_table(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The page is to be complete, however busy the machine is.
    monkeypatch.setattr(pages, "_PATIENCE_S", 60.0)
    campaign = begin(comparing(faster(-0.15), SLOWER, noise=0.01))
    campaign.run()
    row = campaign.store.campaign(campaign.id)
    comparison = stored_comparison(campaign.store, row)
    assert comparison is not None
    document = report_document(SnapshotCache(campaign.store), campaign.id)
    page = report_html(document)
    settings = ServiceSettings(requests_per_s=1e6, burst=10**6)
    with TestClient(
        create_app(tmp_path / "state", settings), base_url="http://localhost"
    ) as client:
        live = client.get(f"/campaigns/{campaign.id}").text
    assert "Incumbent over time" not in live
    for text in (report_markdown(document), page, live, document.json_text()):
        assert "many" in text
        assert "no difference" in text
        assert "with 95% confidence" in text
    as_json = json.loads(json.dumps(compared_document(comparison)))
    results = {one["name"]: one["result"] for one in as_json["configurations"]}
    assert results == {"many": "faster", "few": "same", "daemons": "slower"}
    assert campaign.trials[1].state is TrialState.COMPLETE
