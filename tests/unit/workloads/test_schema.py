"""The schema file describes the engine's actual output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

import workloads
from tests.unit.workloads.conftest import every_operation, new_engine
from workloads.merge import merge

pytestmark = pytest.mark.slow

SCHEMA: dict[str, Any] = json.loads(
    (Path(workloads.__file__).parent / "result.schema.json").read_text()
)


def _problems(document: dict[str, Any], kind: str) -> list[str]:
    """Return what is wrong with a document, by the definition of its kind."""
    schema = {"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.fixture(scope="module")
def documents(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return one document of each kind."""
    own = new_engine(program, tmp_path_factory.mktemp("engine"), every_operation())
    return {
        "stage": (stage := own.run("write").document),
        "merged": merge([stage, stage]),
        "failure": own.run("write").document,
        "cleaned": own.clean().document,
    }


@pytest.mark.parametrize("sort", ["stage", "merged", "failure", "cleaned"])
def test_each_document_is_of_exactly_one_described_sort(
    documents: dict[str, dict[str, Any]], sort: str
) -> None:
    sorts = [choice["$ref"].rpartition("/")[2] for choice in SCHEMA["oneOf"]]
    assert [name for name in sorts if not _problems(documents[sort], name)] == [sort]


def test_every_key_of_a_stage_is_required_and_checked(
    documents: dict[str, dict[str, Any]],
) -> None:
    stage = documents["stage"]
    for key in stage:
        less = {name: value for name, value in stage.items() if name != key}
        assert _problems(less, "stage") == [f'"{key}" is a required property']
