"""A build or a start interrupted by Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.cell.node import processes_below
from deploy.vm import Guests
from tests.integration.conftest import command, environment, mounts_below
from tests.waiting import wait_for

pytestmark = [pytest.mark.vm, pytest.mark.cell, pytest.mark.timeout(3600)]


@contextmanager
def running(state: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(*arguments),
        env=environment(state),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupt(process: subprocess.Popen[str], when: Callable[[], bool], what: str) -> None:
    def due() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return when()

    wait_for(due, what)
    process.send_signal(signal.SIGINT)
    assert process.wait(100.0) == 130


def test_an_interrupted_build_leaves_nothing(guests: Guests, state: Path, tmp_path: Path) -> None:
    guests.images.ensure(lambda text: None)  # so that the build programs are available
    (tmp_path / "packages").symlink_to(state / "packages")
    images = tmp_path / "images"

    def installs() -> bool:
        return any(images.glob("build-*/builder/shared/root/var/lib"))

    with running(tmp_path, "vm", "build") as process:
        interrupt(process, installs, "the root file system to begin")
    assert [entry.name for entry in images.iterdir()] == ["lock"]
    assert processes_below(tmp_path) == []
    assert mounts_below(tmp_path) == []


def test_a_killed_build_is_cleared_away_by_the_next(
    guests: Guests, state: Path, tmp_path: Path
) -> None:
    guests.images.ensure(lambda text: None)
    (tmp_path / "packages").symlink_to(state / "packages")
    images = tmp_path / "images"
    with running(tmp_path, "vm", "build") as process:
        wait_for(lambda: any(images.glob("build-*/builder/shared/root")), "the build to begin")
        process.kill()
        process.wait()
    (left,) = images.glob("build-*")
    with running(tmp_path, "vm", "build") as process:
        interrupt(process, lambda: not left.exists(), "what is left to be cleared away")
    assert [entry.name for entry in images.iterdir()] == ["lock"]
    assert processes_below(tmp_path) == []


def test_an_interrupted_start_leaves_only_the_console_log(guests: Guests, state: Path) -> None:
    guests.images.ensure(lambda text: None)
    name = "vm-cut"
    directory = state / "cells" / name
    console = directory / "server/shared/vm/console.log"
    with running(state, "vm", "up", "--name", name) as process:
        interrupt(process, lambda: console.exists() and console.stat().st_size > 0, "a boot")
    assert not directory.exists()
    assert processes_below(directory) == []
    assert mounts_below(directory) == []
    assert os.path.exists(state / f"console-of-{name}.log")
