"""Packages unpacked into private directories."""

from pathlib import Path

import pytest

from deploy.cell import CellError, packages


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
        "Package: openafs-client\nStatus: hold ok installed\nDepends: libc6 (>= 2.34)",
        "Package: sudo\nStatus: install ok installed",
        "Package: admin\nStatus: install ok installed\nDepends: libc6, doas | sudo (>= 1.9)",
        "Package: site\nStatus: install ok installed\nPre-Depends: admin:any",
        "Package: zlib1g\nStatus: install ok installed\nDepends: libc6\nDescription: not sudo",
    ]
    installed = tmp_path / "installed"
    installed.write_text("\n\n".join(stanzas) + "\n")
    monkeypatch.setattr(packages, "_INSTALLED", installed)
    status = tmp_path / "dpkg" / "status"
    packages._write_status(status, ("sudo",))
    assert status.read_text() == f"{stanzas[0]}\n\n{stanzas[5]}\n\n"


@pytest.mark.parametrize(
    ("answers", "ways"),
    [
        ([None], 1),
        (["E: Could not get lock", None], 2),
        (["E: Unable to locate package", "E: Unable to locate package", None, None], 4),
        (["E: Held packages", "E: none", None, "E: Held packages", None], 5),
    ],
)
def test_apt_is_asked_in_one_way_after_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: list[str | None], ways: int
) -> None:
    calls: list[list[str]] = []

    def apt(arguments: list[str]) -> str | None:
        calls.append(arguments)
        answer = answers[len(calls) - 1]
        if answer is None and "update" not in arguments:
            (tmp_path / "apt" / "archives" / "sudo.deb").touch()
        return answer

    monkeypatch.setattr(packages, "_apt", apt)
    (archive,) = packages._download(tmp_path, ("sudo",))
    assert (archive.name, len(calls)) == ("sudo.deb", ways)


def test_what_apt_says_last_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def apt(arguments: list[str]) -> str | None:
        return None if "update" in arguments else "E: Unable to locate package sudo"

    monkeypatch.setattr(packages, "_apt", apt)
    with pytest.raises(CellError, match=r"^apt-get install: E: Unable to locate package sudo; "):
        packages._download(tmp_path, ("sudo",))
