"""Render configurations as command lines and parse them by the rules of the programs' own parsers.

Rules of libcmd: an option starts with ``-`` not followed by a digit. Any unambiguous prefix of its
name is accepted. ``-name=value`` is one word. Before the first option that takes a value,
positional words are assigned to the options that take values, in the order of the help. No option
takes a value twice. Older programs without libcmd require each option in full, and the last
occurrence wins. Forms that are not command lines (settings, commands, lines) are in ``forms``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from search_spaces import forms
from search_spaces.expressions import Value
from search_spaces.model import Form, Kind, Option, Parameter, Parsed, SpaceError, Takes, nearest
from search_spaces.space_content import SpaceContent

_SWITCH = re.compile(r"-(?!\d)")
_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")


def _words(parameter: Parameter, value: Value) -> list[str]:
    if parameter.kind is Kind.BOOLEAN:
        if value is True:
            return [parameter.flag]
        return [parameter.off_flag] if parameter.off_flag else []
    if parameter.choice_flags:
        return [parameter.choice_flags[str(value)]]
    return [parameter.flag, str(value)]


def render(space: SpaceContent, values: Mapping[str, Value]) -> list[str]:
    """See Space.render."""
    for name, value in values.items():
        parameter = space[name]
        if parameter.kind is Kind.BOOLEAN:
            good = isinstance(value, bool)
        elif parameter.kind is Kind.CATEGORICAL:
            good = value in parameter.choices
        else:
            good = isinstance(value, int) and not isinstance(value, bool)
        if not good:
            raise SpaceError(f"{space.name}: {name}: {value!r} is no {parameter.kind} value")
    pairs = [(p, values[p.name]) for p in space.parameters if p.name in values]
    if space.form is Form.SETTINGS:
        return forms.settings(pairs)
    if space.form is Form.COMMANDS:
        return forms.commands(pairs)
    if space.form is Form.LINES:
        return forms.lines(pairs)
    return [word for parameter, value in pairs for word in _words(parameter, value)]


def lines(space: SpaceContent, values: Mapping[str, Value]) -> list[str]:
    """See Space.lines."""
    argv = render(space, values)
    if space.form in (Form.SETTINGS, Form.LINES):
        return argv
    if space.form is Form.COMMANDS:
        return [shlex.join([space.program, *command]) for command in forms.split(argv)]
    return [shlex.join(argv)] if argv else []


def line_length(space: SpaceContent, values: Mapping[str, Value]) -> int:
    """Number of characters that ``values`` adds to a command line, including separating spaces."""
    by_name = space.by_name
    return sum(len(w) + 1 for name, v in values.items() for w in _words(by_name[name], v))


def parse(space: SpaceContent, argv: Sequence[str]) -> Parsed:
    """See Space.parse; the result may contain both a preset and values that the preset sets."""
    words = list(argv)
    if words and PurePosixPath(words[0]).name == PurePosixPath(space.program).name:
        del words[0]
    if space.form is Form.SETTINGS:
        options, foreign = forms.read_settings(space, words)
    elif space.form is Form.COMMANDS:
        options, foreign = forms.read_commands(space, words)
    elif space.form is Form.LINES:
        options, foreign = forms.read_lines(space, words)
    elif space.form is Form.EXACT:
        options, foreign = _read_exact(space, words)
    else:
        options, foreign = _read(space, words)
    owner = {flag: parameter for parameter in space.parameters for flag in parameter.flags}
    values: dict[str, Value] = {}
    rest: list[str] = []
    for flag, arguments in options.items():
        if flag not in owner:
            rest += [f"{flag} = {arguments[0]}"] if space.form is Form.LINES else [flag, *arguments]
            continue
        parameter = owner[flag]
        value = _value(space, parameter, flag, arguments)
        if parameter.kind is Kind.BOOLEAN:
            # libcmd programs check the option for True last, so it wins regardless of position.
            before = values.get(parameter.name) is True and space.form is Form.LIBCMD
            values[parameter.name] = value is True or before
        elif parameter.name in values:
            both = " and ".join(parameter.flags)
            raise SpaceError(f"{space.name}: {both} are mutually exclusive")
        else:
            values[parameter.name] = value
    return Parsed(values, (*rest, *foreign))


def _value(space: SpaceContent, parameter: Parameter, flag: str, arguments: list[str]) -> Value:
    if parameter.kind is Kind.BOOLEAN:
        return flag == parameter.flag
    if parameter.choice_flags:
        return next(choice for choice, of in parameter.choice_flags.items() if of == flag)
    word = arguments[0]
    if parameter.kind is Kind.CATEGORICAL:
        if word not in parameter.choices:
            hint = nearest(word, parameter.choices)
            raise SpaceError(f"{space.name}: {flag}: {word!r} is not a valid word{hint}")
        return word
    if not _NUMBER.fullmatch(word):
        raise SpaceError(
            f"{space.name}: {flag}: {word!r} is not a number; the program would not report it"
        )
    return int(word)


def _find(options: Sequence[Option], word: str) -> Option | None:
    """The option that matches a word exactly, or uniquely by prefix; None if there is none."""
    if word.startswith("--") and len(word) >= 4:
        word = word[1:]
    starting = []
    for option in options:
        if option.flag == word:
            return option
        if option.flag.startswith(word):
            starting.append(option)
    return starting[0] if len(starting) == 1 else None


def _read(space: SpaceContent, words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Parse options into their arguments by full name, in order; also return foreign words."""
    every = space.every_option
    options: dict[str, list[str]] = {}
    foreign: list[str] = []
    slots: Iterator[Option] = (o for o in every if o.takes is not Takes.NOTHING)
    positional = True
    current: Option | None = None
    for word in words:
        if not _SWITCH.match(word):
            if positional and (current is None or current.takes is not Takes.VALUES):
                current = next(slots, current)
            if current is None:
                raise SpaceError(f"{space.name}: {word!r} belongs to no option")
            _add(space, options, current, word)
            continue
        name, equals, embedded = word.rpartition("=") if "=" in word else (word, "", "")
        option = _find(every, name)
        if option is None and space.foreign_options:
            foreign.append(word)
        elif option is None:
            hint = nearest(name, tuple(o.flag for o in every))
            raise SpaceError(f"{space.name}: unknown or ambiguous option {word!r}{hint}")
        elif option.takes is Takes.NOTHING:
            if equals:
                raise SpaceError(f"{space.name}: {option.flag} takes no value")
            options.setdefault(option.flag, [])
        else:
            positional, current = False, option
            options.setdefault(option.flag, [])
            if equals:
                _add(space, options, option, embedded)
    for option in every:
        needs = option.takes in (Takes.VALUE, Takes.VALUES)
        if needs and options.get(option.flag) == []:
            raise SpaceError(f"{space.name}: {option.flag} lacks its value")
    return options, foreign


def _read_exact(space: SpaceContent, words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Like ``_read``, for programs that match whole words and use the last occurrence."""
    options: dict[str, list[str]] = {}
    by_flag = {option.flag: option for option in space.every_option}
    remaining = iter(words)
    for word in remaining:
        name, equals, embedded = word.partition("=")
        option = by_flag.get(word) or by_flag.get(name)
        if option is None or (equals and option.takes is not Takes.OPTIONAL):
            hint = nearest(word, by_flag)
            raise SpaceError(f"{space.name}: {word!r} is no option, written in full{hint}")
        before = options.pop(option.flag, [])
        arguments = [embedded] if equals else []
        if option.takes in (Takes.VALUE, Takes.VALUES):
            value = next(remaining, None)
            if value is None:
                raise SpaceError(f"{space.name}: {option.flag} lacks its value")
            arguments = [*before, value] if option.takes is Takes.VALUES else [value]
        options[option.flag] = arguments
    return options, []


def _add(space: SpaceContent, options: dict[str, list[str]], option: Option, word: str) -> None:
    arguments = options.setdefault(option.flag, [])
    if arguments and option.takes is not Takes.VALUES:
        raise SpaceError(f"{space.name}: too many values after {option.flag}: {word!r}")
    arguments.append(word)
