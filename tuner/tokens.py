"""Tokens of the service: what they allow, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Scope(StrEnum):
    """What a token allows; each allows what the ones before it do."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    def allows(self, scope: Scope) -> bool:
        """Whether this is enough for what needs ``scope``."""
        order = list(Scope)
        return order.index(self) >= order.index(scope)


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret. ``parent``: the one whose session this is, or None."""

    id: str
    name: str
    scope: Scope
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    parent: str | None

    def holds(self, now: datetime) -> bool:
        """Whether it can still be used."""
        return self.revoked is None and (self.expires is None or now < self.expires)
