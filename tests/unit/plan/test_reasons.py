"""Why nothing is recommended: the reason that an answer without a certificate gives."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.plan.histories import History, rules, trial
from tests.unit.plan.means_guide import MeansGuide, configuration
from tests.unit.report.samples import screen_of
from tuner.judge.adjustment import DifferenceAdjustment, no_adjustment
from tuner.judge.certify import Certificate, CertificateOutcome, PairedTimes, certify
from tuner.judge.pilot import PilotRules
from tuner.model import BASELINE, BlockKind
from tuner.plan.answer import recommendation
from tuner.plan.planner import Planner
from tuner.plan.rules import Rules
from tuner.plan.steps import Explore, Finish, Phase, Plan
from tuner.propose.prediction import Prediction
from tuner.report.answer import answer, headline
from tuner.report.recommendation_document import recommendation_flags
from tuner.states import TrialState
from tuner.text import duration, faster, interval

RULES = rules(max_trials=3)
PILOT = PilotRules(
    weights=RULES.weights,
    delta=0.02,
    floor=0.05,
    max_blocks=3,
    budget_s=1000.0,
    arms=4,
    certify_blocks=20,
    certify_share=0.4,
)
TRIALS = [trial(number, min(number, 1)) for number in range(4)]
NOTHING = "none of 3 configurations tried looked 2.0% faster than the baseline"
ONLY = "the only configuration tried did not look 2.0% faster than the baseline"


def reason(plan: Plan, of: Rules = RULES) -> str:
    return recommendation(plan, TRIALS, of, lambda c: {}, lambda c: {}).reason


def at_end(step: Finish, room: int) -> Plan:
    return Plan(step, Phase.DONE, 1, BASELINE, (), {}, (), room=room)


def looks(number: int, gain: float) -> Prediction:
    return Prediction(configuration(number), gain, 0.01, 1.0, ())


def undecided(gain: float, noise: float) -> Certificate:
    """The certificate after eight blocks with this gain and noise."""
    pairs = [
        PairedTimes((math.exp(step * noise - gain),) * 2, (1.0, 1.0))
        for step in (-1.0, 1.0, -0.5, 0.5) * 2
    ]
    certificate = certify(pairs, RULES.weights, floor=0.05, alpha=0.015, max_n=20)
    assert certificate.outcome is CertificateOutcome.UNDECIDED
    return certificate


@pytest.mark.parametrize(
    ("best", "room", "expected"),
    [
        (None, 0, NOTHING),
        (looks(1, 0.01), 0, NOTHING),
        (
            looks(1, 0.1125),
            2,
            "what looks best is 11.9% faster than the baseline, but the budget has no room left "
            "for the 3 fresh blocks that a certificate takes",
        ),
        (
            looks(4, 0.1125),
            9,
            "what looks best is 11.9% faster than the baseline, but search.max_trials (3) "
            "allows no other configuration",
        ),
        (
            looks(1, 0.1125),
            9,
            "what looks best is 11.9% faster than the baseline, but was unlikely to be certified "
            "with the rest of the budget",
        ),
    ],
)
def test_without_a_finalist_what_looks_best_decides_the_reason(
    best: Prediction | None, room: int, expected: str
) -> None:
    assert reason(replace(at_end(Finish(None, None), room), best=best)) == expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([TrialState.RUNNING], ONLY),
        ([TrialState.PRUNED], f"{ONLY}; 1 configuration was dropped early"),
        (
            [TrialState.FAILED, TrialState.PRUNED, TrialState.PRUNED],
            f"{NOTHING}; 2 configurations were dropped early; 1 configuration did not run",
        ),
    ],
)
def test_the_reason_counts_the_configurations(states: list[TrialState], expected: str) -> None:
    trials = [replace(one, state=state) for one, state in zip(TRIALS[1:], states, strict=False)]
    plan = at_end(Finish(None, None), 9)
    answer = recommendation(plan, [TRIALS[0], *trials], RULES, lambda c: {}, lambda c: {})
    assert answer.reason == expected


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        (["too few threads"], "the only one tried failed (details: 'fstune show C'): {0}"),
        (["too few threads"] * 2, "all with the reason: {0}"),
        (["no cache", *["too few threads"] * 2], "2 of them with the reason: {0}"),
    ],
)
def test_where_every_configuration_failed_the_reason_tells_why_and_what_tells_more(
    failures: list[str], expected: str
) -> None:
    trials = [
        replace(one, state=TrialState.FAILED, reason=text)
        for one, text in zip(TRIALS[1:], failures, strict=False)
    ]
    plan = at_end(Finish(None, None), 9)
    answer = recommendation(
        plan, [TRIALS[0], *trials], RULES, lambda c: {}, lambda c: {}, campaign="C"
    )
    assert answer.reason.startswith("no configuration could be run: ")
    assert "'fstune show C'" in answer.reason
    assert answer.reason.endswith(expected.format("too few threads"))
    assert headline(answer).plain == "No configuration could be run: keep the baseline"
    assert "no improvement" not in recommendation_flags(answer)


RULED_OUT = "not certified, as a gain above 2.0%, the least worth acting on, is ruled out: "
WITHIN = "not certified within the budget: "
GIVEN_UP = "not certified, and given up, as further blocks promised no better answer: "


@pytest.mark.parametrize(
    ("certificate", "by_budget", "compares", "beginning"),
    [
        (undecided(0.0, 0.005), False, False, RULED_OUT),
        (undecided(0.0, 0.005), False, True, RULED_OUT),
        (undecided(0.0, 0.1), True, False, WITHIN),
        (undecided(0.0, 0.1), False, True, WITHIN),
        (undecided(0.0, 0.1), False, False, GIVEN_UP),
    ],
)
def test_an_undecided_certificate_names_the_budget_only_if_no_block_of_its_attempt_fitted(
    certificate: Certificate, by_budget: bool, compares: bool, beginning: str
) -> None:
    of = replace(RULES, compares=compares)
    finalists = {1, 2} if by_budget else set()
    plan = replace(at_end(Finish(1, certificate), 0), ended_by_budget=frozenset(finalists))
    assert reason(plan, of).startswith(beginning)
    beside = replace(plan, step=Finish(1, certificate, others={2: certificate}))
    notes = recommendation(beside, TRIALS, of, lambda c: {}, lambda c: {}).notes
    assert compares or any(beginning in note for note in notes)


@pytest.mark.parametrize(
    ("effects", "noise", "expected"),
    [
        ((0.1, 0.1), 0.005, "certified: no component is more than 5.0% slower"),
        ((0.1, -0.2), 0.005, "not certified: component 2 is 22"),
        ((-0.03, -0.03), 0.01, "not certified: shown to be slower"),
        ((0.03, 0.03), 0.1, "not certified after the 8 blocks allowed: no gain is shown"),
        ((0.3, 0.0), 0.07, "not certified after the 8 blocks allowed: component 2 not shown to"),
    ],
)
def test_an_answer_states_its_estimate_once(
    effects: tuple[float, float], noise: float, expected: str
) -> None:
    pairs = [
        PairedTimes(tuple(math.exp(step * noise - effect) for effect in effects), (1.0, 1.0))
        for step in (-1.0, 1.0, -0.5, 0.5) * 2
    ]
    certificate = certify(pairs, RULES.weights, floor=0.05, max_n=8)
    plan = at_end(Finish(1, certificate), 0)
    advice = recommendation(plan, TRIALS, RULES, lambda c: {}, lambda c: {})
    assert advice.reason.startswith(expected)
    text = screen_of(answer(advice), 200).text
    assert advice.ratio is not None
    assert text.count(faster(advice.ratio)) == 1
    bounds = certificate.verdict.interval
    assert (
        text.count(f"95% interval {interval(math.exp(bounds.lower), math.exp(bounds.upper))}") == 1
    )
    assert certificate.verdict.reason not in text


@pytest.mark.parametrize(
    ("noise", "budget_s", "beginning"), [(0.03, 120.0, WITHIN), (0.02, 120.0, GIVEN_UP)]
)
def test_what_ended_an_attempt_is_judged_by_what_was_left_then(
    noise: float, budget_s: float, beginning: str
) -> None:
    """Whatever later blocks use up."""
    history = History(rules(max_trials=None, budget_s=budget_s), {1: 0.93}, noise=noise)
    history.run(until=lambda s: isinstance(s, Explore) and s.kind is BlockKind.CERTIFY)
    history.ratios = {1: 1.01}
    history.run()
    last = replace(history.plans[-1], room=0)
    assert last.certificates[1].outcome is CertificateOutcome.UNDECIDED
    step = Finish(1, last.certificates[1])
    answer = recommendation(
        replace(last, step=step), history.trials, history.rules, lambda c: {}, lambda c: {}
    )
    assert answer.reason.startswith(beginning)


@pytest.mark.parametrize(
    ("can_search", "pilot", "finalists", "expected"),
    [
        (
            False,
            True,
            5,
            "there was nothing to try: no configuration that the campaign file allows differs from "
            "the one as found",
        ),
        (
            True,
            True,
            1,
            "at this pace, the budget had no room for a full block of the search (search.arms: 4) "
            "and a certificate after the pilot; choose a larger budget or a smaller search.arms in "
            "the campaign file",
        ),
        (
            True,
            False,
            1,
            "the budget had no room for a full block of the search (search.arms: 4) and a "
            "certificate; choose a larger budget or a smaller search.arms in the campaign file",
        ),
        (
            True,
            False,
            5,
            "the budget had no room for a full block of the search (search.arms: 4) and a "
            "certificate (certification.finalists: 5); choose a larger budget or a smaller "
            "search.arms or certification.finalists in the campaign file",
        ),
    ],
)
def test_without_a_block_of_the_search_the_reason_says_what_was_missing(
    can_search: bool, pilot: bool, finalists: int, expected: str
) -> None:
    plan = replace(at_end(Finish(None, None), 0), can_search=can_search)
    of = replace(RULES, pilot=PILOT if pilot else None, arms=4, finalists=finalists)
    answer = recommendation(plan, TRIALS[:1], of, lambda c: {}, lambda c: {})
    assert answer.reason == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"pilot": PILOT, "budget_measurements": 20},
            "the budget had no room for a full block of the search (search.arms: 3) and a "
            "certificate after the pilot; choose a larger budget or a smaller search.arms in the "
            "campaign file",
        ),
        (
            {"arms": 1},
            "the budget had no room for a full block of the search (search.arms: 1) and a "
            "certificate; choose a larger budget in the campaign file",
        ),
        (
            {"arms": 1, "testbeds": 2, "finalists": 2},
            "the budget had no room for a full block of the search on every testbed (search.arms: "
            "1) and a certificate (certification.finalists: 2); choose a larger budget or a "
            "smaller certification.finalists in the campaign file",
        ),
    ],
)
def test_the_reason_names_only_what_limits_a_campaign_and_what_can_be_changed(
    changed: dict[str, object], expected: str
) -> None:
    of = replace(RULES, **changed)  # type: ignore[arg-type]
    plan = at_end(Finish(None, None), 0)
    assert recommendation(plan, TRIALS[:1], of, lambda c: {}, lambda c: {}).reason == expected


@pytest.mark.parametrize("exists", [True, False])
def test_a_plan_without_a_block_of_the_search_knows_whether_anything_could_be_tried(
    exists: bool,
) -> None:
    of = rules(budget_measurements=None if not exists else 8)
    guide = MeansGuide(of.weights, of.race.floor, new=3 if exists else 0)
    plan = Planner(of, guide).plan([trial(BASELINE, 0)], [])
    assert plan.step == Finish(None, None)
    assert plan.can_search == exists


def test_what_is_left_of_the_budget_is_mentioned_with_its_reason() -> None:
    certificate = undecided(0.0, 0.1)
    plan = replace(at_end(Finish(None, None), 0), spare="2 min 50 s")

    def notes(of: Plan, limits: Rules = RULES) -> tuple[str, ...]:
        limits = replace(limits, arms=4)
        every = recommendation(of, TRIALS, limits, lambda c: {}, lambda c: {}).notes
        return tuple(note for note in every if "left of the budget" in note)

    left = "left of the budget: 2 min 50 s, as "
    too_little = f"{left}a full block of the search (search.arms: 4) and a certificate take more"
    assert notes(plan) == notes(replace(plan, step=Finish(1, certificate))) == (too_little,)
    # Only a campaign that has not begun needs room for all finalists.
    assert notes(plan, replace(RULES, finalists=5)) == (too_little,)
    assert notes(replace(plan, round=0), replace(RULES, finalists=5)) == (
        f"{left}a full block of the search (search.arms: 4) and a certificate "
        "(certification.finalists: 5) take more",
    )
    assert notes(replace(plan, can_search=False)) == (f"{left}nothing was left to try",)
    answer = Finish(1, certificate)
    with_answer = replace(plan, step=answer, answers=(answer,))
    assert notes(with_answer) == (f"{left}a full block of the search (search.arms: 4) takes more",)
    first = replace(RULES, stop_certified=True)
    assert notes(with_answer, first) == (
        f"{left}the campaign was to end with the first certificate",
    )
    assert notes(with_answer, replace(RULES, compares=True)) == ()
    assert notes(replace(plan, spare="")) == ()


def test_a_campaign_with_nothing_left_to_try_says_how_much_of_its_budget_is_left() -> None:
    history = History(rules(max_trials=3, budget_s=1000.0))
    history.run()
    last = history.plans[-1]
    used_s = sum(block.duration_s for block in history.blocks)
    assert (last.can_search, last.spare) == (False, duration(1000.0 - used_s))
    assert history.plans[0].spare == ""


def test_a_campaign_that_finds_nothing_uses_its_budget() -> None:
    history = History(rules(max_trials=None, arms=5, finalists=4, budget_s=300.0))
    history.run()
    left_s = 300.0 - sum(block.duration_s for block in history.blocks)
    # A block of the search and the three blocks that a certificate of one finalist takes.
    assert left_s < history.arm_s * (6 + 3 * 2)


def fast_then(*later: tuple[float, float], robust: bool = False) -> Certificate:
    """The certificate after eight blocks with a gain of about 20%, and these time ratios of the
    components in the blocks after them.
    """
    before = [(0.8 * math.exp(step / 100.0),) * 2 for step in range(8)]
    pairs = [PairedTimes(ratios, (1.0, 1.0)) for ratios in (*before, *later)]
    return certify(
        pairs,
        RULES.weights,
        floor=0.05,
        alpha=0.015,
        max_n=20,
        robust=robust,
        components=RULES.components,
    )


STILL_VALID = (
    "; noise alone can cause this, and the error holds for all looks together, so the certificate "
    "and its numbers stay"
)


@pytest.mark.parametrize(
    ("now", "note"),
    [
        (
            fast_then((1.8, 0.8)),
            "with another fresh block included, the gain and the floor of 5.0% for write would "
            "no longer be shown: 15.8% faster than baseline (97% interval 2.7% slower to 37.8% "
            "faster) after 9 blocks; write is 10.7% faster than baseline (97% interval 29.3% "
            "slower to 58.6% faster) after 9 blocks; noise",
        ),
        (
            fast_then(*[(0.8, 1.05), (0.8, 1.25)] * 3),
            "with 6 further fresh blocks included, the floor of 5.0% for read would no longer be "
            "shown: read is 5.0% faster than baseline (97% interval 13.4% slower to 25.2% "
            "faster) after 14 blocks; noise",
        ),
        (
            fast_then((1.08, 1.08), robust=True),
            "with another fresh block included, the gain would no longer be shown: 17.2% faster "
            "than baseline (97% interval 3.3 to 33.0%) after 9 blocks; not confirmed by the "
            "sign-flip test (e-value 28.7 of 66.7); noise",
        ),
        (
            fast_then((0.9, 1.26), robust=True),
            "with another fresh block included, the gain and the floor of 5.0% for read would no "
            "longer be shown: 17.4% faster than baseline (97% interval 4.1 to 32.3%) after 9 "
            "blocks; not confirmed by the sign-flip test (e-value 36.1 of 66.7); read is 15.2% "
            "faster than baseline",
        ),
        (
            replace(fast_then(), outcome=CertificateOutcome.UNDECIDED, doubt="it is odd"),
            "by the guards of later blocks, the gain would no longer be shown: 20.7% faster than "
            "baseline (97% interval 16.3 to 25.3%) after 8 blocks; it is odd; noise",
        ),
    ],
)
def test_what_further_fresh_blocks_left_open_again_is_named(now: Certificate, note: str) -> None:
    certificate = fast_then()
    assert certificate.outcome is CertificateOutcome.CERTIFIED
    assert now.outcome is CertificateOutcome.UNDECIDED
    plan = at_end(Finish(1, certificate, latest=now), 0)
    answer = recommendation(plan, TRIALS, RULES, lambda c: {}, lambda c: {})
    (text,) = [each for each in answer.notes if "would no longer be shown" in each]
    assert text.startswith(note)
    assert text.endswith(STILL_VALID)


def test_a_certificate_that_all_fresh_blocks_confirm_has_no_such_note() -> None:
    plan = at_end(Finish(1, fast_then()), 0)
    answer = recommendation(plan, TRIALS, RULES, lambda c: {}, lambda c: {})
    assert not [each for each in answer.notes if "no longer be shown" in each]


def test_the_answer_says_whether_the_gain_was_adjusted_for_other_load() -> None:
    def notes(adjustment: DifferenceAdjustment | None) -> tuple[str, ...]:
        plan = at_end(Finish(1, fast_then(), adjustment=adjustment), 0)
        return recommendation(plan, TRIALS, RULES, lambda c: {}, lambda c: {}).notes

    none = no_adjustment(2, "no adjustment: too few blocks").score
    assert "no adjustment: too few blocks" in notes(none)
    used = notes(replace(none, coefficients=(0.3,), reason="is adjusted"))
    assert "is adjusted" in used
    assert any("without the adjustment, a gain is shown at an error of 12% only" in n for n in used)
    assert set(notes(none)) - set(notes(None)) == {none.reason}


def test_a_plan_knows_what_looks_best_and_how_many_blocks_fit() -> None:
    history = History(rules(budget_measurements=17, max_trials=3), {1: 0.9}, noise=0.001)
    history.run()
    last = history.plans[-1]
    left = 17 - sum(len(block.measurements) for block in history.blocks)
    assert last.room == left // 2
    assert history.plans[0].room == 8
