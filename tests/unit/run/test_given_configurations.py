"""Configurations that a campaign file gives: laid over what was found, and checked."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import search_spaces
from search_spaces import Value
from tests.unit.campaign.campaigns import spec
from tuner.errors import SpecError
from tuner.run.proposing import compared, first_proposals
from tuner.services.kind import Preview
from tuner.services.simulated.testbed import FACTS
from tuner.services.target import Target
from tuner.spec.checking import check_plan, wrong_on
from tuner.spec.space_section import load_space


def measure(
    initial: dict[str, Value], values: dict[str, Value], facts: dict[str, int] | None = None
) -> list[dict[str, Value]]:
    """Check a campaign with ``values`` over a fileserver with ``initial``: before it
    is stored, then on its host. Returns what it measures there.
    """
    values_by_name = {f"fileserver.{name}": value for name, value in values.items()}
    campaign = spec(first=[values_by_name])
    compare = spec(first=[], compare={"one": {"fileserver": values}})
    spaces = {part: load_space(section, part) for part, section in campaign.spaces.items()}
    limits = {**FACTS, **(facts or {})}
    preview = Preview({f"fileserver.{name}": value for name, value in initial.items()}, limits)
    check_plan(campaign, spaces, [preview])
    check_plan(compare, spaces, [preview])
    parts = {
        part: SimpleNamespace(
            space=space, facts=limits, initial=initial if part == "fileserver" else {}
        )
        for part, space in spaces.items()
    }
    target = Target(parts)
    hosts = dict.fromkeys(parts, limits)
    proposals = first_proposals(target, hosts, campaign) + compared(target, hosts, compare)
    return [proposal.configuration.part("fileserver") for proposal in proposals]


def test_a_preset_as_found_is_expanded_for_a_value_that_it_sets() -> None:
    first, other = measure({"preset": "L", "busy_threshold": 600}, {"threads": 64})
    assert first == other
    assert (first["threads"], first["callbacks"], first["busy_threshold"]) == (64, 64000, 600)
    assert "preset" not in first
    whole, _ = measure({"preset": "L"}, {"udp_buffer": 131072})
    assert whole == {"preset": "L", "udp_buffer": 131072}


def test_a_preset_given_together_with_its_values_is_refused() -> None:
    with pytest.raises(SpecError, match="threads may not be set: a preset sets it"):
        measure({}, {"preset": "L", "threads": 64})


def test_a_word_in_place_of_a_number_is_refused_on_a_preset_as_found() -> None:
    with pytest.raises(SpecError, match="threads: 'many' is not a whole number"):
        measure({"preset": "L"}, {"threads": "many"})


def test_what_the_baseline_breaks_already_is_no_reason_to_refuse() -> None:
    initial: dict[str, Value] = {"udp_buffer": 1 << 20, "callbacks": 1_000_000_000}
    facts = {"net_core_rmem_max": 212992}
    first, _ = measure(initial, {"threads": 64}, facts)
    assert first == {**initial, "threads": 64}
    with pytest.raises(SpecError, match="udp_buffer: 2097152 is above 212992"):
        measure(initial, {"udp_buffer": 1 << 21}, facts)
    with pytest.raises(SpecError, match="more than half of the server's memory"):
        measure({"udp_buffer": 1 << 20}, {"callbacks": 1_000_000_000}, facts)


@pytest.mark.parametrize(
    ("space", "fix", "initial"),
    [
        ("openafs-fileserver-1.8", {"dir_buffers": 100}, {"preset": "L"}),
        (
            "openafs-cache-manager-fuse-1.8",
            {"memcache": True},
            {"files": 100_000, "blocks": 10_000_000},
        ),
    ],
)
def test_what_was_found_gives_way_to_what_is_fixed(
    space: str, fix: dict[str, Value], initial: dict[str, Value]
) -> None:
    narrow = search_spaces.load(space).narrow(fix=fix)
    assert list(wrong_on(narrow, FACTS, initial)) == []


def test_a_fixed_value_that_the_settings_found_exclude_is_refused() -> None:
    narrow = search_spaces.load("openafs-cache-manager-fuse-1.8").narrow(fix={"files": 100_000})
    why = "fix: files may not be set: a cache in memory derives it from -blocks and -chunksize"
    assert why in wrong_on(narrow, FACTS, {"memcache": True})
