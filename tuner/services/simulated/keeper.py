"""Persistent state of a simulated testbed between runs: a file, like the disks of real hosts.

The file is created when a configuration is applied to stay. Campaigns restore their changes and
create none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydantic import Field

from tuner.documents import Section
from tuner.errors import TestbedError
from tuner.model import Value
from tuner.services.lasting import JournalState
from tuner.services.simulated.document import SimulatedSection

Settings = dict[str, Value]


class _Document(Section):
    """The content of the file.

    The settings in force and the open journals, by part; and the kept journals, by the name of
    the application, then by part.
    """

    settings: dict[str, Settings] = Field(default_factory=dict)
    open: dict[str, Settings] = Field(default_factory=dict)
    kept: dict[str, dict[str, Settings]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Keeper:
    """The file of one testbed. Methods raise TestbedError if it cannot be read or written."""

    file: Path

    @classmethod
    def of(cls, section: SimulatedSection, state_directory: Path) -> Keeper:
        """The keeper of a section, identified by its name, or by its content if it has none."""
        identities = [section.name] if section.name else [_text(section.identity())]
        if not section.name:
            # Some versions used all keys. What was applied with them can still be rolled back.
            identities.append(_text(section.model_dump(mode="json")))
        names = [sha256(identity.encode()).hexdigest()[:32] for identity in identities]
        files = [state_directory / "simulated" / f"{name}.json" for name in names]
        return cls(next(filter(os.path.exists, files), files[0]))

    def initial(self, otherwise: Mapping[str, Value]) -> dict[str, Value]:
        """Return the settings at the start of a run, by qualified name.

        These are the settings in force, or those from before an interrupted change.
        """
        document = self._read()
        settings = dict(otherwise)
        for part, values in (document.settings | document.open).items():
            settings = {n: v for n, v in settings.items() if n.partition(".")[0] != part}
            settings |= {f"{part}.{name}": value for name, value in values.items()}
        return settings

    def in_force(self, part: str, otherwise: Mapping[str, Value]) -> Settings:
        """Return the current settings of one part."""
        return self._read().settings.get(part, dict(otherwise))

    def change(
        self, part: str, initial: Mapping[str, Value], settings: Mapping[str, Value]
    ) -> None:
        """Record the new settings, and, before the first change, the initial ones."""
        document = self._read()
        document.open.setdefault(part, dict(initial))
        document.settings[part] = dict(settings)
        self._write(document)

    def journal(self, part: str, name: str) -> JournalState:
        """See Journal.state."""
        document = self._read()
        if part in document.open:
            return JournalState.OPEN
        is_kept = part in document.kept.get(name, {})
        return JournalState.KEPT if is_kept else JournalState.NONE

    def keep(self, part: str, name: str) -> None:
        """See Journal.keep."""
        document = self._read()
        if part in document.open:
            document.kept.setdefault(name, {})[part] = document.open.pop(part)
            self._write(document)

    def reopen(self, part: str, name: str) -> None:
        """See Journal.reopen."""
        document = self._read()
        if part not in document.open and part in document.kept.get(name, {}):
            document.open[part] = document.kept[name].pop(part)
            self._write(document)

    def kept_names(self) -> set[str]:
        """See journal.kept_names."""
        return {name for name, parts in self._read().kept.items() if parts}

    def restore(self, part: str) -> None:
        """Restore the initial settings; does nothing if nothing was changed."""
        document = self._read()
        if part in document.open:
            document.settings[part] = document.open.pop(part)
            self._write(document)

    def _read(self) -> _Document:
        try:
            return _Document.model_validate_json(self.file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return _Document()
        except (OSError, ValueError) as problem:
            raise TestbedError(f"{self.file}: cannot be read: {problem}") from problem

    def _write(self, document: _Document) -> None:
        new = self.file.with_suffix(".new")
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.write_text(document.model_dump_json())
            new.replace(self.file)
        except OSError as problem:
            raise TestbedError(f"{self.file}: cannot be written: {problem}") from problem


def _text(document: dict[str, object]) -> str:
    return json.dumps(document, sort_keys=True)
