"""Messages about mistakes in a user's file: all mistakes at once, each with what to write
instead.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from search_spaces.reading import document
from tuner.compose import prepare
from tuner.errors import SpecError
from tuner.services.kinds import type_of_file
from tuner.spec.campaign import read_spec

CAMPAIGN = """
name: mine
testbed: {simulated: {}}
spaces: {cache_manager: openafs-cache-manager-fuse-1.8}
workload: mixed-use
"""


def refusal(tmp_path: Path, *lines: str, campaign: str = CAMPAIGN) -> str:
    file = tmp_path / "campaign.yaml"
    file.write_text("\n".join([campaign, *lines]))
    with pytest.raises(SpecError) as refused:
        read_spec(file)
    return str(refused.value).removeprefix(f"{file}: ")


def test_a_misspelt_key_is_not_called_missing(tmp_path: Path) -> None:
    misspelt = CAMPAIGN.replace("cache_manager: o", "cache_manger: o")
    message = refusal(tmp_path, campaign=misspelt)
    assert message == "spaces.cache_manger: unknown key; did you mean 'cache_manager'?"


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    message = refusal(tmp_path, "serch: {}", "pilot: {blocks: 2}", "search: {arms: 99}")
    for mistake in (
        "pilot.blocks: a pilot takes at least 3 blocks",
        "search.arms: input should be less than or equal to 50, not 99",
        "serch: unknown key; did you mean 'search'?",
    ):
        assert mistake in message


def test_misspelt_names_are_reported_with_the_other_mistakes(tmp_path: Path) -> None:
    misspelt = CAMPAIGN.replace("mixed-use", "mixd-use").replace("fuse-1.8", "fuze-1.8")
    message = refusal(tmp_path, "serch: {}", campaign=misspelt)
    assert "serch: unknown key; did you mean 'search'?" in message
    assert "workload mixd-use: no workload and no file 'mixd-use'" in message
    assert "did you mean 'mixed-use'?" in message
    assert "did you mean 'openafs-cache-manager-fuse-1.8'?" in message


def test_misspelt_names_alone_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(CAMPAIGN.replace("mixed-use", "mixd-use").replace("fuse-1.8", "fuze-1.8"))
    with pytest.raises(SpecError) as refused:
        prepare(read_spec(file), tmp_path)
    assert "did you mean 'mixed-use'?" in str(refused.value)
    assert "did you mean 'openafs-cache-manager-fuse-1.8'?" in str(refused.value)


def test_every_unknown_parameter_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(f"{CAMPAIGN}first: [{{chunksize: 20}}, {{cache_manager.daemns: 5}}]\n")
    with pytest.raises(SpecError) as refused:
        prepare(read_spec(file), tmp_path)
    for words in ("first.0: no parameter 'chunksize'", "mean 'cache_manager.chunksize'?"):
        assert words in str(refused.value)
    for words in ("first.1: no parameter", "mean 'cache_manager.daemons'?"):
        assert words in str(refused.value)


def test_invalid_yaml_is_reported_with_its_position(tmp_path: Path) -> None:
    message = refusal(tmp_path, "\tseed: 1")
    assert message.startswith("not YAML: line 7, column 1: while scanning")
    assert "unicode string" not in message
    assert "^" not in message


#: PyYAML writes what d merges into the nodes of x before it constructs x.
MERGED = """
base: &base {k: 0}
a: {b: {c: &x {<<: *base, k: 1}}}
d: {<<: *x, j: 2}
"""


@pytest.mark.parametrize("trusted", [True, False])
def test_merged_keys_may_be_given_again(trusted: bool) -> None:
    merged = {"base": {"k": 0}, "a": {"b": {"c": {"k": 1}}}, "d": {"k": 1, "j": 2}}
    assert document(MERGED, trusted) == merged


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: {b: [{k: 0, j: 1, k: 2}]}", 0),
        ("? {k: 1, k: 2}\n: 0", 0),
        (f"{MERGED}e: [&e {{k: [*x, *e], k: 2}}]\nf: {{j: 1, j: 1}}", 4),
    ],
)
def test_a_key_given_twice_is_refused_wherever_it_is(trusted: bool, text: str, line: int) -> None:
    with pytest.raises(yaml.MarkedYAMLError, match="the key 'k' is given twice") as refused:
        document(text, trusted)
    assert refused.value.problem_mark is not None
    assert refused.value.problem_mark.line == line


def test_many_mistakes_stay_one_line(tmp_path: Path) -> None:
    message = refusal(tmp_path, *(f"unknown_{n}: 1" for n in range(30)))
    assert message.count("unknown key") == 8
    assert message.endswith("and 22 more")


def test_a_mistake_of_any_length_is_reported_in_a_short_line(tmp_path: Path) -> None:
    message = refusal(tmp_path, f"? {'x' * 100_000}\n: 1")
    assert "...xxx" in message
    assert message.endswith("workload")
    assert len(message) < 3_000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("budget: 6h", "budget: write a mapping, such as 'budget: {wall_time: 6h}'"),
        ("pilot: 5", "pilot: write a mapping, such as 'pilot: {blocks: 5}'"),
        ("budget: [6h]", "budget: write a mapping of: wall_time, measurements"),
        ("statistics: {delta: 2}", "2% or 0.02; for 2 percent write 2%"),
        ("statistics: {delta: 0}", "statistics.delta: write a share above 0% and below 100%"),
        ("statistics: {delta: true}", "statistics.delta: write a share such as 2% or 0.02"),
        ("seed: false", "seed: write a number, not false"),
        ("first: [{fileserver: {threads: 64}}]", "first: write 'fileserver.threads: 64'"),
        (
            "compare: {a: {cache_manager.chunksize: 20}}",
            "compare.a.cache_manager.chunksize: write 'cache_manager: {chunksize: 20}'",
        ),
        (
            f"references: {[{'name': 'r', 'path': '/r'}] * 21}",
            "references: write at most 20 entries",
        ),
        ("budget: {wall_time: null}", "write a duration such as 90s, 8m, 6h, 1h30m or 3d"),
        ("budget: {wall_time: true}", "write a duration such as 90s, 8m, 6h, 1h30m or 3d"),
        ("budget: {wall_time: 1:30}", "write a duration such as 90s, 8m, 6h, 1h30m or 3d"),
        ("seed: abc", "seed: write a whole number, not 'abc'"),
        ("seed: 1.5", "seed: write a whole number, not 1.5"),
        ("first: {cache_manager.chunksize: 20}", "first: write a list, in square brackets"),
        ("testbeds: here", "testbeds: write a list, in square brackets, not 'here'"),
        ("pilot: {override: maybe}", "pilot.override: write true or false, not 'maybe'"),
        ("budget: {wall_time: soon}", "write a duration such as 90s, 8m, 6h, 1h30m or 3d"),
        ("budget: {wall_time: 30m1h}", "write each unit once, the largest first"),
        ("budget: {wall_time: 1h1h}", "write each unit once, the largest first"),
    ],
)
def test_messages_say_what_to_write(tmp_path: Path, line: str, words: str) -> None:
    assert words in refusal(tmp_path, line)


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h30m", 5400.0), ("1d 2h", 93600.0), ("90s", 90.0), ("1.5h", 5400.0)]
)
def test_durations_of_several_units(tmp_path: Path, text: str, seconds: float) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(f"{CAMPAIGN}\nbudget: {{wall_time: {text}}}\n")
    assert read_spec(file).budget.wall_time == seconds


def test_a_percentage_needs_no_hint_at_percentages(tmp_path: Path) -> None:
    message = refusal(tmp_path, "statistics: {delta: 150%}")
    assert message == "statistics.delta: write a share above 0% and below 100%, such as 2% or 0.02"


@pytest.mark.parametrize("name", ["'   '", "...", "last"])
def test_names_by_which_no_campaign_could_be_named(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, campaign=CAMPAIGN.replace("mine", name)).startswith("name: ")


def test_two_testbeds_that_are_the_same(tmp_path: Path) -> None:
    same = "testbeds: [{simulated: {name: a}}, {simulated: {name: a}}]"
    message = refusal(tmp_path, campaign=CAMPAIGN.replace("testbed: {simulated: {}}", same))
    assert message == "testbeds: a is named twice"


@pytest.mark.parametrize("trusted", [True, False])
def test_times_of_day_are_text(trusted: bool) -> None:
    """YAML 1.1 reads them as numbers to the base 60."""
    content = document("{a: 20:00, b: 1:30.5, c: 10, d: -1.5, 7:15: 0}", trusted)
    assert content == {"a": "20:00", "b": "1:30.5", "c": 10, "d": -1.5, "7:15": 0}


@pytest.mark.parametrize(
    ("text", "sort"),
    [
        ("name: x\nserver: {}\nclients: []\n", "not a campaign file but a testbed file"),
        ("name: x\nfilesets: {}\n", "not a campaign file but a workload"),
        ("name: x\nsimulated: {}\nworkload: w\n", "not a campaign file but a surface file"),
    ],
)
def test_a_file_of_another_sort_is_recognised(tmp_path: Path, text: str, sort: str) -> None:
    assert refusal(tmp_path, campaign=text).startswith(f"{sort}: it has ")


def test_a_campaign_file_is_recognised_where_a_testbed_file_belongs(tmp_path: Path) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(CAMPAIGN)
    with pytest.raises(SpecError) as refused:
        type_of_file(file)
    assert str(refused.value) == (
        f"{file}: not a testbed file but a campaign file: it has 'testbed'"
    )
