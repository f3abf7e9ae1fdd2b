"""The caveats of a recommendation follow from what it changes."""

from __future__ import annotations

import pytest

from tuner.model import Configuration, SettingEffect, Value
from tuner.plan.setting_effects import caveats, measured_together

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
    notes = measured_together(Configuration.of(BASELINE | changed), baseline)
    assert bool(notes) is caveat


CHANGED = {"fileserver.threads": 128, "fileserver.callbacks": 100_000}
PAYS, UNCLEAR = SettingEffect(0.9, 0.85, 0.95), SettingEffect(0.9, 0.7, 1.1)


def caveats_on(certified: bool, **effects: SettingEffect) -> list[str]:
    """Return what follows the caveat on how the effects are estimated."""
    first, *others = caveats(
        {f"fileserver.{name}": effect for name, effect in effects.items()},
        Configuration.of(BASELINE | CHANGED),
        Configuration.of(BASELINE),
        certified=certified,
    )
    assert first.startswith("the gain of each setting")
    return others


def test_settings_without_a_clear_effect_are_named() -> None:
    assert caveats_on(True, threads=PAYS, callbacks=PAYS) == []
    assert caveats_on(True, threads=PAYS, callbacks=UNCLEAR) == [
        "no effect is shown of fileserver.callbacks, which may do nothing"
    ]
    assert caveats_on(False, threads=UNCLEAR, callbacks=UNCLEAR) == [
        "no effect is shown of fileserver.threads, fileserver.callbacks, which may do nothing"
    ]


def test_settings_that_gain_together_are_not_all_said_to_do_nothing() -> None:
    assert caveats_on(True, threads=UNCLEAR, callbacks=UNCLEAR) == [
        "which settings the gain comes from is not shown; by itself, each may do nothing"
    ]


def test_a_setting_that_was_never_left_out_may_be_the_one_that_gains() -> None:
    assert caveats_on(True, threads=UNCLEAR) == [
        "no effect is shown of fileserver.threads, which may do nothing",
        "the gain of fileserver.callbacks is not known, as the campaign never tries the others "
        "without",
    ]
