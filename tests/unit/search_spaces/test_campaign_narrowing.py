"""Narrowing of a space by a campaign file: valid keys, and one clear line per mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from search_spaces import Chance, draw
from tuner.cli.app import app
from tuner.errors import SpecError
from tuner.spec.campaign import read_spec
from tuner.spec.space_section import load_space

DATA = Path(__file__).parents[2] / "data" / "spaces" / "narrowings"
BAD = sorted((DATA / "bad").glob("*.yaml"))
GOOD = sorted((DATA / "good").glob("*.yaml"))


@pytest.mark.parametrize("path", BAD, ids=lambda path: str(path.stem))
def test_a_bad_narrowing_is_one_clear_error_and_nothing_is_done(path: Path, tmp_path: Path) -> None:
    says = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# says: ")
    result = CliRunner().invoke(app, ["run", str(path), "--state-dir", str(tmp_path)])
    assert isinstance(result.exception, SpecError)
    message = str(result.exception)
    assert says in message
    assert message.startswith(f"{path}: spaces.fileserver")
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == []


def test_there_are_good_and_bad_narrowings() -> None:
    assert len(BAD) >= 20
    assert len(GOOD) >= 5


@pytest.mark.parametrize("path", GOOD, ids=lambda path: str(path.stem))
def test_a_good_narrowing_is_obeyed(path: Path) -> None:
    section = read_spec(path).spaces["fileserver"]
    assert section is not None
    space = load_space(section, "fileserver")
    ask = Chance(1, 0.8)
    samples = [draw(space, ask) for _ in range(200)]
    assert all(space.violations(values) == [] for values in samples)
    assert all(values.items() >= section.fix.items() for values in samples)
    if section.only is not None:
        assert {name for values in samples for name in values} == set(section.only)
    for name in section.also:
        assert any(name in values for values in samples)
    for name, bounds in section.range.items():
        sampled_values = {values[name] for values in samples if name in values}
        assert sampled_values
        if isinstance(bounds[0], str):
            assert sampled_values <= set(bounds)
        else:
            assert all(int(bounds[0]) <= int(value) <= int(bounds[1]) for value in sampled_values)
