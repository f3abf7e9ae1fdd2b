"""Summary of all runs: a table for each noise, and a plot of regret over hours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

from bench.peers.race import BEST, FSTUNE, HOURS, ROWS, Row
from tuner.simulate.study import NEAR, middle

_HOURS = (0.1, 0.2, 0.5, 1.0)
_HEADS = (
    "method",
    "runs",
    *(f"regret at {hours:g} h" for hours in _HOURS),
    "under .05",
    "hours until under .05",
    "recommended",
    "false",
    "breaks a floor",
    "floors aside",
    "false of nothing",
)


def tables(rows: Sequence[Row]) -> str:
    """Return a Markdown table for each noise, then one by surface.

    Regrets are means over the runs on surfaces where there is something to find.
    """
    parts = []
    for noise in sorted({row.noise for row in rows}):
        here = [row for row in rows if row.noise == noise]
        lines = [_line(_HEADS), _line(["---"] * len(_HEADS))]
        lines += [_line(_cells(name, own)) for name, own in _by_peer(here)]
        parts.append(f"Component noise {noise:g}:\n\n" + "\n".join(lines))
    parts.append("Mean regret at the end, by surface, over all noises:\n\n" + _surfaces(rows))
    return "\n\n".join(parts)


def _by_peer(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for name in ROWS:
        own = [row for row in rows if row.peer == name]
        if own:
            yield name, own


def _cells(name: str, rows: Sequence[Row]) -> list[str]:
    with_gain = [row for row in rows if row.gain < 0.0]
    nothing = [row for row in rows if row.gain == 0.0]
    cells = [name, str(len(rows))]
    if not with_gain:
        return cells + ["-"] * (len(_HEADS) - 3) + [_share(nothing, lambda row: row.false)]
    for hours in _HOURS:
        at = HOURS.index(hours)
        cells.append(f"{fmean(row.regrets[at] for row in with_gain):.3f}")
    near_h = middle([row.near_h for row in with_gain])
    return [
        *cells,
        _share(with_gain, lambda row: row.regret < NEAR),
        "-" if near_h is None else f"{near_h:.2f}",
        _share(with_gain, lambda row: row.recommended),
        _share(with_gain, lambda row: row.false),
        _share(with_gain, lambda row: row.breaks),
        f"{fmean(row.score - row.gain for row in with_gain):.3f}",
        _share(nothing, lambda row: row.false),
    ]


def _share(rows: Sequence[Row], holds: Callable[[Row], bool]) -> str:
    return f"{100.0 * fmean(holds(row) for row in rows):.0f}%" if rows else "-"


def _surfaces(rows: Sequence[Row]) -> str:
    peers = [name for name, _ in _by_peer(rows)]
    lines = [_line(["surface", "best", *peers]), _line(["---"] * (2 + len(peers)))]
    for surface in sorted({row.surface for row in rows}):
        here = [row for row in rows if row.surface == surface]
        cells = [surface, f"{here[0].gain:.3f}"]
        for _, own in ((p, [r for r in here if r.peer == p]) for p in peers):
            cells.append(f"{fmean(row.regret for row in own):.3f}" if own else "-")
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plot(rows: Sequence[Row], path: Path) -> None:
    """Plot mean regret over hours: a panel per noise, a line per method; needs matplotlib."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "fstune"  # the same file every time
    noises = sorted({row.noise for row in rows})
    figure, panels = plt.subplots(1, len(noises), figsize=(5 * len(noises), 4.5), squeeze=False)
    for panel, noise in zip(panels[0], noises, strict=True):
        here = [row for row in rows if row.noise == noise and row.gain < 0.0]
        for place, (name, own) in enumerate(_by_peer(here)):
            mean = [fmean(row.regrets[at] for row in own) for at in range(len(HOURS))]
            style = {"color": plt.cm.tab20(place % 20), "linewidth": 1.2}
            if name in (FSTUNE, BEST):
                dashes = "-" if name == FSTUNE else "--"
                style = {"color": "black", "linewidth": 2.2, "linestyle": dashes}
            panel.plot(HOURS, mean, label=name, **style)
        panel.set_title(f"component noise {noise:g}")
        panel.set_xlabel("hours on the testbed")
        panel.set_ylim(bottom=0.0)
    panels[0][0].set_ylabel("mean regret (log score)")
    panels[0][-1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
