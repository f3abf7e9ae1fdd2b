"""A campaign on hosts by SSH while something happens to it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.acceptance.lab import Lab, Records, wait_for
from tuner.model import Event
from tuner.states import BlockState, CampaignState

THREADS = {"fileserver.threads": 20}
#: Hosts that hear nothing for so long put themselves back; a lost connection shows in a fraction.
SOON = "20s"


@contextmanager
def campaign(lab: Lab, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A campaign under way; given back, as by Ctrl-C, if it has not ended by itself."""
    words = arguments or ("run", str(lab.directory / "campaign.yaml"))
    with lab.running(*words) as process:
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            # It may have come to its end by itself just before.
            expected = {130: CampaignState.PAUSED, 0: CampaignState.FINISHED}
            status = process.wait(150.0)
            assert lab.load().campaign.state is expected.get(status), lab.output


def says(lab: Lab, process: subprocess.Popen[str], words: str) -> None:
    """Wait until a campaign has printed this."""
    wait_for(lambda: words in lab.output or process.poll() is not None, words)
    assert words in lab.output, lab.output


def says_void(lab: Lab, process: subprocess.Popen[str]) -> int:
    """Wait until a campaign has said that a block is void; its number. It is a later one than was
    under way when somebody began to meddle, if that had its end just then.
    """
    says(lab, process, " void")
    return next(b.number for b in lab.load().blocks if b.state is BlockState.VOID)


def wait_for_end(lab: Lab, process: subprocess.Popen[str]) -> Records:
    """Wait for the end of a campaign whose hosts fail it."""
    assert process.wait(250.0) == 6, lab.output
    records = lab.load()
    assert records.campaign.state is CampaignState.FAILED
    return records


def the(events: Sequence[Event]) -> Event:
    (event,) = events
    return event


def goes_on(lab: Lab, before: Records) -> None:
    """A campaign that has ended is taken up again, with all that was measured."""
    with campaign(lab, "resume") as process:
        says(lab, process, "baseline: writing")
    assert before.measured.items() <= lab.load().measured.items()
