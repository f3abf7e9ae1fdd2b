"""Settings from the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.cli.options import database_address, state_directory
from tuner.errors import SpecError
from tuner.settings import ServiceSettings, Settings


@pytest.fixture(autouse=True)
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FSTUNE_STATE_DIR", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("FSTUNE_DATABASE_URL", raising=False)
    monkeypatch.setenv("HOME", "/home-of-someone")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def test_state_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    assert Settings().state_dir == Path("/var/lib/fstune")


def test_state_of_another_user() -> None:
    assert Settings().state_dir == Path("/home-of-someone/.local/state/fstune")


@pytest.mark.parametrize(
    ("xdg", "place"),
    [
        ("/elsewhere", "/elsewhere/fstune"),
        ("", "/home-of-someone/.local/state/fstune"),
        ("relative", "/home-of-someone/.local/state/fstune"),
    ],
)
def test_state_directory_from_xdg(monkeypatch: pytest.MonkeyPatch, xdg: str, place: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", xdg)
    assert Settings().state_dir == Path(place)


@pytest.mark.parametrize("euid", [0, 1000])
def test_state_directory_from_fstune_state_dir(monkeypatch: pytest.MonkeyPatch, euid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    monkeypatch.setenv("FSTUNE_STATE_DIR", "/data/tuning")
    assert Settings().state_dir == Path("/data/tuning")


def test_empty_means_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FSTUNE_STATE_DIR", "")
    assert Settings().state_dir == Path("/home-of-someone/.local/state/fstune")


def test_database_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().database_url is None
    monkeypatch.setenv("FSTUNE_DATABASE_URL", "postgresql://user:word@host/name")
    settings = Settings()
    assert "word" not in repr(settings)
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://user:word@host/name"


@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [
        (Settings, "FSTUNE_TAKEOVER_AFTER_S", "soon", "FSTUNE_TAKEOVER_AFTER_S: input should be"),
        (Settings, "FSTUNE_TAKEOVER_AFTER_S", "nan", "FSTUNE_TAKEOVER_AFTER_S: input should be"),
        (ServiceSettings, "FSTUNE_API_BURST", "-1", "FSTUNE_API_BURST: input should be"),
        (ServiceSettings, "FSTUNE_API_ALLOW", "cell", "FSTUNE_API_ALLOW: write a list as JSON"),
    ],
)
def test_an_invalid_setting_is_named(
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Settings] | type[ServiceSettings],
    name: str,
    value: str,
    message: str,
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SpecError, match=f"^{message}"):
        kind()


def test_without_a_home_a_state_directory_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(SpecError, match=r"--state-dir"):
        Settings()
    assert database_address(None) is None
    assert state_directory(Path("/data/tuning")) == Path("/data/tuning")
    monkeypatch.setenv("FSTUNE_STATE_DIR", "/data/tuning")
    assert Settings().state_dir == Path("/data/tuning")
