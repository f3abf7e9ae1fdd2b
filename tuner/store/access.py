"""Access tokens of the service, stored only as digests."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from tuner.errors import NotFoundError
from tuner.store import tables
from tuner.store.rows import record, values
from tuner.store.store import Store
from tuner.tokens import Scope, Token

_PREFIX = "fst"
#: The maximum number of sessions of one token: more than the browsers of those who share it.
MOST_SESSIONS = 50


class Access:
    """The tokens of one store, which has only their digests. Methods raise StoreError."""

    def __init__(self, store: Store) -> None:
        # Both share the one open database of the store.
        self._database = store._database

    def create(
        self,
        name: str,
        scope: Scope,
        now: datetime,
        expires: datetime | None,
        parent: str | None = None,
    ) -> tuple[Token, str]:
        """Store a new token; return it with its text, which cannot be retrieved again. With a
        ``parent`` it is a session of that, whose oldest sessions end if it has too many.
        """
        secret = secrets.token_urlsafe(32)
        token = Token(secrets.token_hex(6), name, scope, now, expires, None, parent)
        row = values(tables.token, token, digest=_digest(secret))
        table = tables.token
        others = select(table.c.id).where(table.c.parent == parent)
        newest = others.order_by(table.c.created.desc(), table.c.id).limit(MOST_SESSIONS - 1)

        def add(connection: Connection) -> None:
            if parent is not None:
                stay = connection.scalars(newest).all()
                old = (table.c.parent == parent) & table.c.id.not_in(stay)
                connection.execute(delete(table).where(old))
            connection.execute(insert(table).values(row))

        self._write(add)
        return token, f"{_PREFIX}_{token.id}_{secret}"

    def token_of(self, text: str, now: datetime) -> Token | None:
        """Return the token with this text, None if it is not valid. A session is valid only as long
        as its parent token is.
        """
        prefix, _, rest = text.partition("_")
        name, _, secret = rest.partition("_")
        if prefix != _PREFIX or not secret or not (text.isascii() and name.isalnum()):
            return None
        table = tables.token

        def find(connection: Connection) -> Token | None:
            row = connection.execute(select(table).where(table.c.id == name)).one_or_none()
            if row is None or not hmac.compare_digest(row.digest, _digest(secret)):
                return None
            token = record(Token, row)
            if token.parent is not None:
                of = select(table).where(table.c.id == token.parent)
                if not record(Token, connection.execute(of).one()).holds(now):
                    return None
            return token if token.holds(now) else None

        return self._database.read(find)

    def tokens(self) -> list[Token]:
        """Return all tokens that are not sessions, oldest first."""
        table = tables.token
        query = select(table).where(table.c.parent.is_(None)).order_by(table.c.created, table.c.id)
        return self._database.read(lambda c: [record(Token, row) for row in c.execute(query)])

    def revoke(self, token: str, now: datetime) -> Token:
        """Revoke the token with this identifier and with it all of its sessions. NotFoundError."""
        table = tables.token

        def end(connection: Connection) -> Token:
            row = connection.execute(select(table).where(table.c.id == token)).one_or_none()
            if row is None:
                raise NotFoundError(f"there is no token {token}; see 'fstune token list'")
            this = (table.c.id == token) & table.c.revoked.is_(None)
            connection.execute(update(table).where(this).values(revoked=now))
            return record(Token, row)

        return self._database.write(end)

    def forget_sessions(self, now: datetime) -> None:
        """Delete expired sessions."""
        table = tables.token
        over = table.c.parent.is_not(None) & (table.c.expires < now)
        self._write(lambda c: c.execute(delete(table).where(over)))

    def holds(self, token: Token, now: datetime) -> bool:
        """Check that a token looked up earlier, and its parent, are still valid."""
        table, of = tables.token, [token.id, *([token.parent] if token.parent else [])]

        def find(connection: Connection) -> bool:
            rows = connection.execute(select(table).where(table.c.id.in_(of))).all()
            return len(rows) == len(of) and all(record(Token, row).holds(now) for row in rows)

        return self._database.read(find)

    def _write(self, work: Callable[[Connection], object]) -> None:
        self._database.write(work)


def _digest(secret: str) -> str:
    # A secret has 256 random bits and cannot be guessed: no slow hash is needed.
    return hashlib.sha256(secret.encode()).hexdigest()
