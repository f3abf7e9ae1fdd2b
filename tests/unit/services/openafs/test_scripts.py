"""What holds for all scripts that run on hosts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import pytest

import tuner.services.openafs as package

SCRIPTS = sorted(
    (entry for entry in (files(package) / "scripts").iterdir() if entry.name.endswith(".sh")),
    key=lambda entry: entry.name,
)
#: Programs that are not in the PATH of everybody who becomes root.
OF_ROOT = re.compile(r"\b(lsmod|rmmod|sysctl -w|afsd -shutdown)\b")
#: Programs of OpenAFS, as commands.
OF_OPENAFS = re.compile(r"(^|\btimeout [0-9]+|[;(]) *(fs|aklog|unlog|tokens|afsd|cmdebug|bos)\b")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.name))
def test_system_programs_are_found_whoever_runs_it(script: Traversable) -> None:
    """It may be run by hand, to restore a host without fstune."""
    text = script.read_text()
    code = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    if any(OF_ROOT.search(line) for line in code):
        assert "PATH=$PATH:/usr/sbin:/sbin" in code
    if any(OF_OPENAFS.search(line) for line in code):
        assert "PATH=$PATH:/usr/vice/etc:/usr/afs/bin:/usr/afsws/bin:/usr/afsws/etc" in code


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's processes count")
@pytest.mark.parametrize("name", ["afsd.fuse", "afsd.fuse.old", "afsd.fuse-1.8.10", ""])
def test_a_cache_manager_counts_whatever_became_of_its_file(tmp_path: Path, name: str) -> None:
    """It would otherwise write its cache back while that is wiped. ``name``: "" for deleted."""
    program = tmp_path / "afsd.fuse"
    shutil.copy("/usr/bin/sleep", program)
    mount = str(tmp_path / "mount")
    with subprocess.Popen([program, "300"]) as process:
        try:
            if name:
                program.rename(tmp_path / name)
            else:
                program.unlink()
            script = next(entry for entry in SCRIPTS if entry.name == "fuse-daemons.sh")
            text = f'{script.read_text()}\ndaemons afsd.fuse "$1"\n'
            argv = ["sh", "-s", mount]
            listing = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
            assert str(process.pid) in listing.stdout.split()
        finally:
            process.kill()
