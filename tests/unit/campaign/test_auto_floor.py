"""``floor: auto``: chosen from the pilot before the search, stored, and kept whatever comes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tuner.campaign.floors import chosen_floor, stored_floor
from tuner.campaign.identity import aspects
from tuner.campaign.rules import Rules, rules_of, settled_rules, stored_rules
from tuner.campaign.spec import CampaignSpec, read_spec
from tuner.cli.app import app
from tuner.errors import SpecError
from tuner.judge import pilot as judged
from tuner.judge.floors import FLOORS, FloorChoice
from tuner.measure.workload import load_workload
from tuner.model import Answer, BlockKind
from tuner.states import EventKind
from tuner.store import Store

CAMPAIGN = """
name: auto floor
testbed: {{simulated: {{noise: {noise}, effects: [{effect}]}}}}
spaces:
  cache_manager: {{name: openafs-cache-manager-fuse-1.8, only: [daemons]}}
workload: mixed-use
budget: {{wall_time: 2h}}
search: {{arms: 2, max_trials: 2}}
pilot: {{blocks: 8, override: true}}
statistics: {{floor: {floor}, delta: 5%}}
"""
FASTER = "{parameter: cache_manager.daemons, low: 1, change: -0.2}"
#: Everything faster, but for one component that takes a third longer.
TRADE_OFF = (
    f"{FASTER}, {{parameter: cache_manager.daemons, low: 1, change: 0.6, components: [metadata]}}"
)


class Place:
    """A state directory with a campaign file."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.file = directory / "campaign.yaml"

    def write(self, **text: object) -> None:
        usual = {"noise": 0.08, "effect": FASTER, "floor": "auto"}
        self.file.write_text(CAMPAIGN.format(**(usual | text)))

    def fstune(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--state-dir", str(self.state)])

    def rules(self) -> Rules:
        """Those that the newest campaign is judged by."""
        with Store.open(self.state) as store:
            campaign = store.campaign("last")
            return stored_floor(store, campaign.id, stored_rules(campaign))

    def told(self) -> list[tuple[str, object]]:
        """The kind of every event of the newest campaign, with its block or its floor."""
        with Store.open(self.state) as store:
            events = store.events(store.campaign("last").id)
        return [(e.kind, e.data.get("floor", e.data.get("block"))) for e in events]

    def first_search_block(self) -> int:
        with Store.open(self.state) as store:
            blocks = store.blocks(store.campaign("last").id)
        return next(block.number for block in blocks if block.kind is not BlockKind.PILOT)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.slow
def test_it_is_chosen_before_the_search_and_shown(place: Place) -> None:
    place.write()
    assert place.fstune("run", str(place.file)).exit_code == 0
    told = place.told()
    (chosen,) = [number for number, (kind, _) in enumerate(told) if kind == EventKind.FLOOR_CHOSEN]
    assert told[chosen + 1 :].index(("block-started", place.first_search_block())) >= 0
    assert ("block-started", place.first_search_block()) not in told[:chosen]
    rules = place.rules()
    assert rules.race.floor == told[chosen][1]
    assert rules.race.floor in FLOORS
    shown = place.fstune("show").output.replace("\n", " ")
    assert f"{100 * rules.race.floor:.0f}" in shown
    assert "smallest floor that a configuration without" in " ".join(shown.split())
    with Store.open(place.state) as store:
        answer = store.campaign("last").recommendation
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED
    assert any(note.startswith("the floor was chosen by the pilot: ") for note in answer.notes)
    report = place.fstune("report", "--json").output
    question = json.loads(report)["question"]
    assert f"no component of it more than {100 * rules.race.floor:g}% slower" in question


@pytest.mark.slow
def test_a_noisier_testbed_has_a_larger_floor(place: Place) -> None:
    floors = []
    for noise in (0.01, 0.2):
        place.write(noise=noise)
        place.fstune("pilot", str(place.file))
        floors.append(place.rules().race.floor)
    assert floors[0] == FLOORS[0] < floors[1]


@pytest.mark.slow
def test_the_certificate_is_held_to_it(place: Place) -> None:
    """A loss of 28% in one component breaks a floor of 10% and keeps none that the noise allows."""
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
def test_a_resumed_campaign_keeps_what_was_chosen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever another release would choose from the same pilot."""
    place.write()
    assert place.fstune("pilot", str(place.file)).exit_code == 0
    before = place.rules().race.floor

    def other(*_: object) -> FloorChoice:
        return FloorChoice(0.47, 0.9, "another release thinks so")

    monkeypatch.setattr(judged, "choose_floor", other)
    assert place.fstune("resume").exit_code == 0
    told = [floor for kind, floor in place.told() if kind == EventKind.FLOOR_CHOSEN]
    assert told == [before]
    with Store.open(place.state) as store:
        answer = store.campaign("last").recommendation
    assert answer is not None
    assert not any("another release" in note for note in answer.notes)


def spec(text: str = "auto", pilot: int = 8) -> CampaignSpec:
    return CampaignSpec.model_validate(
        {
            "name": "auto",
            "testbed": {"simulated": {}},
            "spaces": {"cache_manager": "openafs-cache-manager-fuse-1.8"},
            "workload": "mixed-use",
            "pilot": {"blocks": pilot},
            "statistics": {"floor": text},
        }
    )


def test_the_file_says_auto_or_a_share(place: Place) -> None:
    assert spec().statistics.given_floor is None
    assert spec("5%").statistics.given_floor == 0.05
    assert CampaignSpec.from_json(spec().to_json()) == spec()
    for wrong in ("often", "[1]", "5", "true", "0"):
        place.write(floor=wrong)
        with pytest.raises(SpecError, match=r"statistics\.floor: write a share") as told:
            read_spec(place.file)
        assert str(told.value).count("statistics.floor") == 1


def test_it_needs_a_pilot(place: Place) -> None:
    place.write()
    place.file.write_text(place.file.read_text().replace("blocks: 8", "blocks: 0"))
    with pytest.raises(SpecError, match=r"statistics\.floor: auto needs a pilot"):
        read_spec(place.file)


def test_rules_wait_for_the_pilot() -> None:
    workload = load_workload("mixed-use")
    rules = rules_of(spec(), workload)
    assert rules.auto_floor
    assert rules.pilot is not None
    assert rules.pilot.floor is None
    assert settled_rules(rules, None).auto_floor
    assert chosen_floor([], rules) == rules
    given = rules_of(spec("50%"), workload)
    assert not given.auto_floor
    assert given.race.floor == rules.race.floor

    def floor(of: Rules) -> object:
        document = aspects({}, workload, of, {})["statistics"].document
        assert isinstance(document, dict)
        return document["race"]["floor"]

    assert (floor(rules), floor(given)) == ("auto", 0.5)
