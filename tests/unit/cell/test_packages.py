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
