"""Requirements on every kind of service, and a campaign with a kind from another package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError

import search_spaces
from search_spaces.sampling import Chance, draw
from tests.toy.kind import TOY, Toyd, ToyType
from tests.toy.start import ToyStart
from tuner.errors import ConfigurationError, SpecError
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import run_once
from tuner.model import Configuration, Value
from tuner.services import kinds as module
from tuner.services.kind import Kind, Needs, Offer, TestbedType
from tuner.services.kinds import (
    kinds,
    offer,
    offers,
    part_order,
    programs,
    type_of_file,
    types_of_testbeds,
)
from tuner.services.openafs.kind import OPENAFS
from tuner.services.part import Part
from tuner.services.simulated.kind import SIMULATED
from tuner.services.start import Question
from tuner.services.testbed import ReadyTestbed
from tuner.services.testbed import Testbed as AnyTestbed
from tuner.spec.space_section import SpaceSection, by_part

ROOT = Path(__file__).resolve().parents[3]
FSTUNE = Path(sys.executable).with_name("fstune")
TOYD = ROOT / "tests" / "toy" / "toyd.yaml"
KINDS = (OPENAFS, SIMULATED, TOY)
TYPES = [pytest.param(kind, of, id=of.key) for kind in KINDS for of in kind.types]
SPACES = {
    "host_network": "host-network",
    "fileserver": "openafs-fileserver-1.8",
    "cache_manager": "openafs-cache-manager-fuse-1.8",
    "client_runtime": "openafs-client-runtime",
    "toyd": str(TOYD),
}
WORKLOAD = load_workload("mixed-use", 0.01)


def section_of(of: TestbedType[Any], directory: Path) -> Any:
    """The section in its example, with an existing file or directory."""
    value = yaml.safe_load(of.example)[of.key]
    if value == "FILE":
        value = str(ROOT / "tests" / "data" / "testbeds" / "everything.yaml")
    if value == {"directory": "DIR"}:
        value = {"directory": str(directory)}
    return TypeAdapter(of.section).validate_python(value)


def needs_of(kind: Kind) -> Needs:
    # client_runtime requires kernel clients, which no example has, and host_network requires
    # hosts with their own kernels.
    parts = ("toyd",) if kind is TOY else ("fileserver", "cache_manager")
    return Needs({part: search_spaces.load(SPACES[part]) for part in parts}, WORKLOAD)


@pytest.mark.parametrize(("kind", "of"), TYPES)
def test_a_testbed_type_says_where_a_testbed_is(
    kind: Kind, of: TestbedType[Any], tmp_path: Path
) -> None:
    section = section_of(of, tmp_path)
    again = TypeAdapter(of.section).validate_json(TypeAdapter(of.section).dump_json(section))
    assert again == section
    identity = of.identity(section, tmp_path)
    assert json.loads(json.dumps(identity.document)) == dict(identity.document)
    assert identity.name == of.identity(again, tmp_path).name
    # A testbed that belongs to the campaign alone has neither name.
    assert bool(identity.name) == bool(of.name(section))
    assert of.describe(section)
    assert str(tmp_path.parent) not in of.summary(section)
    assert of.resolve(section, Path("/")) == section
    assert of.mistakes(section, "testbed", needs_of(kind)) in ((), [])


@pytest.mark.parametrize("of", OPENAFS.types, ids=lambda of: of.key)
def test_a_workload_may_need_more_clients_than_there_are(
    of: TestbedType[Any], tmp_path: Path
) -> None:
    workload = replace(WORKLOAD, spec=replace(WORKLOAD.spec, least_clients=9))
    needs = replace(needs_of(OPENAFS), workload=workload)
    (mistake,) = of.mistakes(section_of(of, tmp_path), "testbed", needs)
    assert mistake.startswith(f"testbed.{of.key}")
    assert ": workload mixed-use needs at least 9 clients, " in mistake


@pytest.mark.parametrize(("kind", "of"), TYPES)
def test_nothing_is_allowed_over_http_unless_named(
    kind: Kind, of: TestbedType[Any], tmp_path: Path
) -> None:
    section = section_of(of, tmp_path)
    with pytest.raises(SpecError, match=f"testbed.{of.key}: "):
        of.permit(section, "testbed", [], {})
    if of.title:
        assert of.permit(section, "testbed", [of.key], {}) == section


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_parts_are_unique_and_in_order(kind: Kind) -> None:
    parts = kind.parts or ()
    assert len(set(parts)) == len(parts)
    assert kind.required <= set(parts)
    assert [part for part in part_order() if part in parts] == [*parts] or kind is TOY


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_tuned_program_says_how_it_is_applied(kind: Kind) -> None:
    names = {search_spaces.load(SPACES[part]).program for part in kind.parts or ()}
    assert names <= kind.programs.keys()
    assert all(program.where and program.then for program in kind.programs.values())
    if kind is not TOY:  # which is not installed here
        assert kind.programs.items() <= programs().items()


@pytest.mark.parametrize(("kind", "of"), TYPES)
def test_a_testbed_file_is_offered_by_the_kind_that_can_read_it(
    kind: Kind, of: TestbedType[Any], tmp_path: Path
) -> None:
    file = ROOT / "tests" / "data" / "testbeds" / "everything.yaml"
    candidate = of.offer(file)
    if candidate is None:
        return
    assert (candidate.key, bool(candidate.title)) == (of.key, True)
    assert candidate.hosts > 1
    assert offer(file) == candidate
    (tmp_path / "none.yaml").write_text("name: x\n")
    with pytest.raises(SpecError):
        of.offer(tmp_path / "none.yaml")
    assert offer(tmp_path / "none.yaml") is None


def test_a_mistake_in_a_testbed_file_is_reported_by_every_kind_with_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class OtherType(ToyType):
        reason = "server.colour: choose red or blue"

        def offer(self, file: Path) -> Offer | None:
            raise SpecError(f"{file}: {self.reason}")

    other, file = OtherType(), tmp_path / "testbed.yaml"
    file.write_text("server: {colour: green}\n")
    types = types_of_testbeds() | {"toy": (TOY, other)}
    monkeypatch.setattr(module, "types_of_testbeds", lambda: types)
    with pytest.raises(SpecError) as refused:
        type_of_file(file)
    with pytest.raises(SpecError) as own:
        types["hosts"][1].offer(file)
    both = f"as a file for hosts: {own.value}; as a file for toy: {file}: {other.reason}"
    assert str(refused.value) == both
    monkeypatch.setattr(module, "types_of_testbeds", lambda: {"toy": (TOY, other)})
    with pytest.raises(SpecError) as refused:
        type_of_file(file)
    assert str(refused.value) == f"{file}: {other.reason}"


class StartWithUsedQuestion(ToyStart):
    questions = (Question("server", "Where?", "It is kept there."),)


def test_a_kind_may_leave_the_names_of_parts_to_its_testbeds() -> None:
    kind = replace(TOY, parts=("toyd",), required=frozenset(), any_part=True)
    spaces = {name: SpaceSection(name="x.yaml") for name in ("smbd", "toyd", "nmbd")}
    assert list(by_part(spaces, kind)) == ["toyd", "smbd", "nmbd"]
    with pytest.raises(PydanticCustomError, match="lower-case letters"):
        by_part({"smb.conf": SpaceSection(name="x.yaml")}, kind)
    with pytest.raises(PydanticCustomError, match="did you mean 'toyd'"):
        by_part({"toydd": SpaceSection(name="x.yaml")}, TOY)
    with pytest.raises(ValueError, match=r"name the search space of a part$"):
        by_part({}, replace(kind, parts=()))


def test_what_comes_with_fstune() -> None:
    assert kinds()[:2] == (OPENAFS, SIMULATED)
    assert {"cell", "hosts", "simulated"} <= types_of_testbeds().keys()
    assert offers().keys() == {"cell", "simulated"}


@pytest.mark.parametrize(
    ("loaded", "why"),
    [
        (SIMULATED, "its key 'simulated' is not a word, or is already used"),
        (
            replace(TOY, types=TOY.types * 2),
            "its key 'toy' is not a word, or is already used",
        ),
        (
            replace(TOY, starts=OPENAFS.starts[:1]),
            f"its start {OPENAFS.starts[0].name!r} is not a word, or is already used",
        ),
        (
            replace(TOY, starts=(ToyStart(),) * 2),
            "its start 'toy' is not a word, or is already used",
        ),
        (
            replace(TOY, starts=(StartWithUsedQuestion(),)),
            "its question 'server' is not a word, or is already used",
        ),
        (7, "its entry point names int, not a Kind"),
        (ImportError("no module named elsewhere"), "no module named elsewhere"),
    ],
)
def test_a_kind_that_cannot_be_used_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, loaded: object, why: str
) -> None:
    class Entry:
        name = "other"

        def load(self) -> object:
            if isinstance(loaded, Exception):
                raise loaded
            return loaded

    monkeypatch.setattr(module, "entry_points", lambda group: [Entry()])
    assert module.kinds.__wrapped__() == (OPENAFS, SIMULATED)
    assert caplog.messages == [f"the kind of service 'other' cannot be used: {why}"]


# An open testbed. tests/integration has the same tests for a private cell.


@pytest.fixture(params=[SIMULATED, TOY], ids=lambda kind: kind.name)
def open_testbed(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[AnyTestbed, ReadyTestbed]]:
    kind: Kind = request.param
    (tmp_path / "toyd.conf").write_text("workers=8\n")
    of, needs = kind.types[0], needs_of(kind)
    testbed = of.testbed(section_of(of, tmp_path), "testbed", needs, tmp_path)
    assert testbed.unavailable() is None
    assert testbed.claim("campaign") is False
    ready = testbed.open(WORKLOAD, lambda message: None)
    yield testbed, ready
    testbed.close()
    assert testbed.close() is None or kind is SIMULATED


@pytest.mark.slow
def test_any_configuration_is_in_effect_and_put_back(
    open_testbed: tuple[AnyTestbed, ReadyTestbed],
) -> None:
    _, ready = open_testbed
    target = ready.target
    before = target.baseline
    for number in range(4):
        configuration = Configuration.of(
            {
                f"{part}.{name}": value
                for part, tuned in target.parts.items()
                for name, value in draw(tuned.space, Chance(number, 0.8), dict(tuned.facts)).items()
            }
        )
        lives = target.incarnations()
        applied = target.apply(configuration, lambda what: None)
        assert applied.effective.as_dict().keys() == configuration.as_dict().keys()
        again = target.apply(configuration, lambda what: None)
        assert again.actions == ()
        assert again.effective == applied.effective
        changed = {action.split()[0] for action in applied.actions}
        assert all(target.incarnations()[part] != lives[part] for part in changed if lives[part])
    assert len(target.restore(lambda what: None)) == len(target.parts)
    assert target.apply(before, lambda what: None).actions == ()


def readings(part: Part, values: Mapping[str, Value]) -> dict[str, Value]:
    """What the program of a part should show for these values."""
    expected = part.space.effective(values, dict(part.facts)).values()
    return {each.key: each.reading for each in expected}


@pytest.mark.slow
def test_settings_that_are_not_in_effect_are_noticed(
    open_testbed: tuple[AnyTestbed, ReadyTestbed],
) -> None:
    _, ready = open_testbed
    for name, part in ready.target.parts.items():
        facts, draws = dict(part.facts), [Chance(number, 0.8) for number in range(20)]
        values, *others = [draw(part.space, chance, facts) for chance in draws]
        part.apply(values)
        now = readings(part, values)
        different = [
            each
            for each in others
            if any(now.get(key, value) != value for key, value in readings(part, each).items())
        ]
        assert different, name
        for each in different:
            with pytest.raises(ConfigurationError):
                part.read_back(each)
        part.restore()


@pytest.mark.slow
def test_a_run_gives_every_component(open_testbed: tuple[AnyTestbed, ReadyTestbed]) -> None:
    _, ready = open_testbed
    report = run_once(ready.engine, "campaign-1-0", 1, ready.make_cold)
    assert report.components.keys() == set(WORKLOAD.components)
    ready.engine.clean_leftovers("campaign")


# The toy kind alone.


@pytest.mark.slow
def test_toyd_limits_its_workers(tmp_path: Path) -> None:
    (tmp_path / "toyd.conf").write_text("")
    of = TOY.types[0]
    testbed = of.testbed(section_of(of, tmp_path), "testbed", needs_of(TOY), tmp_path)
    try:
        target = testbed.open(WORKLOAD, lambda message: None).target
        part = target.parts["toyd"]
        assert isinstance(part, Toyd)
        many = Configuration.of({"toyd.workers": 200})
        clamped = Configuration.of({"toyd.workers": 64})
        assert target.apply(many, lambda what: None).effective == clamped
        with pytest.raises(ConfigurationError, match="toyd does not start"):
            part.apply({"workers": 9, "buffer": 1})
        target.restore(lambda what: None)
    finally:
        testbed.close()
    assert (tmp_path / "toyd.conf").read_text() == ""


@pytest.mark.slow
def test_a_kind_of_another_package_is_tuned(tmp_path: Path) -> None:
    """With the real command line: fstune finds the kind by its entry point."""
    service = tmp_path / "service"
    service.mkdir()
    (service / "toyd.conf").write_text("workers=8\n")
    file = tmp_path / "campaign.yaml"
    document = {
        "name": "toy",
        "testbed": {"toy": {"directory": "service"}},
        "spaces": {"toyd": str(TOYD)},
        "workload": {"name": "mixed-use", "scale": 0.01},
        "pilot": {"blocks": 3, "override": True},
        "search": {"arms": 2, "blocks_per_trial": 3, "max_trials": 2},
        "certification": {"blocks": 3},
        "budget": {"wall_time": "2h", "measurements": 30},
        "first": [{"toyd.workers": 16}],
    }
    file.write_text(yaml.safe_dump(document))
    path = [str(ROOT), str(ROOT / "tests" / "toy" / "installed")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}

    def fstune(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [FSTUNE, *arguments, "--state-dir", str(tmp_path / "state")],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    checked = fstune("campaign", "check", str(file))
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "toyd in" in checked.stdout
    result = fstune("run", str(file))
    assert (result.returncode, result.stderr) == (0, ""), result.stdout[-2000:]
    output = fstune("recommend", "--format", "json").stdout
    assert json.loads(output)["configuration"].keys() <= {"toyd.workers", "toyd.buffer"}
    assert "testbed ready: toyd 1.0" in result.stdout
    assert (service / "toyd.conf").read_text() == "workers=8\n"
    assert not (service / "toyd.status").exists()
    document["spaces"] = {"toyd": str(TOYD), "toydd": str(TOYD)}
    file.write_text(yaml.safe_dump(document))
    assert "spaces.toydd: unknown key; did you mean 'toyd'?" in fstune("run", str(file)).stderr
