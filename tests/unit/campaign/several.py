"""Campaigns on several simulated testbeds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.unit.campaign.campaigns import spec
from tuner.model import Block
from tuner.spec.campaign import CampaignSpec

NAMES = ("a", "b", "c", "d")


def several(
    *effects: dict[str, object],
    names: Sequence[str] = NAMES,
    worlds: Mapping[str, Mapping[str, object]] | None = None,
    **sections: Any,
) -> CampaignSpec:
    """As ``spec``, on testbeds with these names, each with its own noise, and ending at the first
    certificate unless ``stop`` says otherwise. ``worlds``: individual differences, by name.
    """
    document = spec(*effects, **{"stop": "certified", **sections}).model_dump(exclude_none=True)
    world = document.pop("testbed")["simulated"]
    document["testbeds"] = [
        {"simulated": {**world, "name": name, "seed": seed, **(worlds or {}).get(name, {})}}
        for seed, name in enumerate(names, start=1)
    ]
    return CampaignSpec.model_validate(document)


def batches(blocks: Sequence[Block]) -> dict[int, list[Block]]:
    by_batch: dict[int, list[Block]] = {}
    for block in blocks:
        assert block.batch is not None
        by_batch.setdefault(block.batch, []).append(block)
    return by_batch


def interrupted_at(call: int) -> Callable[[int], None]:
    """Return a function that sends this process a stop signal at a call, from any thread."""

    def stop(count: int) -> None:
        if count == call:
            os.kill(os.getpid(), signal.SIGINT)

    return stop
