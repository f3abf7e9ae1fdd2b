"""Writing a file that must not exist: it is there whole, or not at all, and no other is lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tuner.errors import ConflictError, StoreError


@contextmanager
def new_file(file: Path) -> Iterator[BinaryIO]:
    """An open file that becomes ``file`` at the end, unless what is done with it fails.

    Raises ConflictError when the file exists, StoreError when it cannot be written.
    """
    if os.path.lexists(file):
        raise ConflictError(f"{file} exists; name a new file")
    part = None
    try:
        # By a name that nobody can know beforehand, and only if it is new: others may be able to
        # write in this directory too.
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name[:100]}.", dir=file.parent)
        part = Path(name)
        with os.fdopen(descriptor, "w+b") as output:
            yield output
        # Unlike a rename, never over another file.
        os.link(part, file, follow_symlinks=False)
    except FileExistsError:
        raise ConflictError(f"{file} exists; name a new file") from None
    except OSError as problem:
        raise StoreError(f"{file} cannot be written: {problem.strerror}") from problem
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
