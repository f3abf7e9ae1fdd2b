"""Results of several clients merged: the merged histogram is the sum of the parts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.conftest import every_operation, new_engine
from workloads import merge
from workloads.merge import histogram

pytestmark = pytest.mark.slow

CLIENTS, PROCESSES = 4, 8


@pytest.fixture(scope="module")
def documents(
    program: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], ...]:
    """Return the results of four clients with eight processes each."""
    spec = every_operation() | {"processes": PROCESSES}
    spec["filesets"]["small"]["files"] = 80
    results = []
    for number in range(CLIENTS):
        one = new_engine(program, tmp_path_factory.mktemp("client"), spec)
        answer = one.run("write", seed=number)
        assert answer.status == 0
        results.append(answer.document)
    return tuple(results)


def test_four_clients_with_eight_processes_are_the_sum_of_their_parts(
    documents: tuple[dict[str, Any], ...],
) -> None:
    merged: Any = merge(documents)
    assert merged["clients"] == CLIENTS
    assert merged["cpu_s"] == pytest.approx(sum(each["cpu_s"] for each in documents))
    for name, component in merged["components"].items():
        parts = [each["components"][name] for each in documents]
        for key in ("operations", "bytes"):
            assert component[key] == sum(part[key] for part in parts)
        assert component["elapsed_s"] == max(part["elapsed_s"] for part in parts)
        assert component["latency"]["max_s"] == max(part["latency"]["max_s"] for part in parts)
        for operation, result in component["by_operation"].items():
            own = [histogram(part["by_operation"][operation]["histogram"]) for part in parts]
            total = histogram(result["histogram"])
            assert total.counts == sum((part.counts for part in own), Counter())
            assert total.total == result["operations"] == sum(part.total for part in own)
            assert total.sum_ns == sum(part.sum_ns for part in own)
    assert merged["components"]["write"]["by_operation"]["create"]["operations"] == 80 * CLIENTS


def test_one_client_alone_stays_as_it_is(documents: tuple[dict[str, Any], ...]) -> None:
    merged: Any = merge(documents[:1])
    assert merged["components"] == documents[0]["components"]
    assert merged["verified"] == documents[0]["verified"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"ok": False}, "failed"),
        ({"stage": "read"}, "stage differs"),
        ({"spec": {}}, "spec differs"),
        ({"engine": {}}, "engine differs"),
        ({"components": {}}, "not the same components"),
    ],
)
def test_only_results_of_the_same_run_are_merged(
    documents: tuple[dict[str, Any], ...], change: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        merge([*documents[:1], {**documents[1], **change}])


def test_no_results_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="nothing"):
        merge([])
