"""Search spaces of other installed packages, found by their entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest

import tests.toy
from api.steering import allowed_spec
from search_spaces import SpaceError, installed, load, lookup, names
from search_spaces.reference import page
from tests.unit.search_spaces.test_command import failure, output
from tuner.errors import SpecError
from tuner.settings import ServiceSettings
from tuner.spec.campaign import CampaignSpec

TOYD = Path(tests.toy.__file__).with_name("toyd.yaml").read_text()
OWN = lookup.own_names()
CACHES = (lookup.packaged, lookup._texts)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Install a package with these files, or one that cannot be imported."""

    def package(problem: Exception | None = None, **texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_bytes(text.encode("latin-1"))
        module = SimpleNamespace(__spec__=None, __name__="other", __file__="")

        def import_it() -> object:
            if problem is not None:
                raise problem
            return module

        entry = SimpleNamespace(name="other", load=import_it)
        own = resources.files
        monkeypatch.setattr(lookup, "entry_points", lambda group: [entry])
        monkeypatch.setattr(lookup, "files", lambda of: tmp_path if of is module else own(of))
        for each in CACHES:
            each.cache_clear()

    yield package
    monkeypatch.undo()
    for each in CACHES:
        each.cache_clear()


def test_they_have_names(install: Callable[..., None], tmp_path: Path) -> None:
    mine = "name: mine\nextends: toyd\nwithout: [parameters.buffer]\noptions: [workers]\n"
    install(toyd=TOYD, mine=mine)
    assert names() == sorted([*OWN, "mine", "toyd"])
    assert [*installed()] == names()
    assert load("toyd") is installed()["toyd"]
    assert [parameter.name for parameter in load("mine").parameters] == ["workers"]
    (tmp_path / "x.yml").write_text("name: x\nextends: toyd\n")
    assert load(str(tmp_path / "x.yml")).part == "toyd"
    assert "toyd" not in page()


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ({"broken": "name: broken\n"}, "broken.yaml: parameters: missing"),
        ({"other": TOYD}, "name: 'toyd' is not the name of its file"),
        ({"Two words": TOYD}, "its name is not a word, or is already used"),
        ({"host-network": TOYD}, "its name is not a word, or is already used"),
        ({"binary": "\xff"}, "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_one_that_cannot_be_used_is_left_out(
    install: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    texts: dict[str, str],
    why: str,
) -> None:
    install(**texts)
    assert [*installed()] == OWN
    (message,) = caplog.messages
    assert message.startswith(f"the search space {next(iter(texts))!r} cannot be used: {why}")
    assert load("host-network").name == "host-network"


def test_a_package_that_cannot_be_imported_is_left_out(
    install: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    install(ImportError("no module named elsewhere"))
    assert names() == OWN
    why = "the search spaces 'other' cannot be used: no module named elsewhere"
    assert caplog.messages == [why]


def test_an_invalid_one_of_fstune_is_an_error(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(toyd="name: toyd\n")
    monkeypatch.setattr("search_spaces.inventory.own_names", lambda: ["toyd"])
    with pytest.raises(SpaceError, match=r"^toyd.yaml: parameters: missing"):
        installed()


def test_they_are_allowed_over_http(install: Callable[..., None], tmp_path: Path) -> None:
    install(mine="name: mine\nextends: openafs-cache-manager-fuse-1.8\n")
    settings = ServiceSettings(testbeds=None, allow=frozenset({"simulated"}))
    serving = SimpleNamespace(settings=settings)
    document = {"name": "x", "testbed": {"simulated": {}}, "workload": "mixed-use"}
    for name in ("mine", "host-network", str(tmp_path / "mine.yaml")):
        spec = CampaignSpec.model_validate(document | {"spaces": {"cache_manager": name}})
        if name.endswith(".yaml"):
            with pytest.raises(SpecError, match=r"^spaces.cache_manager: there is no such"):
                allowed_spec(spec, serving)  # type: ignore[arg-type]
        else:
            assert allowed_spec(spec, serving).spaces == spec.spaces  # type: ignore[arg-type]


def test_commands_have_them(install: Callable[..., None]) -> None:
    install(toyd=TOYD, broken="name: broken\n")
    assert "toyd" in output("list")
    assert "workers" in output("explain", "toyd", "workers")
    assert "space: toyd" in output("parse", "toyd workers=4")
    assert failure("check") == "broken.yaml: parameters: missing"
