"""The command line: ``run`` one stage of a spec, or ``clean`` up after a run that failed.

Prints one JSON document on standard output and, on request, progress on standard error. Exit status
0: success; 3: the workload failed (the document says how); 2: the command or the spec is invalid
(one line on standard error, nothing on standard output).

``run --gate`` waits, so that several clients start together: the engine prints ``ready ...`` on
standard error and continues when it reads a line from standard input.

SIGTERM, SIGINT and SIGHUP terminate the workers and count as a failure of kind ``interrupted``. As
after any failure, the files of a run with a ``--run-id`` are then left for ``clean``: the run may
have been interrupted because the filesystem hangs. A run without a ``--run-id`` removes its files
however it ends.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import resource
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from workloads import gate, rundir
from workloads.catalogue import SpecSource
from workloads.compose import resolve_file
from workloads.crew import STOP_SIGNALS
from workloads.engine import RunOptions, run_stage
from workloads.failure import Failure, WorkloadFailure
from workloads.fields import SpecError
from workloads.result import Provenance, cleanup_document, failure_document, success_document
from workloads.spec import Spec, parse

_OK, _USAGE, _FAILED = 0, 2, 3
_MAX_SEED = (1 << 64) - 1
#: How far in the future ``--start-at`` may be, in seconds.
_MOST_AHEAD_S = 3600.0


class _Interrupted(Exception):
    """The run received a stop signal."""


class _Usage(Exception):
    """The command line or the spec file is invalid."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        document = _run(options) if options.command == "run" else _clean(options)
    except (SpecError, _Usage) as error:
        print(f"workloads: {error}", file=sys.stderr)
        return _USAGE
    print(json.dumps(document), flush=True)
    return _OK if document["ok"] else _FAILED


def _run(options: argparse.Namespace) -> dict[str, object]:
    spec = _read_spec(options.spec, options.scale)
    stage = _choose_stage(spec, options.stage)
    started_utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    run_id = options.run_id or uuid.uuid4().hex
    root = rundir.path_of(options.dir, run_id)

    def about() -> Provenance:
        return Provenance(spec, stage, run_id, options.seed, started_utc, _cpu_s())

    try:
        with _stoppable():
            result = run_stage(
                spec, stage, options.dir, run_id, options.seed, _run_options(options)
            )
        return success_document(result, about())
    except WorkloadFailure as error:
        failure = error.failure
    except _Interrupted as error:
        failure = Failure("interrupted", "run", root, None, str(error))
    if options.run_id is None:
        try:
            rundir.remove(root, run_id)
        except WorkloadFailure as error:
            _say(f"left behind: {error}")
    return failure_document(failure, about())


def _run_options(options: argparse.Namespace) -> RunOptions:
    start: gate.Gate = gate.open_gate
    barrier: gate.Gate = gate.open_gate
    if options.start_at is not None:
        start = gate.at(options.start_at)
    if options.gate == "stage":
        start = gate.wait_for_line
    elif options.gate == "phase":
        barrier = gate.wait_for_line
    return RunOptions(options.progress, start, barrier)


def _clean(options: argparse.Namespace) -> dict[str, object]:
    try:
        removed = rundir.remove(rundir.path_of(options.dir, options.run_id), options.run_id)
    except WorkloadFailure as error:
        return failure_document(error.failure)
    return cleanup_document(options.run_id, removed)


def _read_spec(name_or_path: str, by: float) -> Spec:
    return parse(resolve_file(name_or_path, _mapping, by))


def _mapping(source: SpecSource) -> object:
    if source.path.suffix == ".json":
        try:
            return json.loads(source.text, object_pairs_hook=_once)
        except RecursionError:
            raise _Usage(f"{source.path}: it is nested too deeply") from None
        except ValueError as error:
            raise _Usage(f"{source.path}: not JSON: {error}") from None
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise _Usage(f"{source.path}: no PyYAML here; give the spec as JSON") from None
    try:
        return yaml.safe_load(source.text)
    except yaml.YAMLError as error:
        raise _Usage(f"{source.path}: not YAML: {error}") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is given twice")
    return mapping


def _choose_stage(spec: Spec, name: str | None) -> str:
    names = [stage.name for stage in spec.stages]
    if name is None and len(names) == 1:
        return names[0]
    if name in names:
        return str(name)
    problem = "needs --stage" if name is None else f"has no stage {name!r}"
    raise _Usage(f"{spec.name} {problem}; its stages: {', '.join(names)}")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Raise _Interrupted at the first stop signal and ignore later ones."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for other in STOP_SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        raise _Interrupted(f"stopped by {signal.Signals(number).name}")

    before = {number: signal.signal(number, interrupt) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _run_id(text: str) -> str:
    try:
        return rundir.check_run_id(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^64-1")
    return int(text)


def _scale(text: str) -> float:
    return _number(text, 1e-6, 1e6)


def _moment(text: str) -> float:
    return _number(text, 0.0, time.time() + _MOST_AHEAD_S)


def _number(text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low:g} to {high:.10g}")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="workloads", description="Run a file workload.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run one stage of a spec")
    run.add_argument("spec", help="a JSON file; with PyYAML also YAML or a packaged name")
    run.add_argument("--seed", required=True, type=_seed, help="0 to 2^64-1")
    run.add_argument("--stage", help="which stage; optional if there is only one")
    run.add_argument("--scale", type=_scale, default=1.0, help="how much of the full size")
    run.add_argument(
        "--progress",
        action="store_const",
        const=_say,
        default=lambda line: None,
        help="print one line per phase on standard error",
    )
    start_options = run.add_mutually_exclusive_group()
    start_options.add_argument(
        "--gate",
        choices=("stage", "phase"),
        help="before the stage, or before each phase, wait for a line on standard input",
    )
    start_options.add_argument(
        "--start-at", type=_moment, metavar="EPOCH_S", help="start at this time"
    )
    clean = commands.add_parser("clean", help="remove the run directory, if it is ours")
    for command in (run, clean):
        command.add_argument("--dir", required=True, help="where the run directory is")
    run.add_argument(
        "--run-id",
        type=_run_id,
        help="names the run directory, for the stages of a spec one by one; what it makes is "
        "removed by the last stage or by 'clean'",
    )
    clean.add_argument("--run-id", required=True, type=_run_id)
    return parser


if __name__ == "__main__":
    sys.exit(main())
