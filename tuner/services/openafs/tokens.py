"""The token of a client host: obtained with a keytab, renewed and destroyed.

A restart of the cache manager loses tokens, and tickets expire. The ticket is stored in the token's
own journal, so that whatever restores the host destroys both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tuner.errors import TokenError
from tuner.hosts.connector import Connector, failure_data
from tuner.services.journal import Journal
from tuner.services.openafs import parse

_MAKE, _RESTORE = "token-make.sh", "token-restore.sh"
_TICKET = "ticket"
#: Longer than the script can take.
_MAKE_TIMEOUT_S = 180.0
_ASK_TIMEOUT_S = 30.0
#: Assumed lifetime of a ticket for which none is known.
_ASSUMED_LIFE_S = 3600.0

#: Takes the names of required programs as arguments; reports the first missing one.
_PROGRAMS = """
for program in "$@"; do
    command -v "$program" > /dev/null || { echo "$program is not installed"; exit 1; }
done
"""
_COMMANDS = ("kinit", "klist", "kdestroy", "aklog", "tokens", "unlog")


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Where a token comes from.

    ``keytab``: its path on the host; ``principal``: one in the keytab; ``lifetime_s``: the
    requested lifetime of the ticket, None for the default of the realm; ``cell`` and ``realm``: of
    the token, None for those of the host. ``directory``: for files of fstune.
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
    #: When half of the ticket's lifetime is over, by a clock that is never adjusted.
    _old_at: float = 0.0
    #: The cell of the token; empty until known.
    _cell: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether fstune obtained the token."""
        return self._recorded

    def make(self) -> None:
        """Obtain a new ticket, and a new token from it, which replaces any other.

        This causes new connections to be created. Raises TokenError.
        """
        place, journal = self.place, self.journal
        if not self._recorded:
            journal.begin({}, {"principal": place.principal, "cell": self._cell_name()})
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
        """Obtain a new token if half of the ticket's lifetime is over or the token is gone.

        Raises TokenError.
        """
        if _now() < self._old_at:
            result = self.host.ask(["tokens"], timeout_s=_ASK_TIMEOUT_S)
            if parse.has_valid_tokens(result.stdout, self._cell_name()):
                return
        self.make()

    def _cell_name(self) -> str:
        """Return the cell of the token. Raises TokenError."""
        self._cell = self._cell or self.place.cell or ""
        if not self._cell:
            result = self.host.ask(["fs", "wscell"], timeout_s=_ASK_TIMEOUT_S)
            self._cell = parse.own_cell(result.stdout)
            if not self._cell:
                message = f"{self.host.host}: fs wscell does not name its cell: {result.tail}"
                raise TokenError(message, failure_data(result, self.host.host))
        return self._cell

    def restore(self) -> str | None:
        """Destroy ticket and token; returns what was done, None if there were none."""
        self._recorded, self._old_at = False, 0.0
        return self.journal.restore()

    @property
    def journal(self) -> Journal:
        """Its restore journal."""
        directory = f"{self.place.directory}/token"
        return Journal(self.host, directory, __package__, _RESTORE, (_MAKE,))


def kinit_arguments(place: TokenPlace) -> list[str]:
    """Return the arguments for kinit."""
    life = [] if place.lifetime_s is None else ["-l", f"{place.lifetime_s:.0f}s"]
    return ["-k", "-t", place.keytab, *life, place.principal]


def why_no_ticket(host: Connector, place: TokenPlace) -> str:
    """Return why no ticket can be obtained with the keytab, or "" if it works.

    A ticket is requested into memory and dropped immediately, so that nothing is changed.
    """
    programs = host.ask(["sh", "-c", _PROGRAMS, "sh", *_COMMANDS])
    if programs.status != 0:
        return programs.tail
    argv = ["timeout", "20", "kinit", "-c", "MEMORY:fstune", *kinit_arguments(place)]
    result = host.ask(argv, timeout_s=_ASK_TIMEOUT_S)
    return "" if result.status == 0 else f"kinit: {result.tail}"


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
