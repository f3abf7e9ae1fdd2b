"""The command line: ``run`` one stage of a spec, ``clean`` up after a run that did not end well.

One JSON document on standard output; progress, if asked for, on standard error. Exit status 0:
done; 3: the workload failed (the document says how); 2: the command or the spec is wrong (one line
on standard error, nothing on standard output).

``run --gate`` waits, so that several clients begin together: the engine says ``ready ...`` on
standard error and goes on at a line on standard input.

SIGTERM, SIGINT and SIGHUP end the workers and are a failure of kind ``interrupted``. The run
directory is then left for ``clean``: who interrupts may be doing so because the filesystem hangs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from workloads import gate, rundir
from workloads.catalog import load
from workloads.compose import resolve
from workloads.crew import STOP_SIGNALS
from workloads.engine import Manner, run_stage
from workloads.failure import Failure, WorkloadFailure
from workloads.fields import SpecError
from workloads.result import Provenance, cleaned, failed, success
from workloads.spec import Spec, parse

_OK, _USAGE, _FAILED = 0, 2, 3
_MAX_SEED = (1 << 64) - 1


class _Interrupted(Exception):
    """A signal asked the run to stop."""


class _Usage(Exception):
    """The command cannot be understood or done as it stands."""


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

    def about() -> Provenance:
        return Provenance(spec, stage, options.run_id, options.seed, started_utc, _cpu_s())

    try:
        with _stoppable():
            result = run_stage(
                spec, stage, options.dir, options.run_id, options.seed, _manner(options)
            )
    except WorkloadFailure as error:
        return failed(error.failure, about())
    except _Interrupted as error:
        root = rundir.path_of(options.dir, options.run_id)
        return failed(Failure("interrupted", "run", root, None, str(error)), about())
    return success(result, about())


def _manner(options: argparse.Namespace) -> Manner:
    start: gate.Gate = gate.open_gate
    barrier: gate.Gate = gate.open_gate
    if options.start_at is not None:
        start = gate.at(options.start_at)
    if options.gate == "stage":
        start = gate.asked
    elif options.gate == "phase":
        barrier = gate.asked
    return Manner(options.progress, start, barrier)


def _clean(options: argparse.Namespace) -> dict[str, object]:
    try:
        removed = rundir.remove(rundir.path_of(options.dir, options.run_id), options.run_id)
    except WorkloadFailure as error:
        return failed(error.failure)
    return cleaned(options.run_id, removed)


def _read_spec(name_or_path: str, by: float) -> Spec:
    return parse(resolve(_read_mapping(name_or_path), _read_mapping, by))


def _read_mapping(name_or_path: str) -> object:
    source = load(name_or_path)
    if source.path.suffix == ".json":
        try:
            return json.loads(source.text)
        except json.JSONDecodeError as error:
            raise _Usage(f"{source.path}: not JSON: {error}") from None
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise _Usage(f"{source.path}: no PyYAML here; give the spec as JSON") from None
    try:
        return yaml.safe_load(source.text)
    except yaml.YAMLError as error:
        raise _Usage(f"{source.path}: not YAML: {error}") from None


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
    """Turn the signals that ask to stop into _Interrupted, once."""

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


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value <= _MAX_SEED:
        raise ValueError(text)
    return value


def _scale(text: str) -> float:
    value = float(text)
    if not 1e-6 <= value <= 1e6:
        raise ValueError(text)
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="workloads", description="Run a file workload.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run one stage of a spec")
    run.add_argument("spec", help="a JSON file; with PyYAML also YAML or a packaged name")
    run.add_argument("--seed", required=True, type=_seed, help="0 to 2^64-1")
    run.add_argument("--stage", help="which stage; may be left out when there is only one")
    run.add_argument("--scale", type=_scale, default=1.0, help="how much of the full size")
    run.add_argument(
        "--progress",
        action="store_const",
        const=_say,
        default=lambda line: None,
        help="a line a phase on standard error",
    )
    held = run.add_mutually_exclusive_group()
    held.add_argument(
        "--gate",
        choices=("stage", "phase"),
        help="before the stage, or before each phase, wait for a line on standard input",
    )
    held.add_argument(
        "--start-at", type=float, metavar="EPOCH_S", help="begin at this moment of the clock"
    )
    clean = commands.add_parser("clean", help="remove the run directory, if it is ours")
    for command in (run, clean):
        command.add_argument("--dir", required=True, help="where the run directory is")
    run.add_argument(
        "--run-id",
        type=rundir.check_run_id,
        default=uuid.uuid4().hex,
        help="names the run directory; needed to run a spec of several stages, one by one",
    )
    clean.add_argument("--run-id", required=True, type=rundir.check_run_id)
    return parser


if __name__ == "__main__":
    sys.exit(main())
