"""Repairs of a configuration that gains but breaks a floor, against a known model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tests.unit.propose.spaces import CLIENT, SMALL_SERVER, tunables
from tuner.model import Configuration, Value
from tuner.propose.ascent import Ascent
from tuner.propose.candidates import Candidates, unique
from tuner.propose.effects import EffectsModel, Evidence
from tuner.propose.encoding import Encoding
from tuner.propose.objective import Objective
from tuner.propose.repair import Repairs, changed, with_value, without

MEMCACHE, CHUNKS = "cache_manager.memcache", "cache_manager.chunksize"
BLOCKS = {"cache_manager.blocks": 200_000}
BASELINE = Configuration.of(BLOCKS)
PARTS = tunables(SMALL_SERVER, CLIENT.narrow(only=("memcache", "chunksize", "stat", "daemons")))
FLOOR = math.log1p(0.25)


def configuration(**settings: Value) -> Configuration:
    return Configuration.of(
        BLOCKS | {f"cache_manager.{name}": value for name, value in settings.items()}
    )


def repairs(cost: float, measured: Sequence[Configuration]) -> Repairs:
    """Return repairs after four blocks that show what a cache in memory costs one component."""
    encoding = Encoding(PARTS, BASELINE)
    configurations = [configuration(memcache=True)]
    blocks = np.repeat(np.arange(4), 2)
    logs = np.tile([[0.0, 0.0], [-0.4, cost]], (4, 1))
    evidence = Evidence(
        np.tile([-1, 0], 4), blocks, np.column_stack([logs @ np.array([0.5, 0.5]), logs])
    )
    objective = Objective(weights=(0.5, 0.5), floor=FLOOR, tolerance=(0.01, 0.05))
    noise = [0.0001] * 3
    model = EffectsModel(encoding, encoding.features(configurations), evidence, noise, (0.5, 0.5))
    rng = np.random.default_rng(1)
    ascent = Ascent(PARTS, encoding, np.random.default_rng(1))
    valid = Candidates(PARTS, "1").valid
    return Repairs(model, ascent, objective, BASELINE, valid, measured, rng)


def test_other_values_of_what_is_coupled_with_the_harmful_setting_are_tried() -> None:
    variants = [each.as_dict() for each in unique(repairs(0.5, []).of(BASELINE, 0.01))]
    # The only parameter of these that has a rule in common with it.
    assert {name for each in variants for name in changed(each, BASELINE)} == {MEMCACHE, CHUNKS}
    assert all(each[MEMCACHE] is True for each in variants)
    chunks = [each.get(CHUNKS) for each in variants]
    assert set(chunks[:2]) == {13, 23}  # the ends of the range first; 24 is too large here
    assert len(set(chunks)) == len(chunks) > 6


@pytest.mark.parametrize(("earlier", "first"), [(13, 23), (23, 13)])
def test_what_was_measured_along_with_it_comes_later(earlier: int, first: int) -> None:
    def chunks(*measured: Configuration) -> list[Value | None]:
        return [each.as_dict().get(CHUNKS) for each in repairs(0.5, measured).of(BASELINE, 0.01)]

    alone = configuration(chunksize=first)
    along = configuration(memcache=True, chunksize=earlier)
    assert chunks(alone, along)[:2] == [first, earlier]
    assert earlier not in chunks(alone, along, along, along)[:2]


def test_nothing_is_repaired_that_keeps_its_floors_or_gains_too_little() -> None:
    assert not list(repairs(0.1, []).of(BASELINE, 0.01))
    assert not list(repairs(0.5, []).of(BASELINE, 0.5))


def test_values_are_replaced_unset_and_reset_to_the_baseline() -> None:
    values = {MEMCACHE: True, CHUNKS: 14, **BLOCKS}
    assert changed(values, BASELINE) == [CHUNKS, MEMCACHE]
    assert with_value(values, CHUNKS, 20) == values | {CHUNKS: 20}
    assert with_value(values, CHUNKS, None) == {MEMCACHE: True, **BLOCKS}
    assert without({"cache_manager.blocks": 5}, "cache_manager.blocks", BASELINE) == BLOCKS
