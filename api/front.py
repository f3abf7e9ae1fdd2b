"""Connections before there is a request: how many, how slow, and for how long.

Nobody has shown a token yet, so nothing here may cost much. Whoever sends half a request, or
reads an answer too slowly, is cut off when time is up; when there are too many of them, the one
that has kept us waiting longest makes room for the next. Named to uvicorn by import string.
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

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Phase(StrEnum):
    """What a connection is waited for."""

    HEAD = "head"
    BODY = "body"
    #: For nothing: its request is here, and is being answered.
    SERVED = "served"


#: How long the client may take for each.
LIMITS_S: Mapping[Phase, float] = {Phase.HEAD: 10.0, Phase.BODY: 20.0}
HANDSHAKE_S = 10.0
#: An answer of which nothing is taken for so long is given up.
STALL_S = 60.0
MOST, MOST_OF_AN_ADDRESS = 4000, 250
#: Descriptors that are not for connections: files, the database, campaigns that are started.
_SPARE = 300


class Connections:
    """All connections of the process. Belongs to one event loop."""

    def __init__(self, most: int, most_of_an_address: int) -> None:
        self._most = most
        self._most_of_an_address = most_of_an_address
        self._of: Counter[str] = Counter()
        #: Those that are waited for, the longest first.
        self._waiting: dict[Front, None] = {}
        self._all: set[Front] = set()

    def admit(self, new: Front) -> bool:
        """Count a connection; False when there is no room for it."""
        whole = len(self._all) >= self._most
        own = not new.by_proxy and self._of[new.address] >= self._most_of_an_address
        if whole or own:
            longest = next(
                (one for one in self._waiting if whole or one.address == new.address), None
            )
            if longest is None:
                return False
            longest.cut_off()
        self._all.add(new)
        self._of[new.address] += 1
        return True

    def waits(self, one: Front, *, waited_for: bool) -> None:
        """Whether a connection is waited for, from now on."""
        self._waiting.pop(one, None)
        if waited_for and one in self._all:
            self._waiting[one] = None

    def leave(self, one: Front) -> None:
        """Forget a connection; harmless when it is forgotten."""
        self._waiting.pop(one, None)
        if one in self._all:
            self._all.remove(one)
            self._of[one.address] -= 1
            if not self._of[one.address]:
                del self._of[one.address]


@cache
def connections() -> Connections:
    """The connections of this process: at most as many as it may have files open."""
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = MOST + _SPARE
    if limit < needed:
        more = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(OSError, ValueError):  # a service that may do little may not do that either
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            limit = more
    return Connections(max(_SPARE, min(MOST, limit - _SPARE)), MOST_OF_AN_ADDRESS)


class Front(H11Protocol):
    """A connection that is held to its limits."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
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
        """End the connection without another word."""
        self._leave()
        self.transport.abort()

    def _leave(self) -> None:
        connections().leave(self)
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()

    def _look(self) -> None:
        """Begin to count the time when something else is waited for than before."""
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
            continue  # a name, or "*": uvicorn's matter
    return tuple(networks)


def is_proxy(address: str, trusted: str) -> bool:
    """Whether an address is one of those that speak for many. ``trusted``: as uvicorn has them."""
    try:
        own = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(own in network for network in _networks(trusted))


class _Loop(asyncio.SelectorEventLoop):
    """Cuts off clients that do not finish a TLS handshake."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = HANDSHAKE_S
        return await super().create_server(*args, **options)


loop: Callable[[], asyncio.AbstractEventLoop] = _Loop
