"""The published JSON schema and the loader agree."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

from search_spaces import Change, Form, Kind, Outside, Risk, Role, Takes, Use, names, parse_space
from search_spaces.reading import Section

from .json_schema import complaints

PACKAGE = "search_spaces"
DATA = "tests/data/spaces"


@pytest.fixture(scope="module")
def schema(root: Path) -> Any:
    return json.loads((root / PACKAGE / "schema.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_every_packaged_space_fits_the_schema_and_names_it(root: Path, schema: Any) -> None:
    for name in names():
        text = (root / PACKAGE / f"{name}.yaml").read_text(encoding="utf-8")
        assert complaints(yaml.safe_load(text), schema) == []
        assert text.startswith("# yaml-language-server: $schema=schema.json\n")


@pytest.mark.slow
def test_schema_and_loader_agree_on_the_corpus(root: Path, schema: Any) -> None:
    """The loader rejects every file that the schema rejects, and both accept all good files."""
    results = {
        path.name: complaints(yaml.safe_load(path.read_text(encoding="utf-8")), schema)
        for folder in ("good", "bad")
        for path in (root / DATA / folder).glob("*.yaml")
        if not path.name.startswith("yaml-")
    }
    refused = {name for name, messages in results.items() if messages}
    assert refused == {name for name in results if name.startswith("shape-")}
    assert len(refused) >= 15


@pytest.mark.parametrize(
    ("kind", "definition", "words"),
    [
        ("parameter", "kind", Kind),
        ("parameter", "change", Change),
        ("parameter", "risk", Risk),
        ("parameter", "role", Role),
        ("hard", "outside", Outside),
        ("option", "takes", Takes),
        ("", "form", Form),
    ],
)
def test_the_words_are_the_same(
    schema: Any, kind: str, definition: str, words: type[StrEnum]
) -> None:
    section = schema["$defs"][kind] if kind else schema
    assert section["properties"][definition]["enum"] == [str(word) for word in words]


def test_the_words_of_uses_are_the_same(schema: Any) -> None:
    assert schema["properties"]["for"]["items"]["enum"] == [str(use) for use in Use]


def test_the_keys_are_the_same(root: Path, schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema has exactly the keys that the loader reads."""
    keys: dict[str, set[str]] = {}
    refuse_unknown = Section.refuse_unknown

    def spy(self: Section) -> None:
        *above, last = ("", *self._path.split("."))
        within = {"facts": "fact", "parameters": "parameter", "left_out": "option"}
        lists = {"constraints": "constraint", "presets": "preset"}
        kind = lists.get(last.partition("[")[0]) or within.get(above[-1]) or last
        if self._path.startswith("left_out."):
            kind = "option"
        kind = {"at_least": "bound", "at_most": "bound", "only_if": "condition"}.get(kind, kind)
        keys.setdefault(kind, set()).update(self._known_keys)
        refuse_unknown(self)

    monkeypatch.setattr(Section, "refuse_unknown", spy)
    text = (root / PACKAGE / "openafs-fileserver-1.8.yaml").read_text(encoding="utf-8")
    parse_space(text, "openafs-fileserver-1.8.yaml")
    sections = {"": schema, **{k: d for k, d in schema["$defs"].items() if k in keys}}
    assert sections.keys() == keys.keys()
    for kind, section in sections.items():
        merged = {"extends", "without"} if kind == "" else set()
        assert set(section["properties"]) - merged == keys[kind], kind
        assert section["additionalProperties"] is False
