"""Runs the ``fstune`` command in processes that are killed without warning at selected points.

Everything is imported, and run once, before the first command. Each command is a fork of that
process, so that hundreds of them take seconds. They are real processes with real databases, and are
ended by SIGKILL.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

import tuner.cli.app as cli
from search_spaces import Space
from tuner import compose
from tuner.cli import main
from tuner.plan.model_guide import ModelGuide
from tuner.plan.planner import Planner
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated import testbed as simulated
from tuner.spec.space_section import SpaceSection, load_space
from tuner.store import Store
from tuner.store.database import Database

#: The actions of a campaign by name, in the order in which it first does them. Those of a store are
#: named like its method; heartbeats are left out, as their timing is arbitrary.
ACTIONS: Mapping[str, tuple[Any, str]] = {
    "create_campaign": (Store, "create_campaign"),
    "take_testbeds": (Store, "take_testbeds"),
    "void_running_blocks": (Store, "void_running_blocks"),
    "move_campaign": (Store, "move_campaign"),
    "set_measured_with": (Store, "set_measured_with"),
    "open the testbed": (SimulatedTestbed, "open"),
    "add_event": (Store, "add_event"),
    "set_baseline": (Store, "set_baseline"),
    "add_trials": (Store, "add_trials"),
    "plan": (Planner, "plan"),
    "look": (ModelGuide, "look"),
    "begin_block": (Store, "begin_block"),
    "apply": (simulated._SimulatedPart, "apply"),
    "read back": (simulated._SimulatedPart, "read_back"),
    "reference": (simulated._SimulatedReference, "make_cold"),
    "add_reference": (Store, "add_reference"),
    "workload": (simulated._SimulatedEngine, "report"),
    "add_measurement": (Store, "add_measurement"),
    "end_block": (Store, "end_block"),
    "move_trial": (Store, "move_trial"),
    "save_recommendation": (Store, "save_recommendation"),
    "restore": (simulated._SimulatedPart, "restore"),
    "close the testbed": (SimulatedTestbed, "close"),
    "add_time_use": (Store, "add_time_use"),
    "give_back": (Store, "give_back"),
    "close the database": (Store, "close"),
}


@dataclass(frozen=True, slots=True)
class Point:
    """A point relative to an action of a campaign: ``before`` or ``after`` it, or ``within`` a
    write: all statements were sent to the database, but its transaction has not ended.
    """

    action: str
    side: str


def _points() -> Iterator[Point]:
    for action, (owner, method) in ACTIONS.items():
        writes = owner is Store and method != "close"
        for side in ("before", "within", "after") if writes else ("before", "after"):
            yield Point(action, side)


POINTS = tuple(_points())

#: The corresponding actions on real hosts.
ON_HOSTS: Mapping[str, tuple[Any, str]] = {
    "set the fileserver": (Fileserver, "apply"),
    "empty the caches": (CacheManager, "make_cold"),
    "restore the fileserver": (Fileserver, "restore"),
    "restore the clients": (CacheManager, "restore"),
}


class Forks:
    """The process whose forks run the commands. Created by ``forks``."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def fstune(
        self,
        *arguments: str,
        point: Point | None = None,
        passes: int = 1,
        after_s: float | None = None,
    ) -> bool:
        """Run a command; return whether it ended by itself, which must be with status 0.

        It is killed when it reaches ``point`` for the ``passes``-th time, or after ``after_s``
        seconds.
        """
        at = None if point is None else [point.action, point.side, passes]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([arguments, at, after_s]) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        assert status in (0, -signal.SIGKILL), self.output
        return status == 0

    @property
    def output(self) -> str:
        """The last part of what the commands printed."""
        return self._log.read_text()[-2000:]


@contextmanager
def forks(root: Path, directory: Path, campaign_file: Path) -> Iterator[Forks]:
    """Start a process that has run the campaign of a file, from the sources in ``root``. The output
    of commands is in ``directory``.
    """
    log = directory / "output"
    command = [sys.executable, "-m", __name__, "run", str(campaign_file)]
    with (
        log.open("w") as output,
        subprocess.Popen(
            [*command, "--state-dir", str(directory / "warm")],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        ready = Forks(process, log)
        assert ready.fstune("--version")
        yield ready
        process.stdin.close()


def _arm(action: str, side: str, passes: int) -> None:
    """Make this process kill itself when it reaches a point for the ``passes``-th time."""
    counted = itertools.count(1)
    under_way = False

    def at(here: str) -> None:
        if here == side and next(counted) == passes:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal under_way
            at("before")
            under_way = True
            try:
                result = real(*arguments, **options)
            finally:
                under_way = False
            at("after")
            return result

        return wrapped

    persistently = Database._persistently

    def transaction(database: Database, engine: Any, work: Callable[..., Any]) -> Any:
        def marked(connection: Any) -> Any:
            result = work(connection)
            if under_way and engine is database.writer:
                at("within")
            return result

        return persistently(database, engine, marked)

    owner, attribute = {**ACTIONS, **ON_HOSTS}[action]
    setattr(owner, attribute, around(getattr(owner, attribute)))
    Database._persistently = transaction  # type: ignore[method-assign, assignment]


def _fstune(arguments: Sequence[str]) -> int:
    """Run the command in this process; return its exit status."""
    sys.argv = ["fstune", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        return 99
    return 0


def _forked(arguments: Sequence[str], at: Sequence[Any] | None, after_s: float | None) -> int:
    process = os.fork()
    if process == 0:
        gc.disable()  # it is short-lived
        if at is not None:
            _arm(*at)
        status = _fstune(arguments)
        sys.stdout.flush()
        os._exit(status)
    alive = os.pidfd_open(process)
    if not select.select([alive], [], [], after_s)[0]:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(alive, signal.SIGKILL)
    os.close(alive)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _remember_what_never_changes() -> None:
    """Cache what each fork would otherwise compute anew: it takes longer than a small campaign."""
    spaces: dict[tuple[str, str], Space] = {}

    def load(section: SpaceSection, part: str) -> Space:
        key = (section.model_dump_json(), part)
        if key not in spaces:
            spaces[key] = load_space(section, part)
        return spaces[key]

    setattr(compose, "load_space", load)  # noqa: B010
    cli.app = typer.main.get_command(cli.app)  # type: ignore[assignment]


def _serve() -> None:
    """Read a command from each line of standard input, and write its exit status to standard
    output.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _remember_what_never_changes()
    assert _fstune(sys.argv[1:]) == 0
    import_module("tuner.store.postgresql")  # not imported yet
    assert threading.active_count() == 1  # a fork has only the thread that called it
    gc.freeze()
    for line in sys.stdin:
        print(_forked(*json.loads(line)), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
