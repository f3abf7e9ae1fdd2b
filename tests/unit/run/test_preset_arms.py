"""What a preset replaces of the settings found, and what it leaves as found."""

from __future__ import annotations

from collections.abc import Mapping

import search_spaces
from tests.unit.campaign.campaigns import spec
from tuner.measure.workload import load_workload
from tuner.model import Configuration, Value
from tuner.run.equivalence import least_facts
from tuner.run.proposing import first_proposals
from tuner.services.simulated import Noise, SimulatedTestbed, World

NAMES = {
    "fileserver": "openafs-fileserver-1.8",
    "cache_manager": "openafs-cache-manager-fuse-1.8",
}
SPACES = {part: search_spaces.load(name) for part, name in NAMES.items()}


def proposed(preset: str, initial: Mapping[str, Value]) -> list[Configuration]:
    """The first configurations of a campaign that names this preset of the fileserver."""
    testbed = SimulatedTestbed(SPACES, World((), Noise(0.0, 0.0), 1), initial)
    target = testbed.open(load_workload("mixed-use"), lambda message: None).target
    server = {"name": NAMES["fileserver"], "presets": [preset]}
    campaign = spec(
        first=(), spaces={"fileserver": server, "cache_manager": NAMES["cache_manager"]}
    )
    return [p.configuration for p in first_proposals(target, least_facts({"": target}), campaign)]


def of_preset(name: str) -> dict[str, Value]:
    (preset,) = [p for p in SPACES["fileserver"].presets if p.name == name]
    return {f"fileserver.{name}": value for name, value in preset.values.items()}


def test_a_preset_leaves_risky_and_held_settings_as_found() -> None:
    risky: dict[str, Value] = {"fileserver.sync_behavior": "always", "fileserver.rx_max_mtu": 1400}
    quiet: dict[str, Value] = {"fileserver.vhandle_setaside": 200}
    client: dict[str, Value] = {"cache_manager.daemons": 4}
    others: dict[str, Value] = {"fileserver.threads": 40, "fileserver.dir_buffers": 300}
    (configuration,) = proposed("debian-newcell", risky | quiet | client | others)
    values = of_preset("debian-newcell") | risky | quiet | client
    assert configuration == Configuration.of(values)


def test_a_preset_sets_what_it_names_whatever_was_found() -> None:
    initial: dict[str, Value] = {"fileserver.jumbograms": False, "fileserver.busy_threshold": 300}
    (jumbo,) = proposed("jumbo", initial)
    assert jumbo == Configuration.of(initial | {"fileserver.jumbograms": True})
    (debian,) = proposed("debian-newcell", initial)
    assert debian == Configuration.of(initial | of_preset("debian-newcell"))


def test_a_preset_over_nothing_found_is_the_preset() -> None:
    assert proposed("debian-newcell", {}) == [Configuration.of(of_preset("debian-newcell"))]
