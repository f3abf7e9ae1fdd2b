"""Proofs from counters."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import workloads
from tuner.measure.diagnostics import proof
from tuner.measure.diagnostics.proof import (
    UNTIMED,
    Proof,
    cold_proofs,
    first_reads,
    stored_elsewhere,
    stored_proof,
)
from tuner.measure.workload import load_workload

MB = 1_000_000
DEMAND = {"small": 10 * MB, "large": 90 * MB, UNTIMED: MB}


@pytest.mark.parametrize(
    ("fetched", "small", "large"),
    [
        (101 * MB, Proof.PROVEN, Proof.PROVEN),
        (140 * MB, Proof.PROVEN, Proof.PROVEN),  # something was fetched twice
        # 0.5 MB is missing, which may all be of the small files.
        (100.5 * MB, Proof.UNKNOWN, Proof.PROVEN),
        (100.95 * MB, Proof.PROVEN, Proof.PROVEN),
        (91 * MB, Proof.REFUTED, Proof.REFUTED),
        (0.0, Proof.REFUTED, Proof.REFUTED),
        (None, Proof.UNKNOWN, Proof.UNKNOWN),
    ],
)
def test_reads_are_cold_if_everything_was_fetched(
    fetched: float | None, small: Proof, large: Proof
) -> None:
    assert cold_proofs(DEMAND, fetched) == {"small": small, "large": large}


def test_counters_are_rounded() -> None:
    assert cold_proofs({"tiny": 4096}, 2048.0) == {"tiny": Proof.PROVEN}
    assert cold_proofs({"tiny": 4096}, 0.0) == {"tiny": Proof.REFUTED}
    assert cold_proofs({"tiny": 8192}, 4096.0) == {"tiny": Proof.REFUTED}
    assert cold_proofs({"tiny": 8192}, 4096.0, clients=2) == {"tiny": Proof.PROVEN}


def test_stored() -> None:
    assert stored_proof(10 * MB, 10 * MB) is Proof.PROVEN
    assert stored_proof(10 * MB, 9 * MB) is Proof.REFUTED
    assert stored_proof(0, 0.0) is Proof.PROVEN
    assert stored_proof(10 * MB, None) is Proof.UNKNOWN


@pytest.mark.parametrize(
    ("client_bytes", "server_bytes", "elsewhere"),
    [
        (10.0 * MB, 0.0, True),
        (10.0 * MB, 10.0 * MB, False),
        (10.0 * MB, 2.0 * MB, False),  # the rest will arrive
        (0.0, 0.0, False),  # the client has not stored it yet
        (99.0 * MB, 2.0 * MB, False),  # it stored something else as well
        (None, 0.0, False),
        (10.0 * MB, None, False),
    ],
)
def test_stored_elsewhere(
    client_bytes: float | None, server_bytes: float | None, elsewhere: bool
) -> None:
    assert stored_elsewhere(10 * MB, client_bytes, server_bytes) is elsewhere


def test_too_little_shows_nothing() -> None:
    assert not stored_elsewhere(20480, 20480.0, 0.0)


def spec(*phases: dict[str, object]) -> workloads.Spec:
    """A workload whose cold stage has these phases, on four files of 1000 bytes."""
    filesets = {"f": {"files": 4, "size": {"distribution": "fixed", "bytes": 1000}}}
    write = [{"operation": "mkdir", "fileset": "f"}, {"operation": "create", "fileset": "f"}]
    document = {
        "name": "x",
        "description": "x",
        "processes": 1,
        "wall_clock_limit_s": 60,
        "filesets": filesets | {"own": filesets["f"]},
        "stages": [
            {"name": "write", "cache": "as-is", "phases": write},
            {"name": "cold", "cache": "cold", "phases": [{"fileset": "f", **p} for p in phases]},
        ],
        "weights": {"c": 1.0},
    }
    return workloads.parse(yaml.safe_load(yaml.safe_dump(document)))


READ: dict[str, object] = {"operation": "read"}
TIMED: dict[str, object] = {"operation": "read", "component": "c"}


def test_a_second_read_needs_no_bytes() -> None:
    assert first_reads(spec(TIMED), "cold", [1]) == {"c": 4000}
    assert first_reads(spec({**TIMED, "passes": 5}), "cold", [1]) == {"c": 4000}
    assert first_reads(spec(READ, TIMED), "cold", [1]) == {UNTIMED: 4000}
    assert first_reads(spec(TIMED), "cold", [1, 2, 3]) == {"c": 12000}


def test_what_the_stage_wrote_itself_is_not_needed() -> None:
    for change in ("rewrite", "rename", "truncate"):
        assert first_reads(spec({"operation": change}, TIMED), "cold", [1]) == {}
    own: dict[str, object] = {"fileset": "own"}
    writes = [{"operation": name, **own} for name in ("mkdir", "create")]
    assert first_reads(spec(*writes, {**TIMED, **own}), "cold", [1]) == {}


def test_reading_attributes_does_not_fetch_a_file() -> None:
    for look in ("stat", "list", "access"):
        assert first_reads(spec({"operation": look}, TIMED), "cold", [1]) == {"c": 4000}


def test_the_default_workload_must_fetch_what_it_wrote(root: Path) -> None:
    workload = load_workload("mixed-use", 0.1)
    demand = first_reads(workload.spec, "read", [7])
    assert set(demand) == {UNTIMED, "small-read-cold", "large-read-cold"}
    assert demand["large-read-cold"] == 10066330
    assert demand[UNTIMED] == 24 * 16384


@pytest.mark.slow
@pytest.mark.parametrize("name", workloads.packaged())
def test_what_reads_nothing_new_needs_no_planning(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that are read for the first time are the same with and without them."""
    spec = load_workload(name, 0.05).spec
    relevant = [proof.first_reads(spec, stage.name, [3, 4]) for stage in spec.stages]
    monkeypatch.setattr(proof, "_relevant", lambda spec, index: spec)
    assert relevant == [proof.first_reads(spec, stage.name, [3, 4]) for stage in spec.stages]
