"""The interface of a tuned part, and the check that requested settings are in effect.

A part can read its settings, change them with as little disruption as possible, verify what is in
effect, and restore the original settings. It does not decide which settings to try.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from search_spaces import Expected, Space
from tuner.errors import ConfigurationError
from tuner.model import Value


class NotInEffect(ConfigurationError):
    """A program shows a value other than the requested one; this may be temporary."""


class Part(Protocol):
    """One tuned part. Parameters go by their own names, without the part's name in front."""

    @property
    def space(self) -> Space:
        """The search space of its parameters."""
        ...

    @property
    def facts(self) -> Mapping[str, int]:
        """The limits of its host, by the names that the space uses."""
        ...

    @property
    def initial(self) -> Mapping[str, Value]:
        """The parameters that were set originally."""
        ...

    @property
    def identity(self) -> str:
        """Program and version, for provenance: the best settings may differ between versions."""
        ...

    def apply(self, values: Mapping[str, Value], *, restart: bool = False) -> str | None:
        """Put these values into effect.

        ``restart``: whatever a change would restart is restarted even if they are in effect.
        Returns what had to be done, or None if they were in effect already. Raises
        ConfigurationError when the program does not start with them. For programs that it starts
        and that go on, see Connector.change.
        """
        ...

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values actually in effect, which may be clamped.

        Raises ConfigurationError for any other difference: its subclass NotInEffect if the
        difference may be temporary.
        """
        ...

    def incarnation(self) -> str:
        """Identify the current run of the program: a different value means a restart."""
        ...

    def restore(self) -> str:
        """Restore the initial settings; returns a sentence about it.

        Does nothing harmful when nothing was changed.
        """
        ...


def verify_effective(
    space: Space,
    values: Mapping[str, Value],
    facts: Mapping[str, int],
    answers: Mapping[str, Value],
) -> dict[str, Value]:
    """Compare what a program shows with what it should show for ``values``.

    ``answers``: what the program shows, by read-back key (see the space file). Returns the values
    in effect by parameter; a value that the program does not show is assumed to be as requested. A
    clamp declared in the space is accepted, and the clamped value is returned. Raises NotInEffect,
    naming the first parameter that differs.
    """
    effective: dict[str, Value] = dict(values)
    for name, expected in space.effective(values, facts).items():
        actual = answers.get(expected.key)
        if actual is not None and actual != expected.reading:
            raise NotInEffect(_difference(space, name, expected, actual))
        if expected.clamped:
            effective[name] = expected.value
    return effective


def _difference(space: Space, name: str, expected: Expected, actual: Value) -> str:
    setting = f"{space.part}.{name} = {expected.requested}"
    shows = f"{expected.key} should show {expected.reading}, it shows {actual}"
    return f"{setting} is not in effect: {shows}"
