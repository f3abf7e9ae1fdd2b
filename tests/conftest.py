"""What every test may rely on: a reproducible hypothesis, honest skips, the repository's files."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import pytest
from hypothesis import settings

from tests import leftovers

ROOT = Path(__file__).resolve().parent.parent

# Machines that run tests are shared: a slow example is no failure, and the same
# examples are tried everywhere.
settings.register_profile("fstune", deadline=None, derandomize=True)
settings.load_profile("fstune")


def _why_no_cell() -> str | None:
    if os.geteuid() != 0:
        return "a cell needs root"
    if not Path("/dev/fuse").exists():
        return "a cell needs /dev/fuse"
    return None


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[leftovers.MARK] = uuid.uuid4().hex


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what is left: one of several processes that run tests is itself ended by Ctrl-C."""
    run = os.environ.get(leftovers.MARK)
    if run is None or hasattr(config, "workerinput"):
        return
    for found in leftovers.end(run, ROOT / "build" / "test-state"):
        config.get_terminal_writer().line(f"ended: {found}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _why_no_cell()
    if reason is not None:
        for item in items:
            if item.get_closest_marker("cell"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def repository_files(root: Path) -> tuple[Path, ...]:
    """Return every file that is committed or about to be, relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
        text=True,
    )
    names = (Path(name) for name in listing.stdout.split("\0") if name)
    return tuple(sorted(name for name in names if (root / name).is_file()))
