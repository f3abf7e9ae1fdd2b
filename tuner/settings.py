"""The settings that come from the environment, each as ``FSTUNE_`` and its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from tuner.errors import SpecError


def _state_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/fstune")
    # The XDG base directory specification has relative paths ignored.
    xdg = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        return (xdg if xdg.is_absolute() else Path.home() / ".local" / "state") / "fstune"
    except RuntimeError:
        raise SpecError(
            "this user has no home directory; name a directory with FSTUNE_STATE_DIR or --state-dir"
        ) from None


class _Settings(BaseSettings):
    """Settings of which a wrong one is the user's mistake: SpecError names its variable, and never
    repeats its value, which may be a secret.
    """

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as problem:
            error = problem.errors(include_url=False, include_input=False)[0]
            name = f"{self.model_config['env_prefix']}{error['loc'][0]}".upper()
            message = error["msg"].removeprefix("Value error, ")
            raise SpecError(f"{name}: {message[0].lower()}{message[1:]}") from None
        except SettingsError as problem:
            # Its text names the field in quotes, and nothing of the value.
            field = str(problem).split('"')[1]
            name = f"{self.model_config['env_prefix']}{field}".upper()
            raise SpecError(f'{name}: write a list as JSON: ["one", "two"]') from None


class Settings(_Settings):
    """``state_dir``: where campaigns, cells and packages are kept. ``database_url``: the PostgreSQL
    that keeps the campaigns instead; secret, as it may hold a password. ``takeover_after_s``: after
    so long without a sign of life of the process that runs a campaign, another machine may take
    over.
    """

    model_config = SettingsConfigDict(env_prefix="FSTUNE_", env_ignore_empty=True, frozen=True)

    state_dir: Path = Field(default_factory=_state_dir)
    database_url: SecretStr | None = None
    takeover_after_s: float = Field(default=120.0, ge=1.0, le=86_400.0)


class ServiceSettings(_Settings):
    """What ``fstune serve`` is told, each as ``FSTUNE_API_`` and its name.

    ``auth``: whether a token is asked for; without it the service only reads. ``hosts``: names by
    which a service without tokens may be asked, besides those of the loopback. ``testbeds``: the
    directory whose files campaigns started over HTTP may name. ``allow``: kinds of testbeds that
    they may use besides. ``trusted_proxies``: addresses and networks of proxies, which are
    believed whom they speak for. ``queue``: leave campaigns to workers. ``requests_per_s``: of one
    address on average, ``burst`` at once. ``streams``: most streams of events at once.
    """

    model_config = SettingsConfigDict(env_prefix="FSTUNE_API_", env_ignore_empty=True, frozen=True)

    auth: bool = False
    hosts: frozenset[str] = frozenset()
    testbeds: Path | None = None
    allow: frozenset[str] = frozenset()
    trusted_proxies: frozenset[str] = frozenset()
    queue: bool = False
    requests_per_s: float = Field(default=50.0, gt=0.0)
    burst: int = Field(default=200, ge=1)
    streams: int = Field(default=500, ge=1)


class ClientSettings(_Settings):
    """What the command line needs to use the campaigns of a server, each as ``FSTUNE_`` and its
    name.

    ``server``: its address (URL). ``token``: what it asks for; ``token_file``: a file with that,
    which only its owner may read. Neither is ever an option: others see those.
    """

    model_config = SettingsConfigDict(env_prefix="FSTUNE_", env_ignore_empty=True, frozen=True)

    server: str | None = None
    token: SecretStr | None = None
    token_file: Path | None = None
