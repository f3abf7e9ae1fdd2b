"""Basics of all tests: reproducible hypothesis examples, skips with a reason, the repository's
files.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import leftovers
from tests.scheduling import Mixed

# Several processes run tests at once. With several threads each for linear algebra, they would wait
# for one another, up to a hundred times as long. This is set before anything imports numpy.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

ROOT = Path(__file__).resolve().parent.parent
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2 << 30
#: What the defects of OpenAFS that docs/decisions/second-tries.md names look like in an exception.
_DEFECTS = (
    "Connection timed out|ETIMEDOUT",
    "afsd.fuse is no longer running|Transport endpoint is not connected|ENOTCONN",
    "Software caused connection abort|ECONNABORTED",
    "Too many open files in system|ENFILE",
    "communications failure",
)

# Machines that run tests are shared: a slow example is not a failure, and the same examples are
# tried everywhere.
settings.register_profile("fstune", deadline=None, derandomize=True)
settings.load_profile("fstune")


# Tests started in the background may inherit that Ctrl-C is ignored. So would every command that
# they interrupt to check that it ends well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _run_python_itself() -> None:
    """Put this Python first in PATH where ``python3`` is the script of a version manager: hosts
    that are this machine start it often, and each start would take eight times as long.
    """
    python = shutil.which("python3")
    if python is not None and Path(python).read_bytes().startswith(b"#!"):
        directory = Path(sys.executable).resolve().parent
        if (directory / "python3").exists():
            os.environ["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"


def _why_no_cell() -> str | None:
    if os.geteuid() != 0:
        return "a cell needs root"
    if not Path("/dev/fuse").exists():
        return "a cell needs /dev/fuse"
    return None


def _keep_files_in_memory() -> None:
    """Put directories of tests in memory if there is enough room: otherwise databases in them would
    wait for the disk during half of the time of all tests, and longer on a disk that others use.
    """
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or not os.access(_MEMORY, os.W_OK):
        return
    filesystem = os.statvfs(_MEMORY)
    # Some tests run programs that they have created there.
    if (
        filesystem.f_bavail * filesystem.f_frsize >= _ROOM_BYTES
        and not filesystem.f_flag & os.ST_NOEXEC
    ):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_MEMORY)


def pytest_configure(config: pytest.Config) -> None:
    _keep_files_in_memory()
    _run_python_itself()
    if not hasattr(config, "workerinput"):
        os.environ[leftovers.MARK] = uuid.uuid4().hex
        # SIGTERM, from a time limit say, ends the run as Ctrl-C does: cells must not stay.
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End leftover processes: Ctrl-C also ends the worker processes that could clean up."""
    run = os.environ.get(leftovers.MARK)
    if run is None or hasattr(config, "workerinput"):
        return
    for leftover in leftovers.end(run, ROOT / "build" / "test-state"):
        config.get_terminal_writer().line(f"ended: {leftover}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Mixed | None:
    return Mixed(config, log) if config.getoption("dist") == "loadfile" else None


def _longest_first(items: list[pytest.Item]) -> None:
    """Put files with real cells first, then those that may take longest: no long test is left for
    the end.
    """
    cells, long, slow = (
        {item.path for item in items if item.get_closest_marker(marker)}
        for marker in ("cell", "timeout", "slow")
    )
    items.sort(
        key=lambda item: (item.path not in cells, item.path not in long, item.path not in slow)
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection during test collection: what it creates stays until the end."""
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
        # A test that met a defect of OpenAFS itself gets a second try, and the reason for it is
        # shown at the end. Tests with a guest do not: that would take minutes.
        if in_cell and item.get_closest_marker("vm") is None:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=_DEFECTS))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show why the first try of a test failed, whatever the result of the second."""
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
