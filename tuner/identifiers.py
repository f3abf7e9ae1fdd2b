"""Identifiers and names that become part of a path or of a command.

Identifiers of campaigns are always generated here, even for campaigns that come from elsewhere.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from tuner.errors import SpecError

_CAMPAIGN = re.compile(r"[0-9]{8}-[0-9]{6}-[bcdfghjkmnpqrstvwxz23456789]{4}", re.ASCII)
_APPLICATION = re.compile(r"a[0-9]{8}-[0-9]{6}-[bcdfghjkmnpqrstvwxz23456789]{4}", re.ASCII)
#: The name of a directory entry that cannot be an option or lead to another directory.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)
#: No vowels and no characters that look alike: no words, and no typing mistakes.
_LETTERS = "bcdfghjkmnpqrstvwxz23456789"
_MOST_CHARACTERS = 60


def new_campaign_id(at: datetime) -> str:
    """Return an identifier for a campaign created at this time (aware)."""
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(4))
    return f"{at.astimezone(UTC):%Y%m%d-%H%M%S}-{suffix}"


def new_application_id(at: datetime) -> str:
    """Return an identifier for an application of a configuration planned at this time."""
    return f"a{new_campaign_id(at)}"


def is_application_id(text: str) -> bool:
    """Whether a text has the form of an identifier of an application; no campaign has such a
    one.
    """
    return _APPLICATION.fullmatch(text) is not None


def campaign_id(text: str) -> str:
    """Return the text unchanged. Raises SpecError when it is not an identifier of a campaign."""
    if not _CAMPAIGN.fullmatch(text):
        raise SpecError(f"{text[:_MOST_CHARACTERS]!r} is not the identifier of a campaign")
    return text


def word(text: str, what: str) -> str:
    """Return the text unchanged. Raises SpecError when it is not safe as a name within a directory.
    ``what``: what it is called in the error.
    """
    if not _WORD.fullmatch(text):
        quoted = repr(text[:_MOST_CHARACTERS])
        raise SpecError(f"{what} {quoted}: use 1 to 100 ASCII letters, digits, - and _")
    return text
