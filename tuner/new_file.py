"""Writing a file that must not exist: it is there whole, or not at all, and no other is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tuner.errors import StoreError


@contextmanager
def new_file(file: Path) -> Iterator[BinaryIO]:
    """An open file that becomes ``file`` at the end, unless what is done with it fails.

    Raises StoreError when the file exists or cannot be written.
    """
    if os.path.lexists(file):
        raise StoreError(f"{file} exists; name a new file")
    part = file.with_name(f".{file.name}.part")
    try:
        with part.open("w+b") as output:
            yield output
        os.link(part, file)  # unlike a rename, never over another file
    except FileExistsError:
        raise StoreError(f"{file} exists; name a new file") from None
    except OSError as problem:
        raise StoreError(f"{file} cannot be written: {problem.strerror}") from problem
    finally:
        if os.path.lexists(part):
            part.unlink()
