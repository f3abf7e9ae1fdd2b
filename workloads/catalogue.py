"""Finds packaged specs and returns their text; parsing the YAML is left to the caller."""

from __future__ import annotations

import difflib
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from workloads.fields import SpecError

_HERE = Path(__file__).parent
#: Far longer than any real spec; stops the reading of another file named by mistake.
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class SpecSource:
    """A spec's file and its text (YAML, or JSON if the file is named ``*.json``)."""

    path: Path
    text: str


def packaged() -> tuple[str, ...]:
    """Return the names of the specs shipped with the package, sorted (none inside a zipapp)."""
    return tuple(sorted(path.stem for path in _HERE.glob("*.yaml")))


def load(name_or_path: str, directory: Path = Path()) -> SpecSource:
    """Return the packaged spec with that name, or otherwise the file at that path, which may be
    relative to ``directory``.

    Raises SpecError if there is neither or the file cannot be read or is not a regular one.
    """
    is_packaged = name_or_path in packaged()
    path = _HERE / f"{name_or_path}.yaml" if is_packaged else directory / name_or_path
    if "\0" in name_or_path:
        raise SpecError("", f"{name_or_path!r} is not a valid name or path")
    try:
        with open(path, "rb", opener=_open_regular) as file:
            # Some of the kernel's files would wait for content; these return nothing instead.
            content = file.read(_MOST_BYTES + 1) or b""
        if len(content) > _MOST_BYTES:
            raise SpecError("", f"{path} is longer than {_MOST_BYTES >> 20} MiB")
        return SpecSource(path, content.decode("utf-8"))
    except FileNotFoundError:
        near = difflib.get_close_matches(name_or_path, packaged(), n=1)
        hint = f"; packaged: {', '.join(packaged()) or 'none in this build'}"
        hint += f"; did you mean {near[0]!r}?" if near else ""
        meant_a_file = path.suffix or len(Path(name_or_path).parts) > 1
        raise SpecError(
            "", f"no workload and no file {str(path)!r}{'' if meant_a_file else hint}"
        ) from None
    except OSError as error:
        raise SpecError("", f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpecError("", f"cannot read {path}: it is not UTF-8 text") from None


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
