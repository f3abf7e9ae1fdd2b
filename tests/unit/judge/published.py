"""Published measurements, as tests of several modules need them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tuner.judge.ministat import Summary

PATH = Path(__file__).parents[2] / "data" / "published-measurements.json"


@dataclass(frozen=True)
class Arm:
    """One sample: its row of the published table, and its values where they are known."""

    label: str
    row: Summary
    values: tuple[float, ...] | None


@dataclass(frozen=True)
class Result:
    """What was published of a comparison with the first arm, as printed; None: no difference."""

    reference: Arm
    other: Arm
    printed: tuple[str, ...] | None


def results() -> list[Result]:
    """Every published comparison."""
    found = []
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
            found.append(Result(arms[0], arms[c["other"]], printed))
    return found
