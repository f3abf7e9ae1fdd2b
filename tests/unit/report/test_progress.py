"""Progress: plain lines for pipes, a live view for terminals."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from datetime import datetime

import pytest
from rich.console import Console

from tests.unit.report.samples import AT, BETTER, STANDING, WIDTHS, Screen, event
from tuner.model import BlockKind
from tuner.records.estimate import Estimate
from tuner.records.standing import Candidate
from tuner.report.live import LiveProgress
from tuner.report.progress import PlainProgress, progress_for
from tuner.report.standing import how_long, where

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def at() -> datetime:
    return AT


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def drawing(screen: Screen, live: LiveProgress) -> list[str]:
    """Draw the live view once and return its lines."""
    before = len(screen.lines)
    screen.console.print(live)
    return screen.lines[before:]


def live_on(screen: Screen, clock: Clock | None = None, title: str = "") -> LiveProgress:
    return LiveProgress(screen.console, title=title, clock=clock or Clock(), auto_refresh=False)


def test_a_terminal_gets_a_live_view_and_anything_else_lines() -> None:
    assert isinstance(progress_for(Screen().console), LiveProgress)
    assert isinstance(progress_for(Screen(terminal=False).console), PlainProgress)
    dumb = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    assert isinstance(progress_for(dumb), PlainProgress)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "search, block 7"),
        ({"kind": BlockKind.CERTIFY}, "certification, block 7"),
    ],
)
def test_where_a_campaign_stands(change: dict[str, BlockKind], words: str) -> None:
    assert where(replace(STANDING, **change)) == words  # type: ignore[arg-type]


def test_how_long() -> None:
    assert how_long(725.0, None) == "12 min 05 s elapsed"
    assert how_long(725.0, 60.0) == "12 min 05 s elapsed, about 1 min 00 s left"
    assert how_long(725.0, 0.0) == "12 min 05 s elapsed, nearly done"


def test_plain_is_one_line_per_event_whatever_the_event() -> None:
    screen = Screen(20, terminal=False)
    with PlainProgress(screen.console, now=at) as plain:
        plain.say(event("a [red]b\x1b[2J\nc " + "long " * 20))
        plain.doing("restarting fileserver")
    assert len(screen.lines) == 1
    assert screen.lines[0].startswith("2026-03-01T12:00:05Z a [red]b [2J c long")
    assert screen.lines[0].removesuffix("\n").isprintable()


def test_plain_shows_the_standing_once_per_block() -> None:
    screen = Screen(terminal=False)
    plain = PlainProgress(screen.console, now=at)
    plain.standing(STANDING)
    plain.standing(replace(STANDING, measurements=85))
    plain.standing(replace(STANDING, block=8, rows=()))
    plain.standing(replace(STANDING, block=8, rows=(), kind=BlockKind.CERTIFY))
    assert screen.lines == [
        "2026-03-01T12:00:05Z search, block 7; 84/400 measurements; "
        "42 min 10 s elapsed, about 1 h 20 min left",
        "2026-03-01T12:00:05Z search, block 8; 84/400 measurements; "
        "42 min 10 s elapsed, about 1 h 20 min left",
        "2026-03-01T12:00:05Z certification, block 8; 84/400 measurements; "
        "42 min 10 s elapsed, about 1 h 20 min left",
    ]


def test_plain_shows_what_is_certified_and_what_looks_best() -> None:
    screen = Screen(terminal=False)
    best = Candidate(BETTER, "threads=64", Estimate(1 / 1.081, 1 / 1.141, 1 / 1.02))
    standing = replace(STANDING, certified=4, best=best)
    PlainProgress(screen.console, now=at).standing(standing)
    assert screen.lines[0].endswith(
        "trial 4 is certified; looks best, expected 8.1% faster (2.0% to 14.1% faster): threads=64"
    )


def test_plain_writes_at_once() -> None:
    outputs: list[str] = []

    class Stream(io.StringIO):
        def flush(self) -> None:
            outputs.append(self.getvalue())

    PlainProgress(Console(file=Stream(), force_terminal=False)).say(event("now"))
    assert outputs == ["2026-03-01T12:00:05Z now\n"]


def test_plain_falls_silent_when_its_pipe_is_closed() -> None:
    attempts: list[str] = []

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            attempts.append(text)
            raise BrokenPipeError

    plain = PlainProgress(Console(file=Closed(), force_terminal=False))
    plain.say(event("one"))
    plain.say(event("two"))
    assert len(attempts) == 1


def test_plain_on_a_stream_without_unicode() -> None:
    screen = Screen(terminal=False, encoding="ascii")
    PlainProgress(screen.console).say(event("café"))
    assert screen.lines == ["2026-03-01T12:00:05Z caf?"]


@pytest.mark.parametrize("width", [20, 40, *WIDTHS, 200])
@pytest.mark.parametrize("height", [5, 12, 40])
def test_the_live_view_fits_any_terminal(width: int, height: int) -> None:
    screen = Screen(width, height)
    live = live_on(screen, title="mixed on [red]fs1")
    live.standing(replace(STANDING, rows=STANDING.rows * 5))
    live.doing("restarting fileserver for trial 4 " * 8)
    for i in range(5):
        live.say(event("something long happened " * 9, i))
    lines = drawing(screen, live)
    assert max(map(len, lines)) <= width
    assert len(lines) < max(height, 11)
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_live_view_shows_what_matters(width: int) -> None:
    clock = Clock()
    screen = Screen(width)
    live = live_on(screen, clock, title="mixed on [red]fs1")
    live.standing(STANDING)
    live.doing("restarting [fileserver] for trial 4")
    live.say(event("block [7] complete"))
    clock.now_s += 12.0
    lines = drawing(screen, live)
    text = "\n".join(lines)
    assert lines[0] == "mixed on [red]fs1  search, block 7"
    assert "84/400 measurements" in lines[1]
    assert lines[2] == "42 min 22 s elapsed, about 1 h 20 min left"
    incumbent = next(line for line in lines if line.startswith("    4 "))
    assert "+12.3%" in incumbent
    assert "threads=64" in incumbent
    assert ("●" in incumbent) == (width >= 80)
    assert ("+8.1% to +16.7%" in incumbent) == (width != 80)
    assert "[red]label=x" in text
    assert "dropped trial 3: slower [/] than trial 4" in text
    assert "12:00:05 block [7] complete" in text
    assert lines[-1].endswith("restarting [fileserver] for trial 4  12 s")


def test_the_number_of_blocks_is_shown_whole() -> None:
    screen = Screen(80)
    live = live_on(screen)
    live.standing(replace(STANDING, rows=(replace(STANDING.rows[0], blocks=1234),)))
    assert any(line.split()[:2] == ["0", "1234"] for line in drawing(screen, live))


def test_a_low_terminal_keeps_the_first_trials_and_counts_the_others() -> None:
    screen = Screen(80, 12)
    live = live_on(screen)
    live.standing(replace(STANDING, rows=STANDING.rows * 4))
    live.doing("measuring")
    lines = drawing(screen, live)
    shown_rows = [line for line in lines if line.startswith("    ")]
    assert shown_rows[0].split()[2] == "baseline"
    assert f"and {20 - len(shown_rows)} more" in lines
    assert lines[-1].endswith("measuring")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_long_title_leaves_room_for_the_phase(width: int) -> None:
    screen = Screen(width)
    live = live_on(screen, title="a campaign with a long name " * 3)
    live.standing(replace(STANDING, kind=BlockKind.CERTIFY))
    first = drawing(screen, live)[0]
    assert first.startswith("a campaign")
    assert first.endswith("  certification, block 7")


def test_what_is_expected_of_many_settings_is_not_cut_off() -> None:
    many = " ".join(f"setting{i}=1000" for i in range(12))
    best = Candidate(BETTER, many, Estimate(1 / 1.081, 1 / 1.141, 1 / 1.02))
    screen = Screen(80)
    live = live_on(screen)
    live.standing(replace(STANDING, certified=4, best=best))
    text = "trial 4 is certified; looks best, expected 8.1% faster (2.0% to 14.1% faster):"
    assert any(line.startswith(text) for line in drawing(screen, live))


def test_a_terminal_too_low_for_a_trial_has_no_headings_either() -> None:
    screen = Screen(40, 9)
    live = live_on(screen)
    live.standing(STANDING)
    live.doing("measuring")
    lines = drawing(screen, live)
    assert f"{len(STANDING.rows)} trials; a taller terminal shows them" in lines
    assert not any("Faster by" in line for line in lines)


def test_the_live_view_before_anything_is_known() -> None:
    screen = Screen()
    live = live_on(screen, title="quick")
    live.doing("bringing the testbed up")
    lines = drawing(screen, live)
    assert lines[0] == "quick"
    assert lines[-1].endswith("bringing the testbed up")


def test_the_live_view_without_unicode() -> None:
    screen = Screen(encoding="ascii")
    live = live_on(screen, title="café")
    live.standing(STANDING)
    live.doing("measuring")
    assert any("[-o-]" in line for line in drawing(screen, live))


def test_being_stopped_in_the_middle_restores_the_terminal() -> None:
    screen = Screen()
    stdout = sys.stdout
    live = LiveProgress(screen.console, clock=Clock())

    def run() -> None:
        with live:
            live.standing(STANDING)
            live.doing("restarting fileserver")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert screen.text.count(HIDE) == 1
    assert screen.text.rfind(SHOW) > screen.text.rfind(HIDE)
    assert sys.stdout is stdout
    last = screen.text[screen.text.rfind("search") :]
    assert "+12.3%" in last
    assert "restarting" not in last
    assert "left" not in last


def test_a_terminal_that_became_narrower_is_cleared() -> None:
    screen = Screen(120)
    live = live_on(screen)
    live.standing(STANDING)
    screen.console.print(live)
    assert "\x1b[2J" not in screen.text
    screen.console.width = 60
    screen.console.print(live)
    assert screen.text.count("\x1b[2J") == 1
    screen.console.print(live)
    assert screen.text.count("\x1b[2J") == 1


def test_what_is_printed_meanwhile_stands_above_the_view() -> None:
    screen = Screen()
    live = live_on(screen)
    with live:
        live.standing(STANDING)
        screen.console.print("a warning")
    assert screen.text.count("a warning") == 1
    assert screen.text.find("a warning") < screen.text.rfind("search")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_notice_stays_whole_whatever_goes_on(width: int) -> None:
    screen = Screen(width)
    live = live_on(screen)
    live.standing(STANDING)
    live.notice("SIGINT: finishing the current run, then the testbed is restored")
    live.doing("trial 3: workload, stage read")
    text = " ".join(line.strip() for line in drawing(screen, live))
    assert "SIGINT: finishing the current run, then the testbed is restored" in text
    assert "trial 3: workload, stage read" in text
