"""Cells and guests in a list: one that cannot be loaded does not hide the others."""

import pytest

from deploy.cell import CellError
from tuner.cli.named_nodes import show_by_name
from tuner.cli.say import say


def load(name: str) -> str | None:
    if name == "damaged":
        raise CellError("its record cannot be read")
    return None if name == "interrupted" else f"{name} is up"


def test_each_is_shown_even_if_others_cannot_be_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    show_by_name(["damaged", "interrupted", "good"], load, say, "none")
    assert capsys.readouterr().out.splitlines() == [
        "damaged: its record cannot be read",
        "interrupted: left over from an interrupted start; take it down",
        "good is up",
    ]


def test_without_any_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_by_name([], load, say, "no cells")
    assert capsys.readouterr().out == "no cells\n"
