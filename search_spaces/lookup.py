"""Locate the text of a space, and merge it with the space that it extends.

Spaces with names come with fstune, or with another installed package: as an entry point in the
group ``fstune.search_spaces`` that refers to a Python package, whose files NAME.yaml are spaces.
"""

from __future__ import annotations

import logging
import re
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import yaml

from search_spaces.model import SpaceError, excerpt, nearest
from search_spaces.reading import document, mapping, text_of

_SUFFIX = ".yaml"
_GROUP = "fstune.search_spaces"
_NAME = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")

#: Keys of a space whose entries are inherited individually.
_BY_NAME = ("facts", "parameters", "left_out")
_log = logging.getLogger("fstune.search_spaces")


def names() -> list[str]:
    """Sorted names of the spaces that are installed: fstune's own and those of other packages."""
    return sorted(_texts())


def own_names() -> list[str]:
    """Sorted names of the spaces that come with fstune."""
    return sorted(_files(files("search_spaces")))


@cache
def packaged() -> frozenset[str]:
    """The texts of the spaces that are installed."""
    return frozenset(_texts().values())


@cache
def _texts() -> dict[str, str]:
    """The texts of the spaces that are installed, by name.

    Another package's space that cannot be used is skipped with a warning, so that fstune keeps
    working without it.
    """
    own = _files(files("search_spaces"))
    texts = {name: file.read_text(encoding="utf-8") for name, file in own.items()}
    for entry in entry_points(group=_GROUP):
        try:
            others = _files(files(entry.load()))
        except Exception as problem:  # another package may raise anything
            _log.warning("the search spaces %r cannot be used: %s", entry.name, problem)
            continue
        for name, file in others.items():
            try:
                if not _NAME.fullmatch(name) or name in texts:
                    raise ValueError("its name is not a word, or is already used")
                texts[name] = file.read_text(encoding="utf-8")
            except (OSError, ValueError) as problem:
                leave_out(name, problem)
    return texts


def leave_out(name: str, problem: Exception) -> None:
    """Warn that an installed space of another package is skipped."""
    _log.warning("the search space %r cannot be used: %s", name, problem)


def _files(place: Traversable) -> dict[str, Traversable]:
    entries = [entry for entry in place.iterdir() if entry.name.endswith(_SUFFIX)]
    return {entry.name.removesuffix(_SUFFIX): entry for entry in entries}


def source(name_or_path: str, directory: Path) -> tuple[str, str]:
    """Text and location of a space; relative paths are below ``directory``. Raises SpaceError."""
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        where = str(directory / name_or_path)
        try:
            return text_of(Path(where)), where
        except OSError as error:
            reason = error.strerror
        except UnicodeDecodeError:
            reason = "is not UTF-8 text"
        except ValueError as error:  # a null character in the path
            reason = str(error)
        raise SpaceError(f"{where}: {reason}")
    texts = _texts()
    if name_or_path not in texts:
        raise SpaceError(f"no space {name_or_path!r}{nearest(name_or_path, sorted(texts))}")
    return texts[name_or_path], name_or_path + _SUFFIX


def whole_document(text: str, where: str) -> dict[str, object]:
    """The document in ``text`` with everything it inherits. Raises SpaceError."""
    return _inherit(_mapping(text, where), where)


def _mapping(text: str, where: str) -> dict[str, object]:
    try:
        content = document(text, trusted=text in packaged())
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "is not valid YAML"
        place = f" line {mark.line + 1}:" if mark else ""
        raise SpaceError(f"{where}:{place} {problem}") from None
    return mapping(where, content)


def _inherit(own: dict[str, object], where: str, above: tuple[str, ...] = ()) -> dict[str, object]:
    """The document merged with the space that it extends, recursively."""
    if "extends" not in own:
        return own
    base = own["extends"]
    if not isinstance(base, str):
        raise SpaceError(f"{where}: extends: {excerpt(base)} is not the name of a space")
    if base in above:
        raise SpaceError(f"{where}: extends: {' -> '.join((*above, base))} is circular")
    try:
        base_text, base_where = source(base, Path(where).parent)
    except SpaceError as error:
        raise SpaceError(f"{where}: extends: {error}") from None
    base_document = _inherit(_mapping(base_text, base_where), base_where, (*above, base))
    return _extend(base_document, own, where)


def _extend(base: dict[str, object], own: dict[str, object], where: str) -> dict[str, object]:
    """Merge the document ``own`` into the ``base`` document that it extends.

    Facts, parameters and left-out options are merged by name, and each entry key by key. Every
    other key is replaced completely. ``without`` lists entries not to inherit, such as
    ``parameters.NAME``. Raises SpaceError.
    """
    if "name" not in own:
        raise SpaceError(f"{where}: name: missing")
    document = {**base, **own}
    by_key: dict[str, dict[str, object]] = {}
    for key in _BY_NAME:
        entries = dict(mapping(where, base.get(key, {}), key))
        for name, entry in mapping(where, own.get(key, {}), key).items():
            fields = mapping(where, entry, f"{key}.{name}")
            above = entries.get(name, {})
            entries[name] = {**above, **fields} if isinstance(above, dict) else fields
        document[key] = by_key[key] = entries
    without = own.get("without", [])
    if not isinstance(without, list):
        raise SpaceError(f"{where}: without: {excerpt(without)} is not a list")
    for word in without:
        if not isinstance(word, str):
            raise SpaceError(f"{where}: without: {excerpt(word)} is not a word")
        key, _, name = word.partition(".")
        if name not in by_key.get(key, {}):
            hint = nearest(word, [f"{k}.{n}" for k, names in by_key.items() for n in names])
            raise SpaceError(f"{where}: without: nothing is called {word!r}{hint}")
        del by_key[key][name]
    return {key: value for key, value in document.items() if key not in ("extends", "without")}
