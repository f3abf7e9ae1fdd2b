"""Configurations that stay: the parts and testbeds that an application needs.

While a configuration is brought into force, each host has an open journal and puts itself back by
it when it hears nothing any more. A configuration stays when every journal is closed in its favour:
it is then kept under the name of the application, for a rollback.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from tuner.errors import TestbedError
from tuner.services.part import Part
from tuner.services.target import Target
from tuner.services.testbed import Testbed


class JournalState(StrEnum):
    """What is on a host of a journal. ``open``: the host goes back by it; ``kept``: it was closed
    in favour of a configuration; ``none``: neither, so that what it recorded is in effect.
    """

    OPEN = "open"
    KEPT = "kept"
    NONE = "none"


@runtime_checkable
class LastingPart(Part, Protocol):
    """A part whose configuration can stay. ``name``: of an application, a word."""

    @property
    def outlives_restart(self) -> bool:
        """Whether a configuration in force comes back when its host restarts."""
        ...

    @property
    def where_kept(self) -> str:
        """What keeps a configuration in force, or what has to be done for it, as a phrase."""
        ...

    def journals(self, name: str) -> frozenset[JournalState]:
        """The states of the journals of this part, on all of its hosts."""
        ...

    def keep(self, name: str) -> None:
        """Close the open journals in favour of what is in effect. Harmless when they are. Raises
        TestbedError.
        """
        ...

    def reopen(self, name: str) -> None:
        """Open the kept journals, so that ``restore`` puts back what was in effect before. Raises
        TestbedError.
        """
        ...


class LastingTestbed(Testbed, Protocol):
    """A testbed that is opened for a configuration that stays: it is never brought up for that."""

    @property
    def remarks(self) -> Sequence[str]:
        """What is a problem for changing it without forbidding it, once it is open."""
        ...


def lasting_parts(target: Target) -> dict[str, LastingPart]:
    """The parts by component. Raises TestbedError when a configuration of one cannot stay."""
    parts = {name: part for name, part in target.parts.items() if isinstance(part, LastingPart)}
    if missing := target.parts.keys() - parts.keys():
        raise TestbedError(f"a configuration of {min(missing)} cannot stay: fstune cannot apply it")
    return parts
