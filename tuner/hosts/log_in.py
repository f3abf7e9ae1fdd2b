"""Host key verification, authentication, and translation of paramiko's exceptions to our own.

Host keys are only read from the known_hosts file, never added to it.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.pkey import UnknownKeyType

from tuner.errors import AccessError, TransportError

_SSH_PORT = 22


@dataclass(frozen=True, slots=True)
class SshHost:
    """How to reach a host. ``address``: name or IP address, as in the known_hosts file.

    ``key_file``: unencrypted private key; if None, the keys in ~/.ssh/id_* are tried. ``agent``:
    also try the agent's keys. ``sudo``: run commands as root with ``sudo -n``. ``jump``: the jump
    host, whose own host key is verified too.
    """

    address: str
    user: str = "root"
    port: int = _SSH_PORT
    key_file: Path | None = None
    agent: bool = True
    known_hosts: Path = Path("~/.ssh/known_hosts")
    sudo: bool = False
    jump: SshHost | None = None

    @property
    def account(self) -> str:
        """The account as shown in messages, e.g. ``root@server:2222``."""
        port = "" if self.port == _SSH_PORT else f":{self.port}"
        return f"{self.user}@{self.address}{port}"


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts of a connection. ``keepalive_s``: interval between keepalives; a host that is silent
    for three times as long is given up. ``attempts``: limit on connection attempts; none is started
    after ``connect_s``. ``reconnect_s``: how long a long command's host may be unreachable.
    """

    connect_s: float = 10.0
    attempts: int = 4
    keepalive_s: float = 15.0
    reconnect_s: float = 300.0

    @property
    def silence_s(self) -> float:
        """How long a host may be silent, in seconds."""
        return 3 * self.keepalive_s


@contextlib.contextmanager
def translated(host: SshHost) -> Iterator[None]:
    """Translate exceptions of paramiko and sockets into ours, without secrets in their texts."""
    who = host.account
    try:
        yield
    except paramiko.BadHostKeyException as problem:
        raise AccessError(_changed(host, problem.key, problem.expected_key)) from problem
    except paramiko.PasswordRequiredException as problem:
        raise AccessError(f"{who}: {_ENCRYPTED}") from problem
    except paramiko.AuthenticationException as problem:
        if _cut_off(problem):
            raise TransportError(
                f"{who}: the connection was lost while logging in: {problem}"
            ) from problem
        raise AccessError(f"{who}: {_no_key(host)}") from problem
    except paramiko.ChannelException as problem:
        raise TransportError(f"{who}: no channel: {problem.text}") from problem
    except paramiko.SSHException as problem:
        if "No authentication methods available" in str(problem):
            raise AccessError(f"{who}: {_no_key(host)}") from problem
        raise TransportError(f"{who}: {str(problem) or 'the connection was lost'}") from problem
    except (EOFError, OSError) as problem:
        raise TransportError(f"{who}: {_reason(problem)}") from problem


#: What paramiko raises for a damaged line of known_hosts, which says nothing about other hosts.
_DAMAGED = (
    paramiko.SSHException,
    paramiko.hostkeys.InvalidHostKey,
    ArithmeticError,
    AssertionError,
    LookupError,
    ValueError,
)
_ENCRYPTED = "its private key is encrypted; load it into an agent (ssh-add) and name no key file"


def _cut_off(problem: paramiko.AuthenticationException) -> bool:
    return any(phrase in str(problem) for phrase in ("transport shut down", "timeout"))


def _reason(problem: EOFError | OSError) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    return str(getattr(problem, "strerror", None) or problem) or "the connection was lost"


def _no_key(host: SshHost) -> str:
    keys = f"the key {host.key_file}" if host.key_file else "the keys in ~/.ssh"
    keys += " and those of the agent" if host.agent else ""
    return f"it accepts no key (tried {keys}); add the public half to the account's authorized_keys"


def log_in(
    client: paramiko.SSHClient,
    host: SshHost,
    wire: socket.socket | paramiko.Channel,
    patience: Patience,
) -> paramiko.Transport:
    """Log in over an open wire, which is closed on failure; see ``translated`` for errors."""
    try:
        _load_known_hosts(client, host)
        client.set_missing_host_key_policy(_Refuse(host))
        client.connect(
            host.address,
            host.port,
            host.user,
            pkey=_load_key(host),
            sock=wire,
            timeout=patience.connect_s,
            banner_timeout=patience.connect_s,
            auth_timeout=patience.connect_s,
            allow_agent=host.agent,
            look_for_keys=host.key_file is None,
        )
    except BaseException:
        wire.close()
        raise
    transport = client.get_transport()
    assert transport is not None
    transport.set_keepalive(max(1, round(patience.keepalive_s)))
    return transport


def _load_key(host: SshHost) -> paramiko.PKey | None:
    """The private key to offer. Raises AccessError, which never quotes the key's content."""
    if host.key_file is None:
        return None
    what = f"{host.account}: key file {host.key_file}"
    try:
        return paramiko.PKey.from_path(host.key_file)
    except (TypeError, paramiko.PasswordRequiredException):
        raise AccessError(f"{host.account}: {_ENCRYPTED}: {host.key_file}") from None
    except OSError as problem:
        raise AccessError(f"{what}: {problem.strerror}") from problem
    except (ValueError, UnknownKeyType, paramiko.SSHException):
        raise AccessError(f"{what} contains no readable private key") from None


def _load_known_hosts(client: paramiko.SSHClient, host: SshHost) -> None:
    """Load the trusted host keys: those in the known_hosts file that are not revoked."""
    path = host.known_hosts.expanduser()
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return  # same as an empty file: the refusal names it
    except OSError as problem:
        raise AccessError(f"{host.account}: {path}: {problem.strerror}") from problem
    marked = [words for line in lines if len(words := line.split()) > 3]
    revoked = {words[3] for words in marked if words[0] == "@revoked"}
    trusted = client.get_host_keys()
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith(("#", "@")) or revoked & set(line.split()[2:3]):
            continue
        with contextlib.suppress(*_DAMAGED):
            entry = paramiko.hostkeys.HostKeyEntry.from_line(line, number)
            if entry is None:
                continue
            for name in entry.hostnames or ():
                if name.startswith("|1|"):
                    trusted.hash_host("", name)  # raises here, rather than when a host is looked up
                trusted.add(name, entry.key.get_name(), entry.key)


class _Refuse(paramiko.MissingHostKeyPolicy):
    """Rejects hosts whose key is not in the known_hosts file."""

    def __init__(self, host: SshHost) -> None:
        self._host = host

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        host = self._host
        port = "" if host.port == _SSH_PORT else f"-p {host.port} "
        raise AccessError(
            f"{host.account}: its host key is not in {host.known_hosts.expanduser()}: "
            f"{_key_text(key)}; compare this with 'ssh-keygen -lf' of the key on the host itself, "
            f"and then add it: ssh-keyscan {port}-t {key.get_name().removeprefix('ssh-')} "
            f"{host.address} >> {host.known_hosts}"
        )


def _changed(host: SshHost, new: paramiko.PKey, trusted: paramiko.PKey) -> str:
    name = host.address if host.port == _SSH_PORT else f"[{host.address}]:{host.port}"
    return (
        f"{host.account}: its host key is {_key_text(new)}, but {host.known_hosts.expanduser()} "
        f"knows {_key_text(trusted)}: another machine may be answering in its place; only if you "
        f"know why it changed, remove the old one: ssh-keygen -R '{name}' -f {host.known_hosts}"
    )


def _key_text(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"
