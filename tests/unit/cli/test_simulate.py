"""``fstune simulate``: what it prints, what it refuses, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.unit.cli.conftest import Fstune, process_of
from tests.unit.simulate.test_campaign import FASTER, write_surface
from tests.waiting import wait_for
from tuner.simulate import surface as surfaces
from tuner.simulate import surface_names

pytestmark = pytest.mark.slow

QUICK = ("--budget", "1m", "--pilot", "0", "--sampler", "random")


@pytest.fixture
def surface(tmp_path: Path) -> Path:
    return write_surface(tmp_path / "made.yaml", FASTER)


def test_campaigns_are_listed_by_seed_with_a_summary(fstune: Fstune, surface: Path) -> None:
    done = fstune("simulate", surface, "--seeds", "1-2,5", *QUICK, "--budget", "2m")
    assert (done.returncode, done.stderr) == (0, "")
    rows, summary = done.stdout.split("\n\n")
    heading, *campaigns = rows.splitlines()
    assert heading.split()[:4] == ["Seed", "Answer", "Truth", "Regret"]
    assert [row.split()[0] for row in campaigns] == ["1", "2", "5"]
    text = " ".join(summary.split())
    assert "made: the best that keeps the floor of 25% is 42.9% faster: threads=20" in text
    assert "of 3 (" in text
    assert "of these false: 0" in text


def test_the_same_for_programs(fstune: Fstune, surface: Path) -> None:
    done = fstune("simulate", surface, "--seeds", "4", "--noise", "0.03", "--json", *QUICK)
    document = json.loads(done.stdout)
    assert document["noise"] == 0.03
    assert document["best"]["configuration"] == {"fileserver.threads": 20}
    (campaign,) = document["campaigns"]
    assert campaign["seed"] == 4
    assert campaign["curve"][0]["hours"] == 0.0
    assert document["summary"]["campaigns"] == 1


def test_without_a_surface_they_are_listed(fstune: Fstune) -> None:
    documents = json.loads(fstune("simulate", "--json").stdout)
    assert [document["name"] for document in documents] == surface_names()
    for document in documents:
        assert document.keys() == {"name", "noise", "best", "about"}
        assert document["best"].keys() == {"configuration", "score"}
    # To determine the best of all of them again would take seconds.
    with patch.object(surfaces, "best_configuration", lambda surface, _: (surface.baseline, 0.0)):
        done = fstune("simulate")
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[0] == "Surface"
    assert [row.split()[0] for row in rows] == surface_names()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sparse-fve",), "no surface 'sparse-fve'; did you mean 'sparse-five'?"),
        (("needle", "--seeds", "5-1"), "--seeds '5-1': 5 is above 1"),
        (("needle", "--seeds", "all"), "--seeds 'all': write numbers and ranges"),
        (("needle", "--seeds", "1-99999999"), "at most 10000 seeds"),
        (("needle", "--budget", "soon"), "--budget 'soon': write a duration"),
        (("needle", "--budget", "0s"), "--budget '0s': write a duration of more than 0, such as"),
        (("needle", "--sampler", "guess"), "search.sampler: "),
    ],
)
def test_mistakes_are_reported_in_one_line(
    fstune: Fstune, arguments: tuple[str, ...], message: str
) -> None:
    done = fstune("simulate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.startswith("fstune: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("jobs", "count"), [("1", 2), ("2", 6)])
def test_ctrl_c_prints_what_is_done(
    environment: dict[str, str], tmp_path: Path, surface: Path, jobs: str, count: int
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    seeds = ["--seeds", "1-9999", "--jobs", jobs]
    variables = environment | {"TMPDIR": str(scratch)}
    with process_of(variables, "simulate", surface, *seeds, *QUICK) as process:
        # Each campaign has a directory, several processes one together: once there were so many, at
        # least one campaign is over.
        directories: set[str] = set()

        def enough_have_begun() -> bool:
            assert process.poll() is None
            for _, names, _ in os.walk(scratch):  # skips what is gone meanwhile
                directories.update(names)
            return len(directories) >= count

        wait_for(enough_have_begun, "campaigns", every_s=0.02, most_s=120.0)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith("fstune: stopped after ")
    assert errors.endswith(" of 9999 campaigns\n")
    assert output.startswith("Seed")
    assert list(scratch.iterdir()) == []
