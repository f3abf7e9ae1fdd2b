"""The documents are correct: commands exist, examples are accepted, links have targets."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
import typer
from pydantic import BaseModel

from tests.docs.pages import code_blocks, words_in_code
from tuner.cli import reference
from tuner.cli.app import app
from tuner.errors import INTERRUPTED, NO_IMPROVEMENT, TunerError
from tuner.measure.workload import load_workload
from tuner.model import Campaign
from tuner.page.document import ReportDocument
from tuner.records.status import RunningCampaign, Status
from tuner.report.json_documents import campaign_document
from tuner.report.recommendation_document import RecommendationDocument
from tuner.services.openafs.testbed_file import TestbedFile, read_testbed
from tuner.settings import ClientSettings, ServiceSettings, Settings
from tuner.spec.campaign import CampaignSpec, read_spec
from tuner.spec.space_section import load_space
from tuner.states import CampaignState

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
#: Parts of a report that are not also in a recommendation.
REPORT_PARTS = (
    "Applying",
    "Counter",
    "Disturbance",
    "Drift",
    "Fact",
    "SettingChange",
    "TrialVerdict",
)
DOCUMENTS = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        ROOT / "examples" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)


def _commands() -> set[str]:
    """Return every subcommand, with its group: ``run``, ``cell up``."""
    top = typer.main.get_command(app)
    commands: set[str] = set()
    for name, command in top.commands.items():  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)
        commands |= {name} if below is None else {f"{name} {sub}" for sub in below}
    return commands


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_commands_in_documents_exist() -> None:
    commands = _commands()
    groups = {command.split()[0] for command in commands if " " in command}
    for document in DOCUMENTS:
        for block in code_blocks(document.read_text(), "sh"):
            for words in re.findall(r"\bfstune ([a-z]+)(?: ([a-z]+))?", block):
                spoken = f"{words[0]} {words[1]}" if words[0] in groups else words[0]
                assert spoken in commands, f"{document.name}: fstune {spoken}"


def test_make_targets_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert "dist" in targets
    for document in DOCUMENTS:
        text = document.read_text()
        code = [*code_blocks(text, "sh"), *re.findall(r"`([^`\n]+)`", text)]
        names = {name for each in code for name in re.findall(r"^make ([a-z-]+)", each, re.M)}
        assert names <= targets, document.name


def test_files_named_in_the_contributing_guide_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    names = {word for word in re.findall(r"`([\w./-]+)`", text) if "/" in word}
    missing = {name for name in names if not (ROOT / name).exists()}
    placeholders = {name for name in missing if re.search(r"\b(NAME|SPACE)\b", name)}
    assert missing - placeholders - {"/dev/fuse"} == set()
    assert all((ROOT / name).parent.is_dir() for name in placeholders)


def test_the_tests_of_attacks_exist() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    files = set(re.findall(r"`(test_\w+\.py)`", page))
    there = {file.name for file in (ROOT / "tests" / "security").iterdir()}
    assert files
    assert not sorted(files - there)


def test_a_start_without_root_comes_first() -> None:
    first = (ROOT / "README.md").read_text().split("\n## ")[1]
    assert "make setup" in first
    assert "fstune run deploy/simulated.yaml" in first


def test_every_command_has_help() -> None:
    top = typer.main.get_command(app)
    for name, command in top.commands.items():  # type: ignore[attr-defined]
        for one in getattr(command, "commands", {"": command}).values():
            assert one.help, f"{name} says nothing about itself"
            for option in one.params:
                assert getattr(option, "help", "x"), f"{name} {one.name} {option.name} has no help"


@pytest.mark.parametrize("document", ["README.md", "docs/tutorial.md"])
def test_the_example_campaign_is_accepted(document: str, tmp_path: Path) -> None:
    (example,) = code_blocks((ROOT / document).read_text(), "yaml")
    file = tmp_path / "example.yaml"
    file.write_text(example)
    spec = read_spec(file)
    load_space(spec.spaces["fileserver"], "fileserver")
    load_space(spec.spaces["cache_manager"], "cache_manager")
    load_workload(spec.workload.name, spec.workload.scale)


def _keys(model: type[BaseModel]) -> set[str]:
    """Return every key of a section and of the sections below it, by its own name."""
    keys: set[str] = set()
    for name, field in model.model_fields.items():
        keys.add(name)
        for inner in _sections(field.annotation):
            keys |= _keys(inner)
    return keys


def _sections(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for inner in get_args(annotation) for section in _sections(inner)]


def test_every_key_of_a_campaign_file_is_documented() -> None:
    text = (ROOT / "docs" / "campaigns.md").read_text()
    documented = words_in_code(text)
    assert _keys(CampaignSpec) <= documented


def _kinds(error: type[TunerError]) -> set[type[TunerError]]:
    return {error}.union(*(_kinds(below) for below in error.__subclasses__()))


def test_every_exit_status_is_documented() -> None:
    _, table = (ROOT / "docs" / "programs.md").read_text().split("## Exit status")
    rows = re.findall(r"^\| ([\d, ]+) \|", table.split("##")[0], re.MULTILINE)
    documented = {int(number) for row in rows for number in row.split(",")}
    assert {kind.exit_code for kind in _kinds(TunerError)} <= documented
    assert {NO_IMPROVEMENT, INTERRUPTED} <= documented


def test_every_setting_is_documented() -> None:
    documented = " ".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    variables = {
        f"{kind.model_config['env_prefix']}{name}".upper()
        for kind in (Settings, ServiceSettings, ClientSettings)
        for name in kind.model_fields
    }
    missing = [name for name in variables if not re.search(rf"{name}(?![A-Z_])", documented)]
    assert missing == []


def test_every_key_of_a_json_document_is_documented() -> None:
    text = (ROOT / "docs" / "programs.md").read_text()
    documented = words_in_code(text)
    campaign = Campaign("a", "a", CampaignState.CREATED, "{}", 1, NOW, NOW)
    assert campaign_document(campaign).keys() <= documented
    assert {field.name for field in fields(Status)} <= documented
    assert {field.name for field in fields(RunningCampaign)} <= documented
    assert RecommendationDocument.model_json_schema()["properties"].keys() <= documented
    report = ReportDocument.model_json_schema()
    for part in (report, *(report["$defs"][name] for name in REPORT_PARTS)):
        assert part["properties"].keys() <= documented


def test_the_reference_of_commands_is_what_the_program_says() -> None:
    assert (ROOT / "docs" / "commands.md").read_text() == reference.markdown(), "make docs"
    assert (ROOT / "docs" / "fstune.1").read_text() == reference.manual(), "make docs"


def test_every_key_of_a_testbed_file_is_documented() -> None:
    text = (ROOT / "docs" / "testbeds.md").read_text()
    documented = words_in_code(text)
    assert _keys(TestbedFile) <= documented


def test_the_example_testbed_is_accepted(tmp_path: Path) -> None:
    (example,) = code_blocks((ROOT / "docs" / "testbeds.md").read_text(), "yaml")
    file = tmp_path / "testbed.yaml"
    file.write_text(example)
    testbed = read_testbed(file)
    assert testbed.server.reach.ssh is not None
    assert len(testbed.clients) == 2


@pytest.mark.parametrize("name", ["quickstart.yaml", "simulated.yaml"])
def test_the_packaged_campaigns_are_accepted(name: str) -> None:
    spec = read_spec(ROOT / "deploy" / name)
    load_space(spec.spaces["cache_manager"], "cache_manager")
    load_workload(spec.workload.name, spec.workload.scale)


def test_readme_and_ci_name_the_same_test_command() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = [block for block in code_blocks(readme, "sh") if "make test" in block]
    assert commands
    script = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^make check$", script, re.MULTILINE)
    assert re.search(r"^make test$", script, re.MULTILINE)


def _map() -> list[str]:
    """The paths on the map of packages in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    (packages,) = re.findall(r"## Packages\n\n```\n(.*?)```", text, re.DOTALL)
    paths, parent = [], ""
    for line in packages.splitlines():
        # Further spaces: the line continues the description of the line above.
        entry = re.match(r"(  )?([\w/.]+(?:, [\w.]+\.py)*) ", line)
        if entry is None:
            continue
        inside, names = entry.group(1), entry.group(2).split(", ")
        paths += [parent + name if inside else name for name in names]
        parent = parent if inside else names[0]
    return paths


def test_what_is_on_the_map_exists() -> None:
    for path in _map():
        assert (ROOT / path).exists(), f"docs/architecture.md names {path}"


def test_the_files_that_decide_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    (table,) = re.findall(r"## Where it is decided\n(.*?)\n##", text, re.DOTALL)
    files = re.findall(r"`([\w/]+\.py)`", table)
    assert len(files) > 10
    for file in files:
        places = [ROOT / "tuner" / file, ROOT / file]
        assert any(place.exists() for place in places), f"docs/architecture.md names {file}"


def test_every_package_and_module_of_the_engine_is_on_the_map() -> None:
    modules = {f"tuner/{path.name}" for path in (ROOT / "tuner").glob("*.py")}
    packages = {f"tuner/{path.parent.name}/" for path in (ROOT / "tuner").glob("*/__init__.py")}
    assert (modules | packages) - set(_map()) == {"tuner/__init__.py"}
