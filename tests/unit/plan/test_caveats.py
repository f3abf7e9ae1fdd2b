"""The caveats of a recommendation follow from what it changes."""

from __future__ import annotations

import pytest

from tuner.model import Configuration, Value
from tuner.plan.setting_effects import measured_together

BASELINE = {"fileserver.threads": 20, "fileserver.jumbograms": True}


@pytest.mark.parametrize(
    ("changed", "caveat"),
    [
        ({"fileserver.threads": 128}, False),  # a value in place of another is one change
        ({"fileserver.callbacks": 100_000}, False),
        ({"fileserver.threads": 128, "fileserver.callbacks": 100_000}, True),
    ],
)
def test_one_changed_setting_was_not_measured_together_with_others(
    changed: dict[str, Value], caveat: bool
) -> None:
    baseline = Configuration.of(BASELINE)
    caveats = measured_together(Configuration.of(BASELINE | changed), baseline)
    assert bool(caveats) is caveat
