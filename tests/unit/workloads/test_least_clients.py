"""A workload may require several clients; a mix of such workloads requires as many."""

from __future__ import annotations

from typing import Any

import pytest

from tuner.measure.workload import load_workload
from workloads import SpecError, parse, resolve


def test_one_client_is_enough_by_default(mapping: dict[str, Any]) -> None:
    assert parse(mapping).least_clients == 1
    assert parse({**mapping, "least_clients": 3}).least_clients == 3
    assert load_workload("many-clients").spec.least_clients == 2


@pytest.mark.parametrize("number", [0, 1001, 1.5, "two", True])
def test_anything_else_is_refused(mapping: dict[str, Any], number: object) -> None:
    with pytest.raises(SpecError, match="least_clients"):
        parse({**mapping, "least_clients": number})


def test_the_most_demanding_part_counts(mapping: dict[str, Any]) -> None:
    parts = {"one": mapping, "two": {**mapping, "name": "other", "least_clients": 2}}
    composed = {
        "name": "both",
        "description": "two workloads",
        "workloads": [{"workload": name, "weight": 0.5} for name in parts],
    }
    assert parse(resolve(composed, parts.__getitem__)).least_clients == 2
    assert parse(resolve(composed, parts.__getitem__, 0.5)).least_clients == 2
