"""Show a running campaign: plain lines for logs and pipes, a live view on terminals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, Self

from rich.console import Console

from tuner.model import BlockKind, Event
from tuner.records.standing import Observer, Standing
from tuner.report.drawing import encodable
from tuner.report.live import LiveProgress
from tuner.report.standing import how_long, how_many, outlook, where
from tuner.text import clean, moment


class Progress(Observer, Protocol):
    """An observer that is a context manager; leaving it restores the terminal."""

    def __enter__(self) -> Self:
        """Start showing progress."""

    def __exit__(self, *error: object) -> None:
        """Show the last standing and stop."""


def progress_for(console: Console, *, title: str = "", quiet: bool = False) -> Progress:
    """Return the observer that suits a console.

    A live view on a terminal, otherwise one plain line per event; with ``quiet``, nothing is shown.
    """
    if quiet:
        return NoProgress()
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveProgress(console, title=title)
    return PlainProgress(console)


class _Stateless:
    """A progress without set-up or clean-up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class NoProgress(_Stateless):
    """Shows nothing."""

    def say(self, event: Event) -> None:
        """Do nothing."""

    def doing(self, what: str) -> None:
        """Do nothing."""

    def standing(self, standing: Standing) -> None:
        """Do nothing."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class PlainProgress(_Stateless):
    """Writes one line per event and one per block, each with its UTC time, unbuffered.

    The current activity is not written: a log contains only what happened.
    """

    def __init__(self, console: Console, *, now: Callable[[], datetime] = _utc_now) -> None:
        self._console = console
        self._now = now
        self._last_block: tuple[BlockKind, int] | None = None
        self._closed = False

    def say(self, event: Event) -> None:
        """Write the event's message."""
        self._line(event.at, event.message)

    def doing(self, what: str) -> None:
        """Write nothing."""

    def standing(self, standing: Standing) -> None:
        """Write where the campaign stands, once per block."""
        if (standing.kind, standing.block) == self._last_block:
            return
        self._last_block = (standing.kind, standing.block)
        lines = [
            where(standing),
            how_many(standing),
            how_long(standing.elapsed_s, standing.expected_left_s),
        ]
        if hope := outlook(standing):
            lines.append(hope)
        self._line(self._now(), "; ".join(lines))

    def _line(self, at: datetime, text: str) -> None:
        if self._closed:
            return
        line = encodable(f"{moment(at)} {clean(text)}\n", self._console.encoding)
        try:
            # Not console.print, which wraps lines and exits the program when a pipe is closed.
            self._console.file.write(line)
            self._console.file.flush()
        except (OSError, ValueError):
            self._closed = True
