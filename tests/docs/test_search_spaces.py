"""The reference page of all parameters is the one generated from the spaces."""

from __future__ import annotations

from pathlib import Path

from search_spaces import load, names
from search_spaces.reference import page


def test_the_reference_page_is_up_to_date(root: Path) -> None:
    text = (root / "docs" / "search-spaces.md").read_text(encoding="utf-8")
    assert text == page(), "docs/search-spaces.md is out of date: run 'make docs'"


def test_the_reference_page_has_everything() -> None:
    sections = {part.partition("\n")[0]: part for part in page().split("\n## ")[1:]}
    assert sections.keys() == set(names())
    for name, section in sections.items():
        space = load(name)
        for parameter in space.parameters:
            entry = section.partition(f"\n### {parameter.name}\n")[2].partition("\n### ")[0]
            for flag in parameter.flags:
                assert f"`{flag}`" in entry
            assert parameter.source.replace("|", "\\|") in entry
            assert f"| risk class | {parameter.risk} |" in entry
        for option in space.options:
            assert f"`{option.flag}`" in section
        assert all(preset.source in section for preset in space.presets)
