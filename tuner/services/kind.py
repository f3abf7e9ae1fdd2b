"""What a kind of service is: its parts, and the ways to name a testbed of it in a campaign file.

A new kind is a folder of its own that makes one ``Kind``; the engine asks for nothing else. What
the parts of an open testbed can do is in ``part``, ``target`` and ``testbed``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from search_spaces import Space
from tuner.errors import SpecError
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import Workload
from tuner.model import Value
from tuner.services.counted import Counted
from tuner.services.facts import HostFacts
from tuner.services.lasting import LastingTestbed
from tuner.services.start import Start
from tuner.services.target import Target
from tuner.services.testbed import Testbed

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a campaign measures. ``name``: whatever has it is the same testbed, and used by one
    campaign at a time; empty for one that is the campaign's own. ``label``: a short one for people.
    ``document``: what must not change while a campaign lasts, as JSON.
    """

    name: str
    label: str
    document: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a campaign wants of a testbed. ``spaces``: by part, as the campaign narrows them."""

    spaces: Mapping[str, Space]
    workload: Workload
    references: tuple[ReferencePlan, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What is known of a testbed before a look at it. ``initial``: the settings in effect, by
    qualified name; ``facts``: what its hosts allow.
    """

    initial: Mapping[str, Value]
    facts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with changing a host. ``refuses``: a campaign must not begin."""

    host: str
    refuses: bool
    message: str


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a campaign would meet and do on a testbed. ``name``: of the testbed; ``commands``: each
    that would change something, with its host; ``target``: None where a finding refuses.
    """

    name: str
    findings: Sequence[Finding]
    commands: Sequence[tuple[str, tuple[str, ...]]] = ()
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A testbed file that campaigns may name. ``key``: of the way to name it; ``title``: what it
    calls itself; ``hosts``: how many it has.
    """

    key: str
    title: str
    hosts: int


@dataclass(frozen=True, slots=True)
class Program:
    """How an administrator applies settings to a tuned program. ``where``: where its options go;
    ``then``: what puts them into effect; ``threat``: why an answer with this program need not hold
    for another one, empty where nothing is known.
    """

    where: str
    then: str
    threat: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The facts about the hosts of a testbed file. ``name``: of the testbed; ``lines``: about the
    service, by what they are, under ``heading``; ``commands``: as in a rehearsal.
    """

    name: str
    hosts: Sequence[HostFacts]
    heading: str
    lines: Mapping[str, str]
    findings: Sequence[Finding]
    commands: Sequence[tuple[str, tuple[str, ...]]] = ()

    @property
    def refusal(self) -> str:
        """All reasons why a campaign must not begin; "" when there is none."""
        return "; ".join(f"{f.host}: {f.message}" for f in self.findings if f.refuses)


class Workers(StrEnum):
    """Which workers of a queue can reach a testbed: ``any``; those on the same ``host``, whose
    files it takes; those with the same ``state`` directory there.
    """

    ANY = "any"
    HOST = "host"
    STATE = "state"


class Way(ABC, Generic[S]):
    """One way to name a testbed: a key under ``testbed:`` in a campaign file.

    ``section``: the pydantic type of what stands there, S. ``example``: how that is written, for
    error messages. ``workers``: which can reach it. ``title``: what it is, where a service can
    offer it over HTTP by its key alone. ``several``: the remark on a campaign that uses more than
    one of these at once, empty where they do not disturb each other. ``threat``: why an answer from
    there need not hold elsewhere; ``real``: there are programs that run.
    """

    key: ClassVar[str]
    section: ClassVar[Any]
    example: ClassVar[str]
    workers: ClassVar[Workers]
    title: ClassVar[str] = ""
    several: ClassVar[str] = ""
    threat: ClassVar[str] = ""
    real: ClassVar[bool] = True

    @abstractmethod
    def name(self, section: S) -> str | None:
        """What tells it from others named in this way; None for one that is the campaign's own."""

    @abstractmethod
    def summary(self, section: S) -> str:
        """What it is, in a few words that anybody may read: no directories."""

    @abstractmethod
    def describe(self, section: S) -> str:
        """What a campaign would do there, in a few words."""

    @abstractmethod
    def place(self, section: S, state_directory: Path) -> Place:
        """Where it is. Raises SpecError for a testbed that is not described rightly."""

    @abstractmethod
    def testbed(
        self, section: S, where: str, wish: Wish, state_directory: Path, *, owned: bool
    ) -> Testbed:
        """The testbed, not opened yet. ``where``: the section's key in the file; ``owned``: it was
        brought up by an earlier run of the same campaign. Raises SpecError or TestbedError.
        """

    def resolve(self, section: S, directory: Path) -> S:
        """The section with its relative paths taken from a directory."""
        return section

    def mistakes(self, section: S, where: str, wish: Wish) -> Sequence[str]:
        """Why the section does not suit what is wanted, a sentence each."""
        return ()

    def offer(self, file: Path) -> Offer | None:
        """What is in a testbed file that a section may name; None where sections name no files.
        Raises SpecError for a file that is none.
        """
        return None

    def hosts(self, section: S) -> Sequence[str]:
        """The hosts that it uses, by how they are reached: no two testbeds may share one."""
        return ()

    def preview(self, section: S, state_directory: Path) -> Preview | None:
        """What is known of it before a look at it; None for nothing."""
        return None

    def permit(
        self, section: S, where: str, allow: Collection[str], files: Mapping[str, Path]
    ) -> S:
        """The section of a request over HTTP, if an operator allows it. ``allow``: the keys of what
        may be used; ``files``: the testbed files of the service, by name. Raises SpecError.
        """
        if not self.title or self.key not in allow:
            raise SpecError(f"{where}.{self.key}: not allowed here; see /v1/testbeds")
        return section

    def lasting(
        self,
        section: S,
        where: str,
        wish: Wish,
        state_directory: Path,
        *,
        putting_back: bool = False,
    ) -> LastingTestbed:
        """The testbed, not opened yet, for a configuration that stays. ``putting_back``: only what
        was there before comes back, which nothing must prevent. Raises SpecError where nothing can
        stay, TestbedError.
        """
        raise SpecError(f"{where}.{self.key}: no configuration can stay on a testbed of this kind")

    def rehearse(self, section: S, wish: Wish, state_directory: Path) -> Rehearsal | None:
        """Look at its hosts and work out what a campaign would do, changing nothing; None for a
        testbed that has no hosts yet.
        """
        return None

    def inspect(self, file: Path, state_directory: Path, *, dry_run: bool) -> Inspection:
        """Look at the hosts of a testbed file that ``offer`` knows, changing nothing. ``dry_run``:
        find out what a campaign would change, too. Raises SpecError, TestbedError.
        """
        raise SpecError(f"{file}: hosts of this kind cannot be looked at without a campaign")

    def put_back(self, file: Path, state_directory: Path) -> Iterator[str]:
        """Put the hosts of a testbed file back from the journals on them; a sentence for each part,
        as soon as it is done. Raises SpecError, TestbedError.
        """
        raise SpecError(f"{file}: hosts of this kind keep no journals")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of service. ``parts``: its tuned programs in the order in which they are brought up,
    servers before clients; None for a kind that takes those of all others. ``required``: those of
    which a campaign must name the search space. ``counted``: what its programs count that is worth
    a row. ``starts``: the ways to begin with it, the most common first. ``programs``: by the
    name that search spaces use.
    """

    name: str
    parts: tuple[str, ...] | None
    required: frozenset[str]
    ways: tuple[Way[Any], ...]
    counted: tuple[Counted, ...] = ()
    starts: tuple[Start, ...] = ()
    programs: Mapping[str, Program] = field(default_factory=dict)
