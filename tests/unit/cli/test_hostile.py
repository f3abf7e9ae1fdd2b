"""Hostile values in campaign and space files are refused, or passed on as plain data.

The same tests for testbed files are in tests/unit/services/openafs/test_file.py.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import search_spaces
from search_spaces import SpaceError
from tests.unit.services.openafs.test_testbed_file import HOSTILE
from tuner.compose import prepare
from tuner.errors import ConfigurationError, SpecError
from tuner.hosts.connector import CommandResult
from tuner.hosts.local import LocalConnector
from tuner.measure.references import ReferencePlan, install_references
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import run_once
from tuner.services.openafs.bosserver import FileserverPlace
from tuner.services.openafs.fileserver import Fileserver
from tuner.spec.campaign import read_spec

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2] / "data"
CAMPAIGN = yaml.safe_load((DATA / "campaigns" / "good" / "everything.yaml").read_text())
SPACE = yaml.safe_load((DATA / "spaces" / "good" / "tiny.yaml").read_text())
#: Names for people, which may be any text because they are only stored and displayed.
FOR_PEOPLE = {("name",), ("references", 0, "name"), ("references", 1, "name")}
#: Checked against the search space once the hosts are known; see below.
LATER = {("first", number) for number in range(2)}

At = tuple[str | int, ...]


def leaves(content: object, at: At = ()) -> Iterator[At]:
    """Yield the paths of all values in a document."""
    steps: Any = ()
    if isinstance(content, dict):
        steps = content.items()
    elif isinstance(content, list):
        steps = enumerate(content)
    else:
        yield at
    for key, inner in steps:
        yield from leaves(inner, (*at, key))


CHECKED = [at for at in leaves(CAMPAIGN) if at not in FOR_PEOPLE and at[:2] not in LATER]


def changed(document: object, at: At, value: object) -> Any:
    content = copy.deepcopy(document)
    inner: Any = content
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    return content


@pytest.mark.parametrize("at", CHECKED, ids=lambda at: ".".join(map(str, at)))
def test_a_campaign_file_is_refused(tmp_path: Path, at: At) -> None:
    path = tmp_path / "campaign.yaml"
    for value in ("-x", "a b", "$(reboot)", "a'b", "a\nb", "../x", "a\0b"):
        path.write_text(yaml.safe_dump(changed(CAMPAIGN, at, value)))
        with pytest.raises(SpecError) as refused:
            prepare(read_spec(path), tmp_path / "state")
        assert str(refused.value).isprintable(), value


@pytest.mark.parametrize("name", ["a\0b", "a\0/b"])
def test_a_name_of_no_file_is_refused_with_the_other_mistakes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_text(yaml.safe_dump(CAMPAIGN | {"workload": name, "seeed": 1}))
    with pytest.raises(SpecError, match=r"seeed: unknown key.*is not a valid name or path") as why:
        read_spec(path)
    assert str(why.value).isprintable()


def test_values_to_try_first_are_those_of_the_space() -> None:
    for part in ("fileserver", "cache-manager-fuse"):
        space = search_spaces.load(f"openafs-{part}-1.8")
        name = next(p.name for p in space.order if not p.choices)
        for value in HOSTILE:
            assert space.violations({name: value}) != [], value


WORD = {
    "flag": "-word",
    "kind": "categorical",
    "choices": ["good", "better"],
    "range": ["good", "better"],
    "default": "better",
    "about": "a",
    "source": "s",
    "change": "restart",
}


class Untouched:
    """A host on which nothing may be run, read or written."""

    host = "fs9"

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        raise AssertionError(argv)

    ask = change = run

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        raise AssertionError(path)

    def get(self, path: str) -> bytes:
        raise AssertionError(path)


def with_word(**changes: object) -> dict[str, Any]:
    """Return a search space with a categorical parameter."""
    word = WORD | changes
    content: dict[str, Any] = copy.deepcopy(SPACE)
    content["parameters"]["word"] = word
    content["options"].append(word["flag"])
    return content


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
@pytest.mark.parametrize("what", ["choice", "flag"])
def test_a_word_of_a_space_is_refused_or_stays_one_word(
    tmp_path: Path, what: str, value: str
) -> None:
    choices = [value, "better"]
    changes = {"flag": value} if what == "flag" else {"choices": choices, "range": choices}
    path = tmp_path / "space.yaml"
    path.write_text(yaml.safe_dump(with_word(**changes)))
    try:
        space = search_spaces.load(str(path))
    except SpaceError:
        return
    values = {"word": "good" if what == "flag" else value}
    words = space.render(values)
    assert value in words
    # A client gets the words themselves, whereas bosserver splits a line.
    place = FileserverPlace("192.0.2.9", "/restore")
    server = Fileserver(Untouched(), place, space, ("/fileserver",), "", {}, {}, ())
    plain = value.split() == [value] and value.isascii() and value.isprintable()
    unfit = not plain or len(value) > 200  # bosserver cuts longer lines
    with pytest.raises(ConfigurationError if unfit else AssertionError) as met:
        server.apply(values)
    if unfit:
        assert isinstance(met.value, ConfigurationError)
        assert re.search("bosserver (cannot pass on the option|keeps 244)", str(met.value))


#: The hostile values that are possible file names. Those with a quotation mark are tried alone: one
#: mark could hide what another would do.
NAMES = [value for value in HOSTILE if value and not {"/", "\0"} & set(value) and len(value) < 200]
QUOTES = [value for value in NAMES if {"'", '"'} & set(value)]
OTHERS = [value for value in NAMES if value not in QUOTES]


@pytest.mark.parametrize("names", [OTHERS, *([value] for value in QUOTES)], ids=repr)
def test_the_path_of_a_reference_is_data(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path.joinpath(*names)
    path.mkdir(parents=True)
    plan = ReferencePlan("here", str(path))
    workload = load_workload(str(DATA / "small-workload.yaml"))
    client = LocalConnector()
    (reference,) = install_references(client, str(tmp_path), "/proc", [plan], workload)
    report = run_once(reference.engine, "r-1", 7, lambda: reference.make_cold("r-1"))
    assert report.components
    directories = [tmp_path.joinpath(*names[: depth + 1]) for depth in range(len(names))]
    files = {"workloads.pyz", "workload.json", "uncache.py", "end_runs.py"}
    assert set(tmp_path.rglob("*")) == {*directories, *(tmp_path / name for name in files)}
