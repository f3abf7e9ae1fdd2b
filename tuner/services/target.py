"""The target: all tuned parts together, one configuration at a time.

Responsible for the order in which parts change, and for verifying what is in effect. Only parts
whose settings change are restarted, unless more is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from search_spaces import Risk
from tuner.errors import TunerError
from tuner.model import Configuration, Value
from tuner.services.part import NotInEffect, Part

#: A value may appear with a short delay (threads busy with a first call).
_READ_BACK_TRIES = 4
_READ_BACK_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class Applied:
    """A configuration in effect. ``actions``: what had to be done (``fileserver restart``)."""

    effective: Configuration
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """All parts of a testbed.

    ``parts``: by name, in start-up order: servers before clients. ``before_restore``: called
    before anything is restored. ``follows``: maps a part to the part that it depends on: when the
    latter changes, the former must be applied again.
    """

    parts: Mapping[str, Part]
    before_restore: Callable[[], None] = lambda: None
    follows: Mapping[str, str] = field(default_factory=dict)

    @property
    def baseline(self) -> Configuration:
        """The original configuration."""
        values = {
            f"{part_name}.{name}": value
            for part_name, part in self.parts.items()
            for name, value in part.initial.items()
        }
        return Configuration.of(values)

    @property
    def identity(self) -> str:
        """Programs and versions, for provenance."""
        return ", ".join(dict.fromkeys(part.identity for part in self.parts.values()))

    def risks(self, configuration: Configuration) -> dict[str, Risk]:
        """What each setting of a configuration can harm, by qualified name; also a setting as
        found that it leaves unset, if that changes the value in effect.
        """
        harms: dict[str, Risk] = {}
        for part_name, part in self.parts.items():
            values = configuration.part(part_name)
            for name, value in values.items():
                harms[f"{part_name}.{name}"] = part.space[name].risk_of(value)
            before = part.space.in_effect(part.initial, part.facts)
            now = part.space.in_effect(values, part.facts)
            for name in [name for name in part.initial if name not in values]:
                if name not in now:
                    # Without a fixed default, nobody knows what is in effect: it may do harm.
                    harms[f"{part_name}.{name}"] = part.space[name].risk
                elif now[name] != before.get(name):
                    harms[f"{part_name}.{name}"] = part.space[name].risk_of(now[name])
        return harms

    def flags(self, configuration: Configuration) -> dict[str, tuple[str, ...]]:
        """The command-line options for a configuration, by part."""
        return {
            part_name: tuple(part.space.render(configuration.part(part_name)))
            for part_name, part in self.parts.items()
        }

    def apply(
        self,
        configuration: Configuration,
        doing: Callable[[str], None],
        restarts: Collection[str] = (),
    ) -> Applied:
        """Put a configuration into effect and verify it. ``doing`` is called with each step.

        ``restarts``: the parts to restart, with those that depend on them, even if nothing changes.
        Raises ConfigurationError when a program does not start with it, or shows other values than
        requested. What is in effect after that is undefined until the next ``apply`` or
        ``restore``.
        """
        actions: list[str] = []
        for part_name, part in self.parts.items():
            doing(f"setting {part_name}")
            restart = part_name in restarts or self.follows.get(part_name) in restarts
            action = part.apply(configuration.part(part_name), restart=restart)
            if action is not None:
                actions.append(f"{part_name} {action}")
        return Applied(self.read_back(configuration, doing), tuple(actions))

    def read_back(
        self, configuration: Configuration, doing: Callable[[str], None]
    ) -> Configuration:
        """Return the values in effect as shown by the programs, which may be clamped.

        Raises ConfigurationError when they differ from the configuration.
        """
        effective: dict[str, Value] = {}
        for part_name, part in self.parts.items():
            doing(f"reading back {part_name}")
            for name, value in read_back(part, configuration.part(part_name)).items():
                effective[f"{part_name}.{name}"] = value
        return Configuration.of(effective)

    def incarnations(self) -> dict[str, str]:
        """The current run of each program, by part; see ``Part.incarnation``."""
        return {part_name: part.incarnation() for part_name, part in self.parts.items()}

    def restore(self, doing: Callable[[str], None]) -> list[str]:
        """Restore every part; returns a sentence for each.

        If a part fails, the others are still restored; then the first failure is raised.
        """
        self.before_restore()
        messages: list[str] = []
        failure: TunerError | None = None
        for part_name, part in self.parts.items():
            doing(f"restoring {part_name}")
            try:
                messages.append(part.restore())
            except TunerError as problem:
                failure = failure or problem  # the other parts must still be restored
        if failure is not None:
            raise failure
        return messages


def read_back(part: Part, values: Mapping[str, Value]) -> dict[str, Value]:
    """Call ``Part.read_back``, with a few retries while the values are not in effect yet."""
    for _ in range(_READ_BACK_TRIES - 1):
        try:
            return part.read_back(values)
        except NotInEffect:
            time.sleep(_READ_BACK_PAUSE_S)
    return part.read_back(values)
