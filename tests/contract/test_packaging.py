"""The wheel is complete: installed alone, it imports, finds its data and starts."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import tuner

PACKAGES = ("api", "deploy", "search_spaces", "tuner", "workloads")
NOT_SHIPPED = frozenset({"deploy/lock.py"})

# Run in the fresh environment: prints where each package is, and its data files.
PROBE = """
import importlib, json, pathlib, sys
packages = {}
for name in sys.argv[1:]:
    home = pathlib.Path(importlib.import_module(name).__file__).parent
    packages[name] = {
        "home": str(home),
        "yaml": {str(p.relative_to(home)): p.read_text("utf-8") for p in home.rglob("*.yaml")},
    }
json.dump(packages, sys.stdout)
"""


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=root,
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(root: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, and the dependencies of this environment."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(home, symlinks=True)
    uv: list[str | Path] = [root / "build/tools/bin/uv", "pip", "install", "--python", home]
    options = ["--no-deps", "--no-index", "--no-config"]
    subprocess.run([*uv, *options, wheel], check=True, capture_output=True)
    (site,) = home.glob("lib/python*/site-packages")
    # A path named in a .pth file comes after the environment's own packages, and the .pth files
    # in it (such as the one of an editable install) are not followed.
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return home


def test_wheel_holds_every_file_of_every_package(
    wheel: Path, repository_files: tuple[Path, ...]
) -> None:
    expected = {name.as_posix() for name in repository_files if name.parts[0] in PACKAGES}
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    manual = f"fstune-{tuner.__version__}.data/data/share/man/man1/fstune.1"
    assert shipped == (expected - NOT_SHIPPED) | {manual}


def test_installed_packages_import_and_read_their_data(
    installed: Path, tmp_path: Path, root: Path, repository_files: tuple[Path, ...]
) -> None:
    probe = subprocess.run(
        [installed / "bin/python", "-I", "-c", PROBE, *PACKAGES],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        text=True,
    )
    packages = json.loads(probe.stdout)
    for name in PACKAGES:
        assert Path(packages[name]["home"]).is_relative_to(installed)
        sources = {
            str(path.relative_to(name)): yaml.safe_load((root / path).read_text("utf-8"))
            for path in repository_files
            if path.parts[0] == name and path.suffix == ".yaml"
        }
        assert {k: yaml.safe_load(v) for k, v in packages[name]["yaml"].items()} == sources


def test_installed_command_tells_its_version(installed: Path, tmp_path: Path) -> None:
    answer = subprocess.run(
        [installed / "bin/fstune", "--version"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        text=True,
    )
    assert tuner.__version__ in answer.stdout
