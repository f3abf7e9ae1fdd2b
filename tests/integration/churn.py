"""Child process of the tests that changes one part of a cell repeatedly until it is interrupted.

Arguments: state directory, cell, part. Prints ``changing`` on standard output before each change.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

from deploy.cell import Cells
from tests.integration.conftest import attach_cache_manager, attach_fileserver
from tuner.model import Value
from tuner.services.part import Part

SETTINGS: dict[str, tuple[Mapping[str, Value], ...]] = {
    "fileserver": ({"threads": 20}, {"threads": 24}),
    "cache_manager": ({"blocks": 150000}, {"blocks": 150000, "memcache": True}),
}


def main() -> None:
    state, name, part_name = sys.argv[1:]
    cell = Cells(Path(state)).load(name)
    assert cell is not None
    part: Part = (
        attach_fileserver(cell) if part_name == "fileserver" else attach_cache_manager(cell)
    )
    for values in cycle(SETTINGS[part_name]):
        print("changing", flush=True)
        part.apply(values)


if __name__ == "__main__":
    main()
