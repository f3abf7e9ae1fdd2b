"""Records and consoles shared by the tests of reports."""

from __future__ import annotations

import io
import math
from datetime import UTC, datetime

from rich.console import Console, RenderableType

from tuner.model import (
    Answer,
    Campaign,
    ComponentEffect,
    Configuration,
    Event,
    Recommendation,
    SettingEffect,
)
from tuner.records.estimate import Estimate
from tuner.records.standing import DroppedTrial, LiveTrial, Standing
from tuner.report.listing import show
from tuner.states import CampaignState
from tuner.time_use import TimeUse

WIDTHS = (60, 80, 120)
AT = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)

BASELINE = Configuration.of(
    {
        "cachemanager.chunksize": 18,
        "cachemanager.memcache": True,
        "fileserver.label": "[red]",
        "fileserver.threads": 12,
    }
)
BETTER = Configuration.of(
    {
        "cachemanager.chunksize": 18,
        "cachemanager.memcache": True,
        "fileserver.label": "[/]",
        "fileserver.threads": 64,
        "fileserver.vnodes": 5000,
    }
)

RECOMMENDED = Recommendation(
    answer=Answer.RECOMMENDED,
    reason="certified against the baseline [bold]",
    trial=4,
    configuration=BETTER,
    baseline=BASELINE,
    flags={"fileserver": ("-p", "64", "-label", "on close"), "afsd": ()},
    baseline_flags={"fileserver": ("-p", "12")},
    confidence=0.95,
    blocks=8,
    ratio=1 / 1.124,
    lower=1 / 1.151,
    upper=1 / 1.098,
    largest_compatible_improvement=0.151,
    e_value=85.3,
    threshold=31.2,
    components={
        "read": ComponentEffect(1 / 1.142, 1 / 1.17, 1 / 1.11, True),
        "write": ComponentEffect(1.021, 0.985, 1.034, True),
    },
    settings={
        "fileserver.threads": SettingEffect(1 / 1.11, 1 / 1.14, 1 / 1.08),
        "fileserver.vnodes": SettingEffect(1 / 1.005, 1 / 1.02, 1.01),
    },
)

NOT_BETTER = Recommendation(
    answer=Answer.NO_IMPROVEMENT,
    reason="not certified within 20 blocks",
    trial=4,
    configuration=BETTER,
    baseline=BASELINE,
    flags={"fileserver": ("-p", "64")},
    baseline_flags={"fileserver": ("-p", "12")},
    confidence=0.95,
    blocks=20,
    ratio=0.996,
    lower=1 / 1.031,
    upper=1.02,
    largest_compatible_improvement=0.031,
    e_value=1.3,
    threshold=31.2,
    components={"write": ComponentEffect(1.01, 0.0, math.inf, False)},
)

NO_FINALIST = Recommendation(
    answer=Answer.NO_IMPROVEMENT,
    reason="no trial was promoted",
    trial=0,
    configuration=BASELINE,
    baseline=BASELINE,
    flags={},
    baseline_flags={},
    confidence=0.95,
    blocks=0,
)


def campaign(
    recommendation: Recommendation | None = RECOMMENDED,
    *,
    state: CampaignState = CampaignState.FINISHED,
    name: str = "mixed on [red]fs1",
    reason: str = "",
    time_use: TimeUse | None = None,
) -> Campaign:
    return Campaign(
        id="7f3a2b",
        name=name,
        state=state,
        spec="{}",
        seed=7,
        created=AT,
        updated=AT,
        reason=reason,
        baseline=BASELINE,
        recommendation=recommendation,
        time_use=time_use
        or TimeUse(wall_s=4320.0, testbed_s=216.0, apply_s=1296.0, workload_s=2700.0),
    )


STANDING = Standing(
    block=7,
    measurements=84,
    budget=400,
    elapsed_s=2530.0,
    expected_left_s=4800.0,
    rows=(
        LiveTrial(0, "baseline", "baseline", 7, ""),
        LiveTrial(
            4, "tpe", "incumbent", 7, "threads=64", Estimate(1 / 1.123, 1 / 1.167, 1 / 1.081)
        ),
        LiveTrial(5, "preset", "racing", 3, "[red]label=x", Estimate(1 / 1.012, 0.9, 1.09)),
        LiveTrial(6, "tpe", "racing", 2, "threads=4", Estimate(1.08, 0.0, math.inf)),
        LiveTrial(7, "tpe", "racing", 0, "threads=9"),
    ),
    dropped=(DroppedTrial(3, "slower [/] than trial 4"),),
)


def event(message: str = "block 7 complete", number: int = 1) -> Event:
    return Event(number, AT, "block", message)


class Screen:
    """A console that records its output; without colours unless requested."""

    def __init__(
        self,
        width: int = 80,
        height: int = 40,
        *,
        terminal: bool = True,
        colour: bool = False,
        encoding: str = "utf-8",
    ) -> None:
        self._bytes = io.BytesIO()
        self._encoding = encoding
        self.console = Console(
            file=io.TextIOWrapper(self._bytes, encoding=encoding, newline="", write_through=True),
            width=width,
            height=height,
            force_terminal=terminal,
            color_system="truecolor" if colour else None,
            no_color=not colour,
            _environ={"TERM": "xterm"},
        )

    @property
    def text(self) -> str:
        return self._bytes.getvalue().decode(self._encoding)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.splitlines()]


def printed(
    page: RenderableType, width: int = 80, *, terminal: bool = True, encoding: str = "utf-8"
) -> str:
    """Return a page's text without colours and wrapping: each run of blanks is replaced by one."""
    return " ".join(screen_of(page, width, terminal=terminal, encoding=encoding).text.split())


def screen_of(
    page: RenderableType, width: int = 80, *, terminal: bool = True, encoding: str = "utf-8"
) -> Screen:
    """Show a page on a screen without colours."""
    screen = Screen(width, terminal=terminal, encoding=encoding)
    show(screen.console, page)
    return screen
