"""Parts and testbeds for applications: configurations that stay.

While a configuration is being applied, each host has an open journal, from which it restores itself
if it loses contact with fstune. To make the configuration stay, every journal is closed in its
favour and kept under the name of the application, for a rollback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from tuner.errors import TestbedError
from tuner.services.part import Part
from tuner.services.target import Target
from tuner.services.testbed import Testbed


class JournalState(StrEnum):
    """State of a journal on a host.

    ``open``: the host restores itself from it; ``kept``: it was closed in favour of a
    configuration; ``none``: there is none: nothing was changed, it was restored, or it is lost.
    """

    OPEN = "open"
    KEPT = "kept"
    NONE = "none"


@runtime_checkable
class LastingPart(Part, Protocol):
    """A part whose configuration can stay. ``name`` is that of an application."""

    @property
    def how_changed(self) -> str:
        """What a change of its configuration means for what runs; a phrase after its name."""
        ...

    @property
    def outlives_restart(self) -> bool:
        """Whether a configuration in force survives a restart of its host."""
        ...

    @property
    def where_kept(self) -> str:
        """What keeps a configuration in force, or what must be done to keep it; a phrase."""
        ...

    def journals(self, name: str) -> frozenset[JournalState]:
        """The set of states of this part's journals on all of its hosts."""
        ...

    def keep(self, name: str) -> None:
        """Close the open journals in favour of what is in effect. Idempotent.

        Raises TestbedError.
        """
        ...

    def reopen(self, name: str) -> None:
        """Open the kept journals, so that ``restore`` restores what was in effect before.

        Raises TestbedError.
        """
        ...

    def changed_since(self, name: str) -> tuple[str, ...]:
        """What somebody else has changed since the application, as far as ``restore`` would replace
        it and ``initial`` does not show it: a sentence each.

        Raises TestbedError.
        """
        ...


class LastingTestbed(Testbed, Protocol):
    """A testbed that is opened for a configuration that stays; it is never brought up for it."""

    @property
    def remarks(self) -> Sequence[str]:
        """Problems that do not prevent changing it; available once it is open."""
        ...

    def kept_names(self) -> Mapping[str, str]:
        """The names of applications under which journals are kept, each with a host that has one;
        available once it is open. Raises TestbedError.
        """
        ...


def lasting_parts(target: Target) -> dict[str, LastingPart]:
    """The parts by name. Raises TestbedError if the configuration of one cannot stay."""
    parts = {name: part for name, part in target.parts.items() if isinstance(part, LastingPart)}
    if missing := target.parts.keys() - parts.keys():
        raise TestbedError(f"a configuration of {min(missing)} cannot stay: fstune cannot apply it")
    return parts
