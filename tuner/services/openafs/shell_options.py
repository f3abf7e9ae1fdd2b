"""The options of a client in a file of assignments that a shell, or systemd, reads.

Only plain assignments are evaluated. Where something else may change the variable after them, the
options are refused: only a shell could tell them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.errors import ConfigurationError

#: Valid options: they are written to a file that a shell reads.
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+-]+")
#: Debian's keyword for no options at all: afsd then chooses them.
_AUTOMATIC = "AUTOMATIC"
#: A comment, an operator, or a word with its quotes, after blanks and continued lines.
_TOKEN = re.compile(
    r"""(?:[ \t]|\\\n)*(\#[^\n]*|\n|;;|[;&|()<>]
    |(?:[^ \t\n;&|()<>'"\\]|\\[^\n]|\\\Z|'[^']*'|"(?:[^"\\]|\\.)*")+|['"])""",
    re.VERBOSE | re.DOTALL,
)
#: A line that systemd takes for a comment; shells have no use for it.
_COMMENT = re.compile(r"[ \t]*;(?!;)[^\n]*")
_QUOTES = re.compile(r"""['"\\]""")
#: How compound commands begin and end.
_ENDS = {"if": "fi", "case": "esac", "for": "done", "while": "done", "until": "done"}
_ENDS |= {"select": "done", "{": "}", "(": ")"}
#: A command follows each of these words and operators.
_BEFORE_COMMANDS = {"\n", ";", ";;", "&", "|", "(", ")", "{", "!", "then", "do", "else", "elif"}
_BEFORE_COMMANDS |= {"if", "while", "until", "time", "command", "builtin"}
#: Commands that run what is not in the file, or not in plain sight there.
_RUN_OTHERS = {".", "source", "eval"}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


@dataclass(slots=True)
class _Reader:
    """One pass over the text, which finds what assigns a variable.

    ``lines``: the indices of the lines that are plain assignments of it, outside of any compound
    command; ``value``: that of the last one. ``doubtful``: the index of the first line after it
    that may change the variable too.
    """

    text: str
    variable: str
    lines: list[int] = field(default_factory=list)
    value: str | None = None
    doubtful: int | None = None
    #: The ends of the compound commands around the present position.
    _ends: list[str] = field(default_factory=list)
    #: Whether a command may begin at the present position; whether its command is an export.
    _is_command: bool = True
    _is_export: bool = False

    def __post_init__(self) -> None:
        name = re.escape(self.variable)
        assignment = rf"[ \t]*(?:export[ \t]+)?{name}[ \t]*="
        plain = re.compile(rf"{assignment}([^\n]*)")
        hidden = re.compile(rf"\$\{{{name}:?=|\n{assignment}")
        own = re.compile(rf"{name}(?:\[[^]]*\])?(?:\+?=.*)?", re.DOTALL)
        position, begins_line = 0, True
        while True:
            if begins_line and not self._ends and (match := plain.match(self.text, position)):
                self.lines.append(self._line(position))
                self.value, self.doubtful = match[1], None
                position, self._is_command = match.start(1), False
            if begins_line and (comment := _COMMENT.match(self.text, position)):
                position = comment.end()
            if (match := _TOKEN.match(self.text, position)) is None:
                return  # nothing is left but blanks
            position, token = match.end(), match[1]
            begins_line = token == "\n"
            if token.startswith("#"):
                continue
            bare = _QUOTES.sub("", token)
            changes = own.fullmatch(bare) and not (self._is_export and bare == self.variable)
            runs_others = self._is_command and bare in _RUN_OTHERS
            if (changes or runs_others or hidden.search(token)) and self.doubtful is None:
                self.doubtful = self._line(match.start(1))
            self._go_on(token)

    def _go_on(self, token: str) -> None:
        """Follow the compound commands, and where commands begin."""
        if self._ends and token == self._ends[-1] and (self._is_command or token == ")"):
            self._ends.pop()
        elif token in ("(", "{") or (self._is_command and token in _ENDS):
            self._ends.append(_ENDS[token])
        if self._is_command:
            self._is_export = token == "export"
        after_assignment = self._is_command and _ASSIGNMENT.match(token) is not None
        self._is_command = token in _BEFORE_COMMANDS or after_assignment

    def _line(self, position: int) -> int:
        return self.text.count("\n", 0, position)


def options_in(text: str, variable: str) -> tuple[str, ...]:
    """Parse the options from the last assignment of ``variable``.

    Raises ValueError if they are not plain words, or if something after it may change them: then
    only a shell could evaluate them.
    """
    reader = _Reader(text, variable)
    if reader.doubtful is not None:
        line = _lines(text)[reader.doubtful].strip()
        raise ValueError(
            f"line {reader.doubtful + 1}, {line[:80]!r}, may change {variable} in a way that only "
            "a shell could tell: write one plain assignment after it, or in place of it, as "
            f'{variable}="-afsdb -daemons 4"'
        )
    if reader.value is None:
        return ()
    value = reader.value
    try:
        words = " ".join(shlex.split(value, comments=True)).split()
    except ValueError as problem:
        raise ValueError(f"{variable}={value!r}: {problem}") from problem
    if words == [_AUTOMATIC]:
        return ()
    wrong = [word for word in words if not _PLAIN.fullmatch(word)]
    if wrong:
        raise ValueError(f"{variable} has {wrong[0]!r}, which is more than a plain option")
    return tuple(words)


def with_options(text: str, variable: str, options: Sequence[str]) -> str:
    """Return the configuration with these options as the last plain assignment of ``variable``, and
    without the others.

    Raises ConfigurationError for an option that is not a plain word to a shell.
    """
    wrong = [word for word in options if not _PLAIN.fullmatch(word)]
    if wrong:
        raise ConfigurationError(
            f"{wrong[0]!r} cannot be written to the client's configuration file"
        )
    old = set(_Reader(text, variable).lines)
    lines = [line for index, line in enumerate(_lines(text)) if index not in old]
    return "\n".join([*lines, f'{variable}="{" ".join(options)}"']) + "\n"


def _lines(text: str) -> list[str]:
    """The lines as shells have them: no other character than a line feed ends a comment."""
    return text.removesuffix("\n").split("\n") if text else []
