"""How the help of a command looks: words for values, paragraphs, and lines without padding."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from enum import Enum
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, get_args


def adapt(command: Any) -> None:
    """Make a command of typer print its help as those of fstune do."""
    command.help = _flowing(command.help or "")
    command.format_help = partial(print_help, command.format_help)
    _name_values(command.params)


def print_help(write: Callable[[Any, Any], None], context: Any, formatter: Any) -> None:
    """Let `write` print help; to a file or pipe, without blanks at the ends of lines."""
    _name_values(context.command.get_params(context))
    out = sys.stdout
    if out.isatty():
        write(context, formatter)
        return
    page = TextIOWrapper(BytesIO(), encoding=out.encoding, errors=out.errors)
    with redirect_stdout(page):
        write(context, formatter)
    page.seek(0)
    out.writelines(f"{line.rstrip()}\n" for line in page)


def _name_values(parameters: Iterable[Any]) -> None:
    """Replace Python's types in help, such as <list[str]>, by words for values."""
    for one in parameters:
        if one.metavar is None:
            one.metavar = _word(one)
        if one.param_type_name == "argument":  # its name is the word
            one.display_type_rich = lambda ctx: None
            one.get_usage_pieces = lambda ctx, one=one: [argument_word(one)]


def argument_word(one: Any) -> str:
    """Return an argument as usage lines have it: FILE, [FILE] if it can be left out, FILE..."""
    word = f"{one.metavar}" if one.required else f"[{one.metavar}]"
    return word + ("..." if one.nargs == -1 else "")


def _word(one: Any) -> str:
    """Return the word for the value of an argument or option; "" for an option without a value."""
    if one.param_type_name == "argument":
        return str(one.name).upper()
    return "" if one.is_flag else _value_word(one.type_descriptor.annotation)


def _value_word(annotation: object) -> str:
    """Return the word for values of a type."""
    for inner in get_args(annotation):
        if inner is not type(None):
            return _value_word(inner)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "|".join(str(word.value) for word in annotation)
    if annotation in (int, float):
        return "NUMBER"
    return "PATH" if annotation is Path else "TEXT"


def _flowing(text: str) -> str:
    """Unwrap each paragraph, so that help can wrap it to the terminal's width."""
    return "\n\n".join(" ".join(lines.split()) for lines in inspect.cleandoc(text).split("\n\n"))
