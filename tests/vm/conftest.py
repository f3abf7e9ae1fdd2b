"""One guest per test worker, and a summary of how long its stages took."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.cell.client import VOLUME_PATH
from deploy.vm import Guest, GuestOptions, Guests
from tests.vm.client_host import ClientHost, client_host

#: A guest with this name is used in its current state and left running, to repeat a test quickly.
NAME_TO_REUSE = os.environ.get("FSTUNE_TEST_VM_NAME", "")
NAME = NAME_TO_REUSE or f"vm-test{os.environ.get('PYTEST_XDIST_WORKER', '')}"

_STAGE = "stage of a guest"
_stages: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the durations of stages from the workers."""
    if report.when == "call":
        _stages.extend(str(text) for name, text in report.user_properties if name == _STAGE)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the durations of stages."""
    if _stages:
        terminalreporter.section("stages of guests")
    for text in _stages:
        terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def state(root: Path) -> Path:
    """Return the state directory. Its image is reused by later test runs."""
    return Path(os.environ.get("FSTUNE_TEST_VM_STATE") or root / "build" / "test-state")


@pytest.fixture(scope="session")
def guests(state: Path) -> Iterator[Guests]:
    guests = Guests(state)
    yield guests
    if not NAME_TO_REUSE:
        guests.down(NAME)


@pytest.fixture
def bring_up(guests: Guests, request: pytest.FixtureRequest) -> Callable[[], Guest]:
    """Return a function that brings the guest up unless it is already up."""

    def done(text: str) -> None:
        request.node.user_properties.append((_STAGE, f"{NAME}: {text}"))

    # Two guests with one processor each are faster than with two: each gets its own real one.
    return lambda: guests.up(NAME, GuestOptions(processors=1), done=done)


@pytest.fixture
def guest(bring_up: Callable[[], Guest]) -> Guest:
    """Return the running guest. It is started again if a test has taken it down."""
    return bring_up()


@pytest.fixture
def client(guest: Guest, state: Path) -> Iterator[ClientHost]:
    """Return the guest's client under the control of fstune.

    Afterwards it must be in its original state whatever the test did, with no journal left.
    """
    with client_host(guest, state) as client_on_guest:
        before = client_on_guest.file(), client_on_guest.effective()
        yield client_on_guest
        client_on_guest.restore()
        assert (client_on_guest.file(), client_on_guest.effective()) == before
        assert client_on_guest.journals() == []
        assert client_on_guest.run("test", "-d", VOLUME_PATH).status == 0
