"""One SSH connection to a host, opened when needed and shared by all who run commands there.

Owns paramiko: how a host is reached and recognised, keepalives, and what each of paramiko's
exceptions means to us. Host keys are only ever read from the known_hosts file, never added to it.

An interrupt that strikes inside paramiko can leave one of its locks taken, or half a packet sent:
whoever uses the connection next, to put the host back say, would wait for ever. So it is held off
whenever a connection that others use is touched; only a wait for the host may be interrupted.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
import tenacity
from paramiko.pkey import UnknownKeyType

from tuner.errors import TestbedError, TransportError
from tuner.interruption import uninterrupted

# Otherwise Python prints paramiko's complaints to the terminal; all that matters comes as an error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

#: Given address, port and a time limit in seconds: an open TCP connection.
OpenSocket = Callable[[str, int, float], socket.socket]

_SSH_PORT = 22
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_SESSION_WAIT_S = 0.1
#: OpenSSH allows ten sessions on one connection by default.
_MOST_CHANNELS = 8


class AccessError(TestbedError):
    """A host does not let us in, or we do not trust it: to try again would not help."""

    slug = "access"


@dataclass(frozen=True, slots=True)
class SshHost:
    """How a host is reached. ``address``: name or IP address, as in the known_hosts file.

    ``key_file``: private key, not encrypted; without one the agent's keys and ~/.ssh/id_* are
    tried. ``sudo``: commands run as root by ``sudo -n``. ``jump``: the host to go through, with a
    host key of its own to check.
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
        """The account in messages: ``root@server:2222``."""
        port = "" if self.port == _SSH_PORT else f":{self.port}"
        return f"{self.user}@{self.address}{port}"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited for what. ``keepalive_s``: a sign of life is asked for that often; a host
    that gives none for three times as long is given up. ``attempts``: to connect, unless they take
    longer than ``connect_s`` together. ``reconnect_s``: a long command's host may be out of reach.
    """

    connect_s: float = 10.0
    attempts: int = 4
    keepalive_s: float = 15.0
    reconnect_s: float = 300.0

    @property
    def silence_s(self) -> float:
        """How long a host may be silent."""
        return 3 * self.keepalive_s


def open_socket(address: str, port: int, timeout_s: float) -> socket.socket:
    """A TCP connection from this machine."""
    return socket.create_connection((address, port), timeout=timeout_s)


class Link:
    """A connection to one host; safe in several threads. Nothing is opened before it is needed."""

    def __init__(self, host: SshHost, patience: Patience, opener: OpenSocket = open_socket) -> None:
        self._host = host
        self._patience = patience
        self._opener = opener
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_MOST_CHANNELS)
        self._clients: list[paramiko.SSHClient] = []

    @contextlib.contextmanager
    def channel(self) -> Iterator[paramiko.Channel]:
        """A channel for one command. A connection found dead here is replaced: nothing has been
        asked of the host yet. Raises AccessError or TransportError.
        """
        with self._slots, translated(self._host):
            channel = self._open_channel()
            try:
                yield channel
            finally:
                with uninterrupted():
                    channel.close()

    def close(self) -> None:
        """Let go of the connection; the next command opens another. Wakes whoever waits on it."""
        with uninterrupted(), self._lock:
            self._drop()

    def drop(self, channel: paramiko.Channel) -> None:
        """Let go of the connection of a channel, which is dead; not of one that came after it."""
        self._drop_dead(channel.get_transport())

    @contextlib.contextmanager
    def dropped_after(self, limit_s: float, channel: paramiko.Channel) -> Iterator[None]:
        """Drop a channel's connection when the body, which is not interrupted, takes longer:
        paramiko would wait for ever.
        """
        timer = threading.Timer(limit_s, self.drop, (channel,))
        timer.daemon = True
        with uninterrupted():
            timer.start()
            try:
                yield
            finally:
                timer.cancel()

    def _open_channel(self) -> paramiko.Channel:
        transport, fresh = self._transport()
        try:
            return self._open_session(transport)
        except paramiko.ChannelException:
            raise
        except (paramiko.SSHException, EOFError, OSError):
            if fresh:
                raise
        self._drop_dead(transport)
        transport, _ = self._transport()
        return self._open_session(transport)

    def _open_session(self, transport: paramiko.Transport) -> paramiko.Channel:
        """A session; waits for one when the host grants no more, because others are still about to
        end there.
        """
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_delay(self._patience.connect_s),
            wait=tenacity.wait_fixed(_SESSION_WAIT_S),
            retry=tenacity.retry_if_exception_type(paramiko.ChannelException),
            reraise=True,
        )
        # One that its caller does not get any more is closed with its last reference.
        with uninterrupted():
            return retrying(transport.open_session, timeout=self._patience.connect_s)

    def _transport(self) -> tuple[paramiko.Transport, bool]:
        """The open connection, and whether it was opened only now."""
        with self._lock:
            alive = self._alive()
            if alive is not None:
                return alive, False
            self._drop()
            retrying = tenacity.Retrying(
                stop=tenacity.stop_after_attempt(self._patience.attempts)
                | tenacity.stop_after_delay(self._patience.connect_s),
                wait=tenacity.wait_exponential(_FIRST_WAIT_S, _LONGEST_WAIT_S),
                retry=tenacity.retry_if_exception_type(TransportError),
                reraise=True,
            )
            retrying(self._connect)
            alive = self._alive()
            if alive is None:
                raise TransportError(f"{self._host.account}: the connection was lost at once")
            return alive, True

    def _alive(self) -> paramiko.Transport | None:
        transport = self._clients[-1].get_transport() if self._clients else None
        return transport if transport is not None and transport.is_active() else None

    def _drop_dead(self, transport: paramiko.Transport) -> None:
        with uninterrupted(), self._lock:
            if self._alive() is transport:
                self._drop()

    def _drop(self) -> None:
        while self._clients:
            self._clients.pop().close()

    def _connect(self) -> None:
        """Connect to the host, through all its jump hosts, the outermost first."""
        try:
            through: paramiko.Transport | None = None
            for host in _route(self._host):
                with translated(host):
                    wire = self._wire(host, through)
                    client = paramiko.SSHClient()
                    self._clients.append(client)
                    through = _log_in(client, host, wire, self._patience)
        except BaseException:
            self._drop()
            raise

    def _wire(
        self, host: SshHost, through: paramiko.Transport | None
    ) -> socket.socket | paramiko.Channel:
        place = (host.address, host.port)
        if through is not None:
            here = ("127.0.0.1", 0)
            return through.open_channel(
                "direct-tcpip", place, here, timeout=self._patience.connect_s
            )
        wire = self._opener(*place, self._patience.connect_s)
        # A small question must not wait until the answer to the last one was acknowledged.
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # So that a dead connection which nobody uses is found dead before somebody does.
        wire.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * self._patience.silence_s)
        )
        return wire


@contextlib.contextmanager
def translated(host: SshHost) -> Iterator[None]:
    """Turn what paramiko and sockets raise into our errors. Nothing secret is in their texts."""
    who = host.account
    try:
        yield
    except paramiko.BadHostKeyException as problem:
        raise AccessError(_changed(host, problem.key, problem.expected_key)) from problem
    except paramiko.PasswordRequiredException as problem:
        raise AccessError(f"{who}: {_ENCRYPTED}") from problem
    except paramiko.AuthenticationException as problem:
        if _cut_off(problem):
            raise TransportError(f"{who}: cut off while logging in: {problem}") from problem
        raise AccessError(f"{who}: {_no_key(host)}") from problem
    except paramiko.ChannelException as problem:
        raise TransportError(f"{who}: no channel: {problem.text}") from problem
    except paramiko.SSHException as problem:
        if "No authentication methods available" in str(problem):
            raise AccessError(f"{who}: {_no_key(host)}") from problem
        raise TransportError(f"{who}: {str(problem) or 'the connection was lost'}") from problem
    except (EOFError, OSError) as problem:
        raise TransportError(f"{who}: {_reason(problem)}") from problem


_ENCRYPTED = "its private key is encrypted; load it into an agent (ssh-add) and name no key file"


def _cut_off(problem: paramiko.AuthenticationException) -> bool:
    return any(phrase in str(problem) for phrase in ("transport shut down", "timeout"))


def _reason(problem: EOFError | OSError) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    return str(getattr(problem, "strerror", None) or problem) or "the connection was lost"


def _no_key(host: SshHost) -> str:
    keys = f"the key {host.key_file}" if host.key_file else "no key of ~/.ssh"
    keys += " and those of the agent" if host.agent else ""
    return f"it accepts no key (tried {keys}); add the public half to the account's authorized_keys"


def _route(host: SshHost) -> list[SshHost]:
    route = [host]
    while route[0].jump is not None:
        route.insert(0, route[0].jump)
    return route


def _log_in(
    client: paramiko.SSHClient,
    host: SshHost,
    wire: socket.socket | paramiko.Channel,
    patience: Patience,
) -> paramiko.Transport:
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
    """The private key to show. Raises AccessError, which repeats nothing of its content."""
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
        raise AccessError(f"{what} holds no private key that can be read") from None


def _load_known_hosts(client: paramiko.SSHClient, host: SshHost) -> None:
    """Load the host keys that are trusted: of those in the file, the ones that are not revoked."""
    path = host.known_hosts.expanduser()
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return  # the same as an empty one: the refusal names it
    except OSError as problem:
        raise AccessError(f"{host.account}: {path}: {problem.strerror}") from problem
    marked = [words for line in lines if len(words := line.split()) > 3]
    revoked = {words[3] for words in marked if words[0] == "@revoked"}
    trusted = client.get_host_keys()
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith(("#", "@")) or revoked & set(line.split()[2:3]):
            continue
        with contextlib.suppress(paramiko.SSHException):
            entry = paramiko.hostkeys.HostKeyEntry.from_line(line, number)
            if entry is not None:
                for name in entry.hostnames or ():
                    trusted.add(name, entry.key.get_name(), entry.key)


class _Refuse(paramiko.MissingHostKeyPolicy):
    """Trusts nobody whose key is not in the file."""

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
