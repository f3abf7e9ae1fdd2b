"""Settings from environment variables, named ``FSTUNE_`` plus the name of the setting."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from tuner.errors import SpecError

#: Nothing that has to be quoted in a link, a header or a cookie, and no "." or ".." in it.
_ROOT_PATH = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9._~-]+)*")


def _state_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/fstune")
    # The XDG base directory specification says to ignore relative paths.
    xdg = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        return (xdg if xdg.is_absolute() else Path.home() / ".local" / "state") / "fstune"
    except RuntimeError:
        raise SpecError(
            "this user has no home directory; name a directory with FSTUNE_STATE_DIR or --state-dir"
        ) from None


def is_loopback(host: str) -> bool:
    """Whether a host name or address is the loopback of this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def root_path(text: str) -> str:
    """Return the path below which a proxy publishes a service; "" for none.

    Raises ValueError.
    """
    if not _ROOT_PATH.fullmatch(text):
        raise ValueError(
            "write a path such as /fstune: with / at its beginning, without one at its end, and "
            "without a scheme, host or query"
        )
    return text


class _Settings(BaseSettings):
    """Base class of settings. An invalid one is a mistake of the user: SpecError names its
    variable, but never its value, which may be a secret.
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
            # Its message has the name of the field in quotes, and nothing of the value.
            field = str(problem).split('"')[1]
            name = f"{self.model_config['env_prefix']}{field}".upper()
            raise SpecError(f'{name}: write a list as JSON: ["one", "two"]') from None


class DatabaseSettings(_Settings):
    """Settings that need no state directory, which a user without a home has to name.

    ``database_url``: a PostgreSQL database to store the campaigns in instead of in the state
    directory; secret, as it may contain a password. ``takeover_after_s``: after this time without
    a heartbeat of the process that runs a campaign, another machine may take over.
    """

    model_config = SettingsConfigDict(env_prefix="FSTUNE_", env_ignore_empty=True, frozen=True)

    database_url: SecretStr | None = None
    takeover_after_s: float = Field(default=120.0, ge=1.0, le=86_400.0)


class Settings(DatabaseSettings):
    """General settings. ``state_dir``: the directory of campaigns, cells and packages."""

    state_dir: Path = Field(default_factory=_state_dir)


class ServiceSettings(_Settings):
    """Settings of ``fstune serve``, from variables named ``FSTUNE_API_`` plus the setting's name.

    ``auth``: whether a token is required; without it the service is read-only. ``hosts``: the host
    names under which a service without tokens may be addressed, besides those of the loopback.
    ``testbeds``: the directory with the files that campaigns started over HTTP may name. ``allow``:
    kinds of testbeds that they may use as well. ``trusted_proxies``: addresses and networks of
    proxies that are trusted to name the client they forward for. ``queue``: leave campaigns to
    workers; ``runs``: otherwise, how many it runs at once. ``requests_per_s``: limit per address on
    average, ``burst`` at once. ``streams``: the maximum number of concurrent event streams.
    ``root_path``: the path below which a proxy publishes the service; the proxy removes it from the
    requests that it passes on. The address and port on which it listens are options of the command,
    not settings.
    """

    model_config = SettingsConfigDict(env_prefix="FSTUNE_API_", env_ignore_empty=True, frozen=True)

    auth: bool = False
    hosts: frozenset[str] = frozenset()
    testbeds: Path | None = None
    allow: frozenset[str] = frozenset()
    trusted_proxies: frozenset[str] = frozenset()
    queue: bool = False
    runs: int = Field(default=16, ge=1)
    requests_per_s: float = Field(default=50.0, gt=0.0)
    burst: int = Field(default=200, ge=1)
    streams: int = Field(default=500, ge=1)
    root_path: str = ""

    @field_validator("root_path")
    @classmethod
    def _published_below(cls, text: str) -> str:
        return root_path(text)

    def testbed_files(self) -> list[Path]:
        """The testbed files that campaigns started over HTTP may name, in alphabetical order."""
        return [] if self.testbeds is None else sorted(self.testbeds.glob("*.yaml"))


class ClientSettings(_Settings):
    """Settings of the command line as a client of a server, from variables named ``FSTUNE_`` plus
    the name of the setting.

    ``server``: its address (URL). ``token``: the token for it; ``token_file``: a file with the
    token, which only its owner may read. Neither is ever an option: options are visible to others.
    """

    model_config = SettingsConfigDict(env_prefix="FSTUNE_", env_ignore_empty=True, frozen=True)

    server: str | None = None
    token: SecretStr | None = None
    token_file: Path | None = None
