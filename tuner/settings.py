"""The settings that come from the environment, each as ``FSTUNE_`` and its name."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


def _state_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/fstune")
    # The XDG base directory specification has relative paths ignored.
    xdg = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".local" / "state") / "fstune"


class Settings(BaseSettings):
    """``state_dir``: where campaigns, cells and packages are kept. ``database_url``: the PostgreSQL
    that keeps the campaigns instead; secret, as it may hold a password.
    """

    model_config = SettingsConfigDict(env_prefix="FSTUNE_", env_ignore_empty=True, frozen=True)

    state_dir: Path = Field(default_factory=_state_dir)
    database_url: SecretStr | None = None
