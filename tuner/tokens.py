"""Access tokens of the service: their scope and validity."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Scope(StrEnum):
    """What a token allows; each scope includes the ones before it."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    def allows(self, scope: Scope) -> bool:
        """Whether this is sufficient for what needs ``scope``."""
        order = list(Scope)
        return order.index(self) >= order.index(scope)


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret. ``parent``: the token that this session belongs to, or None."""

    id: str
    name: str
    scope: Scope
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    parent: str | None

    def holds(self, now: datetime) -> bool:
        """Whether the token is still valid."""
        return self.revoked is None and (self.expires is None or now < self.expires)
