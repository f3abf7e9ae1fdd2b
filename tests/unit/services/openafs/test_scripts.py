"""What holds for all scripts that run on hosts."""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

import tuner.services.openafs as package

SCRIPTS = sorted(
    (entry for entry in (files(package) / "scripts").iterdir() if entry.name.endswith(".sh")),
    key=lambda entry: entry.name,
)
#: Programs that are not in the PATH of everybody who becomes root.
OF_ROOT = re.compile(r"\b(lsmod|rmmod|sysctl -w|afsd -shutdown)\b")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.name))
def test_system_programs_are_found_whoever_runs_it(script: Traversable) -> None:
    """It may be run by hand, to put a host back without fstune."""
    text = script.read_text()
    code = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    if any(OF_ROOT.search(line) for line in code):
        assert "PATH=$PATH:/usr/sbin:/sbin" in code
