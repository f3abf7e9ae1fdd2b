"""The only functions through which the command line prints sentences.

Messages often contain external text: from hosts, servers, files and other people's databases.
Characters that could move the cursor, change colours or hide text must not reach the terminal.
"""

from __future__ import annotations

import typer

_ALLOWED = "\n\t"


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text; ``err``: to standard error; ``nl``: append a newline."""
    typer.echo(plain(text), err=err, nl=nl)


def plain(text: str) -> str:
    """Replace each non-printable character, except newlines and tabs, by a space."""
    return "".join(c if c.isprintable() or c in _ALLOWED else " " for c in text)
