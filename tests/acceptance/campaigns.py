"""Running a campaign on hosts over SSH while something happens to it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.acceptance.lab import Lab, Records
from tests.waiting import wait_for
from tuner.model import Event
from tuner.states import BlockState, CampaignState

THREADS = {"fileserver.threads": 20}
#: Hosts without a heartbeat for this long restore themselves; a lost connection shows much sooner.
SOON = "20s"


@contextmanager
def campaign(lab: Lab, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a campaign; interrupt it afterwards, as by Ctrl-C, if it has not ended."""
    words = arguments or ("run", str(lab.directory / "campaign.yaml"))
    with lab.running(*words) as process:
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            # It may have finished just before.
            expected = {130: CampaignState.PAUSED, 0: CampaignState.FINISHED}
            status = process.wait(150.0)
            assert lab.load().campaign.state is expected.get(status), lab.output


def says(lab: Lab, process: subprocess.Popen[str], words: str) -> None:
    """Wait until a campaign has printed these words."""
    wait_for(lambda: words in lab.output or process.poll() is not None, words)
    assert words in lab.output, lab.output


def says_void(lab: Lab, process: subprocess.Popen[str]) -> int:
    """Wait until a campaign has reported a void block, and return the block's number.

    It is later than the block that was running when the fault began if that one ended just then.
    """
    says(lab, process, " void")
    return next(b.number for b in lab.load().blocks if b.state is BlockState.VOID)


def wait_for_end(lab: Lab, process: subprocess.Popen[str]) -> Records:
    """Wait for the end of a campaign whose hosts fail."""
    assert process.wait(250.0) == 6, lab.output
    records = lab.load()
    assert records.campaign.state is CampaignState.FAILED
    return records


def the(events: Sequence[Event]) -> Event:
    (event,) = events
    return event


def goes_on(lab: Lab, before: Records) -> None:
    """Check that a campaign that has ended can be resumed, with all its measurements."""
    with campaign(lab, "resume") as process:
        says(lab, process, "baseline: writing")
    assert before.measured.items() <= lab.load().measured.items()
