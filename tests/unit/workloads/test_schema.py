"""The schema file describes the engine's actual output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workloads
from tests.unit.workloads.conftest import every_operation, new_engine
from workloads.merge import merge

pytestmark = pytest.mark.slow

SCHEMA: dict[str, Any] = json.loads(
    (Path(workloads.__file__).parent / "result.schema.json").read_text()
)
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def _problems(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    """Yield what is wrong with the value, by the subset of JSON Schema that the file uses."""
    if "$ref" in schema:
        yield from _problems(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    if "const" in schema and value is not schema["const"]:
        yield f"{where} is not {schema['const']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is not one of {schema['enum']}"
    if "type" in schema:
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(isinstance(value, TYPES[name]) for name in names):
            yield f"{where} is not a {names}"
            return
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{where} does not match"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{where} is too small"
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _problems(inner, schema.get("items", {}), f"{where}[{index}]")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from (
            f"{where}.{key} is missing" for key in set(schema.get("required", ())) - set(value)
        )
        for key, inner in value.items():
            rest = schema.get("additionalProperties", True)
            if key in properties:
                yield from _problems(inner, properties[key], f"{where}.{key}")
            elif rest is False:
                yield f"{where}.{key} is unknown"
            elif isinstance(rest, dict):
                yield from _problems(inner, rest, f"{where}.{key}")


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
    fitting = [
        name for name in sorts if not list(_problems(documents[sort], SCHEMA["$defs"][name], "$"))
    ]
    assert fitting == [sort]


def test_every_key_of_a_stage_is_required_and_checked(
    documents: dict[str, dict[str, Any]],
) -> None:
    stage = documents["stage"]
    for key in stage:
        less = {name: value for name, value in stage.items() if name != key}
        assert list(_problems(less, SCHEMA["$defs"]["stage"], "$")) == [f"$.{key} is missing"]
