"""postmark's draws, and hence its published counts of files and bytes, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.unit.workloads.conftest import Engine
from workloads import load, parse, resolve
from workloads.plan import plan_stage
from workloads.postmark import MersenneTwister

FULL = yaml.safe_load(load("postmark").text)
MIB = 1 << 20
TRACED = [5, 9, 0, 7, 6, 1, 5, 5, 4, 0, 1, 5, 8, 9, 8, 1]


@pytest.mark.slow
def test_the_full_configuration_gives_the_published_counts() -> None:
    phases = plan_stage(parse(FULL), 0, 1).phases
    own = [phase for phase in phases if phase.phase.component]
    counts = [Counter(step.operation for step in phase.steps[0]) for phase in own]
    assert counts[0] == {"create": 8192}
    assert counts[1] == {"read": 238, "append": 262, "create": 236, "unlink": 264}
    assert counts[2] == {"unlink": 8164}
    total: Counter[str] = Counter()
    for phase in own:
        for step in phase.steps[0]:
            total[step.operation] += step.end - step.start
    assert round(total["read"] / MIB, 2) == 124.77
    assert round((total["create"] + total["append"]) / MIB, 2) == 4317.34


def test_another_seed_draws_as_postmark_does() -> None:
    """Compare the directories of the first files with a trace of postmark 1.51 for seed 7."""
    rules = {"transactions": 400, "read_bias": 6, "create_bias": 4, "seed": 7}
    size = {"distribution": "uniform", "min_bytes": 500, "max_bytes": 5000}
    mail = {"files": 300, "directories": 10, "size": size, "postmark": rules}
    changed = {**FULL, "filesets": {**FULL["filesets"], "mail": mail}}
    phases = plan_stage(parse(changed), 0, 1).phases
    creates = next(each for each in phases if each.phase.operation == "postmark-create")
    paths = [step.path for step in creates.steps[0][: len(TRACED)]]
    assert [int(path.partition("/")[0][-5:]) for path in paths] == TRACED
    assert sum(len(each.steps[0]) for each in phases if each.phase.component) == 1338


def test_the_runs_seed_changes_the_data_and_not_the_draws() -> None:
    small = parse(resolve(FULL, lambda name: None, 0.01))
    one, other = (plan_stage(small, 0, seed).operations_sha256 for seed in (1, 2))
    assert one == other


@pytest.mark.slow
def test_it_runs_and_leaves_nothing(engine: Callable[..., Engine]) -> None:
    own = engine(**resolve(FULL, lambda name: None, 0.01))
    answer = own.run("run")
    assert answer.status == 0, answer.document
    by_operation = answer.document["components"]["total"]["by_operation"]
    assert by_operation["create"]["operations"] == by_operation["unlink"]["operations"]
    assert by_operation["read"]["operations"] + by_operation["append"]["operations"] <= 5
    assert list(own.directory.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"processes": 2}, "one process, not 2"),
        ({"size": {"distribution": "fixed", "bytes": 9}}, "sizes are uniform"),
        ({"postmark": None}, "must be a mapping"),
        ({"postmark": {"transactions": 5, "read_bias": 11}}, "between 0 and 10"),
    ],
)
def test_what_postmark_cannot_do_is_reported(change: dict[str, Any], complaint: str) -> None:
    changed = {**FULL, "filesets": {**FULL["filesets"], "mail": dict(FULL["filesets"]["mail"])}}
    for key, value in change.items():
        (changed if key in changed else changed["filesets"]["mail"])[key] = value
    with pytest.raises(ValueError, match=complaint):
        parse(changed)


def test_skipping_is_drawing() -> None:
    skipped, stepwise = MersenneTwister(42), MersenneTwister(42)
    skipped.skip(100_000)
    for _ in range(100_000):
        stepwise.below(1 << 32)
    assert [skipped.below(1000) for _ in range(9)] == [stepwise.below(1000) for _ in range(9)]
    assert [stepwise.below(0), stepwise.below(1 << 32)] == [0, skipped.below(1 << 32)]
