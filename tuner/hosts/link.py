"""One SSH connection to a host, opened when needed and shared by all who run commands there.

Owns the connection's life: how it is opened, shared, found dead and replaced.

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

import paramiko
import tenacity

from tuner.errors import TransportError
from tuner.hosts.log_in import Patience, SshHost, log_in, translated
from tuner.interruption import uninterrupted

# Otherwise Python prints paramiko's complaints to the terminal; all that matters comes as an error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

#: Given address, port and a time limit in seconds: an open TCP connection.
OpenSocket = Callable[[str, int, float], socket.socket]

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_SESSION_WAIT_S = 0.1
#: OpenSSH allows ten sessions on one connection by default: so many at once, and kept for later.
_MOST_CHANNELS, _MOST_IDLE = 8, 2


def open_socket(address: str, port: int, timeout_s: float) -> socket.socket:
    """A TCP connection from this machine."""
    return socket.create_connection((address, port), timeout=timeout_s)


@dataclass(slots=True)
class Session:
    """A channel to a program on the host that answers one question after another. ``is_new``:
    nothing was started on it yet. ``is_whole``: it may be asked something else.
    """

    channel: paramiko.Channel
    is_new: bool
    is_whole: bool = False


class Link:
    """A connection to one host; safe in several threads. Nothing is opened before it is needed."""

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

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """As ``channel``, for a question: one that was kept from an earlier question, if the host
        still answers on it, and a new one otherwise. It is kept if the body leaves it whole.
        """
        with self._slots, translated(self._host):
            channel = self._idle_channel()
            session = Session(channel or self._open_channel(), is_new=channel is None)
            try:
                yield session
            finally:
                with uninterrupted():
                    if not session.is_whole or not self._keep(session.channel):
                        session.channel.close()

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

    def _keep(self, channel: paramiko.Channel) -> bool:
        with self._lock:
            keeps = len(self._idle) < _MOST_IDLE and channel.get_transport() is self._alive()
            if keeps:
                self._idle.append(channel)
            return keeps

    def _idle_channel(self) -> paramiko.Channel | None:
        """One that was kept and on which the host answers; a connection on which it does not is
        dropped. None when there is none.
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
                channel.close()

    def _close_idle(self) -> None:
        with uninterrupted(), self._lock:
            self._free_idle()

    def _free_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

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
            # A host may grant fewer than usual.
            before_sleep=lambda _: self._close_idle(),
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
        # Nothing is sent any more: this only frees what they have here.
        self._free_idle()

    def _connect(self) -> None:
        """Connect to the host, through all its jump hosts, the outermost first."""
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
        # A small question must not wait until the answer to the last one was acknowledged.
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # So that a dead connection which nobody uses is found dead before somebody does.
        wire.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * self._patience.silence_s)
        )
        return wire


def _route(host: SshHost) -> list[SshHost]:
    route = [host]
    while route[0].jump is not None:
        route.insert(0, route[0].jump)
    return route
