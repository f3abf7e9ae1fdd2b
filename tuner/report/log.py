"""Log a running campaign: one line per event, for programs (JSON) or for people.

Every line names its campaign and, where they apply, the block and trial. Warnings of libraries are
written to the same log.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Any, Self, TextIO

from tuner.model import Event
from tuner.records.standing import Standing
from tuner.states import EventKind
from tuner.text import clean

#: Kinds of events that are logged as warnings.
_WARNINGS = frozenset(
    {
        EventKind.BLOCK_VOID,
        EventKind.FAILED,
        EventKind.DIAGNOSTICS,
        EventKind.GUARD,
        EventKind.LEFTOVERS,
        EventKind.PILOT_WARNING,
        EventKind.REFERENCE_FAILED,
        EventKind.RESTORE_FAILED,
        EventKind.TRIAL_FAILED,
    }
)

#: Fields that any line may have; event data of the same name get a trailing underscore.
_OWN = frozenset({"campaign", "event", "kind", "level", "message", "number", "timestamp"})


class LogForm(StrEnum):
    """How a log is written."""

    JSON = "json"
    CONSOLE = "console"


def lines(stream: TextIO, form: LogForm, **about: object) -> Any:
    """Return a logger that writes one line per event; ``about`` is added to every line."""
    # Imported here because few commands write a log and the import is slow.
    import structlog

    render: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if form is LogForm.JSON
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    now = structlog.processors.TimeStamper(fmt="iso", utc=True)

    def in_time(logger: object, name: str, fields: Any) -> Any:
        """Put the timestamp first; use the current time if the event has none."""
        if "timestamp" not in fields:
            fields = now(logger, name, fields)
        return {"timestamp": fields.pop("timestamp"), **fields}

    processors = [structlog.processors.add_log_level, in_time, render]
    logger = structlog.WriteLogger(stream)
    return structlog.wrap_logger(logger, processors, structlog.BoundLogger).bind(**about)


class LogProgress(logging.Handler):
    """An observer that writes events, and this process's logged warnings, to a stream.

    Falls silent once the stream can no longer be written to.
    """

    def __init__(self, stream: TextIO, form: LogForm, campaign: str) -> None:
        super().__init__(logging.WARNING)
        self._closed = False
        self._log = lines(stream, form, campaign=campaign)

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger().removeHandler(self)

    def say(self, event: Event) -> None:
        """Write an event: its kind, its message, and its data as separate fields."""
        level = "warning" if event.kind in _WARNINGS else "info"
        about = {f"{n}_" if n in _OWN else n: _field(v) for n, v in event.data.items()}
        own = {"message": clean(event.message), "number": event.number}
        self._write(level, event.kind, **about, **own, timestamp=event.at.isoformat())

    def doing(self, what: str) -> None:
        """Write nothing: the log contains only events."""

    def standing(self, standing: Standing) -> None:
        """Write nothing: the standing can be derived from the events."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record logged by a library."""
        message = clean(record.getMessage())
        self._write(record.levelname.lower(), "log", logger=record.name, message=message)

    def _write(self, level: str, kind: str, **fields: object) -> None:
        if self._closed:
            return
        try:
            getattr(self._log, level)(kind, **fields)
        except (OSError, ValueError):
            self._closed = True


def _field(value: object) -> object:
    return clean(value) if isinstance(value, str) else value
