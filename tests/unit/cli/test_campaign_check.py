"""``fstune campaign check``, and what is refused before a campaign is stored."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tuner.cli.app import app
from tuner.judge.power import detectable_effect

CAMPAIGN = """
name: mine
testbed: {simulated: {found: {cache_manager.daemons: 3}}}
spaces: {cache_manager: {name: openafs-cache-manager-fuse-1.8, only: [chunksize]}}
workload: mixed-use
"""
CELL = CAMPAIGN.replace("{simulated: {found: {cache_manager.daemons: 3}}}", "{cell: {}}")


def refusal(tmp_path: Path, text: str, *command: str) -> str:
    file = tmp_path / "campaign.yaml"
    file.write_text(text)
    state = tmp_path / "state"
    done = CliRunner().invoke(app, [*command, str(file), "--state-dir", str(state)])
    assert done.exit_code != 0
    assert not state.exists()
    return str(done.exception)


@pytest.mark.parametrize("campaign", [CAMPAIGN, CELL], ids=["simulated", "cell"])
@pytest.mark.parametrize("command", [("campaign", "check"), ("run",), ("pilot",)])
def test_a_first_guess_that_no_host_takes(
    tmp_path: Path, campaign: str, command: tuple[str, ...]
) -> None:
    text = campaign + "first: [{cache_manager.chunksize: 99}, {cache_manager.chunksize: x}]"
    message = refusal(tmp_path, text, *command)
    assert "first.0: cache_manager: chunksize: 99 is above 30" in message
    assert "first.1: cache_manager: chunksize: 'x' is not a whole number" in message


def test_a_first_guess_that_goes_beyond_the_simulated_hosts(tmp_path: Path) -> None:
    text = CAMPAIGN + "first: [{cache_manager.memcache: true, cache_manager.blocks: 900000000}]"
    assert "first.0: cache_manager: " in refusal(tmp_path, text, "run")


def test_a_first_guess_that_goes_beyond_this_machine_is_refused_before_a_cell_is_up(
    tmp_path: Path,
) -> None:
    too_large = "first: [{cache_manager.memcache: true, cache_manager.blocks: 2000000000}]"
    assert "first.0: cache_manager: " in refusal(tmp_path, CELL + too_large, "run")
    # Also checked against the client's original state: a new one has a small cache.
    beyond_found = "first: [{cache_manager.files: 262144}]"
    message = refusal(tmp_path, CELL + beyond_found, "campaign", "check")
    assert "first.0: cache_manager: " in message
    fits = "first: [{cache_manager.chunksize: 20}, {cache_manager.blocks: 150000}]"
    assert "First guesses" in plan_of(tmp_path, CELL + fits)


def test_compared_configurations_are_no_first_guesses(tmp_path: Path) -> None:
    page = plan_of(tmp_path, CAMPAIGN + "compare: {large: {cache_manager: {chunksize: 20}}}")
    section = page.partition("Compared with the baseline\n")[2]
    assert section.lstrip().startswith("compare.large: cache_manager.chunksize = 20")
    assert "First guesses" not in page
    assert "Parameters searched" not in page


def test_a_pilot_is_suggested_only_where_there_is_one(tmp_path: Path) -> None:
    compared = CAMPAIGN + "compare: {large: {cache_manager: {chunksize: 20}}}\n"
    message = refusal(tmp_path, compared, "pilot")
    assert "a file with 'compare' has no pilot unless it has 'pilot: {blocks: 3}'" in message
    assert "pilot.blocks is 0" in refusal(tmp_path, CAMPAIGN + "pilot: {blocks: 0}", "pilot")
    assert "fstune pilot" not in plan_of(tmp_path, compared)
    assert "fstune pilot" not in plan_of(tmp_path, CAMPAIGN + "pilot: {blocks: 0}")
    assert "fstune pilot" in plan_of(tmp_path, compared + "pilot: {blocks: 3}")
    assert "fstune pilot" in plan_of(tmp_path, CAMPAIGN)


def test_a_campaign_with_nothing_to_try(tmp_path: Path) -> None:
    message = refusal(tmp_path, CAMPAIGN.replace("[chunksize]", "[]"), "run")
    assert "spaces: no parameter is searched" in message
    fixed = CAMPAIGN.replace("[chunksize]", "[], fix: {daemons: 4}")
    assert plan_of(tmp_path, fixed)


@pytest.mark.parametrize(
    ("sections", "alpha"),
    [
        ("", 0.6 * 0.025),
        ("pilot: {blocks: 0}", 0.6 * 0.025),
        ("pilot: {blocks: 0}\ncertification: {finalists: 2}", 0.6 * 0.025 / 2),
        (
            "compare: {large: {cache_manager: {chunksize: 20}}, "
            "small: {cache_manager: {chunksize: 14}}}",
            0.025 / 2,
        ),
    ],
)
def test_the_smallest_improvement_is_that_of_the_error_of_the_first_attempt(
    tmp_path: Path, sections: str, alpha: float
) -> None:
    page = plan_of(tmp_path, CAMPAIGN + sections)
    blocks = re.search(r"room for (\d+) blocks of certification", page)
    assert blocks is not None
    smallest = math.expm1(0.03 * detectable_effect(int(blocks[1]), alpha))
    assert re.search(rf"^ *3% +{100.0 * smallest:.1f}% *$", page, re.MULTILINE)


@pytest.mark.parametrize(
    ("sections", "room", "why"),
    [
        ("budget: {wall_time: 1s}", 20, "an attempt takes"),
        ("budget: {measurements: 55}", 20, "an attempt takes"),
        ("budget: {measurements: 54}", 19, "54 measurements allow"),
        ("budget: {measurements: 21}", 3, "21 measurements allow"),
        ("budget: {measurements: 49}\npilot: {blocks: 0}", 20, "an attempt takes"),
        ("budget: {measurements: 17}\npilot: {blocks: 0}", 4, "17 measurements allow"),
        ("budget: {measurements: 15}\nwarm_start: auto", 4, "15 measurements allow"),
        ("budget: {measurements: 17}\nsearch: {arms: 2}", 4, "17 measurements allow"),
    ],
)
def test_the_budget_limits_the_blocks_of_certification(
    tmp_path: Path, sections: str, room: int, why: str
) -> None:
    page = " ".join(plan_of(tmp_path, CAMPAIGN + sections).split())
    blocks = f"{room} blocks of certification, the most that {why}; with 80% power:"
    assert f"if the budget leaves room for {blocks}" in page
    smallest = 100.0 * math.expm1(0.03 * detectable_effect(room, 0.6 * 0.025))
    assert f" 3% {smallest:.1f}% " in page


@pytest.mark.parametrize(
    ("sections", "most", "least"),
    [
        ("", 8, 21),
        ("", 20, 21),
        ("search: {arms: 1}", 14, 15),  # the pilot reserves too little for certification
        ("search: {arms: 1}\npilot: {override: true}", 13, 14),
        ("pilot: {blocks: 0}", 14, 15),
        ("certification: {finalists: 2}", 23, 24),
        ("warm_start: auto", 14, 15),
    ],
)
def test_a_budget_too_small_for_a_certificate_is_known_before_the_pilot(
    tmp_path: Path, sections: str, most: int, least: int
) -> None:
    def page(measurements: int) -> str:
        budget = f"budget: {{measurements: {measurements}}}\n"
        return " ".join(plan_of(tmp_path, CAMPAIGN + budget + sections).split())

    too_few = (
        f"{most} measurements are too few to certify anything: this campaign needs at least "
        f"{least}; raise budget.measurements"
    )
    assert too_few in page(most)
    assert "Smallest improvement" not in page(most)
    assert "too few" not in page(least)


def test_every_configuration_of_a_comparison_takes_a_measurement_of_each_block(
    tmp_path: Path,
) -> None:
    compared = "a: {cache_manager: {chunksize: 20}}, b: {cache_manager: {chunksize: 21}}"
    sections = f"budget: {{measurements: 23}}\ncompare: {{{compared}}}"
    page = " ".join(plan_of(tmp_path, CAMPAIGN + sections).split())
    assert "room for 7 blocks of certification, the most that 23 measurements allow" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("testbeds", "sections", "enough"),
    [
        (1, "budget: {measurements: 20}", False),
        (1, "budget: {measurements: 21}", True),
        (1, "budget: {measurements: 14}\nsearch: {arms: 1}", False),
        (1, "budget: {measurements: 15}\nsearch: {arms: 1}", True),
        (2, "budget: {measurements: 33}", False),
        (2, "budget: {measurements: 34}", True),
        (2, "budget: {measurements: 37}", True),
        (2, "budget: {measurements: 39}", True),
    ],
)
def test_a_run_needs_as_many_measurements_as_the_plan_says(
    tmp_path: Path, testbeds: int, sections: str, enough: bool
) -> None:
    effect = "{parameter: cache_manager.chunksize, low: 19, high: 24, change: -0.3}"
    alike = [f"{{simulated: {{name: hall{n}, effects: [{effect}]}}}}" for n in range(testbeds)]
    where = f"testbed: {alike[0]}" if testbeds == 1 else f"testbeds: [{', '.join(alike)}]"
    campaign = re.sub(r"^testbed: .*$", where, CAMPAIGN, flags=re.MULTILINE)
    text = f"{campaign}{sections}\nfirst: [{{cache_manager.chunksize: 20}}]\n"
    assert ("too few" not in plan_of(tmp_path, text)) == enough
    arguments = ["run", str(tmp_path / "campaign.yaml"), "--quiet"]
    state = ["--state-dir", str(tmp_path / "state")]
    done = CliRunner().invoke(app, [*arguments, *state])
    assert ("Recommended:" in done.output) == enough, done.output


def test_where_the_least_blocks_cannot_certify_anything_the_table_says_none(tmp_path: Path) -> None:
    sections = "budget: {measurements: 42}\npilot: {blocks: 0}\ncertification: {finalists: 10}"
    assert re.search(r"^ *10% +none *$", plan_of(tmp_path, CAMPAIGN + sections), re.MULTILINE)


def plan_of(tmp_path: Path, text: str) -> str:
    file, state = tmp_path / "campaign.yaml", tmp_path / "state"
    file.write_text(text)
    arguments = ["campaign", "check", str(file), "--state-dir", str(state)]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.exception
    assert not state.exists()
    return done.output


def test_the_plan_is_shown_and_nothing_is_stored(tmp_path: Path) -> None:
    page = plan_of(tmp_path, CAMPAIGN + "first: [{cache_manager.chunksize: 20}]")
    for words in (
        "Campaign mine: the file is valid",
        "simulated: no host is touched",
        "cache_manager  openafs-cache-manager-fuse-1.8",
        "cache_manager.chunksize  13 to 24 log2 of bytes",
        "first.0: cache_manager.chunksize = 20",
        "1 h 00 min of measuring time",
        "if the budget leaves room for 20 blocks of certification, the most that an attempt takes",
    ):
        assert words in page


CLIENT = """name: mine
testbed: {simulated: {found: {cache_manager.memcache: true}}}
workload: mixed-use
spaces:
  cache_manager: {name: openafs-cache-manager-fuse-1.8, """


@pytest.mark.parametrize(
    ("section", "why"),
    [
        (
            "only: [daemons], fix: {memcache: false, blocks: 50000000}}",
            "spaces.cache_manager: fix: blocks: 50000000 is above ",
        ),
        (
            "only: [daemons], fix: {memcache: true, blocks: 4000000, stat: 5000000}}",
            "no configuration fits this host: the configuration would take more than half of the",
        ),
        (
            "only: [files]}",
            "spaces: nothing that is searched can be changed on this testbed (cache_manager.files:",
        ),
    ],
)
@pytest.mark.parametrize("command", [("campaign", "check"), ("run",)])
def test_a_space_that_leaves_nothing_on_the_hosts(
    tmp_path: Path, section: str, why: str, command: tuple[str, ...]
) -> None:
    assert why in refusal(tmp_path, CLIENT + section, *command)


@pytest.mark.parametrize(
    ("sections", "run"),
    [
        ("budget: {wall_time: 1s}", "21 measurements, so a run of the workload may take 0.048 s"),
        ("budget: {wall_time: 7m}", "21 measurements, so a run of the workload may take 20 s"),
        ("budget: {wall_time: 7m}\npilot: {blocks: 0}", "may take 28 s"),
    ],
)
def test_the_plan_says_how_long_a_run_may_take(tmp_path: Path, sections: str, run: str) -> None:
    page = " ".join(plan_of(tmp_path, CAMPAIGN + sections).split())
    assert f"{run} at most, restarts included" in page
