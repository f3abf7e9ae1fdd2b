"""The apply, rollback and verify commands on a server, which is a stand-in here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
import typer

from tuner.applications import Application
from tuner.cli import remote_apply
from tuner.errors import INTERRUPTED, ConflictError
from tuner.model import Configuration
from tuner.states import ApplicationState

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CUT_OFF = Application(
    id="a20260301-120000-abcd",
    campaign="20260301-110000-abcd",
    state=ApplicationState.APPLYING,
    testbed="x",
    section="",
    plan="p",
    stepwise=False,
    programs="",
    before=Configuration(),
    after=Configuration.of({"fileserver.threads": 64}),
    planned=NOON,
    planned_by="alice",
    changed=NOON,
    changed_by="alice",
)


@dataclass
class Server:
    """Has one application; ``end``: its state after the rollback, None if that takes for ever."""

    application: Application = CUT_OFF
    end: ApplicationState | None = None
    messages: list[str] = field(default_factory=list)

    def in_force(self, reference: str) -> list[Application]:
        return [self.application]

    def roll_back(self, campaign: str) -> Application:
        if self.end is None:
            raise KeyboardInterrupt
        return replace(self.application, state=self.end, reason="it was interrupted")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()

    @contextmanager
    def applications(address: str) -> Iterator[tuple[SimpleNamespace, Server]]:
        yield SimpleNamespace(url=address), server

    monkeypatch.setattr(remote_apply, "_applications", applications)
    return server


def roll_back() -> None:
    remote_apply.rollback("http://there", "last", lambda: None)


def test_an_application_that_was_cut_off_is_undone(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.end = ApplicationState.FAILED
    roll_back()
    assert f"{CUT_OFF.id} was undone: it was interrupted\n" in capsys.readouterr().out


def test_an_application_that_had_been_applied_must_be_rolled_back(server: Server) -> None:
    server.application = replace(CUT_OFF, state=ApplicationState.APPLIED)
    server.end = ApplicationState.FAILED
    with pytest.raises(ConflictError, match="is failed: it was interrupted"):
        roll_back()


@pytest.mark.parametrize(
    ("elsewhere", "options"),
    [("", " --server http://there"), ("http://there/", ""), ("http://x", " --server http://there")],
)
def test_ctrl_c_only_ends_the_waiting(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: str,
    options: str,
) -> None:
    monkeypatch.setenv("FSTUNE_SERVER", elsewhere)
    with pytest.raises(typer.Exit) as ending:
        roll_back()
    assert ending.value.exit_code == INTERRUPTED
    message = "fstune: the server http://there continues with it; see: fstune applications"
    assert capsys.readouterr().err == f"{message}{options}\n"
