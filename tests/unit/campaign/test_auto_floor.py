"""``floor: auto``: chosen from the pilot before the search, stored, and kept from then on."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from math import exp
from pathlib import Path
from typing import Any

import pytest

from tests.unit.campaign.places import Place
from tuner.errors import SpecError
from tuner.judge import pilot as pilot_module
from tuner.judge.auto_floor import FLOORS, FloorChoice
from tuner.judge.certify import Certificate, certify_several
from tuner.judge.pilot import Pilot, PilotBlock, assess_pilot
from tuner.measure.workload import load_workload
from tuner.model import Answer, BlockKind, Event
from tuner.plan import certifying
from tuner.plan.rules import Floors, Rules, rules_of, settled_rules, stored_rules
from tuner.run.identity import aspects
from tuner.run.stored_floor import chosen_floor, floor_sentence, stored_floor
from tuner.spec.campaign import CampaignSpec, read_spec
from tuner.states import EventKind
from tuner.store import Store

CAMPAIGN = """
name: auto floor
testbed: {{simulated: {{noise: {noise}, effects: [{effect}]}}}}
spaces:
  cache_manager: {{name: openafs-cache-manager-fuse-1.8, only: [daemons]}}
workload: mixed-use
budget: {{{budget}}}
search: {{arms: 2, blocks_per_trial: 3, max_trials: 2}}
stop: certified
pilot: {{blocks: 8, override: true}}
statistics: {{floor: {floor}, delta: 5%}}
"""
FASTER = "{parameter: cache_manager.daemons, low: 1, change: -0.2}"
#: Everything is faster, except one component that takes a third longer.
TRADE_OFF = (
    f"{FASTER}, {{parameter: cache_manager.daemons, low: 1, change: 0.6, components: [metadata]}}"
)


class FloorPlace(Place):
    """A place that reports the floor of its newest campaign."""

    def rules(self) -> Rules:
        """The rules by which the newest campaign is judged."""
        with Store.open(self.state) as store:
            campaign = store.campaign("last")
            return stored_floor(store, campaign.id, stored_rules(campaign))

    def floor(self) -> float:
        """The floor recorded in the newest campaign."""
        floor = self.choice().data["floor"]
        assert isinstance(floor, float)
        return floor

    def choice(self) -> Event:
        """The event in which the newest campaign records its choice."""
        with Store.open(self.state) as store:
            kinds = [EventKind.FLOOR_CHOSEN]
            (event,) = store.events(store.campaign("last").id, kinds=kinds)
        return event

    def events(self) -> list[tuple[str, object]]:
        """The kind of every event of the newest campaign, with its floor or its block."""
        with Store.open(self.state) as store:
            events = store.events(store.campaign("last").id)
        return [(e.kind, e.data.get("floor", e.data.get("block"))) for e in events]

    def first_search_block(self) -> int:
        with Store.open(self.state) as store:
            blocks = store.blocks(store.campaign("last").id)
        return next(block.number for block in blocks if block.kind is not BlockKind.PILOT)


@pytest.fixture
def place(tmp_path: Path) -> FloorPlace:
    usual = {"noise": 0.08, "effect": FASTER, "floor": "auto", "budget": "wall_time: 2h"}
    return FloorPlace(tmp_path, CAMPAIGN, usual)


@pytest.mark.slow
def test_the_floor_is_chosen_before_the_search_and_shown(place: FloorPlace) -> None:
    place.write()
    assert place.fstune("run", str(place.file)).exit_code == 0
    events = place.events()
    (position,) = [
        number for number, (kind, _) in enumerate(events) if kind == EventKind.FLOOR_CHOSEN
    ]
    assert events[position + 1 :].index(("block-started", place.first_search_block())) >= 0
    assert ("block-started", place.first_search_block()) not in events[:position]
    rules = place.rules()
    assert rules.race.floor == events[position][1]
    assert rules.race.floor in FLOORS
    output = " ".join(place.fstune("show").output.split())
    assert f"{100 * rules.race.floor:.1f}% is the smallest floor that a configuration" in output
    with Store.open(place.state) as store:
        answer = store.campaign("last").recommendation
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED
    assert any(note.startswith("the floor was chosen by the pilot: ") for note in answer.notes)
    report = place.fstune("report", "--json").output
    question = json.loads(report)["question"]
    assert f"no component of it more than {100 * rules.race.floor:g}% slower" in question


@pytest.mark.slow
def test_a_noisier_testbed_has_a_larger_floor(place: FloorPlace) -> None:
    floors = []
    for noise in (0.01, 0.2):
        place.write(noise=noise)
        assert place.fstune("pilot", str(place.file)).exit_code == 0
        floors.append(place.floor())
        assert place.rules().race.floor == floors[-1]
    assert floors[0] == FLOORS[0]
    assert floors[1] in FLOORS[1:-1]


@pytest.mark.slow
def test_few_measurements_have_a_larger_floor(place: FloorPlace) -> None:
    floors = []
    for budget in ("wall_time: 2h", "wall_time: 2h, measurements: 24"):
        place.write(noise=0.06, budget=budget)
        assert place.fstune("pilot", str(place.file)).exit_code == 0
        floors.append(place.floor())
    assert FLOORS[0] <= floors[0] < floors[1] < FLOORS[-1]


@pytest.mark.slow
def test_the_reason_is_reported_when_the_budget_allows_no_certification(place: FloorPlace) -> None:
    """Such a pilot is refused; the campaign continues only because it is told to override it."""
    place.write(budget="wall_time: 20m")
    place.file.write_text(place.file.read_text() + "certification: {share: 2%}\n")
    assert place.fstune("run", str(place.file)).exit_code == 0
    assert place.first_search_block() > 1
    choice_event, reason = place.choice(), "not even a floor of 50.0% is likely to be shown"
    assert choice_event.data["floor"] == FLOORS[-1]
    assert reason in choice_event.message
    assert place.rules().floor == FLOORS[-1]
    with Store.open(place.state) as store:
        campaign = store.campaign("last")
        warnings = store.events(campaign.id, kinds=["pilot-warning"])
        pilots = store.events(campaign.id, kinds=["pilot"])
    assert [event.data["outcome"] for event in pilots] == ["refused"]
    assert any(reason in event.message for event in warnings)
    assert campaign.recommendation is not None
    assert any(reason in note for note in campaign.recommendation.notes)
    question = json.loads(place.fstune("report", "--json").output)["question"]
    assert "no component of it more than 50% slower" in question


@pytest.mark.slow
def test_the_certificate_is_held_to_it(place: FloorPlace) -> None:
    """A loss of 28% in one component breaks a floor of 10%, but meets a floor of 50%."""
    place.write(noise=0.01, effect=TRADE_OFF)
    assert place.fstune("run", str(place.file)).exit_code == 0
    assert place.rules().race.floor == 0.10
    with Store.open(place.state) as store:
        answer = store.campaign("last").recommendation
    assert answer is not None
    assert answer.answer is Answer.NO_IMPROVEMENT
    place.write(noise=0.01, effect=TRADE_OFF, floor="50%")
    assert place.fstune("run", str(place.file)).exit_code == 0
    with Store.open(place.state) as store:
        answer = store.campaign("last").recommendation
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED


@pytest.mark.slow
def test_a_resumed_campaign_keeps_the_chosen_floor(
    place: FloorPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if another release would choose differently from the same pilot."""
    place.write()
    assert place.fstune("pilot", str(place.file)).exit_code == 0
    before = place.rules().race.floor

    def other(*_: object) -> FloorChoice:
        return FloorChoice(0.47, 0.9, "another release thinks so")

    monkeypatch.setattr(pilot_module, "choose_floor", other)
    assert place.fstune("resume").exit_code == 0
    floors = [floor for kind, floor in place.events() if kind == EventKind.FLOOR_CHOSEN]
    assert floors == [before]
    with Store.open(place.state) as store:
        answer = store.campaign("last").recommendation
    assert answer is not None
    assert not any("another release" in note for note in answer.notes)


@pytest.mark.slow
def test_a_resumed_campaign_stays_as_strict_as_it_began(
    place: FloorPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long campaign on a quiet testbed is strict, even if another release would choose a floor
    that cannot be shown.
    """
    place.write(noise=0.01, budget="wall_time: 6h")
    assert place.fstune("pilot", str(place.file)).exit_code == 0
    assert place.choice().data["floors"] == Floors.STRICT
    assert place.rules().floors is Floors.STRICT
    monkeypatch.setattr(
        pilot_module, "choose_floor", lambda *_: FloorChoice(1e-6, 0.0, "never shown")
    )
    alphas = []

    def watched(
        *arguments: Any, floor_alpha: float | None, **more: Any
    ) -> Mapping[int, Certificate]:
        alphas.append(floor_alpha)
        return certify_several(*arguments, floor_alpha=floor_alpha, **more)

    monkeypatch.setattr(certifying, "certify_several", watched)
    assert place.fstune("resume").exit_code == 0
    assert set(alphas) == {None}  # the error of the gain
    with Store.open(place.state) as store:
        answer = store.campaign("last").recommendation
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED


def choice(**data: str | float) -> Event:
    return Event(1, datetime.now(UTC), EventKind.FLOOR_CHOSEN, "chosen", data)


def quiet_pilot(rules: Rules) -> Pilot:
    """Return the pilot of a testbed that can show a floor of 10%, but not one of a hundredth of
    that.
    """
    assert rules.pilot is not None
    count, blocks = len(rules.components), []
    for seed in range(8):
        noise = random.Random(seed)
        a, b = (tuple(exp(noise.gauss(0.0, 0.01)) for _ in range(count)) for _ in range(2))
        blocks.append(PilotBlock(a, b, seed % 2 == 0, 60.0))
    return assess_pilot(blocks, rules.pilot)


@pytest.mark.parametrize(("floor", "floors"), [(0.1, Floors.STRICT), (0.001, Floors.BOUNDED)])
def test_the_floor_chosen_by_an_earlier_release_decides_whether_it_is_strict(
    floor: float, floors: Floors
) -> None:
    """That release did not store it; the budget of measurements played no part."""
    budget = {"wall_time": "6h", "measurements": 8}
    rules = rules_of(spec(budget=budget), load_workload("mixed-use"))
    again = chosen_floor([choice(floor=floor, reason="as then")], rules)
    assert (again.race.floor, again.floor_reason) == (floor, "as then")
    assert settled_rules(again, quiet_pilot(again)).floors is floors
    assert settled_rules(rules, quiet_pilot(rules)).floors is Floors.BOUNDED


def test_the_first_choice_counts_and_an_explicit_setting_is_kept() -> None:
    rules = rules_of(spec(), load_workload("mixed-use"))
    both = [
        choice(floor=0.1, reason="first", floors="strict"),
        choice(floor=0.2, reason="second", floors="bounded"),
    ]
    again = chosen_floor(both, rules)
    assert (again.floor, again.floor_reason, again.floors) == (0.1, "first", Floors.STRICT)
    assert floor_sentence(both) == "first"
    assert floor_sentence([]) == ""
    bounded = rules_of(spec(certification={"floors": "bounded"}), load_workload("mixed-use"))
    assert chosen_floor(both, bounded).floors is Floors.BOUNDED
    explicit = rules_of(spec("5%"), load_workload("mixed-use"))
    assert chosen_floor(both, explicit) == explicit


def spec(text: str = "auto", pilot: int = 8, **sections: object) -> CampaignSpec:
    return CampaignSpec.model_validate(
        {
            "name": "auto",
            "testbed": {"simulated": {}},
            "spaces": {"cache_manager": "openafs-cache-manager-fuse-1.8"},
            "workload": "mixed-use",
            "pilot": {"blocks": pilot},
            "statistics": {"floor": text},
        }
        | sections
    )


def test_the_file_says_auto_or_a_share(place: FloorPlace) -> None:
    assert spec().statistics.given_floor is None
    assert spec("5%").statistics.given_floor == 0.05
    assert CampaignSpec.from_json(spec().to_json()) == spec()
    for wrong in ("often", "[1]", "5", "true", "0"):
        place.write(floor=wrong)
        with pytest.raises(SpecError, match=r"statistics\.floor: write a share") as error:
            read_spec(place.file)
        assert str(error.value).count("statistics.floor") == 1


def test_it_needs_a_pilot(place: FloorPlace) -> None:
    place.write()
    place.file.write_text(place.file.read_text().replace("blocks: 8", "blocks: 0"))
    with pytest.raises(SpecError, match=r"statistics\.floor: auto needs a pilot"):
        read_spec(place.file)


def test_rules_wait_for_the_pilot() -> None:
    workload = load_workload("mixed-use")
    rules = rules_of(spec(), workload)
    assert rules.auto_floor
    assert rules.floor is None
    assert rules.pilot is not None
    assert rules.pilot.floor is None
    assert settled_rules(rules, None).auto_floor
    assert chosen_floor([], rules) == rules
    explicit = rules_of(spec("50%"), workload)
    assert not explicit.auto_floor
    assert explicit.floor == explicit.race.floor == rules.race.floor

    def floor(of: Rules) -> object:
        document = aspects({}, workload, of, {})["statistics"].document
        assert isinstance(document, dict)
        return document["race"]["floor"]

    assert (floor(rules), floor(explicit)) == ("auto", 0.5)
