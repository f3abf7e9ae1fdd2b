"""Phases (one operation, or a mix of them, over one file set) and how specs describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.fields import Fields, SpecError
from workloads.filesets import MAX_RECORD_BYTES, MAX_STEPS, FileSet
from workloads.sequence import OPERATIONS, POSTMARK, REPEATABLE, TREE
from workloads.sizes import Fixed, Sizes, Uniform, parse_sizes

MIXABLE = (
    *("stat", "negative-stat", "access", "chmod", "flock", "link", "rename", "list", "walk"),
    *("read", "next-read", "random-read", "read-modify-write", "rewrite", "append", "next-write"),
    *("random-write", "truncate", "fsync", "create", "create-empty", "unlink", "mkdir"),
)
"""Operations that a mix may contain."""

_WRITES = (
    *("create", "create-empty", "rewrite", "append", "next-write", "random-write"),
    "read-modify-write",
)
"""Operations of a mix that write a file, which fsync(2) may follow."""

SUBJECTS = ("any", "same", "first")
"""The file that a step of a cycle uses, among those of its process: a random one, that of the
previous step, or always the first.
"""

_MAX_RATE = 1e6


@dataclass(frozen=True)
class CycleStep:
    """One operation of a cycle; ``file`` is one of SUBJECTS, ``sync`` requests fsync(2)."""

    operation: str
    file: str
    sync: bool


@dataclass(frozen=True)
class Mix:
    """A mix of operations: drawn from ``choose`` by weight, or taken from ``cycle`` in turn.

    One of the two is empty. ``operations`` is the total over all processes. ``reads`` and
    ``writes`` are the distributions of transfer lengths; with ``choose``, ``commit_percent`` of the
    writes are followed by fsync(2).
    """

    operations: int
    choose: tuple[tuple[str, float], ...]
    cycle: tuple[CycleStep, ...]
    reads: Sizes
    writes: Sizes
    commit_percent: int


@dataclass(frozen=True)
class Phase:
    """What all processes do concurrently, between two barriers.

    ``component`` is None if the phase is untimed; ``warm_up`` distinguishes a warm-up from set-up.
    ``order`` is "sequential" or "shuffled" (by the seed). ``rate_per_s`` is the total rate of
    operations over all processes; 0 starts each operation when the previous one has finished.
    ``mix`` is set only for a mix.
    """

    operation: str
    fileset: FileSet
    component: str | None
    warm_up: bool
    order: str
    passes: int
    rate_per_s: float
    mix: Mix | None


def parse_phase(fields: Fields, filesets: Mapping[str, FileSet], processes: int) -> Phase:
    """Return the checked phase; raises SpecError."""
    operation = fields.choice("operation", OPERATIONS)
    fileset = filesets[fields.choice("fileset", tuple(filesets))]
    component = fields.name("component") if fields.has("component") else None
    warm_up = fields.flag("warm_up")
    order = fields.choice("order", ("sequential", "shuffled"), default="sequential")
    passes = fields.integer("passes", 1, MAX_STEPS, default=1)
    rate_per_s = fields.number("rate_per_s", 0.001, _MAX_RATE, default=0.0)
    mix = _mix(fields, fileset, processes) if operation == "mix" else None
    fields.refuse_unknown()
    if warm_up and component:
        raise SpecError(fields.path("warm_up"), "a warm-up is not timed; leave out its component")
    if passes > 1 and operation not in REPEATABLE:
        raise SpecError(
            fields.path("passes"), f"only {', '.join(REPEATABLE)} can be repeated, not {operation}"
        )
    _check_order(fields, operation, fileset, order)
    if passes * fileset.files > MAX_STEPS:
        raise SpecError(
            fields.path("passes"), f"makes more than {MAX_STEPS} operations of one phase"
        )
    if operation in POSTMARK:
        _check_postmark(fields, fileset, processes)
    return Phase(operation, fileset, component, warm_up, order, passes, rate_per_s, mix)


def _check_order(fields: Fields, operation: str, fileset: FileSet, order: str) -> None:
    if order == "sequential":
        return
    if operation in ("mix", *TREE, *POSTMARK):
        raise SpecError(fields.path("order"), f"{operation} has an order of its own; leave it out")
    if fileset.fanout and operation in ("mkdir", "rmdir"):
        raise SpecError(
            fields.path("order"), f"{operation} of a tree goes from level to level; leave it out"
        )


def _mix(fields: Fields, fileset: FileSet, processes: int) -> Mix:
    if fileset.directories < processes:
        raise SpecError(
            fields.path("fileset"),
            f"every process needs a directory of its own: {fileset.directories} directories,"
            f" {processes} processes",
        )
    if fileset.fanout:
        raise SpecError(fields.path("fileset"), "a mix needs directories side by side, no fanout")
    operations = fields.integer("operations", 1, MAX_STEPS)
    if fields.has("choose") == fields.has("cycle"):
        raise SpecError(fields.key, "a mix has either choose or cycle")
    choose: tuple[tuple[str, float], ...] = ()
    cycle: tuple[CycleStep, ...] = ()
    if fields.has("choose"):
        weights = Fields(fields.value("choose"), fields.path("choose"))
        choose = tuple(
            (_mixable(weights.path(name), name), weights.number(name, 1e-6, 1e6))
            for name, _ in fields.mapping("choose")
        )
    else:
        cycle = tuple(_cycle_step(Fields(item, key)) for key, item in fields.items("cycle"))
    commit_percent = fields.integer("commit_percent", 0, 100, default=0)
    if commit_percent and cycle:
        raise SpecError(
            fields.path("commit_percent"), "only for choose; steps of a cycle have sync: true"
        )
    if commit_percent and not any(operation in _WRITES for operation, _ in choose):
        raise SpecError(
            fields.path("commit_percent"),
            f"no operation of the mix writes; those that do are {', '.join(_WRITES)}",
        )
    default = Fixed(fileset.record_bytes)
    return Mix(
        operations,
        choose,
        cycle,
        _transfers(fields, "read_size", default),
        _transfers(fields, "write_size", default),
        commit_percent,
    )


def _mixable(key: str, operation: str) -> str:
    if operation not in MIXABLE:
        raise SpecError(key, f"must be one of {', '.join(MIXABLE)}")
    return operation


def _cycle_step(fields: Fields) -> CycleStep:
    step = CycleStep(
        fields.choice("operation", MIXABLE),
        fields.choice("file", SUBJECTS, default="any"),
        fields.flag("sync"),
    )
    fields.refuse_unknown()
    if step.sync and step.operation not in _WRITES:
        raise SpecError(
            fields.path("sync"), f"only for {', '.join(_WRITES)}; {step.operation} does not write"
        )
    return step


def _transfers(fields: Fields, name: str, default: Sizes) -> Sizes:
    if not fields.has(name):
        return default
    sizes = parse_sizes(Fields(fields.value(name), fields.path(name)))
    if not 0 < sizes.most <= MAX_RECORD_BYTES:
        raise SpecError(
            fields.path(name), f"must be between 1 and {MAX_RECORD_BYTES} bytes at most"
        )
    return sizes


def _check_postmark(fields: Fields, fileset: FileSet, processes: int) -> None:
    if fileset.postmark is None:
        raise SpecError(
            fields.path("fileset"), f"{fileset.name!r} does not say how postmark is to draw"
        )
    if not isinstance(fileset.sizes, Uniform) or fileset.sizes.min_bytes < 1:
        raise SpecError(fields.path("fileset"), "postmark's sizes are uniform, from 1 byte up")
    if processes != 1:
        raise SpecError(fields.path("operation"), f"postmark is one process, not {processes}")
