"""The workload on several clients at once: one result, and one failure stops all."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.measure.local import LocalClient
from tests.waiting import wait_for
from tuner.errors import TestbedError, TransportError, WorkloadError
from tuner.hosts.connector import CommandResult
from tuner.measure.together import Together
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import run_once
from tuner.model import ComponentResult
from workloads import rundir

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "data" / "small-workload.yaml").read_text()
)
CLIENTS, PROCESSES = 4, 8


@dataclass(frozen=True)
class Site:
    """Clients on this machine that share a directory to measure in."""

    clients: list[LocalClient]
    target: Path
    together: Together

    def run(
        self, make_cold: Callable[[], None] = lambda: None, run_id: str = "r-1-0"
    ) -> dict[str, ComponentResult]:
        report = run_once(self.together, run_id, 7, make_cold)
        return dict(report.components)

    ask = change = run

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.target.iterdir())

    def processes(self) -> list[int]:
        """Process IDs of engines that still run here."""
        pids = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(self.target) in words and int(path.parent.name) != os.getpid():
                pids.append(int(path.parent.name))
        return pids


def site(tmp_path: Path, clients: list[LocalClient], **changes: Any) -> Site:
    engine, target = tmp_path / "engine", tmp_path / "target"
    engine.mkdir()
    target.mkdir()
    spec = tmp_path / "small.yaml"
    spec.write_text(yaml.safe_dump(SMALL | changes))
    workload = load_workload(str(spec))
    together = Together.install(clients, str(engine), str(target), workload)
    return Site(clients, target, together)


def several(count: int = CLIENTS) -> list[LocalClient]:
    return [LocalClient(f"client{number + 1}") for number in range(count)]


def test_four_clients_with_eight_processes_are_one_run(tmp_path: Path) -> None:
    filesets = SMALL["filesets"] | {"few": SMALL["filesets"]["few"] | {"files": 40}}
    place = site(tmp_path, several(), processes=PROCESSES, filesets=filesets)
    log: list[str] = []
    report = run_once(place.together, "r-1-0", 7, lambda: log.append("cold"))
    assert log == ["cold"]
    assert set(report.clients) == {"client1", "client2", "client3", "client4"}
    for name, merged in report.components.items():
        parts = [own[name] for own in report.clients.values()]
        assert merged.elapsed_s == max(part.elapsed_s for part in parts)
        assert merged.operations == sum(part.operations for part in parts)
        assert merged.bytes == sum(part.bytes for part in parts)
        assert merged.max_s == max(part.max_s or 0.0 for part in parts)
    # 2 directories and 40 files per client.
    assert report.components["writing"].operations == CLIENTS * 42
    assert place.left == []
    assert place.processes() == []


def test_nobody_reads_what_it_wrote(tmp_path: Path) -> None:
    place = site(tmp_path, several(3))
    place.run()
    worked_on = []
    for client in place.clients:
        runs = [argv for argv in client.commands if "run" in argv]
        worked_on.append([argv[argv.index("--run-id") + 1] for argv in runs])
        seeds = [argv[argv.index("--seed") + 1] for argv in runs]
        assert len(set(seeds)) == 2
    assert worked_on == [
        ["r-1-0-1", "r-1-0-2"],
        ["r-1-0-2", "r-1-0-3"],
        ["r-1-0-3", "r-1-0-1"],
    ]


def test_when_one_of_four_dies_all_are_stopped_and_it_is_named(tmp_path: Path) -> None:
    clients = several()
    clients[2].wrap = lambda argv: ["sh", "-c", "sleep 1; kill -KILL $$"]
    place = site(tmp_path, clients)
    with pytest.raises(WorkloadError, match=r"^client3: stage write: the engine ended with -9"):
        place.run()
    assert place.processes() == []
    assert place.left == []


def test_when_one_is_killed_halfway_all_are_stopped(tmp_path: Path) -> None:
    # Paced so slowly that it cannot finish during the test.
    leisure = {"operation": "stat", "fileset": "few", "passes": 100, "rate_per_s": 10}
    phases = [*SMALL["stages"][0]["phases"], {**leisure, "component": "writing"}]
    stages = [{**SMALL["stages"][0], "phases": phases}]
    weights = {"writing": 0.5, "large": 0.5}
    place = site(tmp_path, several(2), stages=stages, weights=weights)
    caught: list[Exception] = []

    def run() -> None:
        try:
            place.run()
        except WorkloadError as problem:
            caught.append(problem)

    running = threading.Thread(target=run)
    running.start()
    wait_for(lambda: len(place.left) >= 2 and place.processes() != [], "both parts")
    os.kill(min(place.processes()), signal.SIGKILL)
    running.join(100)
    assert place.processes() == []
    assert len(caught) == 1
    assert "client" in str(caught[0])
    assert place.left == []


def test_a_late_client_is_named_and_waited_for_no_longer_than_allowed(tmp_path: Path) -> None:
    clients = several(3)
    clients[1].wrap = lambda argv: ["sh", "-c", 'sleep 300; exec "$@"', "sh", *argv]
    place = site(tmp_path, clients, wall_clock_limit_s=2)
    with pytest.raises(WorkloadError, match=r"client2 was not ready in time; client[13]: stage"):
        place.run()
    assert place.processes() == []
    assert place.left == []


def test_when_the_workload_of_one_fails_all_are_stopped_and_it_is_named(tmp_path: Path) -> None:
    place = site(tmp_path, several(3))
    (place.target / "fstune-r-1-0-2").mkdir()
    with pytest.raises(WorkloadError, match=r"^client2: stage write: run-directory in mkdir of"):
        place.run()
    assert place.processes() == []
    # Directories of others are left alone.
    assert place.left == ["fstune-r-1-0-2"]


def test_an_unreachable_client_is_a_testbed_error(tmp_path: Path) -> None:
    clients = several(2)
    place = site(tmp_path, clients)
    clients[1].reachable = False
    with pytest.raises(TestbedError, match="client2: out of reach"):
        place.run()
    assert place.processes() == []
    assert place.left == []


def test_an_interrupted_run_is_cleaned_up_on_all_clients(tmp_path: Path) -> None:
    place = site(tmp_path, several(2))

    def interrupt() -> None:
        assert place.left == ["fstune-r-1-0-1", "fstune-r-1-0-2"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.run(interrupt)
    assert place.left == []


def test_leftovers_of_all_parts_are_found(tmp_path: Path) -> None:
    place = site(tmp_path, several(2))
    for run_id in ("r-1-0-1", "r-1-0-2", "s-1-0-1"):
        rundir.create(rundir.path_of(str(place.target), run_id), {"run_id": run_id}, 0, 0)
    place.together.clean_leftovers("r-")
    assert place.left == ["fstune-s-1-0-1"]
    ends = [sum("end_runs.py" in argv[1] for argv in one.commands) for one in place.clients]
    assert ends == [1, 1]


def test_files_stay_and_are_named_while_a_run_cannot_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = several(2)
    place = site(tmp_path, clients)
    rundir.create(rundir.path_of(str(place.target), "r-1-0-2"), {"run_id": "r-1-0-2"}, 0, 0)

    def no_answer(*_: object, **__: object) -> CommandResult:
        raise TransportError("client2: out of reach")

    monkeypatch.setattr(clients[1], "change", no_answer)
    assert place.together.clean_leftovers("r-") == (
        f"client1: {place.target}: not searched for what runs have left: client2: out of reach; "
        "remove fstune-r-* there by hand",
    )
    assert place.left == ["fstune-r-1-0-2"]


class Scripted:
    """A conversation that prints scripted lines, one each time it is told to go on."""

    def __init__(self, host: str, log: list[str], lines: list[str], result: CommandResult) -> None:
        self.host, self._log, self._lines, self._result = host, log, lines, result
        self._may_go = threading.Semaphore(1)

    def listen(self) -> str | None:
        assert self._may_go.acquire(timeout=60)
        if not self._lines:
            return None
        self._log.append(f"{self.host} {self._lines[0]}")
        return self._lines.pop(0)

    def say(self, line: str) -> None:
        self._log.append(f"{line} {self.host}")
        self._may_go.release()

    def kill(self) -> None:
        self._may_go.release()

    def end(self) -> CommandResult:
        return self._result


def scripted(tmp_path: Path, scripts: dict[str, list[str]], stdout: str) -> tuple[Site, list[str]]:
    """Clients that print the lines of their scripts, then report ``stdout``."""
    log: list[str] = []
    clients = [LocalClient(host) for host in scripts]
    place = site(tmp_path, clients)
    for client in clients:
        result = CommandResult(("python3",), 0, stdout, "")
        talk = Scripted(client.host, log, list(scripts[client.host]), result)
        client.converse = lambda argv, talk=talk: talk  # type: ignore[method-assign,misc]
    return place, log


def test_nobody_goes_on_before_all_are_ready(tmp_path: Path) -> None:
    scripts = {f"client{n}": ["ready write 0", "ready write 1"] for n in (1, 2, 3)}
    place, log = scripted(tmp_path, scripts, "{}")
    with pytest.raises(WorkloadError, match="no report from the engine"):
        place.run()
    for phase in (0, 1):
        lines = log[phase * 6 : phase * 6 + 6]
        assert sorted(lines[:3]) == [f"client{n} ready write {phase}" for n in (1, 2, 3)]
        assert sorted(lines[3:]) == [f"go client{n}" for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "scripts",
    [
        {"client1": ["ready write 0"], "client2": ["ready write 0", "ready write 1"]},
        {"client1": ["ready write 0"], "client2": ["ready write 1"]},
    ],
)
def test_clients_out_of_step_fail_the_run(tmp_path: Path, scripts: dict[str, list[str]]) -> None:
    place, _ = scripted(tmp_path, scripts, '{"ok": true}')
    with pytest.raises(WorkloadError, match="the clients are not in step"):
        place.run()


def test_speaking_to_an_ended_process_is_harmless_and_an_unreachable_client_is_an_error() -> None:
    client = LocalClient("client1", wrap=lambda argv: ["sh", "-c", "echo ready a >&2; read x"])
    talk = client.converse(["engine"])
    assert talk.listen() == "ready a"
    talk.say("go")
    assert talk.listen() is None
    assert talk.end().status == 0
    talk.say("nobody listens")
    talk.kill()
    client.reachable = False
    with pytest.raises(TransportError):
        client.converse(["engine"])
