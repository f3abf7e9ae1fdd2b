"""Building an image without a machine to build it on: what is secret, what is left, what counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.cell import CellError, Node
from deploy.cell.process import ProcessId
from deploy.vm import image, recipe

PASSWORD = "http://ada:pass-word@proxy.example:3128"
#: Stands in for the builder: what it finds in its environment and among its arguments.
_SHOW = "import os, sys; print(os.environ.get('http_proxy'), sys.argv[1:]); sys.exit(3)"
_SLEEP = "import time; time.sleep(60)"


class _Builder(Node):
    """A node that runs a script of this machine in place of every command."""

    script = _SHOW

    def enter(self, argv: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", self.script, *argv]


class _Slow(_Builder):
    script = _SLEEP


def made(kind: type[_Builder], directory: Path) -> _Builder:
    own = ProcessId.of(os.getpid())
    builder = kind("builder", directory, own, own)
    builder.shared.mkdir()
    return builder


def ignore(text: str) -> None:
    """Say nothing."""


def bootstrap(builder: Node) -> str:
    """What is said of a build that fails."""
    with pytest.raises(CellError) as failed:
        image._bootstrap(builder, "root", recipe.PACKAGES, ignore)
    return str(failed.value)


def test_the_password_of_a_proxy_is_not_among_the_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", PASSWORD)
    bootstrap(made(_Builder, tmp_path))
    environment, _, arguments = (tmp_path / "shared/log").read_text().partition(" ")
    assert environment == PASSWORD
    assert "mmdebstrap" in arguments
    assert "pass-word" not in arguments


def test_the_password_of_a_proxy_is_not_in_what_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", PASSWORD)
    monkeypatch.setattr(image, "_MOST_S", 0.1)
    assert bootstrap(made(_Slow, tmp_path)) == "mmdebstrap does not end within 0 s"
