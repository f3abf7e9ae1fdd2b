"""The campaign of ``make tune`` on a simulated surface: how soon it certifies what, if anything.

The loop, the store and the judge are those of every campaign; only the times are random, and the
minutes are virtual.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

import yaml

from tuner.model import Answer
from tuner.records.differences import differences
from tuner.simulate import load_surface
from tuner.simulate.campaign import Settings, run_specified, specification
from tuner.simulate.surface import Surface
from tuner.spec.campaign import CampaignSpec

_QUICKSTART = Path(__file__).resolve().parents[2] / "deploy" / "quickstart.yaml"
#: Those modelled on measurements of a private cell; the last one is in this folder.
SURFACES: Final = ("cell-quiet", "cell-busy", "cell-cliff")
#: Sections of the quickstart's file that a simulated campaign has too.
_SECTIONS = ("pilot", "certification", "statistics")
#: As many measurements as fit into the quickstart's nine minutes on a real cell.
_BUDGET = {"wall_time": "1h", "measurements": 85}


@dataclass(frozen=True, slots=True)
class Row:
    """One campaign. ``first_min``: minutes until the first certificate; ``gain``: the true gain of
    the recommendation, a fraction; ``settings``: the number of settings in it; ``regret``: in log
    score, that of the baseline without a recommendation; ``false``: see ``Result``.
    """

    surface: str
    seed: int
    recommended: bool
    measurements: int
    regret: float
    false: bool
    settings: int = 0
    first_min: float | None = None
    gain: float | None = None


def campaign(name: str, seed: int) -> Row:
    """Run the quickstart with this seed on the surface of this name."""
    file = Path(__file__).with_name(f"{name}.yaml")
    surface = load_surface(str(file) if file.exists() else name)
    result = run_specified(surface, _specification(surface, seed))
    recommended = result.answer == Answer.RECOMMENDED
    row = Row(
        surface=name,
        seed=seed,
        recommended=recommended,
        measurements=result.measurements,
        regret=result.certified[-1].regret,
        false=result.false,
        first_min=None if result.certified_h is None else 60.0 * result.certified_h,
    )
    if not recommended:
        return row
    changed, _ = differences(surface.baseline, result.configuration)
    truth = surface.truth(result.configuration)
    return replace(row, settings=len(changed), gain=math.expm1(-truth.score))


def _specification(surface: Surface, seed: int) -> CampaignSpec:
    quickstart: dict[str, Any] = yaml.safe_load(_QUICKSTART.read_text(encoding="utf-8"))
    document = json.loads(specification(surface, seed, Settings()).to_json())
    for part, space in quickstart["spaces"].items():
        document["spaces"][part]["presets"] = space["presets"]
    document |= {section: quickstart[section] for section in _SECTIONS}
    return CampaignSpec.model_validate(document | {"budget": _BUDGET})


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table, one line for each surface."""
    heads = (
        "surface",
        "campaigns",
        "recommended",
        "false",
        "minutes until the first certificate",
        "true gain",
        "settings",
        "mean regret",
    )
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name in SURFACES:
        of = [row for row in rows if row.surface == name]
        if of:
            lines.append(f"| {' | '.join([name, *map(str, _cells(of))])} |")
    return "\n".join(lines)


def _cells(rows: Sequence[Row]) -> tuple[object, ...]:
    """The cells of one surface, without its name."""
    with_answer = [row for row in rows if row.recommended]
    counts = (len(rows), len(with_answer), sum(row.false for row in rows))
    regret = f"{fmean(row.regret for row in rows):.3f}"
    if not with_answer:
        return (*counts, "", "", "", regret)
    first = median(row.first_min or 0.0 for row in with_answer)
    gain = median(row.gain or 0.0 for row in with_answer)
    settings = fmean(row.settings for row in with_answer)
    return (*counts, f"{first:.1f}", f"{100.0 * gain:.1f}%", f"{settings:.1f}", regret)
