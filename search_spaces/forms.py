"""Render and parse settings that are not program options: ``name=value`` words, commands, lines.

Commands are separated by ``;``. Of lines, each is one word here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from search_spaces.expressions import Value
from search_spaces.model import Form, Kind, Parameter, SpaceError, nearest
from search_spaces.space_content import SpaceContent

_SEPARATOR = ";"
#: What begins a comment, or the heading of a section.
_NO_SETTING = "#;["

_Pairs = Sequence[tuple[Parameter, Value]]
_Read = tuple[dict[str, list[str]], list[str]]


def form_problem(form: Form, parameter: Parameter) -> str:
    """Why a form other than a command line cannot express the parameter; "" if it can."""
    if form not in (Form.SETTINGS, Form.COMMANDS, Form.LINES):
        return ""
    if parameter.kind is Kind.BOOLEAN or parameter.choice_flags:
        return f"the form {form} has no option without a value; use words"
    if form is Form.SETTINGS:
        for word in (*parameter.flags, *parameter.choices):
            if re.search(r"\s", word):
                return f"{word!r} has a blank, which the form {form} cannot express"
    if form is Form.LINES:
        for word in (*parameter.flags, *parameter.choices):
            if not word or word != " ".join(word.split()):
                return f"{word!r} has blanks that the form {form} does not keep"
        for flag in parameter.flags:
            if "=" in flag or flag[0] in _NO_SETTING:
                return f"{flag!r} would be read as something else in the form {form}"
    return ""


def settings(pairs: _Pairs) -> list[str]:
    """Render ``name=value`` words."""
    return [f"{parameter.flag}={value}" for parameter, value in pairs]


def lines(pairs: _Pairs) -> list[str]:
    """Render ``name = value`` lines."""
    return [f"{parameter.flag} = {value}" for parameter, value in pairs]


def commands(pairs: _Pairs) -> list[str]:
    """Render commands separated by ``;``."""
    argv: list[str] = []
    for parameter, value in pairs:
        argv += [_SEPARATOR] * bool(argv) + [*parameter.flag.split(), str(value)]
    return argv


def split(words: Iterable[str]) -> list[list[str]]:
    """Split ``words`` into commands at each ``;``, whether a word of its own or a suffix."""
    commands: list[list[str]] = [[]]
    for word in words:
        bare = word.removesuffix(_SEPARATOR)
        if bare:
            commands[-1].append(bare)
        if bare != word:
            commands.append([])
    return [command for command in commands if command]


def read_settings(space: SpaceContent, words: Sequence[str]) -> _Read:
    """Parse settings into values by name, in order; also return foreign words.

    ``name = value`` is read like ``name=value``, and sysctl's ``-w`` is skipped.
    """
    by_name = {option.flag.casefold(): option.flag for option in space.every_option}
    options: dict[str, list[str]] = {}
    foreign: list[str] = []
    for word in re.sub(r"\s*=\s*", "=", " ".join(words)).split():
        name, equals, value = word.partition("=")
        if word == "-w":
            continue
        flag = by_name.get(name.casefold())
        if flag is None and space.foreign_options:
            foreign.append(word)
        elif flag is None:
            hint = nearest(name, by_name.values())
            raise SpaceError(f"{space.name}: unknown setting {name!r}{hint}")
        elif not equals or not value:
            raise SpaceError(f"{space.name}: {flag} lacks its value; write {flag}=VALUE")
        else:
            options[flag] = [value]
    return options, foreign


def read_lines(space: SpaceContent, lines: Iterable[str]) -> _Read:
    """Parse the lines of one section into values by name, in order; also return foreign lines.

    Empty lines and comments are skipped. Names are the same with other blanks or in other case. The
    last line of a name counts.
    """
    by_name = {_plain(option.flag): option.flag for option in space.every_option}
    options: dict[str, list[str]] = {}
    foreign: list[str] = []
    for line in lines:
        name, equals, value = line.partition("=")
        if not line.strip() or line.strip()[0] in _NO_SETTING[:2]:
            continue
        flag = by_name.get(_plain(name))
        if flag is None and space.foreign_options:
            foreign.append(line)
        elif flag is None:
            hint = nearest(name.strip(), by_name.values())
            raise SpaceError(f"{space.name}: unknown setting {name.strip()!r}{hint}")
        elif not equals or not value.strip():
            raise SpaceError(f"{space.name}: {flag} lacks its value; write {flag} = VALUE")
        else:
            options[flag] = [" ".join(value.split())]
    return options, foreign


def _plain(name: str) -> str:
    return "".join(name.split()).casefold()


def read_commands(space: SpaceContent, words: Sequence[str]) -> _Read:
    """Parse commands into values by name, in order; also return foreign words.

    Names may be abbreviated, as in libcmd.
    """
    options: dict[str, list[str]] = {}
    foreign: list[str] = []
    for command in split(words):
        words_after = command[1:] if command[0] == space.program else command
        if not words_after:
            raise SpaceError(
                f"{space.name}: {space.program} lacks its command after {_SEPARATOR!r}; "
                "write COMMAND VALUE"
            )
        name, *arguments = words_after
        flag = _command(space, name)
        bare = flag.split()
        if len(bare) == 1:
            foreign += [_SEPARATOR] * bool(foreign) + [bare[0], *arguments]
            continue
        if len(arguments) == 2 and len(arguments[0]) > 1 and bare[1].startswith(arguments[0]):
            del arguments[0]
        if len(arguments) != 1 or re.match(r"-(?!\d)", arguments[0]):
            raise SpaceError(f"{space.name}: {' '.join(command)}: write {flag} VALUE")
        options[flag] = arguments
    return options, foreign


def _command(space: SpaceContent, name: str) -> str:
    """The option whose command matches a word exactly, or uniquely by prefix."""
    by_command = {option.flag.split()[0]: option.flag for option in space.every_option}
    starting = [flag for command, flag in by_command.items() if command.startswith(name)]
    if name in by_command:
        return by_command[name]
    if len(starting) != 1:
        hint = nearest(name, by_command)
        raise SpaceError(f"{space.name}: unknown or ambiguous command {name!r}{hint}")
    return starting[0]
