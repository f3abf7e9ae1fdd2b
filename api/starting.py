"""Runs campaigns as processes of their own, which go on when the service ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

from tuner.errors import TunerError
from tuner.report.words import clean
from tuner.states import CampaignState
from tuner.store import NewEvent, Store

_LONGEST_LINE = 500
_TAIL_BYTES = 4096


class Starter:
    """Starts runs of campaigns of one store, and hears how each begins to fail."""

    def __init__(self, store: Store, directory: Path, database: str | None) -> None:
        self._store = store
        self._directory = directory.absolute()
        self._database = database

    def start(self, campaign: str, *, override_pilot: bool = False) -> None:
        """Run a stored campaign in a new process; it takes up where the campaign stands."""
        logs = self._directory / "logs"
        logs.mkdir(mode=0o700, exist_ok=True)
        log = logs / f"{campaign}.log"
        command = [sys.executable, "-c", "from tuner.cli import main; main()", "resume", campaign]
        command += ["--override-pilot"] if override_pilot else []
        environment = dict(os.environ, FSTUNE_STATE_DIR=str(self._directory), NO_COLOR="1")
        environment.pop("FSTUNE_DATABASE_URL", None)
        if self._database is not None:
            environment["FSTUNE_DATABASE_URL"] = self._database
        with os.fdopen(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a") as out:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                # What ends the service must not end the campaign.
                start_new_session=True,
            )
        threading.Thread(
            target=self._hear, args=(campaign, process, log), name=campaign, daemon=True
        ).start()

    def _hear(self, campaign: str, process: subprocess.Popen[bytes], log: Path) -> None:
        """Wait for a run to end. One that never began has told nobody why: tell it here."""
        if process.wait() == 0:
            return
        try:
            found = self._store.campaign(campaign)
            now = datetime.now(UTC)
            event = NewEvent(now, "start-failed", f"the run did not begin: {_last_line(log)}")
            if found.state is CampaignState.CREATED:
                state = CampaignState.FAILED
                self._store.move_campaign(campaign, state, event.message, event)
            elif found.state is CampaignState.PAUSED and _never_ran(self._store, campaign):
                self._store.add_event(campaign, event)
        except TunerError:
            return  # the log has it


def _never_ran(store: Store, campaign: str) -> bool:
    """Whether what was told last is not of a run: a run that ends tells that it is paused."""
    events = store.events(campaign)
    return bool(events) and events[-1].kind == "resume-requested"


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    said = next((line for line in reversed(lines) if line.strip()), "it says nothing")
    return clean(said.removeprefix("fstune: "))[:_LONGEST_LINE]
