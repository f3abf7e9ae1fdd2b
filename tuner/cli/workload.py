"""Commands that describe workloads, check custom ones, and run one in a directory."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

import workloads
from tuner.cli import completion
from tuner.cli.output import AsJson, list_rows, say_wrapped
from tuner.cli.say import say
from tuner.errors import SpecError, WorkloadError
from tuner.measure.workload import load_workload
from tuner.report.listing import Column
from tuner.stop_signals import holding_off_stops, stop_signals
from tuner.text import counted
from workloads import rundir, zipapp
from workloads.engine import RunOptions, run_stage
from workloads.failure import WorkloadFailure
from workloads.phases import Phase
from workloads.result import ComponentResult, components, engine_identity
from workloads.spec import Spec

app = typer.Typer(
    no_args_is_help=True,
    help="Workloads: what is measured, and how long it takes in a directory of your choice.",
)

_MIB = 1 << 20
#: How the identifiers of runs begin. Eight hexadecimal digits follow.
_TRY = "try-"
#: The names of their directories, which are hidden while they are created or removed.
_RUN_DIRECTORY = re.compile(
    rf"\.?{re.escape(os.path.basename(rundir.path_of('/', _TRY)))}[0-9a-f]{{8}}"
)

Name = Annotated[
    str,
    typer.Argument(
        help="A workload's name, or a file of your own.", autocompletion=completion.workloads
    ),
]
Scale = Annotated[
    float, typer.Option("--scale", min=1e-6, max=1e6, help="Fraction of the full size.")
]


@app.command("list")
def list_workloads(as_json: AsJson = False) -> None:
    """List the workloads that come with fstune."""
    if as_json:
        documents = [
            {
                "name": name,
                "components": [part.name for part in spec.components],
                "processes": max(stage.processes for stage in spec.stages),
                "bytes": _size_bytes(spec),
                "description": spec.description,
            }
            for name, spec in ((n, load_workload(n).spec) for n in workloads.packaged())
        ]
        say(json.dumps(documents, indent=2, ensure_ascii=False))
        return
    columns = (
        Column("name", rigid=True),
        Column("components", rigid=True, right=True),
        Column("processes", rigid=True, right=True),
        Column("MiB", rigid=True, right=True),
        Column("description"),
    )
    rows = []
    for name in workloads.packaged():
        spec = load_workload(name).spec
        processes = max(stage.processes for stage in spec.stages)
        size = f"{_size_bytes(spec) / _MIB:,.0f}"
        rows.append((name, str(len(spec.components)), str(processes), size, spec.description))
    list_rows(columns, rows)


@app.command("show")
def show_workload(name: Name, scale: Scale = 1.0, as_json: AsJson = False) -> None:
    """Show a workload: what is timed, the weight of each number, and every phase."""
    workload = load_workload(name, scale)
    spec = workload.spec
    if as_json:
        say(json.dumps(json.loads(workload.document), indent=2, ensure_ascii=False))
        return
    say_wrapped(f"{spec.name}: {spec.description}")
    size = f"{_size_bytes(spec) / _MIB:,.0f} MiB in files"
    limit_s = max(stage.wall_clock_limit_s for stage in spec.stages)
    say_wrapped(f"{size}; at most {limit_s:g} s per stage\n")
    list_rows(
        (Column("component", rigid=True), Column("weight", rigid=True, right=True)),
        [(part.name, f"{part.weight:.3g}") for part in spec.components],
    )
    for stage in spec.stages:
        cache = "with a cold cache" if stage.cache == "cold" else "with the cache as it is"
        count = f"{stage.processes} process{'es' if stage.processes > 1 else ''}"
        say_wrapped(f"\nstage {stage.name}: {count}, {cache}")
        columns = (
            Column("timed as", rigid=True),
            Column("operation", rigid=True),
            Column("file set", rigid=True),
            Column("how"),
        )
        list_rows(columns, [_row(phase) for phase in stage.phases])


@app.command("check")
def check(
    file: Annotated[
        str | None, typer.Argument(help="A workload of your own; without it, all of fstune's.")
    ] = None,
) -> None:
    """Check that a workload file is valid and can be run."""
    for name in workloads.packaged() if file is None else [file]:
        spec = load_workload(name).spec
        say(
            f"{name}: valid; {len(spec.components)} components in {len(spec.stages)} stages, "
            f"{_size_bytes(spec) / _MIB:,.0f} MiB in files"
        )


@app.command("run")
def run(
    name: Name,
    directory: Annotated[
        Path, typer.Option("--dir", help="Where to run it; its files there are removed.")
    ],
    scale: Scale = 1.0,
    seed: Annotated[
        int, typer.Option(min=0, max=2**64 - 1, help="The same seed performs the same operations.")
    ] = 1,
    as_json: AsJson = False,
    progress: Annotated[
        bool, typer.Option("--progress", help="Print a line per phase to standard error.")
    ] = False,
) -> None:
    """Run a workload in a directory and show its times; caches are left as they are."""
    spec = load_workload(name, scale).spec
    if not directory.is_dir():
        raise SpecError(f"{directory}: no such directory; name one with --dir")
    options = RunOptions(progress=(lambda line: say(line, err=True)) if progress else _quiet)
    results: dict[str, ComponentResult] = {}
    sequences = {}
    verified = {"files": 0, "bytes": 0}
    _tell_leftovers(directory)
    with stop_signals(), _voided(spec, directory) as run_id:
        for stage in spec.stages:
            result = run_stage(spec, stage.name, str(directory), run_id, seed, options)
            results |= result.components
            sequences[stage.name] = result.operations_sha256
            for kind, count in result.verified.items():
                verified[kind] += count
    times = {part.name: results[part.name].elapsed_s for part in spec.components}
    score_s = math.exp(math.fsum(p.weight * math.log(times[p.name]) for p in spec.components))
    if as_json:
        document = {
            "workload": spec.name,
            "sha256": spec.sha256,
            "scaled_by": spec.scaled_by,
            "engine": engine_identity(),
            "seed": seed,
            "score_s": score_s,
            "components": components(results),
            "operations_sha256": sequences,
            "verified": verified,
        }
        say(json.dumps(document, indent=2))
        return
    _show_times(spec, results)
    say_wrapped(f"\nweighted geometric mean of the times: {score_s:.3f} s")
    cold = [stage.name for stage in spec.stages if stage.cache == "cold"]
    if cold:
        say_wrapped(
            f"stage {', '.join(cold)} is meant for a cold cache, which this command cannot provide"
        )


@app.command("engine")
def engine(
    file: Annotated[Path, typer.Argument(help="Where to write it, such as workloads.pyz.")],
) -> None:
    """Write the workload engine as one file, for any host with Python 3.9 or newer.

    It needs nothing else: python3 workloads.pyz run SPEC.json --stage STAGE --dir DIRECTORY
    --seed 1, with a SPEC.json of 'fstune workload show NAME --json'.
    """
    try:
        archive = zipapp.build(file)
    except OSError as problem:
        raise SpecError(f"{file}: cannot be written: {problem.strerror}") from problem
    say(f"{archive.path}: engine {workloads.ENGINE_VERSION}, sha256 {archive.sha256}")


@contextmanager
def _voided(spec: Spec, directory: Path) -> Iterator[str]:
    """Yield an identifier for a run, and remove the run's files if it ends early."""
    run_id = f"{_TRY}{secrets.token_hex(4)}"
    try:
        yield run_id
    except WorkloadFailure as problem:
        _remove(directory, run_id)
        raise WorkloadError(f"workload {spec.name}: {problem}") from problem
    except BaseException:
        _remove(directory, run_id)
        raise


def _tell_leftovers(directory: Path) -> None:
    """Name the directories of other runs. Those that were killed could not remove theirs."""
    names: list[str] = []
    with suppress(OSError):  # without the right to list it, a run is possible all the same
        names = sorted(name for name in os.listdir(directory) if _RUN_DIRECTORY.fullmatch(name))
    if names:
        paths = [str(directory.absolute() / name) for name in names]
        say(
            f"fstune: files of {counted(len(names), 'other run')} are in {directory}; "
            f"unless one is running, remove them: rm -r {shlex.join(paths)}",
            err=True,
        )


def _remove(directory: Path, run_id: str) -> None:
    try:
        with holding_off_stops(lambda message: say("removing what was made", err=True)):
            rundir.remove(rundir.path_of(str(directory), run_id), run_id)
    except WorkloadFailure as problem:
        say(f"left behind: {problem}", err=True)


def _size_bytes(spec: Spec) -> int:
    return sum(fileset.total_bytes for fileset in spec.filesets)


def _row(phase: Phase) -> tuple[str, ...]:
    how = []
    if phase.mix is not None:
        how.append(f"{phase.mix.operations} operations")
        total = math.fsum(weight for _, weight in phase.mix.choose)
        how.extend(f"{100 * weight / total:.3g}% {name}" for name, weight in phase.mix.choose)
        how.extend(step.operation for step in phase.mix.cycle)
    else:
        files, directories = phase.fileset.files, phase.fileset.directories
        below = "1 directory" if directories == 1 else f"{directories} directories"
        how.append(f"{counted(files, 'file')} in {below}")
    if phase.passes > 1:
        how.append(f"{phase.passes} passes")
    if phase.order != "sequential":
        how.append(phase.order)
    if phase.rate_per_s:
        how.append(f"{phase.rate_per_s:g} a second")
    role = "(warm-up)" if phase.warm_up else "(set-up)"
    return (phase.component or role, phase.operation, phase.fileset.name, ", ".join(how))


def _show_times(spec: Spec, results: Mapping[str, ComponentResult]) -> None:
    columns = (
        Column("component", rigid=True),
        Column("weight", rigid=True, right=True),
        Column("seconds", rigid=True, right=True),
        Column("operations", rigid=True, right=True),
        Column("MiB/s", rigid=True, right=True),
        Column("median ms", rigid=True, right=True),
        Column("p99 ms", rigid=True, right=True),
    )
    rows = []
    for part in spec.components:
        result = results[part.name]
        total = result.total
        rate = total.moved_bytes / _MIB / result.wall_s
        rows.append(
            (
                part.name,
                f"{part.weight:.3g}",
                f"{result.elapsed_s:.3f}",
                str(total.operations),
                f"{rate:,.1f}" if total.moved_bytes else "-",
                f"{total.latency.quantile_ns(0.5) / 1e6:.3f}",
                f"{total.latency.quantile_ns(0.99) / 1e6:.3f}",
            )
        )
    list_rows(columns, rows)


def _quiet(line: str) -> None:
    """Discard a line of progress."""
