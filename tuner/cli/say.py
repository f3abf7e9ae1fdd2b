"""The one door through which the command line prints sentences.

Much of what it says comes from outside: from hosts, servers, files and other people's databases.
What could move the cursor, change colours or hide text does not get to the terminal.
"""

from __future__ import annotations

import typer

_ALLOWED = "\n\t"


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text; ``err``: to standard error, ``nl``: with a line end."""
    typer.echo(plain(text), err=err, nl=nl)


def plain(text: str) -> str:
    """The text with a space for each character that does not print as itself; lines stay lines."""
    return "".join(c if c.isprintable() or c in _ALLOWED else " " for c in text)
