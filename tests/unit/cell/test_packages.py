"""Packages unpacked into private directories."""

from pathlib import Path

import pytest

from deploy.cell import packages


def test_private_packages_are_in_a_directory_that_only_root_can_enter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requests: list[tuple[str, tuple[str, ...]]] = []

    def unpack(store: Path, say: object, *, name: str, packages: tuple[str, ...]) -> Path:
        requests.append((name, packages))
        return store / name

    monkeypatch.setattr(packages, "ensure_packages", unpack)
    for _ in range(2):
        tree = packages.ensure_private_packages(
            tmp_path / "packages", print, name="tools", packages=("sudo",)
        )
        assert tree == tmp_path / "packages" / "root-only" / "tools"
    assert tree.parent.stat().st_mode & 0o777 == 0o700
    assert requests == [("tools", ("sudo",))] * 2


def test_what_is_installed_of_openafs_is_not_in_the_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may be on hold, or built by hand."""
    stanzas = [
        "Package: libc6\nStatus: install ok installed",
        "Package: openafs-client\nStatus: hold ok installed",
        "Package: sudo\nStatus: install ok installed",
        "Package: zlib1g\nStatus: install ok installed\n",
    ]
    installed = tmp_path / "installed"
    installed.write_text("\n\n".join(stanzas))
    monkeypatch.setattr(packages, "_INSTALLED", installed)
    status = tmp_path / "dpkg" / "status"
    packages._write_status(status, ("sudo",))
    assert status.read_text() == "\n\n".join([stanzas[0], stanzas[3]])
