"""Completion in bash: its completion function is called with the words of a line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.campaign.campaigns import spec
from tuner.store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash"),
]

SCRIPT = """
eval "$(fstune --show-completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_fstune_completion fstune "${COMP_WORDS[COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completions(environment: dict[str, str], *words: str) -> list[str]:
    places = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", SCRIPT, "bash", "fstune", *words],
        env=environment | {"PATH": places},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("rec",), ["recommend"]),
        (("recommend", "--format", "bo"), ["bos", "bosconfig"]),
        (
            ("space", "show", "openafs-f"),
            ["openafs-fileserver-1.6", "openafs-fileserver-1.8"],
        ),
        (("space", "explain", "openafs-fileserver-1.8", "thr"), ["threads"]),
        (("workload", "show", "mixed"), ["mixed-use"]),
        (("workload", "show", "./mine"), []),  # the shell itself completes files
    ],
)
def test_names_are_completed(
    environment: dict[str, str], words: tuple[str, ...], expected: list[str]
) -> None:
    assert completions(environment, *words) == expected


def test_campaigns_are_completed_and_none_is_made_for_it(
    environment: dict[str, str], state: Path
) -> None:
    assert completions(environment, "show", "") == ["last"]
    assert not state.exists()
    now = datetime.now(UTC)
    with Store.open(state) as store:
        for name in ("nightly", "two words"):
            campaign = store.create_campaign(name, spec().to_json(), 1, now)
    words = completions(environment, "show", "")
    assert {"last", campaign.id, "nightly"} <= set(words)
    assert "two" not in words
    assert completions(environment, "show", "nig") == ["nightly"]
    # Completion does not use the network.
    assert completions(environment | {"FSTUNE_SERVER": "http://192.0.2.1"}, "show", "") == ["last"]


def test_a_database_that_cannot_be_read_completes_nothing_and_prints_nothing(
    environment: dict[str, str], state: Path
) -> None:
    state.mkdir()
    (state / "fstune.sqlite3").write_bytes(b"no database at all" * 100)
    assert completions(environment, "show", "") == ["last"]
