"""The driver of the workload engine, with a fake client."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tuner.errors import SpecError, TestbedError, TransportError, WorkloadError
from tuner.hosts.connector import CommandResult, CommandTimeout
from tuner.hosts.conversation import Conversation
from tuner.hosts.detached import DIRECTORY
from tuner.measure.driver import ClientEngine, read_report
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import run_once

SMALL = Path(__file__).parents[2] / "data" / "small-workload.yaml"
GOOD = {
    "ok": True,
    "engine": {"sha256": "abc"},
    "cpu_s": 0.5,
    "components": {
        "small-write": {"elapsed_s": 1.5, "operations": 3, "bytes": 9, "latency": {"p50_s": 0.1}}
    },
}
BAD = {
    "ok": False,
    "error": {"kind": "os", "operation": "create", "path": "/afs/x", "message": "disk quota"},
}

KILL = ["python3", "/srv/x/end_runs.py", "/srv/x/workloads.pyz"]


def result(status: int, stdout: str, stderr: str = "") -> CommandResult:
    return CommandResult(("python3",), status, stdout, stderr)


@dataclass
class Client:
    """Answers ``run`` with ``answer`` and records everything."""

    answer: Callable[[Sequence[str]], CommandResult]
    host: str = "client1"
    commands: list[list[str]] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    limits: list[float] = field(default_factory=list)

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        self.commands.append(list(argv))
        self.limits.append(timeout_s)
        return self.answer(argv)

    ask = change = run

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        self.runs.append(run_id)
        return self.run(argv, timeout_s=timeout_s)

    def converse(self, argv: Sequence[str]) -> Conversation:
        raise AssertionError(argv)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self.files[path] = content

    def get(self, path: str) -> bytes:
        return self.files[path]


def install(answer: Callable[[Sequence[str]], CommandResult]) -> tuple[Client, ClientEngine]:
    client = Client(answer)
    workload = load_workload(str(SMALL))
    return client, ClientEngine.install(client, "/srv/x", "/afs/volume", workload)


def nothing() -> None:
    """Callback that does nothing."""


def test_a_report_becomes_components() -> None:
    report = read_report(result(0, json.dumps(GOOD)), "write")
    assert report.cpu_s == 0.5
    assert report.engine_sha256 == "abc"
    component = report.components["small-write"]
    assert (component.elapsed_s, component.operations, component.bytes) == (1.5, 3, 9)
    assert (component.p50_s, component.p99_s) == (0.1, None)


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (result(3, json.dumps(BAD)), "stage write: os in create of /afs/x: disk quota"),
        (result(-9, ""), "stage write: the engine ended with -9: it printed nothing"),
        (result(2, "", "workloads: no such spec"), "ended with 2: workloads: no such spec"),
        (result(0, ""), "stage write: no report from the engine"),
        (result(0, "[]"), "stage write: no report from the engine"),
        (result(0, '{"ok": true}'), "stage write: no report from the engine"),
        (result(3, '{"ok": false, "error": {"kind": "os"}}'), "no report from the engine"),
    ],
)
def test_anything_else_voids_the_run(outcome: CommandResult, why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        read_report(outcome, "write")


def test_stages_run_in_order_with_a_cold_cache_where_needed() -> None:
    log: list[str] = []

    def answer(argv: Sequence[str]) -> CommandResult:
        log.append(f"run {argv[-1]}")
        return result(0, json.dumps(GOOD))

    client, engine = install(answer)
    report = run_once(engine, "r-1", 7, lambda: log.append("cold"))
    assert log == ["run write", "cold", "run read"]
    assert report.cpu_s == 1.0
    assert client.runs == ["r-1-stage1", "r-1-stage2"]
    assert client.files["/srv/x/workloads.pyz"]
    assert json.loads(client.files["/srv/x/workload.json"])["name"] == "small"
    assert not any("clean" in argv for argv in client.commands)


def test_failed_and_interrupted_runs_are_cleaned_up() -> None:
    def interrupted(argv: Sequence[str]) -> CommandResult:
        if "run" in argv:
            raise KeyboardInterrupt
        return result(0, "{}")

    def failing(argv: Sequence[str]) -> CommandResult:
        return result(3, json.dumps(BAD)) if "run" in argv else result(0, "{}")

    for answer, kind in ((failing, WorkloadError), (interrupted, KeyboardInterrupt)):
        client, engine = install(answer)
        with pytest.raises(kind):
            run_once(engine, "r-1", 7, nothing)
        assert client.commands[-2] == [*KILL, "r-1", DIRECTORY]
        assert client.commands[-1][2:] == ["clean", "--dir", "/afs/volume", "--run-id", "r-1"]


def test_a_run_that_hangs_is_void_but_an_unreachable_client_is_a_testbed_error() -> None:
    def hangs(argv: Sequence[str]) -> CommandResult:
        raise CommandTimeout("client1", argv, "no end")

    def unreachable(argv: Sequence[str]) -> CommandResult:
        raise TransportError("client1: node client1 is not running")

    _, engine = install(hangs)
    with pytest.raises(WorkloadError, match=r"stage write: not finished within \d+ s"):
        run_once(engine, "r-1", 7, nothing)
    _, engine = install(unreachable)
    with pytest.raises(TestbedError, match="not running"):
        run_once(engine, "r-1", 7, nothing)


def test_leftovers_are_found_by_prefix_only() -> None:
    hidden = ".fstune-abc-3\n.fstune-abd\n"
    listing = f"{hidden}fstune-abc-1-0\nfstune-abc-2-1\nfstune-xabc-1\nabc-3\nfstune-ab\nother\n"
    client, engine = install(lambda argv: result(0, listing if "ls" in argv else "{}"))
    engine.clean_leftovers("abc")
    assert client.commands[0] == [*KILL, "abc", DIRECTORY]
    assert [argv[-1] for argv in client.commands[2:]] == ["abc-1-0", "abc-2-1", "abc-3"]


def test_leftovers_that_cannot_be_removed_are_named() -> None:
    error = json.dumps({"ok": False, "error": {"path": "/afs/volume/x", "message": "in use"}})
    answers = {"abc-1": result(3, error), "abc-2": result(0, "{}"), "abc-3": result(1, "", "bug")}

    def answer(argv: Sequence[str]) -> CommandResult:
        if "ls" in argv:
            return result(0, "fstune-abc-1\nfstune-abc-2\nfstune-abc-3\n")
        return answers.get(argv[-1], result(0, ""))

    _, engine = install(answer)
    assert engine.clean_leftovers("abc") == (
        "client1: /afs/volume/fstune-abc-1: not removed: /afs/volume/x: in use; remove it by hand",
        "client1: /afs/volume/fstune-abc-3: not removed: bug; remove it by hand",
    )


UNKNOWN = "client1: /afs/volume: not searched for what runs have left: "
BY_HAND = "; remove fstune-abc* there by hand"


@pytest.mark.parametrize(
    ("status", "stderr", "sentences"),
    [
        (0, "", ()),
        # No run has ever begun there.
        (2, "ls: cannot access '/afs/volume': No such file or directory\n", ()),
        (
            2,
            "ls: cannot open directory '/afs/volume': Permission denied\n",
            (
                f"{UNKNOWN}ls: cannot open directory '/afs/volume': Permission denied{BY_HAND}",
                "client1: /afs/volume/fstune-abc-1: not removed: denied; remove it by hand",
            ),
        ),
    ],
)
def test_a_directory_that_cannot_be_listed_is_named(
    status: int, stderr: str, sentences: tuple[str, ...]
) -> None:
    def answer(argv: Sequence[str]) -> CommandResult:
        if "ls" in argv:
            assert argv[:2] == ["env", "LC_ALL=C"]  # the message is recognized
            return result(status, "fstune-abc-1\n" if sentences else "", stderr)
        return result(1, "", "denied") if "clean" in argv else result(0, "")

    _, engine = install(answer)
    assert engine.clean_leftovers("abc") == sentences


@pytest.mark.parametrize("program", ["ls", "/srv/x/end_runs.py", "clean"])
def test_a_client_that_does_not_answer_is_named_with_the_directory(program: str) -> None:
    def answer(argv: Sequence[str]) -> CommandResult:
        if program in argv:
            raise TransportError("client1: no answer")
        return result(0, "fstune-abc-1\n" if "ls" in argv else "")

    _, engine = install(answer)
    expected = f"{UNKNOWN}client1: no answer{BY_HAND}"
    if program == "clean":
        expected = (
            "client1: /afs/volume/fstune-abc-1: not removed: client1: no answer; remove it by hand"
        )
    assert engine.clean_leftovers("abc") == (expected,)


@pytest.mark.parametrize(
    ("problem", "tries"), [(TransportError("client1: no answer"), 1), (TestbedError("in use"), 2)]
)
def test_a_client_that_hangs_is_asked_to_remove_files_only_once(
    problem: TestbedError, tries: int
) -> None:
    def answer(argv: Sequence[str]) -> CommandResult:
        if "clean" in argv:
            raise problem
        return result(0, "fstune-abc-1\nfstune-abc-2\n" if "ls" in argv else "")

    client, engine = install(answer)
    sentences = engine.clean_leftovers("abc", 60.0)
    assert [sentence.split(":")[1] for sentence in sentences] == [
        " /afs/volume/fstune-abc-1",
        " /afs/volume/fstune-abc-2",
    ]
    assert sum("clean" in argv for argv in client.commands) == tries


@pytest.mark.parametrize(("within_s", "limit_s"), [(20.0, 20.0), (180.0, 60.0)])
def test_a_client_that_hangs_is_searched_no_longer_than_allowed(
    within_s: float, limit_s: float
) -> None:
    client, engine = install(lambda argv: result(0, ""))
    engine.clean_leftovers("abc", within_s)
    assert "ls" in client.commands[-1]
    assert client.limits[-1] == limit_s


def test_without_time_nothing_is_removed_and_it_is_named() -> None:
    client, engine = install(lambda argv: result(0, "fstune-abc-1\n" if "ls" in argv else ""))
    assert engine.clean_leftovers("abc", 0.0) == (
        "client1: /afs/volume/fstune-abc-1: not removed for lack of time; remove it by hand",
    )
    assert not any("clean" in argv for argv in client.commands)


def test_directories_with_names_that_no_run_has_are_left_alone() -> None:
    listing = "fstune-abc-x.y\nfstune-abc-1\n"
    client, engine = install(lambda argv: result(0, listing if "ls" in argv else "{}"))
    assert engine.clean_leftovers("abc") == ()
    assert [argv[-1] for argv in client.commands if "clean" in argv] == ["abc-1"]


@pytest.mark.parametrize("name", ["no-such-workload", "/no/such/file.yaml"])
def test_an_unknown_workload_is_a_spec_error(name: str) -> None:
    with pytest.raises(SpecError, match="workload"):
        load_workload(name)
