"""Published measurements, shared by the tests of several modules."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tuner.judge.ministat import Summary

PATH = Path(__file__).parents[2] / "data" / "published-measurements.json"


@dataclass(frozen=True)
class Arm:
    """One sample: its row of the published table, and its values if available."""

    label: str
    row: Summary
    values: tuple[float, ...] | None


@dataclass(frozen=True)
class Result:
    """The published result of a comparison with the first arm, as printed; None: no difference."""

    reference: Arm
    other: Arm
    printed: tuple[str, ...] | None


def results() -> list[Result]:
    """Return every published comparison."""
    comparisons = []
    for block in json.loads(PATH.read_text(encoding="utf-8"))["blocks"]:
        arms = [
            Arm(
                arm["label"],
                Summary(
                    arm["n"], arm["min"], arm["max"], arm["median"], float(arm["avg"]), arm["sd"]
                ),
                tuple(map(float, arm["values"])) if "values" in arm else None,
            )
            for arm in block["arms"]
        ]
        for c in block["comparisons"]:
            names = ("difference", "interval", "percent", "percent_interval", "pooled_s")
            proven = c["difference"] is not None
            printed = tuple(f"{c[name]:g}" for name in names) if proven else None
            comparisons.append(Result(arms[0], arms[c["other"]], printed))
    return comparisons
