"""What things of ours are called where a name becomes part of a path or of a command.

A campaign's identifier is always made here, wherever the campaign comes from.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from tuner.errors import SpecError

_CAMPAIGN = re.compile(r"[0-9]{8}-[0-9]{6}-[bcdfghjkmnpqrstvwxz23456789]{4}", re.ASCII)
_APPLICATION = re.compile(r"a[0-9]{8}-[0-9]{6}-[bcdfghjkmnpqrstvwxz23456789]{4}", re.ASCII)
#: A name of one directory entry that is no option, and leads nowhere.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)
#: Neither vowels nor what is taken for another letter: no words, no mistakes when typed.
_LETTERS = "bcdfghjkmnpqrstvwxz23456789"
_MOST_CHARACTERS = 60


def new_campaign_id(at: datetime) -> str:
    """An identifier for a campaign that begins at this moment (aware)."""
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(4))
    return f"{at.astimezone(UTC):%Y%m%d-%H%M%S}-{suffix}"


def new_application_id(at: datetime) -> str:
    """An identifier for an application of a configuration that is planned at this moment."""
    return f"a{new_campaign_id(at)}"


def is_application_id(text: str) -> bool:
    """Whether it is the identifier of an application: none of a campaign looks like it."""
    return _APPLICATION.fullmatch(text) is not None


def campaign_id(text: str) -> str:
    """The same text. Raises SpecError when it is no identifier of a campaign."""
    if not _CAMPAIGN.fullmatch(text):
        raise SpecError(f"{text[:_MOST_CHARACTERS]!r} is not the identifier of a campaign")
    return text


def word(text: str, what: str) -> str:
    """The same text. Raises SpecError when it could be more than a name within a directory.
    ``what``: what it is called in the error.
    """
    if not _WORD.fullmatch(text):
        quoted = repr(text[:_MOST_CHARACTERS])
        raise SpecError(f"{what} {quoted}: use 1 to 100 letters, digits, - and _")
    return text
