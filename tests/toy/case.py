"""toyd as a case of the contract of kinds of services."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.toy.kind import TOY
from tuner.services.contract import KindCase


def section(key: str, directory: Path) -> object:
    """Prepare a directory for toyd, and name it."""
    (directory / "toyd.conf").write_text("workers=8\n")
    return {"directory": str(directory)}


def contents(directory: Path) -> str:
    """What fstune must restore."""
    return (directory / "toyd.conf").read_text()


def change(directory: Path) -> None:
    """Give toyd other settings while it runs, as its administrator may."""
    status = directory / "toyd.status"
    before = status.read_text()
    workers = 2 if "workers=1\n" in before else 1
    (directory / "toyd.conf").write_text(f"workers={workers}\n")
    os.kill(int(before.split()[0].removeprefix("pid=")), signal.SIGHUP)
    while status.read_text() == before:
        time.sleep(0.01)


SPACE = Path(__file__).with_name("toyd.yaml")
CASE = KindCase(
    TOY, {"toyd": str(SPACE)}, section, opens=("toy",), contents=contents, change=change
)
