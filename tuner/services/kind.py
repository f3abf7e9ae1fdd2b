"""The interface of a kind of service: its parts, and how campaign files refer to its testbeds.

A new kind is a folder of its own that defines one ``Kind``; the engine needs nothing else. The
interfaces of an open testbed and its parts are in ``part``, ``target`` and ``testbed``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from search_spaces import Space
from tuner.errors import ConflictError, InUseError, SpecError
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import Workload
from tuner.model import Value
from tuner.services.diagnostic import Diagnostic
from tuner.services.facts import HostFacts
from tuner.services.form import Format
from tuner.services.lasting import LastingTestbed
from tuner.services.start import Start
from tuner.services.target import Target
from tuner.services.testbed import Testbed

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class TestbedIdentity:
    """The identity of the testbed of a campaign.

    ``name``: testbeds with the same name are the same testbed, which only one campaign may use at a
    time; empty for a testbed that belongs to the campaign alone. ``label``: a short name for
    people. ``document``: the properties that must not change during a campaign, JSON-serializable.
    ``clients``: its client hosts, sorted, if they may differ while the name is the same.
    """

    name: str
    label: str
    document: Mapping[str, object]
    clients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """A campaign's requirements on a testbed. ``spaces``: by part, narrowed by the campaign."""

    spaces: Mapping[str, Space]
    workload: Workload
    references: tuple[ReferencePlan, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What is known about a testbed without connecting to it.

    ``initial``: the settings in effect, by qualified name; ``facts``: the limits of its hosts.
    """

    initial: Mapping[str, Value]
    facts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason against changing a host. ``refuses``: whether it prevents a campaign; ``may_pass``:
    whether it may cease to be one by itself, so that a campaign that waits for hours waits on.
    """

    host: str
    refuses: bool
    message: str
    may_pass: bool = False


def refusal_of(findings: Sequence[Finding]) -> str:
    """All reasons why a campaign must not start; "" if there are none."""
    return "; ".join(f"{f.host}: {f.message}" for f in findings if f.refuses)


def check_usable(name: str, findings: Sequence[Finding]) -> None:
    """Raise ConflictError if a finding forbids a campaign on the testbed of this name: InUseError
    if that may pass.
    """
    refusing = [finding for finding in findings if finding.refuses]
    if not refusing:
        return
    may_pass = all(finding.may_pass for finding in refusing)
    kind = InUseError if may_pass else ConflictError
    raise kind(f"testbed {name} must not be used now: {refusal_of(refusing)}")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The result of a dry run of a campaign on a testbed.

    ``name``: of the testbed; ``commands``: each command that would change something, with its host;
    ``target``: None if a finding refuses.
    """

    name: str
    findings: Sequence[Finding]
    commands: Sequence[tuple[str, tuple[str, ...]]] = ()
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A testbed file that campaigns may use.

    ``key``: of its type; ``title``: the name given in the file; ``hosts``: the number of hosts.
    """

    key: str
    title: str
    hosts: int


@dataclass(frozen=True, slots=True)
class Program:
    """How an administrator applies settings to a tuned program.

    ``where``: where its options are configured; ``then``: how they are put into effect; ``threat``:
    why results with this program may not carry over to others, empty if no reason is known;
    ``format``: the name of the format that most administrators want for its options, empty if there
    is none; ``lead``: the word before its command line in its configuration file, empty if there is
    none.
    """

    where: str
    then: str
    threat: str = ""
    format: str = ""
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The facts about the hosts of a testbed file.

    ``name``: of the testbed; ``lines``: facts about the service by label, shown under ``heading``;
    ``commands``: see ``Rehearsal``.
    """

    name: str
    hosts: Sequence[HostFacts]
    heading: str
    lines: Mapping[str, str]
    findings: Sequence[Finding]
    commands: Sequence[tuple[str, tuple[str, ...]]] = ()

    @property
    def refusal(self) -> str:
        """See ``refusal_of``."""
        return refusal_of(self.findings)


class Workers(StrEnum):
    """Which workers of a queue can reach a testbed.

    ``any``: all of them; ``host``: those on the same host, since files there are used;
    ``state``: those that also use the same state directory.
    """

    ANY = "any"
    HOST = "host"
    STATE = "state"


class TestbedType(ABC, Generic[S]):
    """A type of testbed, such as a private cell: a key under ``testbed:`` in a campaign file.

    ``section``: the pydantic type S of the value of that key. ``example``: how it is written, for
    error messages. ``workers``: those that can reach the testbed. ``title``: a description, set
    only if the API server can offer it by its key alone. ``several``: a remark for campaigns that
    use more than one such testbed at once, empty if they do not disturb each other. ``threat``: why
    results from there may not carry over; ``real``: whether real programs run there;
    ``restore_command``: the command that restores such a testbed, and what it is for, as a phrase;
    empty if there is none. ``stays``: whether it is there after a campaign, so that its
    recommendation can be applied there.
    """

    key: ClassVar[str]
    section: ClassVar[Any]
    example: ClassVar[str]
    workers: ClassVar[Workers]
    title: ClassVar[str] = ""
    several: ClassVar[str] = ""
    threat: ClassVar[str] = ""
    real: ClassVar[bool] = True
    restore_command: ClassVar[str] = ""
    stays: ClassVar[bool] = False

    @abstractmethod
    def name(self, section: S) -> str | None:
        """Its name, unique for this type; None if the testbed belongs to the campaign alone."""

    @abstractmethod
    def summary(self, section: S) -> str:
        """A short description that is safe to publish: it contains no directories."""

    @abstractmethod
    def describe(self, section: S) -> str:
        """A short description of what a campaign would do there."""

    @abstractmethod
    def identity(self, section: S, state_directory: Path) -> TestbedIdentity:
        """Its identity. Raises SpecError if its description is invalid."""

    @abstractmethod
    def testbed(self, section: S, where: str, needs: Needs, state_directory: Path) -> Testbed:
        """Create the testbed, without opening it. Raises SpecError or TestbedError. ``where``: the
        section's key in the file.
        """

    def resolve(self, section: S, directory: Path) -> S:
        """Resolve relative paths in the section against a directory."""
        return section

    def mistakes(self, section: S, where: str, needs: Needs) -> Sequence[str]:
        """Why the section does not meet the requirements, one sentence per reason."""
        return ()

    def offer(self, file: Path) -> Offer | None:
        """Describe a testbed file; None if sections of this type do not refer to files.

        Raises SpecError if it is not a valid testbed file.
        """
        return None

    def hosts(self, section: S) -> Sequence[str]:
        """Identifiers of the hosts that it uses: no two testbeds may share one."""
        return ()

    def preview(self, section: S, state_directory: Path) -> Preview | None:
        """What is known about it without connecting to it; None if nothing is."""
        return None

    def permit(
        self, section: S, where: str, allow: Collection[str], files: Mapping[str, Path]
    ) -> S:
        """Return the section to use for an API request. Raises SpecError if it is not allowed.

        ``allow``: the keys that the operator allows; ``files``: the testbed files of the API
        server, by name.
        """
        if not self.title or self.key not in allow:
            raise SpecError(f"{where}.{self.key}: not allowed here; see /v1/testbeds")
        return section

    def lasting(
        self,
        section: S,
        where: str,
        needs: Needs,
        state_directory: Path,
        *,
        putting_back: bool = False,
    ) -> LastingTestbed:
        """Create the testbed, without opening it, for a configuration that stays.

        ``putting_back``: the testbed is only restored, which nothing must prevent. Raises SpecError
        if no configuration can stay there, or TestbedError.
        """
        raise SpecError(f"{where}.{self.key}: no configuration can stay on a testbed of this kind")

    def rehearse(self, section: S, needs: Needs, state_directory: Path) -> Rehearsal | None:
        """Inspect its hosts and determine what a campaign would do, without changing anything.

        Returns None for a testbed that has no hosts yet.
        """
        return None

    def inspect(self, file: Path, state_directory: Path, *, dry_run: bool) -> Inspection:
        """Inspect the hosts of a testbed file that ``offer`` accepts, without changing anything.

        ``dry_run``: also determine what a campaign would change. Raises SpecError or TestbedError.
        """
        raise SpecError(f"{file}: hosts of this kind cannot be inspected without a campaign")

    def restore(self, file: Path, state_directory: Path) -> Iterator[str]:
        """Restore the hosts of a testbed file from their journals.

        Yields a sentence for each part as soon as it is done. Raises SpecError or TestbedError.
        """
        raise SpecError(f"{file}: hosts of this kind keep no journals")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of service.

    ``parts``: its parts in start-up order, servers before clients; None for a kind that accepts the
    parts of all other kinds. ``any_part``: whether the files of its testbeds name further parts,
    which a campaign then lists in start-up order; ``TestbedType.mistakes`` reports those that
    a testbed does not have. ``required``: the parts for which a campaign must give a search space.
    ``types``: of testbeds. ``diagnostics``: those of its programs that deserve a row in reports.
    ``starts``: the ways to set up a first campaign, the most common first. ``programs``: by the
    name that search spaces use. ``formats``: for recommended settings, in addition to fstune's own.
    """

    name: str
    parts: tuple[str, ...] | None
    required: frozenset[str]
    types: tuple[TestbedType[Any], ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    starts: tuple[Start, ...] = ()
    programs: Mapping[str, Program] = field(default_factory=dict)
    any_part: bool = False
    formats: tuple[Format, ...] = ()
