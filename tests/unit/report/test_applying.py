"""Explanations of recommended settings: meaning, cost, how to apply and undo them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import search_spaces
from tests.unit.report.samples import NO_FINALIST, RECOMMENDED, campaign, printed
from tuner.model import Configuration
from tuner.report.applying import without_effect
from tuner.report.recommendation_document import recommendation_page
from tuner.spec.space_section import stored_spaces

CLIENT = "openafs-cache-manager-linux-1.8"
SPACES = {
    "fileserver": search_spaces.load("openafs-fileserver-1.8"),
    "cache_manager": search_spaces.load(CLIENT),
}
ANSWER = replace(
    RECOMMENDED,
    baseline=Configuration.of({"fileserver.threads": 12}),
    configuration=Configuration.of(
        {"fileserver.threads": 12, "fileserver.callbacks": 1_000_000, "cache_manager.chunksize": 20}
    ),
    flags={"fileserver": ("-p", "12", "-cb", "1000000"), "cache_manager": ("-chunksize", "20")},
    baseline_flags={"fileserver": ("-p", "12"), "cache_manager": ()},
)


def test_each_changed_setting_is_explained() -> None:
    text = printed(recommendation_page(campaign(), ANSWER, spaces=SPACES), 160)
    assert "fileserver.callbacks (callbacks): promises to clients" in text
    assert "; default: 60000" in text
    assert "cache_manager.chunksize (log2 of bytes): bytes fetched or stored by one RPC" in text
    assert "fileserver.threads (" not in text
    assert "memory of dafileserver on each host: about " in text


#: The default of daemons is a number, that of blocks depends on the host.
AS_BEFORE = replace(
    ANSWER,
    configuration=Configuration.of(
        ANSWER.configuration.as_dict()
        | {"cache_manager.daemons": 4, "cache_manager.blocks": 100_000}
    ),
)


def test_a_setting_that_is_in_effect_already_is_no_change() -> None:
    page = printed(recommendation_page(campaign(), AS_BEFORE, spaces=SPACES), 160)
    assert without_effect(AS_BEFORE, SPACES) == {"cache_manager.daemons"}
    assert "cache_manager.daemons not set 4" in page
    assert "prefetch and store data; no change: 4 is in effect already" in page
    # Its default is what the host's cacheinfo says.
    assert "size of the cache; usual default: 100000" in page


def test_a_setting_that_is_left_out_may_stay_in_effect_too() -> None:
    less = replace(ANSWER, baseline=AS_BEFORE.configuration)
    assert without_effect(less, SPACES) == {"cache_manager.daemons"}


def test_a_setting_that_keeps_its_value_because_it_is_set_is_a_change() -> None:
    """Left as it is in the baseline, it would get another value with the other changes."""
    threads = {"fileserver.threads": 128, "fileserver.large_vnodes": 600}
    answer = replace(
        ANSWER,
        baseline=Configuration.of({"fileserver.preset": "L"}),
        configuration=Configuration.of(threads | {"fileserver.vlru_max": 8}),
    )
    before, after = (
        SPACES["fileserver"].in_effect(each.part("fileserver"))
        for each in (answer.baseline, answer.configuration)
    )
    assert (before["threads"], before["large_vnodes"]) == (128, 600)
    assert (after["threads"], after["large_vnodes"]) == (128, 600)
    assert without_effect(answer, SPACES) == {"fileserver.vlru_max"}


def test_the_cost_of_settings_that_the_program_refuses_is_left_out() -> None:
    """An imported campaign may have such settings."""
    beyond = replace(ANSWER, baseline=Configuration.of({"fileserver.volume_hash": 600}))
    text = printed(recommendation_page(campaign(), beyond, spaces=SPACES), 160)
    assert "What these settings mean" in text
    assert "memory of dafileserver" not in text
    assert "memory of dafileserver" in printed(
        recommendation_page(campaign(), ANSWER, spaces=SPACES), 160
    )


def test_where_it_goes_and_how_it_is_undone() -> None:
    text = printed(recommendation_page(campaign(), ANSWER, spaces=SPACES), 160)
    for words in (
        "the command line of dafileserver in its instance of bosserver",
        "fstune recommend --format bos",
        "fileserver, undo: the same with the options as found: -p 12",
        "OPTIONS in /etc/openafs/afs.conf",
        "cache_manager, undo: the same with the options as found: (none)",
    ):
        assert words in text


def test_what_does_not_change_needs_nothing_done() -> None:
    same = replace(ANSWER, flags={**ANSWER.flags, "cache_manager": ()})
    assert "afs.conf" not in printed(recommendation_page(campaign(), same, spaces=SPACES), 160)


@pytest.mark.parametrize(("answer", "spaces"), [(NO_FINALIST, SPACES), (ANSWER, {})])
def test_nothing_to_apply_without_improvement_or_space(answer: object, spaces: object) -> None:
    page = recommendation_page(campaign(), answer, spaces=spaces)  # type: ignore[arg-type]
    assert "To apply" not in printed(page, 160)


def test_a_stored_campaign_whose_specification_is_gone_has_no_spaces() -> None:
    for text in ("", "{}", '{"spaces": {"fileserver": {"name": "gone"}}}', '{"spaces": [1]}'):
        assert stored_spaces(text) == {}
    document = {"spaces": {"fileserver": None, "cache_manager": {"name": CLIENT}}}
    assert set(stored_spaces(json.dumps(document))) == {"cache_manager"}
