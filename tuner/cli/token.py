"""Commands that grant and revoke access to the service."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

import typer
from pydantic import TypeAdapter, ValidationError

from tuner.cli.options import Database, StateDir, open_or_make_store, open_store
from tuner.cli.say import say
from tuner.documents import Duration, Name
from tuner.errors import SpecError
from tuner.report.listing import Column, Listing, output, show
from tuner.report.styles import literal
from tuner.store.access import Access
from tuner.text import moment
from tuner.tokens import Scope, Token

app = typer.Typer(
    no_args_is_help=True,
    help="Tokens: who may use 'fstune serve --auth', and for what.",
)

_DURATION: TypeAdapter[float] = TypeAdapter(Duration)
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_Checked = TypeVar("_Checked")
#: Longest lifetime of a token that expires.
_LONGEST_S = 10 * 366 * 86400.0


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Who or what it is for.")],
    scope: Annotated[
        Scope, typer.Option(help="read; operate: also start and steer campaigns; admin: all.")
    ] = Scope.READ,
    expires: Annotated[
        str, typer.Option(help="For how long: 12h, 90d; 'never' for one that does not expire.")
    ] = "90d",
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Create a token and print it, only this once: only its digest is stored.

    Use it as: curl -H 'Authorization: Bearer TOKEN' URL, or to log in to the web pages.
    """
    now = datetime.now(UTC)
    token_name = _checked(_NAME, name, "the name")
    until = None
    if expires != "never":
        lasts_s = _checked(_DURATION, expires, "--expires")
        if lasts_s > _LONGEST_S:
            raise SpecError("--expires: at most ten years, or 'never'")
        until = now + timedelta(seconds=lasts_s)
    with open_or_make_store(state_dir, database) as store:
        token, text = Access(store).create(token_name, scope, now, until)
        try:
            say(text)
        except OSError:  # a full disk, say: nobody has it, and nobody could name it to revoke it
            Access(store).revoke(token.id, now)
            raise
    ends = "does not expire" if until is None else f"expires {moment(until)}"
    say(f"fstune: token {token.id} for {scope}, {ends}; it is not shown again", err=True)


@app.command("list")
def list_tokens(state_dir: StateDir = None, database: Database = None) -> None:
    """List the tokens, the oldest first. The tokens themselves are not stored."""
    now = datetime.now(UTC)
    with open_store(state_dir, database) as store:
        tokens = Access(store).tokens()
    columns = (
        Column("id", rigid=True),
        Column("name"),
        Column("scope", rigid=True),
        Column("created", rigid=True),
        Column("expires", rigid=True),
        Column("state", rigid=True),
    )
    rows = tuple(
        tuple(
            map(
                literal,
                (
                    token.id,
                    token.name,
                    str(token.scope),
                    moment(token.created),
                    "never" if token.expires is None else moment(token.expires),
                    _state(token, now),
                ),
            )
        )
        for token in tokens
    )
    show(output(), Listing(columns, rows))


@app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(help="The identifier in 'fstune token list'.")],
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Revoke a token now, and end the sessions of everybody who logged in with it."""
    with open_store(state_dir, database) as store:
        revoked = Access(store).revoke(token, datetime.now(UTC))
    say(f"fstune: token {revoked.id} ({revoked.name}) is revoked", err=True)


def _state(token: Token, now: datetime) -> str:
    if token.revoked is not None:
        return "revoked"
    return "valid" if token.holds(now) else "expired"


def _checked(adapter: TypeAdapter[_Checked], value: str, where: str) -> _Checked:
    try:
        return adapter.validate_python(value)
    except ValidationError as problem:
        message = problem.errors()[0]["msg"].removeprefix("Value error, ")
        raise SpecError(f"{where}: {message}") from None
