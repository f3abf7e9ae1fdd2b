"""Generate the command reference and the manual page from the program's own help.

python -m tuner.cli.reference docs/commands.md docs/fstune.1
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from tuner.cli.app import app
from tuner.cli.help_page import argument_word


@dataclass(frozen=True, slots=True)
class _Described:
    """A command. ``rows``: its arguments and options as written on the command line, with help."""

    name: str
    usage: str
    description: str
    rows: tuple[tuple[str, str], ...]


def commands() -> Iterator[_Described]:
    """Yield every command, including those of groups, in the order of help."""
    top: Any = typer.main.get_command(app)
    for name in top.list_commands(None):
        command = top.commands[name]
        below: dict[str, Any] = getattr(command, "commands", {})
        for sub, one in below.items():
            yield _described(f"{name} {sub}", one)
        if not below:
            yield _described(name, command)


def _described(name: str, command: Any) -> _Described:
    parameters = [one for one in command.params if not getattr(one, "hidden", False)]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    words = " ".join(argument_word(one) for one in arguments)
    options = [one for one in parameters if one.param_type_name == "option"]
    usage = " ".join(filter(None, ("fstune", name, "[OPTIONS]" if options else "", words)))
    rows = [(argument_word(one), _help(one)) for one in arguments]
    rows += [(_option(one), _help(one)) for one in options]
    return _Described(name, usage, command.help or "", tuple(rows))


def _option(one: Any) -> str:
    names = ", ".join([*one.opts, *one.secondary_opts])
    if one.is_flag:
        return names
    return f"{names} {one.metavar}"


def _help(one: Any) -> str:
    text = one.help or ""
    if getattr(one, "is_flag", False) or one.default in (None, "", ()) or callable(one.default):
        return text
    if not isinstance(one.default, int | float | str | Path):
        return text
    return f"{text} Default: {one.default}."


def markdown() -> str:
    """Return the page of all commands."""
    parts = [
        "# Commands\n\nGenerated from the program (`make docs`); `fstune COMMAND -h` says the "
        "same, and so does the manual page,\n`man docs/fstune.1`. "
        "Exit statuses and JSON documents are described in "
        "[programs.md](programs.md).\n\n"
        "`fstune --install-completion` sets up the shell that you use (bash, zsh, fish) to "
        "complete commands, options, and the\nnames of campaigns, search spaces, parameters and "
        "workloads with the Tab key. For all users of a machine\n(or `source_zsh`, `source_fish`):"
        "\n\n```sh\n"
        "_FSTUNE_COMPLETE=source_bash fstune > /etc/bash_completion.d/fstune\n```\n"
    ]
    for one in commands():
        parts.append(f"\n## fstune {one.name}\n\n```\n{one.usage}\n```\n\n{one.description}\n")
        if one.rows:
            parts.append("\n| | |\n|---|---|\n")
            parts += [f"| `{_cell(word)}` | {_cell(text)} |\n" for word, text in one.rows]
    return "".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def manual() -> str:
    """Return the manual page, in the macros of man(7)."""
    parts = [
        '.TH FSTUNE 1 "" "fstune" "User Commands"\n.SH NAME\n'
        "fstune \\- find better settings for a fileserver, and know how sure you can be\n"
        ".SH SYNOPSIS\n.B fstune\n.I COMMAND\n[OPTIONS] [ARGUMENTS]\n.SH OPTIONS\n"
    ]
    top: Any = typer.main.get_command(app)
    parts += [f".TP\n.B {_roff(_option(one))}\n{_roff(one.help)}\n" for one in top.params]
    parts.append(".SH COMMANDS\n")
    for one in commands():
        parts.append(f".SS {_roff(one.usage)}\n")
        parts.append("\n.PP\n".join(map(_roff, one.description.split("\n\n"))) + "\n")
        parts += [f".TP\n.B {_roff(word)}\n{_roff(text)}\n" for word, text in one.rows]
    return "".join(parts)


def _roff(text: str) -> str:
    line = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line.startswith((".", "'")) else line


if __name__ == "__main__":
    page, man = map(Path, sys.argv[1:])
    page.write_text(markdown())
    man.write_text(manual())
