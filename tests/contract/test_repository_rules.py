"""Rules for all files of the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from deploy.lock import without_hosts
from tuner.states import EventKind

PACKAGES = ("api", "deploy", "search_spaces", "tuner", "workloads")
MOST_LINES = 400

# Split into parts, so that this file does not contain what it forbids.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pypi", "python", "org"),
        ("pythonhosted", "org"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("anaconda", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("jsdelivr", "net"),
        ("unpkg", "com"),
        ("cdnjs", "cloudflare", "com"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("ghcr", "io"),
        ("quay", "io"),
    )
)
# Files may mention these as places for an installation, and a checkout may be there too.
PLACES_TO_INSTALL = (Path("/opt"), Path("/srv"), Path("/usr"), Path("/var"))


@pytest.fixture(scope="module")
def texts(root: Path, repository_files: tuple[Path, ...]) -> dict[Path, str]:
    contents = {}
    for name in repository_files:
        content = (root / name).read_bytes()
        if b"\0" not in content:
            contents[name] = content.decode("utf-8")
    return contents


@pytest.fixture(scope="module")
def modules(texts: dict[Path, str]) -> dict[Path, str]:
    return {
        name: text
        for name, text in texts.items()
        if name.parts[0] in PACKAGES and name.suffix == ".py"
    }


@pytest.fixture(scope="module")
def lock(texts: dict[Path, str]) -> str:
    return texts[Path("uv.lock")]


def test_no_file_names_a_registry_host(texts: dict[Path, str]) -> None:
    hosts = re.compile("|".join(rf"\b{re.escape(host)}\b" for host in REGISTRY_HOSTS), re.I)
    assert [f"{name}: {hit}" for name, text in texts.items() for hit in hosts.findall(text)] == []


def test_no_file_names_the_checkout(root: Path, texts: dict[Path, str]) -> None:
    places = [r"/(?:home|Users)/\w+/"]
    if not any(root.is_relative_to(place) for place in PLACES_TO_INSTALL):
        places.append(rf"{re.escape(str(root))}(?![\w-])")
    checkout = re.compile("|".join(places))
    assert [
        f"{name}: {hit}" for name, text in texts.items() for hit in checkout.findall(text)
    ] == []


def test_modules_stay_short(modules: dict[Path, str]) -> None:
    lengths = {str(name): text.count("\n") for name, text in modules.items()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_events_are_looked_for_by_the_kinds_that_are_written(modules: dict[Path, str]) -> None:
    """A kind spelt out twice may be misspelt once, and is then never found."""
    kinds = {f'"{kind}"' for kind in EventKind if "-" in kind}
    spelt_out = {
        (str(path), kind)
        for path, text in modules.items()
        if path.name != "states.py"
        for kind in kinds
        if kind in text
    }
    assert spelt_out == set()


def test_licence_is_here(texts: dict[Path, str]) -> None:
    licence = texts[Path("LICENSE")]
    assert "Apache License" in licence
    assert "Version 2.0" in licence
    assert tomllib.loads(texts[Path("pyproject.toml")])["project"]["license"] == "Apache-2.0"


def test_lock_satisfies_every_declared_dependency(texts: dict[Path, str], lock: str) -> None:
    declared = tomllib.loads(texts[Path("pyproject.toml")])
    locked: dict[str, list[Version]] = {}
    for package in tomllib.loads(lock)["package"]:
        if "version" in package:
            name = canonicalize_name(package["name"])
            locked.setdefault(name, []).append(Version(package["version"]))
    requirements = [
        *map(Requirement, declared["project"]["dependencies"]),
        *map(Requirement, declared["dependency-groups"]["dev"]),
    ]
    unmet = [
        str(requirement)
        for requirement in requirements
        if not any(
            version in requirement.specifier
            for version in locked.get(canonicalize_name(requirement.name), [])
        )
    ]
    assert unmet == []


def test_lock_names_no_host_and_pins_every_file(lock: str) -> None:
    for package in tomllib.loads(lock)["package"]:
        for file in [*package.get("wheels", []), *filter(None, [package.get("sdist")])]:
            assert urlsplit(file["url"]).hostname == "files.invalid"
            assert file["hash"].startswith("sha256:")
    assert without_hosts(lock) == lock


def test_addresses_in_a_lock_lose_their_hosts() -> None:
    assert without_hosts(
        'source = { registry = "https://user:word@mirror.example/root/simple" }\n'
        'sdist = { url = "http://files.example/a/b/x-1.0.tar.gz?token=1#sha256=0", size = 1 }\n'
    ) == (
        'source = { registry = "https://index.invalid/simple" }\n'
        'sdist = { url = "https://files.invalid/x-1.0.tar.gz", size = 1 }\n'
    )
