"""Completion in bash: its completion function is called with the words of a line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.campaign.campaigns import spec
from tuner.cli.app import app
from tuner.store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash"),
]

#: $0 is what 'fstune --show-completion bash' prints.
SCRIPT = """
eval "$0"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_fstune_completion fstune "${COMP_WORDS[COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

Complete = Callable[..., list[str]]


@pytest.fixture(scope="module")
def function() -> str:
    """Return the completion function, as docs/commands.md says to get it, from another shell."""
    done = subprocess.run(
        ["fstune"],
        env=os.environ | {"PATH": PATH, "_FSTUNE_COMPLETE": "source_bash"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def completions(environment: dict[str, str], function: str) -> Complete:
    """Return a function that returns the completions of words on a line."""

    def complete(*words: str, **variables: str) -> list[str]:
        done = subprocess.run(
            ["bash", "--norc", "-c", SCRIPT, function, "fstune", *words],
            env=environment | {"PATH": PATH, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.split()

    return complete


@pytest.fixture
def answers(environment: dict[str, str], function: str) -> Complete:
    """Return a function that returns what the command answers in this process when bash asks it,
    with the variables that the completion function sets.
    """
    assert all(f"{name}=" in function for name in ("COMP_WORDS", "COMP_CWORD"))
    assert "_FSTUNE_COMPLETE=complete_bash" in function

    def complete(*words: str) -> list[str]:
        variables = {
            "COMP_WORDS": " ".join(("fstune", *words)),
            "COMP_CWORD": str(len(words)),
            "_FSTUNE_COMPLETE": "complete_bash",
        }
        done = CliRunner().invoke(app, env=environment | variables, prog_name="fstune")
        assert (done.exit_code, done.stderr) == (0, "")
        return done.stdout.split()

    return complete


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("rec",), ["recommend"]),
        (("recommend", "--format", "bo"), ["bos", "bosconfig"]),
    ],
)
def test_names_are_completed_in_bash(
    completions: Complete, words: tuple[str, ...], expected: list[str]
) -> None:
    assert completions(*words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("space", "show", "openafs-f"),
            ["openafs-fileserver-1.6", "openafs-fileserver-1.8"],
        ),
        (("space", "explain", "openafs-fileserver-1.8", "thr"), ["threads"]),
        (("workload", "show", "mixed"), ["mixed-use"]),
        (("workload", "show", "./mine"), []),  # the shell itself completes files
    ],
)
def test_names_are_answered(answers: Complete, words: tuple[str, ...], expected: list[str]) -> None:
    assert answers(*words) == expected


def test_campaigns_are_completed_and_none_is_made_for_it(
    completions: Complete, answers: Complete, state: Path
) -> None:
    assert answers("show", "") == ["last"]
    assert not state.exists()
    now = datetime.now(UTC)
    with Store.open(state) as store:
        for name in ("nightly", "two words"):
            campaign = store.create_campaign(name, spec().to_json(), 1, now)
    words = completions("show", "")
    assert {"last", campaign.id, "nightly"} <= set(words)
    assert "two" not in words
    assert answers("show", "nig") == ["nightly"]
    for command in ("cancel", "delete"):
        assert sorted(answers(command, "")) == sorted(set(words) - {"last"})
    # Completion does not use the network.
    assert completions("show", "", FSTUNE_SERVER="http://192.0.2.1") == ["last"]


def test_a_database_that_cannot_be_read_completes_nothing_and_prints_nothing(
    completions: Complete, state: Path
) -> None:
    state.mkdir()
    (state / "fstune.sqlite3").write_bytes(b"no database at all" * 100)
    assert completions("show", "") == ["last"]
