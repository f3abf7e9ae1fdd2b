"""Strict reader of YAML mappings: each key is read with a type, and unread keys are errors."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

import yaml

from search_spaces.expressions import Value
from search_spaces.model import SpaceError, excerpt, nearest

#: Far larger than any real file; limits reading from one named by mistake.
_MOST_BYTES = 4 << 20


class _Strict(yaml.constructor.SafeConstructor):
    """YAML constructor that rejects duplicate keys instead of using the last one."""

    def construct_document(self, node: yaml.Node) -> object:
        # Before anything is constructed: that writes what is merged (<<) into the nodes.
        _refuse_duplicates(node)
        return super().construct_document(node)


def _number(loader: Any, node: yaml.ScalarNode) -> object:
    """Read a number, and text such as ``1:30`` as text: YAML 1.1 would make it the number 90."""
    if ":" in node.value:
        return node.value
    read = loader.construct_yaml_int if node.tag == _INT else loader.construct_yaml_float
    return read(node)


_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
for _tag in (_INT, _FLOAT):
    _Strict.add_constructor(_tag, _number)


def _refuse_duplicates(root: yaml.Node) -> None:
    """Raise yaml.MarkedYAMLError for the first key that a mapping gives twice."""
    nodes, ids = [root], {id(root)}
    while nodes:
        node = nodes.pop()
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in keys:
                        problem = f"the key {key.value!r} is given twice"
                        raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                    keys.add(key.value)
                inner += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            inner += node.value
        # An alias is the same node as its anchor, which may even contain it.
        for each in reversed(inner):
            if id(each) not in ids:
                ids.add(id(each))
                nodes.append(each)


class _Loader(_Strict, yaml.SafeLoader):
    pass


# The C parser takes a tenth of the time, but PyYAML may have been built without it.
_QuickLoader = type("_QuickLoader", (_Strict, getattr(yaml, "CSafeLoader", yaml.SafeLoader)), {})


def text_of(path: Path) -> str:
    """The text of a regular file. Raises OSError, also if larger than 4 MiB, and
    UnicodeDecodeError.
    """
    with open(path, "rb", opener=_open_regular) as file:
        # Some of the kernel's files would wait for content; these return nothing instead.
        content = file.read(_MOST_BYTES + 1) or b""
    if len(content) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"it is longer than {_MOST_BYTES >> 20} MiB", str(path))
    return content.decode("utf-8")


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file. Raises OSError for a device or pipe.

    The path may come from somebody else: opening a device may do something, and a pipe waits.
    """
    _refuse_others(path, os.stat(path).st_mode)
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        _refuse_others(path, os.fstat(descriptor).st_mode)  # it may be another file by now
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_others(path: str, mode: int) -> None:
    # A directory has an error of its own.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it is not a regular file", path)


def document(text: str, trusted: bool = False) -> object:
    """The one YAML document in ``text``. Raises yaml.YAMLError.

    ``trusted``: the text is packaged with fstune. The fast parser, which is used only then, crashes
    on very deep nesting.
    """
    return yaml.load(text, Loader=_QuickLoader if trusted else _Loader)


def mapping(where: str, content: object, path: str = "") -> dict[str, object]:
    """Return ``content`` if it is a mapping with string keys. Otherwise raises SpaceError."""
    place = f"{where}: {path}: " if path else f"{where}: "
    if not isinstance(content, dict):
        raise SpaceError(f"{place}is not a mapping")
    for key in content:
        if not isinstance(key, str):
            raise SpaceError(f"{place}the key {key!r} is not a string; put it in quotes")
    return content


class Section:
    """One mapping in a file. ``path``: its location, such as ``parameters.threads``."""

    def __init__(self, where: str, path: str, content: object) -> None:
        self._where, self._path = where, path
        self._content = mapping(where, content, path)
        self._known_keys: list[str] = []

    def fail(self, key: str, reason: str) -> NoReturn:
        """Raise the SpaceError for a key of this section."""
        raise SpaceError(f"{self.place(key)}: {reason}")

    def place(self, key: str) -> str:
        """The file and the path of a key of this section."""
        path = ".".join(part for part in (self._path, key) if part)
        return f"{self._where}: {path}" if path else self._where

    def refuse_unknown(self) -> None:
        """Raise SpaceError for the first key that was never read."""
        for key in self._content:
            if key not in self._known_keys:
                self.fail("", f"unknown key {key!r}{nearest(key, self._known_keys)}")

    def raw(self, key: str) -> object:
        """The value of ``key``, which is required."""
        value = self._get(key)
        if key not in self._content:
            self.fail(key, "missing")
        return value

    def _get(self, key: str) -> object:
        self._known_keys.append(key)
        return self._content.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """Non-empty text, required unless there is a default; numbers are converted to text."""
        value = self._get(key)
        if key not in self._content and default is not None:
            return default
        if key not in self._content:
            self.fail(key, "missing")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value.strip():
            self.fail(key, f"{excerpt(value)} is not a string")
        return " ".join(value.split())

    def integer(self, key: str) -> int:
        """A required integer."""
        value = self.optional_integer(key)
        if value is None:
            self.fail(key, "missing")
        return value

    def optional_integer(self, key: str) -> int | None:
        """An integer, or None."""
        value = self._get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            self.fail(key, f"{excerpt(value)} is not a whole number")
        return value

    def boolean(self, key: str) -> bool:
        """True or False; False if missing."""
        value = self._get(key)
        if value is not None and not isinstance(value, bool):
            self.fail(key, f"{excerpt(value)} is not true or false")
        return value is True

    def pair(self, key: str) -> tuple[int, int]:
        """A required pair of integers, ``[low, high]``."""
        value = self.raw(key)
        if isinstance(value, list) and len(value) == 2:
            low, high = value
            if type(low) is int and type(high) is int:
                return low, high
        self.fail(key, f"{excerpt(value)} is not [low, high] in whole numbers")

    def words(self, key: str) -> list[str]:
        """A list of words; empty if missing."""
        value = self._get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            self.fail(key, f"{excerpt(value)} is not a list of words; put numbers in quotes")
        return value

    def words_by_word(self, key: str) -> dict[str, str]:
        """A mapping from words to text; empty if missing. Keys may be numbers."""
        value = self._get(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            self.fail(key, f"{excerpt(value)} is not a mapping to words")
        return {str(word): text for word, text in value.items()}

    def values(self, key: str) -> dict[str, Value]:
        """A mapping from parameter names to values; empty if missing."""
        value = self._get(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(
            isinstance(k, str) and isinstance(v, int | str) for k, v in value.items()
        ):
            self.fail(key, f"{excerpt(value)} is not a mapping from names to values")
        return value

    def list_of_values(self, key: str) -> list[Value]:
        """A list of values; empty if missing."""
        value = self._get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, int | str) for each in value):
            self.fail(key, f"{excerpt(value)} is not a list of values")
        return value

    def section(self, key: str) -> Section | None:
        """The mapping under ``key``, None if missing."""
        value = self._get(key)
        return None if key not in self._content else Section(self._where, self._at(key), value)

    def sections(self, key: str, *, required: bool = False) -> dict[str, Section]:
        """The mappings under the mapping ``key``, in file order. ``required``: not empty."""
        outer = self.section(key)
        if outer is None:
            if required:
                self.fail(key, "missing")
            return {}
        sections = {n: Section(self._where, outer._at(n), v) for n, v in outer._content.items()}
        if required and not sections:
            self.fail(key, "is empty")
        return sections

    def list_of_sections(self, key: str) -> list[Section]:
        """The mappings in the list ``key``; empty if missing."""
        value = self._get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail(key, "is not a list")
        return [Section(self._where, f"{self._at(key)}[{i}]", v) for i, v in enumerate(value)]

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key
