"""The token that a client host works with: made of a ticket by a keytab, renewed, destroyed.

A restart of the cache manager loses tokens, and a ticket grows old. The ticket lies in the token's
own journal, so that whatever puts the host back destroys both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tuner.errors import TestbedError
from tuner.hosts.connector import Connector, failure_data
from tuner.services.journal import Journal
from tuner.services.openafs import parse

_MAKE, _RESTORE = "token-make.sh", "token-restore.sh"
_TICKET = "ticket"
#: Longer than the script takes at its slowest.
_MAKE_TIMEOUT_S = 180.0
_ASK_TIMEOUT_S = 30.0
#: A ticket of which nothing is known is renewed after half of this.
_ASSUMED_LIFE_S = 3600.0

#: Every program that is needed, each as one argument; says which is missing.
_PROGRAMS = """
for program in "$@"; do
    command -v "$program" > /dev/null || { echo "$program is not installed"; exit 1; }
done
"""
_NEEDED = ("kinit", "klist", "kdestroy", "aklog", "tokens", "unlog")


class TokenError(TestbedError):
    """A client host cannot have the ticket or the token that it is to work with."""

    slug = "token"


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Where a token comes from: a keytab on the host and a principal in it; how long its ticket is
    asked for (None: as long as the realm gives); cell and realm of the token, None for the host's
    own. ``directory``: where fstune may keep its files.
    """

    keytab: str
    principal: str
    lifetime_s: float | None
    cell: str | None
    realm: str | None
    directory: str


@dataclass(slots=True)
class Tokens:
    """The token of one client host."""

    host: Connector
    place: TokenPlace
    _recorded: bool = False
    #: When half of the ticket's life is over, by a clock that nobody sets.
    _old_at: float = 0.0
    #: The cell of the token, once it is known.
    _cell: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether the token is one that we made."""
        return self._recorded

    def make(self) -> None:
        """Make a new ticket, and a new token of it in place of any other; new connections follow
        from that. Raises TokenError.
        """
        place, journal = self.place, self.journal
        if not self._recorded:
            journal.begin({}, {"principal": place.principal})
            self._recorded = True
        began = _now()
        argv = ["sh", f"{journal.directory}/{_MAKE}", f"{journal.directory}/{_TICKET}"]
        argv += [place.cell or "", place.realm or "", *kinit_arguments(place)]
        result = self.host.change(argv, timeout_s=_MAKE_TIMEOUT_S)
        if result.status != 0:
            message = f"{self.host.host}: no token for {place.principal}: {result.tail}"
            raise TokenError(message, failure_data(result, self.host.host))
        life_s = parse.ticket_life_s(result.stdout) or place.lifetime_s or _ASSUMED_LIFE_S
        self._old_at = began + life_s / 2.0

    def renew(self) -> None:
        """Make a new one when half of the ticket's life is over, or when it is gone. Raises
        TokenError.
        """
        if _now() < self._old_at:
            result = self.host.ask(["tokens"], timeout_s=_ASK_TIMEOUT_S)
            if parse.has_valid_tokens(result.stdout, self._cell_name()):
                return
        self.make()

    def _cell_name(self) -> str:
        """The cell of the token."""
        if not self._cell:
            result = self.host.ask(["fs", "wscell"], timeout_s=_ASK_TIMEOUT_S)
            self._cell = self.place.cell or parse.own_cell(result.stdout)
        return self._cell

    def restore(self) -> str | None:
        """Destroy ticket and token; what was done, None when none was made."""
        self._recorded, self._old_at = False, 0.0
        return self.journal.restore()

    @property
    def journal(self) -> Journal:
        """Its restore journal."""
        directory = f"{self.place.directory}/token"
        return Journal(self.host, directory, __package__, _RESTORE, (_MAKE,))


def kinit_arguments(place: TokenPlace) -> list[str]:
    """The arguments of kinit."""
    life = [] if place.lifetime_s is None else ["-l", f"{place.lifetime_s:.0f}s"]
    return ["-k", "-t", place.keytab, *life, place.principal]


def why_no_ticket(host: Connector, place: TokenPlace) -> str:
    """Why the keytab gives no ticket there, "" when it does: one is requested and dropped at
    once, so that nothing is changed.
    """
    programs = host.ask(["sh", "-c", _PROGRAMS, "sh", *_NEEDED])
    if programs.status != 0:
        return programs.tail
    argv = ["timeout", "20", "kinit", "-c", "MEMORY:fstune", *kinit_arguments(place)]
    result = host.ask(argv, timeout_s=_ASK_TIMEOUT_S)
    return "" if result.status == 0 else f"kinit: {result.tail}"


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
