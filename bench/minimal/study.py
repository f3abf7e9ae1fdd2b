"""Campaigns on random surfaces, and whether each recommends what matters and nothing else.

Counts right and wrong answers. The loop, the store and the judge are those of every campaign; only
the times are random, and the hours are virtual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from bench.gains.study import true_gain
from bench.minimal.surfaces import draw_surface
from tuner.model import Answer
from tuner.records.differences import differences
from tuner.records.estimate import is_clear
from tuner.simulate.campaign import Result, Settings, run_campaign

#: Changes of the true score below this are rounding errors.
_NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """One campaign. ``noise``: sd of a component's log time; ``hours``: its budget.

    ``active``: number of parameters with an effect, all above delta; ``missed``: those of them that
    gain nothing in the recommendation; ``inert``: its settings that change nothing; ``credited``:
    those of them whose effect is said to be shown; ``settings``: all its settings. ``regret``: in
    log score; ``false``: see ``Result``. ``names``: the missed parameters with "-", the inert ones
    with "+".
    """

    noise: float
    hours: float
    seed: int
    recommended: bool
    active: int
    settings: int
    missed: int
    inert: int
    credited: int
    regret: float
    false: bool
    names: str = ""

    @property
    def minimal(self) -> bool:
        """Whether the recommendation has everything that matters and nothing else."""
        return self.recommended and self.missed == 0 and self.inert == 0


def campaign(seed: int, noise: float, hours: float) -> Row:
    """Run the campaign of a seed on the surface of that seed."""
    surface, gains = draw_surface(seed)
    result = run_campaign(surface, seed, Settings(hours * 3600.0, noise))
    recommended = result.answer == Answer.RECOMMENDED
    changed = differences(surface.baseline, result.configuration)[0] if recommended else ()
    effects = {one.name: true_gain(surface, result.configuration, one.name) for one in changed}
    inert = sorted(name for name, effect in effects.items() if abs(effect) < _NOTHING)
    absent = sorted(name for name in gains if effects.get(name, 0.0) < _NOTHING)
    return Row(
        noise=noise,
        hours=hours,
        seed=seed,
        recommended=recommended,
        active=len(gains),
        settings=len(changed),
        missed=len(absent),
        inert=len(inert),
        credited=sum(_is_credited(result, name) for name in inert),
        regret=result.regret,
        false=result.false,
        names=" ".join([*(f"-{name}" for name in absent), *(f"+{name}" for name in inert)]),
    )


def _is_credited(result: Result, name: str) -> bool:
    """Whether the answer says that this setting has an effect: by its interval, or as the only one
    of a faster configuration.
    """
    effect = result.settings.get(name)
    return not result.settings if effect is None else is_clear(effect.lower, effect.upper)


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table with a line for each noise."""
    titles: tuple[str, ...] = (
        "component noise",
        "hours",
        "campaigns",
        "recommended",
        "false",
        "nothing missed",
    )
    titles += ("nothing inert", "both", "nothing inert or called so", "settings", "active")
    titles += ("mean regret",)
    lines = [_line(titles), _line(["---"] * len(titles))]
    for noise in sorted({row.noise for row in rows}):
        own = [row for row in rows if row.noise == noise]
        counts = (
            len(own),
            sum(row.recommended for row in own),
            sum(row.false for row in own),
            sum(row.recommended and row.missed == 0 for row in own),
            sum(row.recommended and row.inert == 0 for row in own),
            sum(row.minimal for row in own),
            sum(row.recommended and row.credited == 0 for row in own),
        )
        means = (fmean(row.settings for row in own), fmean(row.active for row in own))
        cells = [f"{noise:g}", f"{own[0].hours:g}", *map(str, counts)]
        cells += [f"{mean:.2f}" for mean in means]
        lines.append(_line([*cells, f"{fmean(row.regret for row in own):.4f}"]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
