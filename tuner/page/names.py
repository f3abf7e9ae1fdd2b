"""Display names of trials, kinds of blocks, and the things a campaign file refers to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.model import BASELINE, BlockKind, Campaign

KINDS = {
    BlockKind.PILOT: "pilot",
    BlockKind.SEARCH: "search",
    BlockKind.CERTIFY: "certification",
}


def called(trial: int) -> str:
    """Return the name of a trial for use in a sentence."""
    return "the baseline" if trial == BASELINE else f"trial {trial}"


@dataclass(frozen=True, slots=True)
class Names:
    """Testbed, workload and search spaces of a campaign; "" for what its specification lacks."""

    testbed: str = ""
    workload: str = ""
    spaces: Mapping[str, str] = field(default_factory=dict)


def names(campaign: Campaign) -> Names:
    """Return the names in a stored campaign; files appear by name only, never by path."""
    try:
        spec: Any = json.loads(campaign.spec)
        testbeds = spec["testbeds"] if spec.get("testbeds") else [spec["testbed"]]
        spaces = {c: s["name"] for c, s in spec["spaces"].items() if s is not None}
        return Names(
            testbed=", ".join(dict.fromkeys(map(_testbed, testbeds))),
            workload=_file(spec["workload"]["name"]),
            spaces={part: _file(name) for part, name in spaces.items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return Names()


def _testbed(testbed: dict[str, Any]) -> str:
    key, section = next((key, section) for key, section in testbed.items() if section)
    return _file(section) if isinstance(section, str) else key


def _file(name: object) -> str:
    if not isinstance(name, str):  # an imported specification may have anything here
        raise TypeError
    return name.rpartition("/")[2].removesuffix(".yaml") if "/" in name else name
