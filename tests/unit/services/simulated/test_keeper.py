"""Which file has the settings applied on a simulated testbed."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from tuner.services.simulated.document import SimulatedSection
from tuner.services.simulated.keeper import Keeper
from tuner.services.simulated.kind import SimulatedType

UNNAMED = SimulatedSection(noise=0.02)


def test_a_testbed_without_a_name_is_identified_by_what_its_campaigns_are(tmp_path: Path) -> None:
    """A key that stored campaigns lack must not change where their settings are."""
    document = SimulatedType().identity(UNNAMED, tmp_path).document
    name = sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]
    assert Keeper.of(UNNAMED, tmp_path).file == tmp_path / "simulated" / f"{name}.json"


def test_what_was_applied_with_all_keys_as_identity_is_still_there(tmp_path: Path) -> None:
    every = json.dumps(UNNAMED.model_dump(mode="json"), sort_keys=True)
    file = tmp_path / "simulated" / f"{sha256(every.encode()).hexdigest()[:32]}.json"
    Keeper(file).change("cache_manager", {}, {"chunksize": 20})
    assert Keeper.of(UNNAMED, tmp_path).initial({}) == {}  # an interrupted change does not count
    keeper = Keeper.of(UNNAMED, tmp_path)
    keeper.keep("cache_manager", "a1")
    assert keeper.file == file
    assert Keeper.of(UNNAMED, tmp_path).initial({}) == {"cache_manager.chunksize": 20}


@pytest.mark.parametrize("change", [{"noise": 0.03}, {"name": "hall"}, {"after_restart": {"x": 1}}])
def test_testbeds_that_differ_share_nothing(tmp_path: Path, change: dict[str, object]) -> None:
    other = SimulatedSection.model_validate({"noise": 0.02} | change)
    assert Keeper.of(other, tmp_path).file != Keeper.of(UNNAMED, tmp_path).file
