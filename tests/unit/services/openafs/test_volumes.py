"""What is said of a testbed's volumes when runs of the workload fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tuner.hosts.connector import CommandResult
from tuner.hosts.local import LocalConnector
from tuner.services.openafs import facts
from tuner.services.openafs.volumes import why_unusable

ROOMY = "Free space on partition /vicepa: 12341800 K blocks out of total 12341828\n"
FULL = ROOMY.replace("12341800", "200")
OTHER_FULL = ROOMY + FULL.replace("/vicepa", "/vicepb")
OFF = "its volume bench is off-line: 'vos online 192.0.2.9 /vicepa bench -localauth' there"


@dataclass(frozen=True)
class Server(LocalConnector):
    """A fileserver whose vos answers this, once it has refused as often as there are refusals."""

    listvol: str = ""
    partinfo: str = ROOMY
    refusals: list[str] = field(default_factory=list)

    def ask(self, argv: Sequence[str], *_: object, **__: object) -> CommandResult:
        assert argv[0] == "vos"
        if self.refusals:
            return CommandResult(tuple(argv), 255, "", self.refusals.pop())
        answers = {"listvol": self.listvol, "partinfo": self.partinfo}
        return CommandResult(tuple(argv), 0, answers[argv[1]], "")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_PAUSE_S", 0.0)


@pytest.fixture
def listing(root: Path) -> str:
    return (root / "tests" / "data" / "openafs" / "vos-listvol.txt").read_text()


def reason(server: Server) -> str:
    return why_unusable(server, "192.0.2.9", ["bench"])


@pytest.mark.parametrize("partinfo", [ROOMY, OTHER_FULL])
def test_nothing_is_said_of_volumes_that_can_be_used(listing: str, partinfo: str) -> None:
    assert reason(Server(listvol=listing, partinfo=partinfo)) == ""


def test_a_volume_that_is_off_line_is_named_with_the_command_that_brings_it_back(
    listing: str,
) -> None:
    off = listing.replace("On-line", "Off-line")
    assert OFF in reason(Server(listvol=off))


def test_a_volume_server_that_was_started_again_seconds_before_is_waited_for(
    listing: str,
) -> None:
    off = listing.replace("On-line", "Off-line")
    assert OFF in reason(Server(listvol=off, refusals=["Possible communication failure"] * 2))


def test_a_volume_that_has_gone_is_named(listing: str) -> None:
    renamed = listing.replace("bench ", "bench2")
    sentence = "it does not serve volume bench: was it renamed, moved or deleted?"
    assert reason(Server(listvol=renamed)).endswith(sentence)
    busy = renamed.replace("\nTotal", "**** Volume 536870999 is busy ****\n\nTotal", 1)
    assert reason(Server(listvol=busy)).endswith("volume bench: is it 536870999, busy or damaged?")


def test_a_full_partition_is_named(listing: str) -> None:
    sentence = reason(Server(listvol=listing, partinfo=FULL))
    assert "its partition /vicepa, which has volume bench, is full (0 MiB free)" in sentence


@pytest.mark.parametrize("answer", ["", "something else\n"])
def test_a_volume_server_that_does_not_tell_is_no_error(answer: str) -> None:
    assert reason(Server(listvol=answer)) == ""
    assert reason(Server(listvol=answer, refusals=["Possible communication failure"] * 99)) == ""
