"""Requirements on every kind of service, and a campaign with a kind from another package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from pydantic_core import PydanticCustomError

from tests.toy.case import CASE as TOY_CASE
from tests.toy.case import SPACE
from tests.toy.kind import TOY, Toyd, ToySection, ToyType
from tests.toy.start import ToyStart
from tuner.errors import ConfigurationError, SpecError
from tuner.measure.workload import load_workload
from tuner.model import Configuration
from tuner.services import kinds as module
from tuner.services.contract import KindCase, KindContract, OpenTestbedContract
from tuner.services.kind import Offer, TestbedType
from tuner.services.kinds import (
    kinds,
    offers,
    type_of_file,
    types_of_testbeds,
    ways_to_restore,
)
from tuner.services.openafs.kind import OPENAFS
from tuner.services.simulated.kind import SIMULATED
from tuner.services.start import Question
from tuner.spec.space_section import SpaceSection, by_part

ROOT = Path(__file__).resolve().parents[3]
FSTUNE = Path(sys.executable).with_name("fstune")
TESTBED_FILE = ROOT / "tests" / "data" / "testbeds" / "everything.yaml"
WORKLOAD = load_workload("mixed-use", 0.01)
OPENAFS_SPACES = {
    "host_network": "host-network",
    "fileserver": "openafs-fileserver-1.8",
    "cache_manager": "openafs-cache-manager-fuse-1.8",
    "client_runtime": "openafs-client-runtime",
}
# client_runtime requires kernel clients, which no example has, and host_network requires hosts with
# their own kernels.
OPENAFS_CASE = KindCase(
    OPENAFS,
    OPENAFS_SPACES,
    lambda key, directory: {"cell": {}, "hosts": str(TESTBED_FILE)}[key],
    tuned=("fileserver", "cache_manager"),
    testbed_files={"hosts": TESTBED_FILE},
)
SIMULATED_CASE = KindCase(
    SIMULATED,
    OPENAFS_SPACES,
    lambda key, directory: {},
    tuned=("fileserver", "cache_manager"),
    opens=("simulated",),
)


class TestOpenAFS(KindContract):  # tests/integration opens its testbeds
    case = OPENAFS_CASE


class TestSimulated(KindContract):
    case = SIMULATED_CASE


class TestToy(KindContract):
    case = TOY_CASE


@pytest.mark.slow
class TestOpenSimulated(OpenTestbedContract):
    case = SIMULATED_CASE


@pytest.mark.slow
class TestOpenToy(OpenTestbedContract):
    case = TOY_CASE


@pytest.mark.parametrize("of", OPENAFS.types, ids=lambda of: of.key)
def test_a_workload_may_need_more_clients_than_there_are(
    of: TestbedType[Any], tmp_path: Path
) -> None:
    workload = replace(WORKLOAD, spec=replace(WORKLOAD.spec, least_clients=9))
    needs = replace(OPENAFS_CASE.needs(), workload=workload)
    sections = {each.key: section for each, section, _ in OPENAFS_CASE.sections(tmp_path)}
    (mistake,) = of.mistakes(sections[of.key], "testbed", needs)
    assert mistake.startswith(f"testbed.{of.key}")
    assert ": workload mixed-use needs at least 9 clients, " in mistake


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


def test_each_way_to_put_a_testbed_back_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class OtherType(ToyType):
        restore_command = "'toyctl restore' for toyd"

    hosts = types_of_testbeds()["hosts"]
    types = {"hosts": hosts, "again": hosts, "toy": (TOY, ToyType()), "other": (TOY, OtherType())}
    monkeypatch.setattr(module, "types_of_testbeds", lambda: types)
    ways = "'fstune testbed restore FILE' for hosts and 'toyctl restore' for toyd"
    assert ways_to_restore() == ways


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
        (replace(TOY, formats=(cast("Any", object()),)), "one of its formats has no name"),
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


# The toy kind alone.


@pytest.mark.slow
def test_toyd_limits_its_workers(tmp_path: Path) -> None:
    (tmp_path / "toyd.conf").write_text("")
    of = TOY.types[0]
    section = ToySection(directory=tmp_path)
    testbed = of.testbed(section, "testbed", TOY_CASE.needs(), tmp_path)
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
        "spaces": {"toyd": "toyd"},
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
    lines = fstune("recommend", "--format", "toyd.conf").stdout.splitlines()
    assert [line.partition("=")[0] for line in lines] in (["workers"], ["workers", "buffer"])
    assert "testbed ready: toyd 1.0" in result.stdout
    assert (service / "toyd.conf").read_text() == "workers=8\n"
    assert not (service / "toyd.status").exists()
    document["spaces"] = {"toyd": str(SPACE), "toydd": str(SPACE)}
    file.write_text(yaml.safe_dump(document))
    assert "spaces.toydd: unknown key; did you mean 'toyd'?" in fstune("run", str(file)).stderr
