"""One guest for all tests of a worker, and how long its stages took."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.cell.client import VOLUME_PATH
from deploy.vm import Guest, GuestOptions, Guests
from tests.vm.client_host import ClientHost, client_host

#: One that is named is used as it is and left, to try a test again and again.
NAMED = os.environ.get("FSTUNE_TEST_VM_NAME", "")
NAME = NAMED or f"vm-test{os.environ.get('PYTEST_XDIST_WORKER', '')}"

_STAGE = "stage of a guest"
_stages: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Hear from the workers how long stages took."""
    if report.when == "call":
        _stages.extend(str(text) for name, text in report.user_properties if name == _STAGE)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show how long they took."""
    if _stages:
        terminalreporter.section("stages of guests")
    for text in _stages:
        terminalreporter.write_line(text)


@pytest.fixture(scope="session")
def state(root: Path) -> Path:
    """Return the state directory: its image stays from one run of the tests to the next."""
    return Path(os.environ.get("FSTUNE_TEST_VM_STATE") or root / "build" / "test-state")


@pytest.fixture(scope="session")
def guests(state: Path) -> Iterator[Guests]:
    guests = Guests(state)
    yield guests
    if not NAMED:
        guests.down(NAME)


@pytest.fixture
def bring_up(guests: Guests, request: pytest.FixtureRequest) -> Callable[[], Guest]:
    """Bring the guest up, unless it is."""

    def done(text: str) -> None:
        request.node.user_properties.append((_STAGE, f"{NAME}: {text}"))

    # Two guests with a processor each do more than two with two: each has one of the machine's.
    return lambda: guests.up(NAME, GuestOptions(processors=1), done=done)


@pytest.fixture
def guest(bring_up: Callable[[], Guest]) -> Guest:
    """Return the guest, up: a test may have taken it down."""
    return bring_up()


@pytest.fixture
def client(guest: Guest, state: Path) -> Iterator[ClientHost]:
    """The guest's client in fstune's hands. Whatever a test does to it, it is as it was afterwards,
    and no journal is left.
    """
    with client_host(guest, state) as found:
        before = found.file(), found.effective()
        yield found
        found.put_back()
        assert (found.file(), found.effective()) == before
        assert found.journals() == []
        assert found.run("test", "-d", VOLUME_PATH).status == 0
