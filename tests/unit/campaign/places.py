"""A state directory with a campaign file, written from a template, and the command line on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from tuner.cli.app import app
from tuner.model import BlockKind
from tuner.store import Store


class Place:
    """``usual``: default values of the template, which a test can override."""

    def __init__(self, directory: Path, template: str, usual: Mapping[str, object]) -> None:
        self.state = directory / "state"
        self.file = directory / "campaign.yaml"
        self._template, self._usual = template, usual

    def write(self, **text: object) -> None:
        self.file.write_text(self._template.format(**{**self._usual, **text}))

    def fstune(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--state-dir", str(self.state)])

    def kinds(self) -> list[BlockKind]:
        """Return the kinds of the blocks of the newest campaign."""
        with Store.open(self.state) as store:
            return [block.kind for block in store.blocks(store.campaign("last").id)]
