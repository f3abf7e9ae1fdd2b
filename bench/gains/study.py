"""Campaigns on simulated surfaces, and whether what each says of its settings is true.

Owns how a stated gain is compared with the true one. The loop, the store and the judge are those of
every campaign; only the times are random, and the hours are virtual.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tuner.model import Answer, Configuration
from tuner.records.estimate import is_clear
from tuner.simulate import load_surface
from tuner.simulate.campaign import Settings, run_campaign
from tuner.simulate.surface import Surface

#: Surfaces with something to find, of any kind.
SURFACES: Final = (
    "cell-busy",
    "cell-quiet",
    "interaction",
    "interactions-many",
    "narrow",
    "plateaus",
    "sparse-five",
    "sparse-three",
    "thresholds",
    "trade-off",
)
#: Short and longer campaigns, in hours.
HOURS: Final = (0.1, 0.25)
#: Standard deviation of a component's log time.
NOISE: Final = 0.08
#: Changes of the true score below this are rounding errors.
_NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """One setting of a recommendation with several. ``true_gain``: what the other settings lose
    without it, in log score; ``ratio``, ``lower``, ``upper``: as stated, see ``SettingEffect``.
    """

    surface: str
    hours: float
    seed: int
    setting: str
    true_gain: float
    ratio: float
    lower: float
    upper: float

    @property
    def has_effect(self) -> bool:
        """Whether it has any."""
        return abs(self.true_gain) > _NOTHING

    @property
    def is_covered(self) -> bool:
        """Whether the stated interval contains the truth."""
        return self.lower <= math.exp(-self.true_gain) <= self.upper

    @property
    def is_credited(self) -> bool:
        """Whether an effect is said to be shown."""
        return is_clear(self.lower, self.upper)


def campaign(name: str, hours: float, seed: int) -> list[Row]:
    """Run one campaign; return a row for each gain that its answer states, unless the other
    settings are invalid without that one.
    """
    surface = load_surface(name)
    result = run_campaign(surface, seed, Settings(hours * 3600.0, NOISE))
    if result.answer != Answer.RECOMMENDED:
        return []
    gains = {each: true_gain(surface, result.configuration, each) for each in result.settings}
    return [
        Row(name, hours, seed, setting, gains[setting], *of)
        for setting, of in result.settings.items()
        if math.isfinite(gains[setting])
    ]


def true_gain(surface: Surface, configuration: Configuration, name: str) -> float:
    """Return the true gain of one setting of a configuration, in log score.

    It is infinite if the other settings are invalid without it.
    """
    values = configuration.as_dict()
    before = surface.baseline.as_dict()
    values.pop(name, None)
    if name in before:
        values[name] = before[name]
    without = Configuration.of(values)
    if surface.violations(without):
        return math.inf
    return surface.truth(without).score - surface.truth(configuration).score


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table: settings with an effect, and those without."""
    lines = ["| settings | number | gain within its interval | an effect is shown |"]
    lines.append("| --- | --- | --- | --- |")
    for what, has_effect in (("with an effect", True), ("without", False)):
        own = [row for row in rows if row.has_effect is has_effect]
        covered, credited = sum(r.is_covered for r in own), sum(r.is_credited for r in own)
        lines.append(f"| {what} | {len(own)} | {covered} | {credited} |")
    return "\n".join(lines)
