"""One SSH connection to a host, opened on demand and shared by everything that runs commands there.

Owns the connection's life cycle: opening, sharing, detecting that it is dead, replacing it.

An interrupt inside paramiko can leave one of its locks held, or a packet half sent; the next user
of the connection, for example to restore the host, would then wait for ever. Interrupts are
therefore deferred around every use of a shared connection; only waits for the host can be
interrupted.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import paramiko
import tenacity

from tuner.errors import TransportError
from tuner.hosts.log_in import Patience, SshHost, log_in, translated
from tuner.interruption import uninterrupted

# Keeps paramiko's log messages off the terminal; everything that matters is raised as an error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

#: Opens a TCP connection, given address, port and a time limit in seconds.
OpenSocket = Callable[[str, int, float], socket.socket]

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_SESSION_WAIT_S = 0.1
#: Sessions open at once, and kept idle for reuse: OpenSSH allows ten per connection by default, and
#: a fileserver's options are read back with three commands at once.
_MOST_CHANNELS, _MOST_IDLE = 8, 4


def open_socket(address: str, port: int, timeout_s: float) -> socket.socket:
    """Open a TCP connection from this machine."""
    return socket.create_connection((address, port), timeout=timeout_s)


@dataclass(slots=True)
class Session:
    """A channel to a program on the host that answers one request after another.

    ``is_new``: nothing has been started on it yet. ``is_reusable``: it is ready for another
    request.
    """

    channel: paramiko.Channel
    is_new: bool
    is_reusable: bool = False


class Link:
    """A connection to one host, opened on demand; safe to use from several threads."""

    def __init__(self, host: SshHost, patience: Patience, opener: OpenSocket = open_socket) -> None:
        self._host = host
        self._patience = patience
        self._opener = opener
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_MOST_CHANNELS)
        self._clients: list[paramiko.SSHClient] = []
        self._idle: list[paramiko.Channel] = []

    @contextlib.contextmanager
    def channel(self) -> Iterator[paramiko.Channel]:
        """Open a channel for one command. A dead connection is replaced, which is safe because
        nothing has been requested of the host yet. Raises AccessError or TransportError.
        """
        with self._slots, translated(self._host):
            channel = self._open_channel()
            try:
                yield channel
            finally:
                _close(channel)

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """Like ``channel``, for a request: reuse an idle session if the host still answers on it,
        otherwise open a new one. It is kept for reuse if the body sets ``is_reusable``.
        """
        with self._slots, translated(self._host):
            channel = self._idle_channel()
            session = Session(channel or self._open_channel(), is_new=channel is None)
            try:
                yield session
            finally:
                with uninterrupted():
                    if not session.is_reusable or not self._keep(session.channel):
                        _close(session.channel)

    def close(self) -> None:
        """Close the connection; the next command opens another. Wakes all waiters."""
        with uninterrupted(), self._lock:
            self._drop()

    def drop(self, channel: paramiko.Channel) -> None:
        """Close the dead connection of a channel, but not one that has replaced it since."""
        self._drop_dead(channel.get_transport())

    @contextlib.contextmanager
    def dropped_after(self, limit_s: float, channel: paramiko.Channel) -> Iterator[None]:
        """Drop a channel's connection if the body, which cannot be interrupted, takes longer than
        ``limit_s``: paramiko would wait for ever.
        """
        timer = threading.Timer(limit_s, self.drop, (channel,))
        timer.daemon = True
        with uninterrupted():
            timer.start()
            try:
                yield
            finally:
                timer.cancel()

    def _keep(self, channel: paramiko.Channel) -> bool:
        with self._lock:
            keeps = len(self._idle) < _MOST_IDLE and channel.get_transport() is self._alive()
            if keeps:
                self._idle.append(channel)
            return keeps

    def _idle_channel(self) -> paramiko.Channel | None:
        """An idle channel on which the host still answers, or None. A connection on which the host
        does not answer in time is dropped.
        """
        while True:
            with uninterrupted():
                with self._lock:
                    if not self._idle:
                        return None
                    channel = self._idle.pop()
                try:
                    channel.settimeout(self._patience.connect_s)
                    channel.sendall(b"\n")
                    if channel.recv(1):
                        channel.settimeout(None)
                        return channel
                except (paramiko.SSHException, EOFError, OSError) as problem:
                    if isinstance(problem, TimeoutError):
                        self.drop(channel)
                _close(channel)

    def _close_idle(self) -> None:
        with uninterrupted(), self._lock:
            self._free_idle()

    def _free_idle(self) -> None:
        while self._idle:
            _close(self._idle.pop())

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
        """Open a session. If the host refuses, retry for a while: sessions that are just ending
        there still count against its limit.
        """
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_delay(self._patience.connect_s),
            wait=tenacity.wait_fixed(_SESSION_WAIT_S),
            retry=tenacity.retry_if_exception_type(paramiko.ChannelException),
            # The host may allow fewer sessions than usual.
            before_sleep=lambda _: self._close_idle(),
            reraise=True,
        )
        # A channel that never reaches the caller is closed when its last reference goes.
        with uninterrupted():
            return retrying(transport.open_session, timeout=self._patience.connect_s)

    def _transport(self) -> tuple[paramiko.Transport, bool]:
        """The open connection, and whether this call opened it."""
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
        # The connection is closed, so this sends nothing: it only frees local resources.
        self._free_idle()

    def _connect(self) -> None:
        """Connect to the host through its jump hosts, outermost first."""
        try:
            through: paramiko.Transport | None = None
            for host in _route(self._host):
                with translated(host):
                    wire = self._wire(host, through)
                    client = paramiko.SSHClient()
                    self._clients.append(client)
                    through = log_in(client, host, wire, self._patience)
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
        # A small request must not be delayed until the last answer has been acknowledged.
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Detects that an idle connection is dead before somebody uses it.
        wire.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * self._patience.silence_s)
        )
        return wire


def _route(host: SshHost) -> list[SshHost]:
    route = [host]
    while route[0].jump is not None:
        route.insert(0, route[0].jump)
    return route


def _close(channel: paramiko.Channel) -> None:
    """Close a channel. That its connection is lost is no error here: it would hide the reason why
    the channel is closed, a stop signal for example.
    """
    with uninterrupted(), contextlib.suppress(paramiko.SSHException, EOFError, OSError):
        channel.close()
