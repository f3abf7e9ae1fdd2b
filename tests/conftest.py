"""What every test may rely on: a reproducible hypothesis, honest skips, the repository's files."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import leftovers

# Several processes run tests at once. Linear algebra in several threads each would have them wait
# for one another, up to a hundred times as long. It says so before anything imports numpy.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

ROOT = Path(__file__).resolve().parent.parent
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2 << 30

# Machines that run tests are shared: a slow example is no failure, and the same
# examples are tried everywhere.
settings.register_profile("fstune", deadline=None, derandomize=True)
settings.load_profile("fstune")


# Whoever starts the tests in the background may have them ignore Ctrl-C, and so would every command
# that they interrupt to see it end well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _why_no_cell() -> str | None:
    if os.geteuid() != 0:
        return "a cell needs root"
    if not Path("/dev/fuse").exists():
        return "a cell needs /dev/fuse"
    return None


def _keep_files_in_memory() -> None:
    """Have tests' directories in memory where there is room: databases in them would wait for the
    disk for half of the time of all tests, and longer on a disk that others use.
    """
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or not os.access(_MEMORY, os.W_OK):
        return
    found = os.statvfs(_MEMORY)
    # Some tests run programs that they have made.
    if found.f_bavail * found.f_frsize >= _ROOM_BYTES and not found.f_flag & os.ST_NOEXEC:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_MEMORY)


def pytest_configure(config: pytest.Config) -> None:
    _keep_files_in_memory()
    if not hasattr(config, "workerinput"):
        os.environ[leftovers.MARK] = uuid.uuid4().hex


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what is left: one of several processes that run tests is itself ended by Ctrl-C."""
    run = os.environ.get(leftovers.MARK)
    if run is None or hasattr(config, "workerinput"):
        return
    for found in leftovers.end(run, ROOT / "build" / "test-state"):
        config.get_terminal_writer().line(f"ended: {found}")


def _longest_first(items: list[pytest.Item]) -> None:
    """Put files with real cells first, then slow ones: nothing long is left for the end, and what
    waits for programs does so beside what computes.
    """
    cells, slow = (
        {item.path for item in items if item.get_closest_marker(marker)}
        for marker in ("cell", "slow")
    )
    items.sort(key=lambda item: (item.path not in cells, item.path not in slow))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among all that is made here, which stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _longest_first(items)
    reason = _why_no_cell()
    for item in items:
        in_cell = item.get_closest_marker("cell") is not None
        if in_cell and reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
        # OpenAFS and browsers have crashes and time-outs of their own: see
        # docs/decisions/second-tries.md.
        # Such a test has a second try, and why it needed one is shown at the end. With a guest that
        # would take minutes.
        again = in_cell and item.get_closest_marker("vm") is None
        if again or item.get_closest_marker("browser") is not None:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show what the first try of a test failed on, whatever became of the second."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first try of {report.nodeid}")
        terminalreporter.line(report.longreprtext)


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
