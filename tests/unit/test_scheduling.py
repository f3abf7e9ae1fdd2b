"""Tests of the order in which test processes get files."""

from __future__ import annotations

import pytest

from tests.scheduling import MOST, next_scope

CELL = "tests/acceptance/test_campaign.py"
FOLDER = "tests/integration/ssh/"
OTHER = "tests/unit/judge/test_holm.py"


@pytest.mark.parametrize(
    ("waiting", "others", "choice"),
    [
        ([CELL, FOLDER, OTHER], 0, CELL),
        ([OTHER, FOLDER, CELL], MOST - 1, FOLDER),
        ([CELL, FOLDER, OTHER], MOST, OTHER),
        # Nothing waits while a process has nothing to do.
        ([FOLDER, CELL], MOST, FOLDER),
        ([OTHER], 0, OTHER),
    ],
)
def test_cells_leave_processes_for_tests_that_compute(
    waiting: list[str], others: int, choice: str
) -> None:
    assert next_scope(waiting, others) == choice
