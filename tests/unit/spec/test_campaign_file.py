"""Campaign files: valid ones keep their meaning, invalid ones are reported in one line."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tuner.compose import look_up, prepare
from tuner.errors import SpecError
from tuner.plan.rules import rules_of
from tuner.spec.campaign import CampaignSpec, read_spec
from tuner.spec.checking import check_plan

FILES = Path(__file__).parent.parent.parent / "data" / "campaigns"
GOOD = sorted((FILES / "good").glob("*.yaml"))
BAD = sorted((FILES / "bad").glob("*.yaml"))

SHORTEST = {
    "name": "shortest",
    "testbed": {"cell": {}},
    "spaces": {"cache_manager": "openafs-cache-manager-fuse-1.8"},
    "workload": "mixed-use",
}


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_files_are_accepted_and_stored_completely(path: Path, tmp_path: Path) -> None:
    spec = read_spec(path)
    prepare(spec, tmp_path)
    assert CampaignSpec.from_json(spec.to_json()) == spec


def test_a_stored_campaign_names_no_kind_but_its_own() -> None:
    """Otherwise it could be read only where all kinds are installed that were when it began."""
    document = json.loads(CampaignSpec.model_validate(SHORTEST).to_json())
    assert list(document["testbed"]) == ["cell"]


@pytest.mark.parametrize("name", ["last", "...", "--help"])
def test_a_campaign_that_exists_keeps_a_name_that_a_new_one_may_not_have(name: str) -> None:
    document = json.loads(CampaignSpec.model_validate(SHORTEST).to_json()) | {"name": name}
    assert CampaignSpec.from_json(json.dumps(document)).name == name
    with pytest.raises(ValidationError, match="name"):
        CampaignSpec.model_validate(document)


@pytest.mark.parametrize("section", ["pilot", "certification"])
def test_a_campaign_that_exists_keeps_more_blocks_than_a_new_one_may_have(section: str) -> None:
    whole = json.loads(CampaignSpec.model_validate(SHORTEST).to_json())
    document = whole | {section: {"blocks": 1000}}
    existing = CampaignSpec.from_json(json.dumps(document))
    assert getattr(existing, section).blocks == 1000
    assert CampaignSpec.from_json(existing.to_json()) == existing
    # No pilot is longer than can be planned.
    pilot = rules_of(existing, look_up(existing).workload).pilot
    assert pilot is not None
    assert max(pilot.max_blocks, pilot.certify_blocks) <= 500
    with pytest.raises(ValidationError, match="less than or equal to 500"):
        CampaignSpec.model_validate(document)
    with pytest.raises(SpecError, match=f"{section}.blocks"):
        CampaignSpec.from_json(json.dumps(whole | {section: {"blocks": 1001}}))


@pytest.mark.slow
@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad_files_are_reported_in_one_line(path: Path, tmp_path: Path) -> None:
    """Each file begins with the expected message."""
    expected = path.read_text().splitlines()[0].removeprefix("# says: ").rstrip()
    with pytest.raises(SpecError) as caught:
        prepare(read_spec(path), tmp_path)
    message = str(caught.value).removeprefix(f"{path}: ")
    assert message.startswith(expected)
    assert "\n" not in message
    assert len(message) < 300
    assert message.isprintable()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["cache_manager.no_such", "cache_manager.daemons"])
def test_thousands_of_mistakes_are_reported_in_a_short_line(name: str, tmp_path: Path) -> None:
    """Of names, which are looked up, and of values, which are checked against the space."""
    first = [{name: 1_000_000 + number} for number in range(3000)]
    simulated = {"testbed": {"simulated": {}}, "workload": "mixed-use", "first": first}
    spec = CampaignSpec.model_validate(SHORTEST | simulated)
    with pytest.raises(SpecError, match=r"^first\.0: .*; first\.19: .*; and 2980 more$") as caught:
        prepare(spec, tmp_path)
    assert len(str(caught.value)) < 10_000


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such campaign file"):
        read_spec(tmp_path / "nothing.yaml")
    with pytest.raises(SpecError, match=rf"^{tmp_path}: cannot be read: Is a directory$"):
        read_spec(tmp_path)
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(SpecError, match="it is not UTF-8 text"):
        read_spec(path)


def test_defaults_are_those_of_the_documentation() -> None:
    spec = CampaignSpec.model_validate(SHORTEST)
    assert spec.budget.wall_time == 3600.0
    assert (spec.statistics.delta, spec.statistics.floor) == (0.02, 0.05)
    assert spec.certification.share == 0.4


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("8m", 480.0), ("1.5h", 5400.0), ("3d", 259200.0), (" 2 m ", 120.0), (45, 45)],
)
def test_durations(text: object, seconds: float) -> None:
    spec = CampaignSpec.model_validate(SHORTEST | {"budget": {"wall_time": text}})
    assert spec.budget.wall_time == seconds


@pytest.mark.parametrize("text", ["36601d", 4e9])
def test_the_longest_duration_is_named_with_its_unit(text: object) -> None:
    with pytest.raises(ValidationError, match="at most 36600d"):
        CampaignSpec.model_validate(SHORTEST | {"budget": {"wall_time": text}})


@pytest.mark.parametrize(
    ("text", "share"), [("2%", 0.02), ("0.5%", 0.005), ("0.3", 0.3), (0.3, 0.3)]
)
def test_shares(text: object, share: float) -> None:
    spec = CampaignSpec.model_validate(SHORTEST | {"statistics": {"delta": text}})
    assert spec.statistics.delta == pytest.approx(share)


def test_keys_of_earlier_releases_are_accepted() -> None:
    """Stored campaigns contain them."""
    former = {"trials_per_race": 4, "blocks_per_race": 12, "sampler": "tpe"}
    search = CampaignSpec.model_validate(SHORTEST | {"search": former}).search
    assert (search.arms, search.blocks_per_trial, search.sampler) == (4, 12, "tpe")


def test_paths_start_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "there" / "campaign.yaml"
    path.parent.mkdir()
    path.write_text(
        "name: x\ntestbed: {cell: {}}\nspaces: {cache_manager: ./mine.yaml}\nworkload: sub/w.yaml\n"
    )
    spec = read_spec(path)
    assert spec.spaces["cache_manager"].name == str(tmp_path / "there" / "mine.yaml")
    assert spec.workload.name == str(tmp_path / "there" / "sub" / "w.yaml")


@pytest.mark.slow
@given(st.text(max_size=30))
def test_any_text_is_accepted_or_reported(text: str) -> None:
    """Whatever a file contains, reading it raises nothing but SpecError."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "campaign.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        with pytest.raises(SpecError) as caught:
            read_spec(path)
        assert "\n" not in str(caught.value)


yaml_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.sampled_from([*CampaignSpec.model_fields, "other"]), yaml_values)
def test_any_value_anywhere_is_accepted_or_reported(key: str, value: object) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "campaign.yaml"
        path.write_text(yaml.safe_dump(SHORTEST | {key: value}))
        try:
            spec = read_spec(path)
        except SpecError as problem:
            message = str(problem)
            assert "\n" not in message
            assert re.match(rf"{re.escape(str(path))}: \S", message)
        else:
            assert CampaignSpec.from_json(spec.to_json()) == spec


def test_an_attempt_has_a_block_for_each_testbed() -> None:
    """They are measured at once, and the error of an attempt holds for as many as it may have."""
    places = [{"cell": {"name": name}} for name in "abcd"]
    document: dict[str, object] = {**SHORTEST, "testbeds": places, "certification": {"blocks": 3}}
    del document["testbed"]
    spec = CampaignSpec.model_validate(document)
    with pytest.raises(SpecError, match="blocks: 4 testbeds measure 4 blocks at once; allow at"):
        check_plan(spec, look_up(spec).spaces, [None])
    enough = CampaignSpec.model_validate(document | {"certification": {"blocks": 4}})
    check_plan(enough, look_up(enough).spaces, [None])


def test_testbed_files_that_share_a_host_are_refused(tmp_path: Path, root: Path) -> None:
    text = (root / "tests" / "data" / "testbeds" / "everything.yaml").read_text()
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(text)
    campaign = tmp_path / "campaign.yaml"
    places = [{"hosts": "one.yaml"}, {"hosts": "two.yaml"}]
    document: dict[str, object] = {**SHORTEST, "testbeds": places}
    del document["testbed"]
    campaign.write_text(yaml.safe_dump(document))
    with pytest.raises(SpecError, match="is named twice"):
        prepare(read_spec(campaign), tmp_path)
    (tmp_path / "two.yaml").write_text(text.replace("192.0.2.9", "192.0.2.8"))
    with pytest.raises(SpecError, match=r"testbeds\.1: two and one share host .*example\.org"):
        prepare(read_spec(campaign), tmp_path)


def test_testbed_files_of_the_same_name_have_labels_of_their_own(
    tmp_path: Path, root: Path
) -> None:
    """Otherwise the hours of one of them would count for both."""
    text = (root / "tests" / "data" / "testbeds" / "everything.yaml").read_text()
    places = []
    for number in (1, 2):
        file = tmp_path / f"hall-{number}" / "testbed.yaml"
        file.parent.mkdir()
        other = text.replace(".example.org", f"-{number}.example.org")
        other = other.replace("quickstart", f"quickstart-{number}")
        file.write_text(other.replace("192.0.2.9", f"192.0.2.{number}"))
        places.append({"hosts": f"hall-{number}/testbed.yaml"})
    document: dict[str, object] = {**SHORTEST, "testbeds": places}
    del document["testbed"]
    campaign = tmp_path / "campaign.yaml"
    campaign.write_text(yaml.safe_dump(document))
    prepared = prepare(read_spec(campaign), tmp_path)
    labels = [each.label for each in prepared.campaign_testbeds("id")]
    assert labels == ["testbed #1", "testbed #2"]


def test_several_cells_have_names_of_their_own(tmp_path: Path) -> None:
    document: dict[str, object] = {
        **SHORTEST,
        "testbeds": [{"cell": {"name": "a"}}, {"cell": {"name": "b"}}],
    }
    del document["testbed"]
    prepared = prepare(CampaignSpec.model_validate(document), tmp_path)
    names = [each.name for each in prepared.campaign_testbeds("id")]
    assert len(set(names)) == 2
    assert [each.label for each in prepared.campaign_testbeds("id")] == ["cell a", "cell b"]
    assert set(prepared.aspects["testbed"].document) == {"testbeds"}  # type: ignore[call-overload]


def test_a_stored_campaign_of_a_kind_that_is_not_installed() -> None:
    document = CampaignSpec.model_validate(SHORTEST).model_dump(mode="json")
    text = json.dumps(document | {"testbed": {"samba": {}}})
    with pytest.raises(SpecError, match="or the package of its kind of service is not installed"):
        CampaignSpec.from_json(text)
    text = json.dumps(document | {"bugdet": {}})
    with pytest.raises(SpecError, match="cannot read the campaign: bugdet") as caught:
        CampaignSpec.from_json(text)
    assert "installed" not in str(caught.value)
