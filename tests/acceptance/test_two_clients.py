"""A campaign on two clients with a reference, as a user would run it."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.acceptance.conftest import Place, write_campaign
from tuner.model import PageCache
from tuner.states import BlockState, CampaignState

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]


def extend(place: Place, **changes: object) -> None:
    """Change the campaign file."""
    document = yaml.safe_load(place.campaign_file.read_text())
    place.campaign_file.write_text(yaml.safe_dump(document | changes, sort_keys=False))


@pytest.mark.disk
def test_two_clients_and_a_reference(place: Place) -> None:
    write_campaign(place, [{"fileserver.threads": 20}])
    extend(
        place,
        testbed={"cell": {"name": place.cell, "clients": 2}},
        references=[{"name": "local-disk", "path": "/fstune"}],
        search={"arms": 1, "blocks_per_trial": 3, "max_trials": 1},
        budget={"wall_time": "5m", "measurements": 8},
    )
    result = place.fstune("run", str(place.campaign_file))
    assert result.returncode == 0, result.stdout + result.stderr
    campaign, _, blocks, events = place.load()
    assert campaign.state is CampaignState.FINISHED
    complete = [block for block in blocks if block.state is BlockState.COMPLETE]
    assert complete
    for block in complete:
        for measurement in block.measurements:
            assert set(measurement.clients) == {"client1", "client2"}
            for name, merged in measurement.components.items():
                parts = [own[name] for own in measurement.clients.values()]
                assert merged.operations == sum(part.operations for part in parts)
                assert merged.elapsed_s == max(part.elapsed_s for part in parts)
        (reference,) = block.references
        assert reference.name == "local-disk"
        assert reference.page_cache is PageCache.DROPPED
        assert reference.seed == block.measurements[0].seed
        assert set(reference.components) == set(block.measurements[0].components)
    measured = sum(len(block.references) for block in blocks)
    assert sum(event.kind == "reference-measured" for event in events) == measured

    answer = json.loads(place.fstune("recommend", "--format", "json").stdout)
    as_found = answer["references"][0]
    assert (as_found["reference"], as_found["settings"]) == ("local-disk", "as found")
    assert (as_found["blocks"], as_found["clients"], as_found["cold"]) == (len(complete), 2, True)
    assert as_found["ratio"] > 0.0
    pages = [place.fstune(command).stdout for command in ("recommend", "show")]
    for page in pages:
        output = " ".join(page.split())
        assert "The service as found takes" in output
        assert "times as long as local-disk (95% interval" in output
    assert "client2:" in pages[1]
    assert place.left_behind() == []
