"""The address of a server and the token for it: both are checked here.

Decides where a token may come from and where it may be sent: never over a connection that others
can read.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tuner.errors import SpecError
from tuner.settings import ClientSettings, is_loopback

_LONGEST_TOKEN = 4096
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server. ``url``: without a trailing slash; ``loopback``: whether it is
    certainly on this machine; ``token``: "" for none.
    """

    url: str
    loopback: bool
    token: str = field(default="", repr=False)


def address_of(server: str, settings: ClientSettings | None = None) -> Address:
    """Return the address of a server, with the token for it.

    Raises SpecError: not an address, a token file that others may read, or a token that others
    could read on its way.
    """
    client_settings = settings if settings is not None else ClientSettings()
    try:
        parts = urlsplit(server)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise SpecError(f"--server {server!r}: not an address; write https://HOST") from None
    if parts.username is not None or parts.password is not None:
        raise SpecError("--server: must not contain a password; set FSTUNE_TOKEN")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise SpecError(f"--server {server!r}: not an address; write https://HOST")
    if not server.isprintable() or not server.isascii() or " " in server:
        raise SpecError("--server: not an address; write https://HOST")
    token, loopback = _token(client_settings), is_loopback(host)
    if token and parts.scheme == "http" and not loopback:
        raise SpecError(
            f"--server {server}: the token would be sent unencrypted; write https://, or use "
            "a tunnel to a loopback address"
        )
    return Address(server.rstrip("/"), loopback, token)


def server_options(url: str) -> str:
    """Return the options, with a space before them, that make a command use the server at ``url``;
    "" if the environment already does.
    """
    from_environment = os.environ.get("FSTUNE_SERVER", "").rstrip("/") == url
    return "" if from_environment else f" --server {shlex.quote(url)}"


def _token(settings: ClientSettings) -> str:
    if settings.token is not None:
        where, text = "FSTUNE_TOKEN", settings.token.get_secret_value()
    elif settings.token_file is not None:
        where, text = str(settings.token_file), _read(settings.token_file)
    else:
        return ""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise SpecError(f"{where}: not a token from 'fstune token create'")
    return token


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            about = os.fstat(stream.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise SpecError(f"{file}: not a file with a token")
            if about.st_mode & 0o077:
                raise SpecError(f"{file}: other users can read the token; run chmod 600 on it")
            return stream.read(_LONGEST_TOKEN).decode(errors="replace")
    except OSError as problem:
        raise SpecError(f"{file}: the token cannot be read: {problem.strerror}") from problem
