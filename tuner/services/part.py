"""A part of a file service that is tuned: what every one of them can do, and the check that it
obeyed.

A part knows how to read its own settings, change them with as little disturbance as possible, prove
what is in effect, and put back what it found. It decides nothing about which settings to try.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from search_spaces import Expected, Space
from tuner.errors import ConfigurationError
from tuner.model import Value


class NotInEffect(ConfigurationError):
    """A program shows another value than it was given; it may only not have got to it yet."""


class Part(Protocol):
    """One tuned program. Parameters go by their own names, without the component in front."""

    @property
    def space(self) -> Space:
        """The parameters that it takes."""
        ...

    @property
    def facts(self) -> Mapping[str, int]:
        """What its host allows, by the names that the space uses."""
        ...

    @property
    def initial(self) -> Mapping[str, Value]:
        """The parameters that were set when it was first looked at."""
        ...

    @property
    def identity(self) -> str:
        """Program and version, for provenance: settings that win on one need not on another."""
        ...

    def apply(self, values: Mapping[str, Value]) -> str | None:
        """Bring these values into effect; returns what had to be done, None if they were already.

        Raises ConfigurationError when the program does not start with them.
        """
        ...

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values really in effect, clamps included. Raises ConfigurationError on any other
        difference, the kind NotInEffect when a later look may find none.
        """
        ...

    def incarnation(self) -> str:
        """Tells one life of the program from the next: another answer means that it was
        restarted.
        """
        ...

    def restore(self) -> str:
        """Put back the initial settings; returns a sentence about it. Harmless when nothing was
        changed.
        """
        ...


def verify_effective(
    space: Space,
    values: Mapping[str, Value],
    facts: Mapping[str, int],
    answers: Mapping[str, Value],
) -> dict[str, Value]:
    """Compare what a program shows with what it should show for ``values``.

    ``answers``: by read-back key (see the space file). Returns the values in effect by parameter;
    those that the program does not show count as requested. Raises NotInEffect naming the first
    that differs; a clamp that the space declares is no difference, but the value in effect is
    the clamped one.
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
    setting = f"{space.component}.{name} = {expected.requested}"
    shows = f"{expected.key} should show {expected.reading}, it shows {actual}"
    return f"{setting} is not in effect: {shows}"
