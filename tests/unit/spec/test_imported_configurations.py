"""What rows of an imported campaign may contain, given its specification and its search spaces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.api.conftest import fstune, measured
from tests.unit.store.test_archive import lines_of, rewritten
from tuner.cli.app import app
from tuner.errors import SpecError
from tuner.spec import imported_configurations
from tuner.spec.imported_configurations import RowChecker

__all__ = ["measured"]

DAEMONS, MEMCACHE = "cache_manager.daemons", "cache_manager.memcache"

Change = Callable[[list[Any]], object]


@pytest.fixture(scope="module")
def file(measured: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a campaign with a recommendation."""
    path = tmp_path_factory.mktemp("exported") / "campaign.gz"
    fstune(measured, "export", "last", str(path))
    return path


def rows(lines: list[Any], table: str) -> list[dict[str, Any]]:
    return [line[1] for line in lines if isinstance(line, list) and line[0] == table]


def setting(table: str, column: str, name: str, value: object) -> Change:
    """Return a change of a value in the last row of a table."""

    def change(lines: list[Any]) -> None:
        row = rows(lines, table)[-1]
        row[column] = (row[column] or {}) | {name: value}

    return change


def in_spec(**sections: Any) -> Change:
    def change(lines: list[Any]) -> None:
        row = rows(lines, "campaign")[0]
        row["spec"] = json.dumps(json.loads(row["spec"]) | sections)

    return change


def description(lines: list[Any]) -> Any:
    aspects = rows(lines, "measured_with")
    return next(r for r in aspects if r["aspect"] == "space of the cache_manager")["document"]


def import_error(file: Path, state: Path, *changes: Change) -> BaseException | None:
    """Import the changed file; return the error."""

    def change(lines: list[Any]) -> None:
        for each in changes:
            each(lines)

    file = rewritten(file, change)
    return CliRunner().invoke(app, ["import", str(file), "--state-dir", str(state)]).exception


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("campaign", "baseline"),
        ("trial", "configuration"),
        ("recommendation", "configuration"),
        ("recommendation", "baseline"),
    ],
)
@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (DAEMONS, "many", f"{DAEMONS} takes a whole number"),
        (DAEMONS, True, f"{DAEMONS} takes a whole number"),
        (MEMCACHE, 1, f"{MEMCACHE} takes true or false"),
    ],
)
def test_a_value_of_another_type_is_a_mistake_in_the_file(
    file: Path, tmp_path: Path, table: str, column: str, name: str, value: object, problem: str
) -> None:
    change = setting(table, column, name, value)
    error = import_error(file, tmp_path, change)
    assert isinstance(error, SpecError)
    numbers = [n for n, line in enumerate(lines_of(file), start=1) if table in line]
    place = f"{file.with_name('changed.gz')}: line {numbers[-1]}: {table}.{column}: "
    assert str(error) == place + problem


@pytest.mark.parametrize(
    ("table", "column"), [("trial", "configuration"), ("campaign", "baseline")]
)
def test_a_parameter_must_be_in_the_space_as_it_was_measured(
    file: Path, tmp_path: Path, table: str, column: str
) -> None:
    change = setting(table, column, "cache_manager.colour", 1)
    error = import_error(file, tmp_path, change)
    assert isinstance(error, SpecError)
    assert str(error).endswith("cache_manager.colour is no parameter of its search space")


def earlier_parameter(lines: list[Any]) -> None:
    """As of a release whose space has a parameter that this one's lacks."""
    description(lines)["parameters"]["colour"] = {"kind": "int"}
    setting("trial", "configuration", "cache_manager.colour", 1)(lines)


def earlier_kind(lines: list[Any]) -> None:
    description(lines)["parameters"]["daemons"]["kind"] = "categorical"
    setting("trial", "configuration", DAEMONS, "many")(lines)
    setting("campaign", "baseline", DAEMONS, "many")(lines)


def without_description(lines: list[Any]) -> None:
    """As of a release that did not store what a campaign measures with."""
    lines[:] = [line for line in lines if "measured_with" not in line]
    lines[-1]["rows"] = len(lines) - 2
    setting("trial", "configuration", "cache_manager.colour", 1)(lines)


UNKNOWN_KIND = in_spec(testbed={"kind-of-a-package": {"directory": "/srv"}})
FILE_OF_SPACE = in_spec(spaces={"cache_manager": {"name": "/etc/none.yaml"}})


@pytest.mark.parametrize(
    "change",
    [
        setting("trial", "configuration", DAEMONS, 10**12),  # limits may have changed
        setting("trial", "configuration", "another_part.colour", "red"),
        earlier_parameter,
        earlier_kind,
        without_description,
        UNKNOWN_KIND,
        FILE_OF_SPACE,
    ],
)
def test_what_an_earlier_release_or_another_machine_wrote_is_accepted(
    file: Path, tmp_path: Path, change: Change
) -> None:
    assert import_error(file, tmp_path, change) is None
    for command in (("show",), ("recommend", "-v"), ("report",)):
        fstune(tmp_path, *command)


def test_a_space_in_a_file_is_known_from_its_description(file: Path, tmp_path: Path) -> None:
    wrong = setting("trial", "configuration", DAEMONS, "many")
    assert isinstance(import_error(file, tmp_path, FILE_OF_SPACE, wrong), SpecError)


def empty_spec(lines: list[Any]) -> None:
    rows(lines, "campaign")[0]["spec"] = "{}"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (empty_spec, "name: missing"),
        (in_spec(spaces={}), "spaces"),
        (in_spec(workload=7), "workload: write a mapping"),
        (in_spec(colour="red"), "colour: unknown key"),
        (in_spec(testbed=None), "testbed"),
        (in_spec(testbed={"unknown": {}}, workload=7), "workload: write a mapping"),
    ],
)
def test_a_specification_that_cannot_be_read_is_refused(
    file: Path, tmp_path: Path, change: Change, problem: str
) -> None:
    error = import_error(file, tmp_path, change)
    assert isinstance(error, SpecError)
    assert ": line 2: campaign.spec: this version of fstune cannot read the campaign: " in str(
        error
    )
    assert problem in str(error)


@pytest.mark.parametrize(
    "document", [None, [], {"parameters": []}, {"parameters": {"a": 1, "b": {"kind": "odd"}}}]
)
def test_a_description_of_another_form_says_nothing(document: object) -> None:
    checker = RowChecker()
    row = {"aspect": "space of the cache_manager", "document": document}
    checker.check("line 3", "measured_with", row)
    checker.check("line 4", "trial", {"configuration": {"cache_manager.colour": 1}})


def test_a_prior_may_have_parameters_that_the_campaign_lacks() -> None:
    checker = RowChecker()
    parameters = {"parameters": {"daemons": {"kind": "int"}}}
    row = {"aspect": f"{imported_configurations._ASPECT}fs", "document": parameters}
    checker.check("line 3", "measured_with", row)
    checker.check("line 4", "prior", {"configuration": {"fs.colour": 1}})
    for table, name in (("prior", "fs.daemons"), ("trial", "fs.colour")):
        with pytest.raises(SpecError, match=rf"line 5: {table}\.configuration: {name} "):
            checker.check("line 5", table, {"configuration": {name: "x"}})
