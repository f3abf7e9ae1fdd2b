"""Render the list of campaigns.

On a terminal each campaign is one line; narrow terminals get fewer columns, and where a name would
be unreadable, the cells of a row one below the other. Identifiers are never shortened. Anywhere
else each row is one line with all columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from tuner.model import Answer, Campaign
from tuner.records.none_ran import none_ran
from tuner.report.drawing import Printable
from tuner.report.listing import Column, Listing, stacked
from tuner.report.styles import FASTER, NAME, QUIET, SLOWER, literal, state_text
from tuner.text import duration, faster, moment

_COLUMNS = ("Id", "Name", "State", "Created", "Took", "Answer")
#: Minimum and maximum width (cells) of each column on a terminal. Later columns are dropped first.
_ROOM = {"Id": (0, 99), "State": (0, 10), "Answer": (14, 999), "Name": (6, 24), "Took": (0, 14)}
_BETWEEN = 2
#: Fewer cells of a longer name are too few to recognise it by.
_READABLE = 16


@dataclass(frozen=True, slots=True)
class _Campaigns:
    """Rows, each a mapping from column name to text."""

    rows: tuple[Mapping[str, Text], ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.is_terminal:
            widths = self._widths(options.max_width)
            longest = max(row["Name"].cell_len for row in self.rows)
            if widths.get("Name", 0) < min(longest, _READABLE):
                yield stacked(_COLUMNS, [[row[name] for name in _COLUMNS] for row in self.rows])
            else:
                yield self._table(widths)
        else:
            rows = tuple(tuple(row[name] for name in _COLUMNS) for row in self.rows)
            yield Listing(tuple(Column(name) for name in _COLUMNS), rows)

    def _table(self, widths: Mapping[str, int]) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, _BETWEEN, 0, 0), header_style=QUIET)
        columns = [name for name in _COLUMNS if name in widths]
        for name in columns:
            table.add_column(
                name,
                justify="right" if name == "Took" else "left",
                width=widths[name],
                no_wrap=True,
                overflow="ellipsis",
            )
        for row in self.rows:
            table.add_row(*(row[name] for name in columns))
        return table

    def _widths(self, width: int) -> dict[str, int]:
        """Return the width of each column that fits into `width` cells."""
        wish = {
            name: max(len(name), *(row[name].cell_len for row in self.rows)) for name in _COLUMNS
        }
        widths: dict[str, int] = {}
        room = width
        for name, (least, most) in _ROOM.items():
            wish_width = min(wish[name], most)
            smallest = min(wish_width, least) if least else wish_width
            if widths and room < smallest + _BETWEEN:
                continue
            width_now = smallest if name == "Answer" else wish_width
            widths[name] = min(width_now, max(smallest, room - _BETWEEN))
            room -= widths[name] + _BETWEEN
        if room - _BETWEEN >= wish["Created"] and wish["Answer"] <= widths.get("Answer", 0) + room:
            widths["Created"] = wish["Created"]
            room -= wish["Created"] + _BETWEEN
        if "Answer" in widths:
            widths["Answer"] = min(wish["Answer"], widths["Answer"] + max(0, room))
        return widths


def campaigns_table(
    campaigns: Sequence[Campaign], stalled: Mapping[str, str] | None = None
) -> RenderableType:
    """Render campaigns in the given order, one per row.

    ``stalled``: by identifier, why campaigns whose state is running make no progress.
    """
    if not campaigns:
        return Text("No campaigns yet.")
    return Printable(_Campaigns(tuple(_row(c, (stalled or {}).get(c.id)) for c in campaigns)))


def _row(campaign: Campaign, stalled: str | None) -> Mapping[str, Text]:
    c = campaign
    return {
        "Id": literal(c.id, NAME),
        "Name": literal(c.name),
        "State": state_text(c.state) if stalled is None else Text("stalled", style=SLOWER),
        "Created": Text(moment(c.created)),
        "Took": Text(duration(c.time_use.wall_s) if c.time_use.wall_s > 0.0 else ""),
        "Answer": _answer(c) if stalled is None else literal(stalled, QUIET),
    }


def _answer(campaign: Campaign) -> Text:
    r = campaign.recommendation
    if r is None:
        return literal(campaign.reason, QUIET)
    if r.verification:
        campaign_id, _, outcome = r.verification.removeprefix(r.VERIFICATION).partition(" ")
        return literal(f"{campaign_id}: {outcome}")
    if none_ran(r):
        return Text("none could be run", style=SLOWER)
    if r.answer is Answer.NO_IMPROVEMENT:
        return Text("no improvement")
    gain = f"trial {r.trial}" if r.ratio is None else faster(r.ratio)
    return Text(f"expired: {gain}") if r.expired else Text(gain, style=FASTER)
