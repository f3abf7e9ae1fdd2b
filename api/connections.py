"""Connection limits below the request level: number of connections, idle time and slow clients.

Clients are not authenticated yet at this point, so everything here must be cheap. A client that
sends an incomplete request or reads a response too slowly is disconnected after a timeout. When
there are too many connections, the one that has been waited for longest is closed in favour of the
new one. uvicorn loads this module by import string.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Phase(StrEnum):
    """What the server is waiting to receive on a connection."""

    HEAD = "head"
    BODY = "body"
    #: Nothing: the request is complete and is being answered.
    SERVED = "served"


#: Time limit for the client in each phase.
LIMITS_S: Mapping[Phase, float] = {Phase.HEAD: 10.0, Phase.BODY: 20.0}
HANDSHAKE_S = 10.0
#: A response is aborted when the client reads nothing of it for this long.
STALL_S = 60.0
MOST, MOST_OF_AN_ADDRESS = 4000, 250
#: Largest head of a request.
LARGEST_HEAD_BYTES = 64 << 10
#: Maximum number of pieces of a body: chunks, or what is read at once.
MOST_PIECES = 2000
#: In the state of the application: a function that ends the streams of events.
END_STREAMS = "end_streams"
#: File descriptors reserved for other uses: files, the database, starting campaigns.
_SPARE = 300


class Connections:
    """All connections of the process. Not thread-safe: use from one event loop only."""

    def __init__(self, most: int, most_of_an_address: int) -> None:
        self._most = most
        self._most_of_an_address = most_of_an_address
        self._of: Counter[str] = Counter()
        #: Connections being waited for, longest-waiting first.
        self._waiting: dict[Front, None] = {}
        self._all: set[Front] = set()

    def admit(self, new: Front) -> bool:
        """Register a connection, closing the longest-waiting one if full; False if rejected."""
        whole = len(self._all) >= self._most
        own = not new.by_proxy and self._of[new.address] >= self._most_of_an_address
        if whole or own:
            longest = next(
                (one for one in self._waiting if not own or one.address == new.address), None
            )
            if longest is None:
                return False
            longest.cut_off()
        self._all.add(new)
        self._of[new.address] += 1
        return True

    def waits(self, one: Front, *, waited_for: bool) -> None:
        """Record whether the server is now waiting for a connection."""
        self._waiting.pop(one, None)
        if waited_for and one in self._all:
            self._waiting[one] = None

    def leave(self, one: Front) -> None:
        """Forget a connection; does nothing if it is already forgotten."""
        self._waiting.pop(one, None)
        if one in self._all:
            self._all.remove(one)
            self._of[one.address] -= 1
            if not self._of[one.address]:
                del self._of[one.address]


@cache
def connections() -> Connections:
    """The connections of this process, limited by the number of files it may have open.

    Raises the soft limit on open files first if it is too low.
    """
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    minimum = MOST + _SPARE
    if limit < minimum:
        more = minimum if hard == resource.RLIM_INFINITY else min(minimum, hard)
        with suppress(OSError, ValueError):  # a sandboxed service may not be permitted to
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            limit = more
    return Connections(max(_SPARE, min(MOST, limit - _SPARE)), MOST_OF_AN_ADDRESS)


class _Pieces(h11.Connection):
    """A parser of requests that gives up on a body sent in too many pieces: the parser takes as
    long for a piece of one byte as for one of 64 kB.
    """

    def __init__(self, give_up: Callable[[], None]) -> None:
        super().__init__(h11.SERVER, LARGEST_HEAD_BYTES)
        self._give_up = give_up
        self._pieces = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """See h11.Connection."""
        if self._pieces > MOST_PIECES:
            return h11.NEED_DATA
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = 0
        elif isinstance(event, h11.Data):
            self._pieces += 1
            if self._pieces > MOST_PIECES:
                self._give_up()
                return h11.NEED_DATA
        return event


class Front(H11Protocol):
    """A connection with enforced limits."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = _Pieces(self.cut_off)
        self.address = ""
        self.by_proxy = False
        self._phase: Phase | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.by_proxy = is_proxy(self.address, str(self.config.forwarded_allow_ips))
        if not connections().admit(self):
            transport.abort()
            return
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """See H11Protocol."""
        super().on_response_complete()
        self._look()

    def shutdown(self) -> None:
        """See H11Protocol. Streams of events do not end by themselves: the service would wait for
        them, and then cut them off.
        """
        self.app_state.get(END_STREAMS, lambda: None)()
        super().shutdown()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        super().pause_writing()
        self._stall = self.loop.call_later(STALL_S, self.cut_off)

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def cut_off(self) -> None:
        """Abort the connection without sending anything."""
        self._leave()
        self.transport.abort()

    def _leave(self) -> None:
        connections().leave(self)
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()

    def _look(self) -> None:
        """Restart the timer if the phase has changed."""
        phase = self._waited_for()
        if phase is self._phase or self.transport.is_closing():
            return
        self._phase = phase
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        connections().waits(self, waited_for=phase is not Phase.SERVED)
        if phase in LIMITS_S:
            self._timer = self.loop.call_later(LIMITS_S[phase], self.cut_off)

    def _waited_for(self) -> Phase:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return Phase.HEAD
        return Phase.BODY if cycle.more_body else Phase.SERVED


@cache
def _networks(trusted: str) -> tuple[Network, ...]:
    networks = []
    for name in trusted.split(","):
        try:
            networks.append(ipaddress.ip_network(name.strip(), strict=False))
        except ValueError:
            continue  # a name or "*", which uvicorn handles
    return tuple(networks)


def is_proxy(address: str, trusted: str) -> bool:
    """Whether an address is a trusted proxy, which carries requests of many clients.

    ``trusted``: comma-separated addresses and networks, as in uvicorn's ``forwarded_allow_ips``.
    """
    try:
        own = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(own in network for network in _networks(trusted))


class _Loop(asyncio.SelectorEventLoop):
    """Event loop that disconnects clients that do not complete a TLS handshake in time."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = HANDSHAKE_S
        return await super().create_server(*args, **options)


loop: Callable[[], asyncio.AbstractEventLoop] = _Loop
