"""Keyset pagination with opaque page tokens."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel

from tuner.errors import SpecError

Item = TypeVar("Item")
Row = TypeVar("Row")
Key = str | int

Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items.")]
PageToken = Annotated[
    str | None,
    Query(alias="page", max_length=200, description="The `next` of the previous page; opaque."),
]
LARGEST = 2**31 - 1
After = Annotated[
    int,
    Query(ge=0, le=LARGEST, description="Start the first page after this number; 0: at the first."),
]


class Page(BaseModel, Generic[Item]):
    """One page of items. ``next``: token for the next page, null on the last one."""

    items: list[Item]
    next: str | None


def page(
    rows: Sequence[Row],
    limit: int,
    key: Callable[[Row], Sequence[Key]],
    document: Callable[[Row], Item],
) -> Page[Item]:
    """Build a page from ``rows``, which were queried with a limit of ``limit + 1``."""
    items = rows[:limit]
    more = write_token(key(items[-1])) if len(rows) > limit else None
    return Page(items=[document(one) for one in items], next=more)


def write_token(key: Sequence[Key]) -> str:
    """Encode the token for the page that follows ``key``."""
    text = json.dumps(list(key), separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_token(token: str | None, *kinds: type[Key]) -> list[Key] | None:
    """Decode a token into a key of the given types; None without a token.

    Raises SpecError if the token is invalid.
    """
    if token is None:
        return None
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        key = json.loads(text)
    except (binascii.Error, ValueError, RecursionError):
        key = None
    if not isinstance(key, list) or [type(part) for part in key] != list(kinds):
        raise SpecError("page: not the `next` of an earlier page")
    if any(isinstance(part, int) and not -1 <= part <= LARGEST for part in key):
        raise SpecError("page: not the `next` of an earlier page")
    return key


def after_number(token: str | None, first: int) -> int:
    """The number after which a page starts; ``first`` without a token."""
    key = read_token(token, int)
    return first if key is None else int(key[0])
