"""What every kind of service with hosts has: reached, inspected, held and released."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.hosts.place import THEIRS, Place
from tests.waiting import wait_for
from tuner.documents import Name, Section
from tuner.errors import ConflictError, InUseError
from tuner.hosts.connections import Hosts
from tuner.hosts.hold import Hold
from tuner.hosts.reach import ReachSection, RestoreSection, cells_of, check_distinct, identifiers
from tuner.measure.diagnostics.watch import Watch
from tuner.measure.workload import Workload, load_workload
from tuner.services.hosts import Assemble, HeldHosts
from tuner.services.hours import HoursSection
from tuner.services.kind import Finding
from tuner.services.target import Target
from tuner.services.testbed import NamesHolder, ReadyTestbed

WORKLOAD = load_workload("mixed-use")
CONNECTING = ["connecting to 1 host", "inspecting the hosts"]


class PrinterFile(Section):
    """The testbed file of a kind of service that fstune does not know: one print server."""

    name: Name
    printer: ReachSection
    hours: HoursSection | None = None
    restore: RestoreSection

    @property
    def reached(self) -> tuple[ReachSection, ...]:
        return (self.printer,)


class Printer(HeldHosts[PrinterFile]):
    """Its testbed. ``doing``: called with the host at each step."""

    findings: tuple[Finding, ...] = ()
    doing: Callable[[str], None] = print

    def look(
        self, hosts: Hosts, campaign: str, workload: Workload
    ) -> tuple[Sequence[Finding], Assemble]:
        self.doing(f"look at {hosts.server.host} for {campaign}")
        return self.findings, partial(self._ready, workload)

    def _ready(self, workload: Workload, holds: Sequence[Hold]) -> ReadyTestbed:
        self.doing(f"attach to {', '.join(hold.host for hold in holds)}")
        return ReadyTestbed(Target({}), cast("Any", None), lambda: None, Watch(workload.spec))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    new_place = Place(tmp_path / "restore-here")
    yield new_place
    wait_for(lambda: new_place.watches() == [], "the watches' end")


@pytest.fixture
def steps() -> list[str]:
    return []


@pytest.fixture
def printer(place: Place, steps: list[str]) -> Iterator[Printer]:
    file = PrinterFile.model_validate(
        {
            "name": "printers",
            "printer": {"local": {}},
            "restore": {"directory": str(place.directory), "after": "60s"},
        }
    )
    testbed = Printer(file, place.directory.parent, place.directory.parent / "state")

    def doing(what: str) -> None:
        is_held = (place.directory / "lease").exists()
        steps.append(f"{what}, {'' if is_held else 'not '}held")

    testbed.doing = doing
    testbed.claim("campaign-9")
    yield testbed
    testbed.close()


@pytest.mark.slow
def test_hosts_are_inspected_before_they_are_held_and_then_attached_to(
    place: Place, printer: Printer, steps: list[str]
) -> None:
    lines: list[str] = []
    printer.open(WORKLOAD, lines.append)
    assert lines == CONNECTING
    assert steps == [
        "look at localhost for campaign-9, not held",
        "attach to localhost, held",
    ]
    assert (place.directory / "lease" / "owner").read_text().startswith("campaign-9 ")
    assert printer.recover("campaign-9") == []  # its watch does that now
    printer.close()
    assert not (place.directory / "lease").exists()
    assert printer.close() is None


def test_nothing_is_changed_on_hosts_with_a_finding_that_refuses(
    place: Place, printer: Printer
) -> None:
    printer.findings = (
        Finding("localhost", False, "it is slow"),
        Finding("localhost", True, "it is out of paper"),
    )
    message = r"testbed printers must not be used now: localhost: it is out of paper$"
    with pytest.raises(ConflictError, match=message):
        printer.open(WORKLOAD, print)
    assert printer.remarks == ("localhost: it is slow", "localhost: it is out of paper")
    assert not place.directory.exists()


def test_hosts_that_only_others_use_now_may_be_free_later(place: Place, printer: Printer) -> None:
    busy = Finding("localhost", True, "somebody prints", may_pass=True)
    printer.findings = (Finding("localhost", False, "it is slow"), busy)
    with pytest.raises(InUseError, match="printers must not be used now: localhost: somebody"):
        printer.open(WORKLOAD, print)
    printer.findings = (busy, Finding("localhost", True, "it is out of paper"))
    with pytest.raises(ConflictError) as refused:
        printer.open(WORKLOAD, print)
    assert not isinstance(refused.value, InUseError)
    assert not place.directory.exists()


@pytest.mark.slow
def test_hosts_tell_others_of_a_verification(place: Place, printer: Printer) -> None:
    assert isinstance(printer, NamesHolder)
    printer.say_verification()
    printer.open(WORKLOAD, print)
    with pytest.raises(InUseError, match="in use by verification campaign-9"):
        place.take(THEIRS)


@pytest.mark.slow
def test_hosts_that_another_campaign_uses_are_not_attached_to(
    place: Place, printer: Printer, steps: list[str]
) -> None:
    hold = place.take(THEIRS)
    with pytest.raises(ConflictError, match="in use by campaign campaign-2"):
        printer.open(WORKLOAD, print)
    assert steps == ["look at localhost for campaign-9, held"]
    printer.close()
    hold.change(["true"])
    hold.give_back()


def test_what_tells_hosts_apart() -> None:
    node = {"cell": "a", "node": "b"}
    ways = {
        "pc1": {"ssh": {"address": "pc1", "user": "x"}},
        "gate": {"ssh": {"address": "pc1", "netns": node}},
        "node": {"netns": node},
        "here": {"local": {}},
        "again": {"ssh": {"address": "PC1", "user": "y"}},
    }
    reached = [ReachSection.model_validate(way) for way in ways.values()]
    assert identifiers(reached[:4]) == [
        "host pc1",
        "host pc1 from node b of cell a",
        "node b of cell a",
    ]
    assert cells_of(reached) == ["a"]
    check_distinct([*ways][:4], reached[:4])
    with pytest.raises(ValueError, match="pc1 and again are the same host"):
        check_distinct([*ways], reached)
    with pytest.raises(ValueError, match="two hosts have the name 'x'"):
        check_distinct(["x", "x"], reached[:2])
