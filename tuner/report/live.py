"""The live view of a running campaign on a terminal.

Owns what the view shows and what it omits on small terminals. It redraws itself a few times a
second from the latest state it was given. Text from outside cannot move the cursor or carry markup.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Final, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text

from tuner.model import BASELINE, Event
from tuner.records.standing import DroppedTrial, LiveTrial, Standing
from tuner.report.drawing import SPINNER, Axis, Printable
from tuner.report.standing import how_long, how_many, outlook, where
from tuner.report.styles import FASTER, NAME, QUIET, STRONG, literal, tone
from tuner.text import clean, duration, signed, signed_interval

_REFRESHES_PER_S: Final = 4
_EVENTS: Final = 3
_DROPPED: Final = 3
_WIDEST: Final = 140
# Below these widths (cells) a column is dropped in favour of more important ones.
_WIDTH_FOR_BARS: Final = 72
_WIDTH_FOR_BOTH: Final = 108
_LEAST_FOR_CHANGES: Final = 8
#: Wider than any terminal: the next drawing is the first on an empty screen.
_ANEW: Final = 1_000_000
_HIDE_CURSOR, _SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


class LiveProgress:
    """Shows phase and block, the trials with intervals, the activity, elapsed and expected time.

    ``clock``: returns seconds from an arbitrary origin, monotonic.
    """

    def __init__(
        self,
        console: Console,
        *,
        title: str = "",
        clock: Callable[[], float] = time.monotonic,
        auto_refresh: bool = True,
    ) -> None:
        self._clock = clock
        # Reentrant: a signal handler may call `notice` in a thread that already holds the lock.
        self._lock = threading.RLock()
        self._title = title
        self._events: deque[Event] = deque(maxlen=_EVENTS)
        self._standing: tuple[Standing, float] | None = None
        self._doing: tuple[str, float] = ("", 0.0)
        self._notice = ""
        self._over = False
        self._last_width = 0
        self._console = console
        self._handled: list[signal.Signals] = []
        self._live = Live(
            self,
            console=console,
            refresh_per_second=_REFRESHES_PER_S,
            auto_refresh=auto_refresh,
            vertical_overflow="crop",
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        if threading.current_thread() is threading.main_thread():
            # A shell without job control may have them ignored.
            keys = (signal.SIGTSTP, signal.SIGQUIT)
            self._handled = [key for key in keys if signal.getsignal(key) is signal.SIG_DFL]
            for number in self._handled:
                signal.signal(number, self._leave)
        return self

    def __exit__(self, *error: object) -> None:
        self._over = True
        for number in self._handled:
            signal.signal(number, signal.SIG_DFL)
        with suppress(OSError):  # a terminal that is gone needs no cursor restored
            self._live.stop()

    def _leave(self, number: int, frame: FrameType | None) -> None:
        r"""Stop on Ctrl-Z, end on Ctrl-\, with the cursor shown. Once continued, draw on an empty
        screen: the shell has written below the last drawing.

        Writes to the file descriptor directly: the stream may be in use when the signal arrives.
        """
        terminal = self._console.file.fileno()
        with suppress(OSError):
            os.write(terminal, _SHOW_CURSOR)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, self._leave)
        self._last_width = _ANEW
        with suppress(OSError):
            os.write(terminal, _HIDE_CURSOR)

    def say(self, event: Event) -> None:
        """Add the event to the latest ones shown."""
        with self._lock:
            self._events.append(event)

    def doing(self, what: str) -> None:
        """Show this as the current activity, with the time elapsed since the call."""
        with self._lock:
            self._doing = (what, self._clock())

    def notice(self, message: str) -> None:
        """Show this message until the view ends. Signal handlers may call it."""
        with self._lock:
            self._notice = message

    def standing(self, standing: Standing) -> None:
        """Show this standing; its elapsed and remaining times keep counting from now."""
        with self._lock:
            self._standing = (standing, self._clock())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, _WIDEST)
        if options.max_width < self._last_width:
            # The terminal has rewrapped the last drawing, or a shell has written below it, so where
            # it began is unknown.
            yield Control(ControlType.CLEAR, ControlType.HOME)
        self._last_width = options.max_width
        frame = self._frame(width, options.size.height)
        yield from console.render(Printable(frame), options.update(width=width, height=None))

    def _frame(self, width: int, height: int) -> RenderableType:
        with self._lock:
            latest, doing, events = self._standing, self._doing, tuple(self._events)
            notice = self._notice
        now = self._clock()
        foot = [] if self._over else [_doing(*doing, now)]
        if foot and notice:
            foot.insert(0, Text(clean(notice), style=STRONG))
        if latest is None:
            return Group(_line(Text(clean(self._title), style=STRONG)), *foot)
        standing, set_at_s = latest
        head = _head(self._title, self._at(standing, now - set_at_s), width)
        # Reserve two empty lines, the table's heading, and the line of the cursor.
        lines = len(foot) + (len(notice) // width if notice else 0)
        room = max(1, height - len(head) - lines - 4)
        rows = standing.rows[:room]
        if len(rows) < len(standing.rows):
            rows = rows[:-1]
        room -= len(rows)
        body: list[RenderableType] = ["", live_table(rows, width)] if rows else []
        if hidden := len(standing.rows) - len(rows):
            more = (
                f"and {hidden} more" if rows else f"{hidden} trials; a taller terminal shows them"
            )
            body.append(_line(Text(more, style=QUIET)))
        notes = [_dropped(d) for d in standing.dropped[:_DROPPED]]
        notes += [_event(e) for e in events]
        if notes and room > 1:
            body += ["", *notes[: room - 1]]
        body += ["", *foot] if foot else []
        return Group(*head, *body)

    def _at(self, standing: Standing, since_s: float) -> Standing:
        """Advance the standing's clocks by `since_s`; no remaining time once the view has ended."""
        left_s = standing.expected_left_s
        return replace(
            standing,
            elapsed_s=standing.elapsed_s + since_s,
            expected_left_s=None if self._over or left_s is None else max(0.0, left_s - since_s),
        )


def _line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _head(title: str, standing: Standing, width: int) -> list[RenderableType]:
    count = how_many(standing)
    bar = Table.grid(padding=(0, 1, 0, 0))
    bar.add_column(no_wrap=True)
    bar.add_column(no_wrap=True, overflow="ellipsis")
    if standing.budget is None:
        bar.add_row(count)
    else:
        complete = min(standing.measurements, standing.budget)
        cells = max(6, min(60, width - len(count) - 2))
        bar.add_row(
            ProgressBar(max(1, standing.budget), complete, width=cells, complete_style=FASTER),
            count,
        )
    place = where(standing)
    name = Text(clean(title), style=STRONG)
    if title:
        # The title is shortened, not what changes.
        name.truncate(max(0, width - len(place) - 2), overflow="ellipsis")
        name.append("  ")
    return [
        _line(Text.assemble(name, place)),
        bar,
        _line(Text(how_long(standing.elapsed_s, standing.expected_left_s), style=QUIET)),
        *([_line(Text(clean(hope)))] if (hope := outlook(standing)) else []),
    ]


def live_table(rows: tuple[LiveTrial, ...], width: int) -> Table:
    """Render the trials of the round for a terminal of `width` cells, one line each."""
    bars = width >= _WIDTH_FOR_BARS
    numbers = not bars or width >= _WIDTH_FOR_BOTH
    axis = Axis.around([r.estimate for r in rows if r.estimate], 21 if numbers else 19)
    digits = max((len(str(row.blocks)) for row in rows), default=1)
    columns: list[tuple[RenderableType, int, Callable[[LiveTrial], RenderableType]]] = [
        (Text("Trial", justify="right"), 5, _number),
        (
            Text("n", justify="right"),
            max(2, digits),
            lambda row: Text(str(row.blocks), justify="right"),
        ),
    ]
    if bars:
        columns.append(("State", 9, _state))
    columns.append((Text("Faster by", justify="right"), 9, _estimate))
    if numbers:
        columns.append(("95% interval", 19, _interval))
    if bars:
        columns.append((axis.heading(), axis.width, lambda row: axis.bar(row.estimate)))
    rest = width - sum(cells + 2 for _, cells, _ in columns)
    if rest >= _LEAST_FOR_CHANGES:
        columns.append(("Changes", rest, _changes))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=QUIET)
    for heading, cells, _ in columns:
        table.add_column(heading, width=cells, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(cell(row) for _, _, cell in columns))
    return table


def _number(row: LiveTrial) -> Text:
    return Text(str(row.trial), style=NAME, justify="right")


def _state(row: LiveTrial) -> Text:
    return literal(row.state, STRONG if row.state == "incumbent" else "")


def _estimate(row: LiveTrial) -> Text:
    e = row.estimate
    return Text(signed(e.ratio), style=tone(e.lower, e.upper), justify="right") if e else Text()


def _interval(row: LiveTrial) -> Text:
    e = row.estimate
    return Text(signed_interval(e.lower, e.upper)) if e else Text()


def _changes(row: LiveTrial) -> Text:
    text = literal(row.changes)
    if row.trial != BASELINE and row.origin:
        text.append(f"  ({clean(row.origin)})", style=QUIET)
    return _line(text)


def _dropped(dropped: DroppedTrial) -> Text:
    return _line(Text.assemble((f"dropped trial {dropped.trial}: ", QUIET), clean(dropped.reason)))


def _event(event: Event) -> Text:
    return _line(Text.assemble((f"{event.at:%H:%M:%S} ", QUIET), clean(event.message)))


def _doing(what: str, since: float, now: float) -> Text:
    turn = SPINNER[int(now * _REFRESHES_PER_S) % len(SPINNER)]
    if not what:
        return _line(Text(turn, style=NAME))
    long = f"  {duration(now - since)}" if now - since >= 2.0 else ""
    return _line(Text.assemble((f"{turn} ", NAME), clean(what), (long, QUIET)))
