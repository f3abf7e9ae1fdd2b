"""Campaigns can do exactly what the documents claim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import search_spaces
from search_spaces import Use
from tuner.compose import prepare
from tuner.errors import SpecError
from tuner.spec.campaign import CampaignSpec

ROOT = Path(__file__).parents[2]
CELL, HOSTS, SIMULATED = "a private cell", "hosts over SSH", "simulated"
EXAMPLES = ROOT / "examples"
_REFUSED = re.compile(
    "is not for what this testbed runs|takes no fs commands that set anything|is for real hosts|"
    "nodes of a private cell share the kernel"
)
#: Testbeds of each kind, as a campaign file names them.
TESTBEDS: dict[str, list[dict[str, object]]] = {
    CELL: [{"cell": {}}],
    HOSTS: [
        {"hosts": str(EXAMPLES / "fileserver-testbed.yaml")},
        {"hosts": str(EXAMPLES / "kernel-clients-testbed.yaml")},
    ],
    SIMULATED: [{"simulated": {}}],
}


def _usable(space: str, testbed: dict[str, object], state: Path) -> bool:
    """Whether a campaign on this testbed may change this space."""
    part = search_spaces.load(space).part
    if part not in ("host_network", "fileserver", "cache_manager", "client_runtime"):
        return False
    client = "linux" if "kernel" in str(testbed) else "fuse"
    spaces = {"cache_manager": f"openafs-cache-manager-{client}-1.8", part: space}
    document = {"name": "x", "testbed": testbed, "spaces": spaces, "workload": "mixed-use"}
    spec = CampaignSpec.model_validate(document)
    if _REFUSED.search(_problem(spec, state)):
        return False
    assert _problem(spec, state) == ""
    return True


def _problem(spec: CampaignSpec, state: Path) -> str:
    try:
        prepare(spec, state)
    except SpecError as problem:
        return str(problem)
    return ""


@pytest.fixture(scope="module")
def claimed() -> dict[str, set[str]]:
    """Return the spaces that campaigns can change, each with its testbeds, according to docs/."""
    text = (ROOT / "docs" / "campaigns.md").read_text()
    section = text.split("\n## What can be tuned")[1]
    rows = re.findall(r"^\| `([\w.-]+)`[^|]*\|[^|]*\|([^|]*)\|$", section, re.MULTILINE)
    return {name: {kind for kind in (CELL, HOSTS) if kind in on} for name, on in rows}


@pytest.mark.parametrize("space", search_spaces.names())
def test_the_spaces_that_campaigns_can_change(
    space: str, claimed: dict[str, set[str]], tmp_path: Path
) -> None:
    kinds = {
        kind
        for kind in (CELL, HOSTS)
        if any(_usable(space, testbed, tmp_path) for testbed in TESTBEDS[kind])
    }
    assert kinds == claimed.get(space, set())
    assert (Use.CAMPAIGNS in search_spaces.load(space).uses) == bool(kinds)


def test_a_simulated_testbed_takes_every_fileserver_and_cache_manager(tmp_path: Path) -> None:
    for name in search_spaces.names():
        part = search_spaces.load(name).part
        taken = _usable(name, TESTBEDS[SIMULATED][0], tmp_path)
        assert taken == (part in ("fileserver", "cache_manager")), name
        assert taken == (Use.SIMULATION in search_spaces.load(name).uses), name
