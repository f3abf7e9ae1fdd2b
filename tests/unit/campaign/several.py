"""Campaigns on several simulated testbeds."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.unit.campaign.campaigns import spec
from tuner.errors import TransportError
from tuner.model import Block
from tuner.services.simulated import testbed as simulated
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


def lose(monkeypatch: pytest.MonkeyPatch, seed: int, runs: int, back_after: int = 10**9) -> None:
    """Let the testbed whose world has this seed stop answering after ``runs`` runs."""
    real = simulated._SimulatedEngine.report
    counts = Counter[int]()

    def run(engine: simulated._SimulatedEngine, run_id: str) -> Any:
        counts[engine.world.seed] += 1
        if engine.world.seed == seed and runs < counts[seed] <= back_after:
            raise TransportError("no answer")
        return real(engine, run_id)

    monkeypatch.setattr(simulated._SimulatedEngine, "report", run)
