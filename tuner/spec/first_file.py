"""Text of a user's first campaign file: the keys that matter to a beginner, each with a comment.

Pure: the text is checked when it is read back, as for any campaign file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search_spaces import Risk, Space
from tuner.documents import word_of

#: Measuring time (s) below which a campaign can only show large differences.
SHORT_S = 3600.0
#: Maximum number of presets per part in a short campaign.
_FEW = 3


@dataclass(frozen=True, slots=True)
class FirstFile:
    """Content of the file. ``section``: the testbed, as YAML; ``description``: of it.
    ``spaces``: the keys of each part's section, as YAML. ``wall_time_s``: ``wall_time`` in seconds.
    ``presets``: by part. ``risks``: the risk classes that may be searched, by part.
    """

    name: str
    section: str
    description: str
    spaces: Mapping[str, Mapping[str, str]]
    workload: str
    wall_time: str
    wall_time_s: float
    presets: Mapping[str, Sequence[str]]
    risks: Mapping[str, Sequence[str]]

    def text(self) -> str:
        """The whole file."""
        lines = [
            "# A campaign written by 'fstune init'; docs/campaigns.md has every key.",
            f"name: {word_of(self.name)}",
            "",
            f"# Where to measure: {self.description}.",
            f"testbed: {self.section}",
            "",
            "# What may be changed, by part. presets: published settings, tried first; allow_risk:",
            "# classes of settings that put more than performance at risk.",
            "spaces:",
        ]
        for part in self.spaces:
            lines += self._space(part)
        lines += [
            "",
            "# What is measured; 'fstune workload list' has others.",
            f"workload: {word_of(self.workload)}",
            "",
            "# Measuring time; preparing the testbed is not included.",
            f"budget: {{wall_time: {word_of(self.wall_time)}}}",
            "",
            *self._statistics(),
            "",
            "# budget: search until the time is used up; certified: stop at the first gain that",
            "# is certified.",
            "stop: budget",
            "",
            "# The same seed and the same measurements give the same proposals.",
            "seed: 1",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _space(self, part: str) -> list[str]:
        keys = dict(self.spaces[part])
        for key, values in (("presets", self.presets), ("allow_risk", self.risks)):
            if values.get(part):
                keys[key] = word_of(list(values[part]))
        return [f"  {part}:", *(f"    {key}: {value}" for key, value in keys.items())]

    def _statistics(self) -> list[str]:
        if self.wall_time_s >= SHORT_S:
            return [
                "# delta: the smallest gain worth acting on; floor: the largest loss allowed to a",
                "# component of the workload.",
                "statistics: {delta: 2%, floor: 5%}",
            ]
        return [
            "# delta: the smallest gain worth acting on; floor: the largest loss allowed to a",
            "# component of the workload. Less than an hour cannot show smaller ones.",
            "statistics: {delta: 5%, floor: 25%}",
            "",
            "# A short pilot. The campaign goes on even if it warns: it is too short to be sure.",
            "pilot: {blocks: 3, override: true}",
        ]


def harmless_presets(space: Space, *, short: bool) -> list[str]:
    """Return the presets that set something, but nothing that puts more than performance at risk:
    naming a preset allows everything it sets. ``short``: only the first few.
    """
    names = [
        preset.name
        for preset in space.presets
        if preset.values and all(space[n].risk is Risk.PERFORMANCE for n in preset.values)
    ]
    return names[:_FEW] if short else names


def risks_of(space: Space) -> list[Risk]:
    """The risk classes, in order, that the space could search if they were allowed."""
    classes = {p.risk for p in space.parameters} - {Risk.PERFORMANCE}
    return [risk for risk in Risk if risk in classes]
