"""docs/workloads.md describes workload files as they are: its examples run, no key is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

import workloads
from tests.docs.pages import code_blocks, words_in_code
from tuner.measure.workload import load_workload
from workloads.fields import Fields
from workloads.operations import TABLE
from workloads.sequence import OPERATIONS

PAGE = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()
EXAMPLES = code_blocks(PAGE, "yaml")
WORDS = words_in_code(PAGE, r"[^\w-]+")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every key that the readers of workload files ask for during a test."""
    names: set[str] = set()
    has = Fields.has

    def noting(fields: Fields, name: str) -> bool:
        # The keys of these mappings are names that the author of the file chooses.
        if fields.key != "weights" and not fields.key.endswith(".choose"):
            names.add(name)
        return has(fields, name)

    monkeypatch.setattr(Fields, "has", noting)
    return names


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("\n")[0])
def test_the_examples_are_valid(example: str, tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(example)
    assert len(load_workload(str(path)).components) >= 3


def test_every_key_that_is_read_is_described(keys: set[str]) -> None:
    for name in workloads.packaged():
        # By its path: what is packaged is read only once in a process.
        load_workload(str(Path(workloads.__file__).with_name(f"{name}.yaml")))
    assert {"passes", "postmark", "cycle", "buckets", "sigma", "read_bias"} <= keys
    # A bucket is written as a list; these are the names of its elements in messages.
    assert keys - {"least", "most", "weight"} <= WORDS


def test_every_operation_is_described() -> None:
    assert {*OPERATIONS, *TABLE} <= WORDS


def test_the_number_of_packaged_workloads_is_stated() -> None:
    assert len(workloads.packaged()) == 15
    assert "comes with fifteen" in " ".join(PAGE.split())
