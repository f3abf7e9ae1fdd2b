"""The supervisor as a host runs it: a real python3 that reads the program from standard input."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import pytest

from tests.waiting import wait_for
from tuner.hosts import supervisor
from tuner.hosts.connector import OUTPUT_LIMIT_BYTES
from tuner.hosts.exchange import BOOTSTRAP, Answer, AnswerReader, Request

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


class Asking:
    """A running supervisor, and our end of the connection to it."""

    def __init__(self, do: str, content: bytes = b"", beat_s: float = 30.0, **fields: Any) -> None:
        self.reader = AnswerReader()
        self.encoded = Request(do, beat_s, fields, content).encode(self.reader.mark)
        self.process = subprocess.Popen(
            BOOTSTRAP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *problem: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def send(self, data: bytes | None = None) -> Asking:
        view = memoryview(self.encoded if data is None else data)
        while view:
            view = view[os.write(self.stdin.fileno(), view) :]
        return self

    def ask_again(self, do: str, content: bytes = b"", **fields: Any) -> Answer:
        """Send another request over the same connection, and return its answer."""
        self.reader = AnswerReader()
        return self.send(
            Request(do, 30.0, fields, content).encode(self.reader.mark, first=False)
        ).answer()

    def answer(self) -> Answer:
        assert self.process.stdout is not None
        while True:
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, "no answer"
            answer = self.reader.feed(data)
            if answer is not None:
                return answer


def ask(do: str, content: bytes = b"", **fields: Any) -> Answer:
    with Asking(do, content, **fields) as asking:
        return asking.send().answer()


def run(*argv: str, content: bytes = b"", timeout_s: float = PATIENCE_S) -> Answer:
    return ask("run", content, argv=argv, timeout_s=timeout_s)


def run_fields(directory: Path, argv: tuple[str, ...]) -> dict[str, Any]:
    return {
        "directory": str(directory / "runs-{uid}"),
        "run_id": "one",
        "argv": argv,
        "timeout_s": PATIENCE_S,
        "wait_s": PATIENCE_S,
        "boot_id": supervisor.boot_id(),
        "known": False,
    }


def attend(directory: Path, *argv: str, content: bytes = b"", **changes: Any) -> Answer:
    fields = run_fields(directory, argv)
    return ask(changes.pop("do", "attend"), content, **(fields | changes))


def place(directory: Path) -> Path:
    return directory / f"runs-{os.geteuid()}" / "one"


def test_status_input_and_both_outputs() -> None:
    content = bytes(range(256)) * 3000
    answer = run("sh", "-c", "cat; echo no >&2; exit 137", content=content)
    assert (answer.ended, answer.status) == ("exit", 137)
    assert (answer.stdout, answer.stderr) == (content, b"no\n")


@pytest.mark.parametrize(
    ("argv", "status", "stderr"),
    [
        (["sh", "-c", "kill -KILL $$"], -9, b""),
        (["/nonexistent/program"], 127, b"/nonexistent/program: not found\n"),
        (["/etc"], 126, b"/etc: [Errno 13] Permission denied: b'/etc'\n"),
    ],
)
def test_how_commands_end(argv: list[str], status: int, stderr: bytes) -> None:
    answer = run(*argv)
    assert (answer.ended, answer.status, answer.stderr) == ("exit", status, stderr)


def test_arguments_are_not_touched() -> None:
    words = ["", "a b", "it's", "$(reboot)", "a\nb", "-n", "é", "\udcff", "*"]
    answer = run("printf", "%s\\0", *words)
    assert answer.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1] == words


def test_signals_and_messages_are_as_programs_expect_them() -> None:
    ignored = run("grep", "SigIgn", "/proc/self/status").stdout.split()[1]
    assert int(ignored, 16) & (1 << (signal.SIGPIPE - 1)) == 0
    environment = run("env").stdout.decode().split("\n")
    assert {"LANG=C", "LC_ALL=C.UTF-8"} <= set(environment)


PYTHON = ("python3", "-I", "-S")
#: Prints all that a program can see of how it was started.
STARTED = """
import os, signal, sys
print(sys.argv, __name__, __file__, sys.stdin.read(), os.getpid() == os.getsid(0), os.getcwd())
print(os.readlink("/proc/self/exe"), sys.flags.isolated, sys.flags.no_site, sys.path)
print(sorted(map(int, os.listdir("/proc/self/fd")))[:-1])
print([signal.getsignal(n) for n in (signal.SIGCHLD, signal.SIGHUP, signal.SIGPIPE)])
print(sys.stdin.encoding, sys.stdout.encoding, os.environ["LC_ALL"])
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file for the source of a program."""
    return tmp_path / "program.py"


def test_a_python_program_runs_as_another_interpreter_would_run_it(source: Path) -> None:
    source.write_text(STARTED)
    words, content = (str(source), "a b", "é", "-c"), "ü\n".encode()
    expected = run("env", *PYTHON, *words, content=content)
    assert expected.status == 0
    for _ in range(2):
        assert run(*PYTHON, *words, content=content) == expected


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit(-1)", 255),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit('no')", 1),
        ("import os; os._exit(9)", 9),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("print(1)\nraise LookupError('no such')", 1),
        ("import nothing", 1),
        ("x = ", 1),
        (None, 2),
    ],
)
def test_it_ends_as_in_another_interpreter(source: Path, text: str | None, status: int) -> None:
    if text is not None:
        source.write_text(text)
    answer, expected = (run(*before, *PYTHON, str(source)) for before in ((), ("env",)))
    assert (answer.ended, answer.status, answer.stdout) == ("exit", status, expected.stdout)
    assert answer.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]


def test_a_python_program_runs_in_a_copy_of_the_supervisor(source: Path) -> None:
    """So it starts at once. Nothing of it is left to the next, which may have been changed."""
    source.write_text("import os, sys; print(os.getppid(), hasattr(sys, 'left')); sys.left = 1")
    fields: dict[str, Any] = {"argv": (*PYTHON, str(source)), "timeout_s": PATIENCE_S}
    with Asking("run", **fields) as asking:
        first = asking.send().answer()
        second = asking.ask_again("run", **fields)
        source.write_text("print('changed')")
        third = asking.ask_again("run", **fields)
        expected = f"{asking.process.pid} False\n".encode()
    assert (first.stdout, second.stdout, third.stdout) == (expected, expected, b"changed\n")


def test_a_python_program_and_its_children_are_killed_when_its_time_is_up(
    tmp_path: Path, source: Path
) -> None:
    source.write_text("""
import os, sys
child = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "600")
open(sys.argv[1], "w").write(f"{os.getpid()} {child}")
os.wait()
""")
    pids = tmp_path / "pids"
    answer = run(*PYTHON, str(source), str(pids), timeout_s=1.0)
    assert (answer.ended, answer.dead) == ("timeout", True)
    own, child = map(int, pids.read_text().split())
    wait_for(lambda: not alive(own) and not alive(child), "their end")


def test_a_run_can_be_hung_up_although_its_keeper_cannot(tmp_path: Path) -> None:
    ignored = attend(tmp_path, "grep", "SigIgn", "/proc/self/status").stdout.split()[1]
    assert int(ignored, 16) & (1 << (signal.SIGHUP - 1)) == 0


def test_system_programs_are_run_whatever_the_path_of_the_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python3").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run("echo", "here").stdout == b"here\n"


def test_a_command_and_its_children_are_killed_when_its_time_is_up() -> None:
    answer = run("sh", "-c", "sleep 100 & echo $! >&2; wait", timeout_s=0.5)
    assert (answer.ended, answer.dead, answer.stdout) == ("timeout", True, b"")


@pytest.mark.parametrize("where", ["", " >&2"])
def test_too_much_output_ends_the_command(where: str) -> None:
    answer = run("sh", "-c", f"cat /dev/zero{where}")
    assert (answer.ended, answer.stdout, answer.stderr) == ("too-large", b"", b"")


def test_output_up_to_the_limit_is_complete() -> None:
    answer = run("head", "-c", str(OUTPUT_LIMIT_BYTES), "/dev/zero")
    assert answer.stdout == bytes(OUTPUT_LIMIT_BYTES)
    assert run("head", "-c", str(OUTPUT_LIMIT_BYTES + 1), "/dev/zero").ended == "too-large"


def test_a_daemon_that_keeps_the_output_open_does_not_delay_the_answer() -> None:
    answer = run("sh", "-c", "echo up; setsid sleep 300 & echo $!")
    up, pid = answer.stdout.split()
    assert up == b"up"
    os.kill(int(pid), signal.SIGKILL)


def test_a_command_whose_caller_is_gone_is_killed(tmp_path: Path) -> None:
    argv = ["sh", "-c", 'echo $$ > "$1.new"; mv "$1.new" "$1"; sleep 100 & wait', "sh"]
    with Asking("run", argv=[*argv, str(tmp_path / "pid")], timeout_s=PATIENCE_S) as asking:
        asking.send()
        wait_for((tmp_path / "pid").exists)
        pid = int((tmp_path / "pid").read_text())
        assert alive(pid)
        asking.stdin.close()
        assert asking.process.wait(PATIENCE_S) == 0
    wait_for(lambda: not alive(pid))


def test_a_request_that_is_cut_off_does_nothing(tmp_path: Path) -> None:
    argv = ["touch", str(tmp_path / "ran")]
    with Asking("run", b"input", argv=argv, timeout_s=PATIENCE_S) as asking:
        asking.send(asking.encoded[:-1])
        asking.stdin.close()
        assert asking.process.wait(PATIENCE_S) == 0
    assert list(tmp_path.iterdir()) == []


def test_it_sends_signs_of_life() -> None:
    with Asking("run", beat_s=0.1, argv=["sleep", "100"], timeout_s=PATIENCE_S) as asking:
        asking.send()
        assert asking.process.stdout is not None
        output = b"".join(os.read(asking.process.stdout.fileno(), 1) for _ in range(3))
        asking.stdin.close()
        assert asking.process.wait(PATIENCE_S) == 0
    assert output == b"\n\n\n"


def test_a_run_is_started_once_however_often_it_is_requested(tmp_path: Path) -> None:
    argv = ["sh", "-c", 'echo ran >> "$1"; sleep 0.5; echo out; cat; exit 7', "sh"]
    argv.append(str(tmp_path / "count"))
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(attend, tmp_path, *argv, content=b"in") for _ in range(6)]
        answers = [one.result() for one in futures]
    assert {(a.ended, a.status, a.stdout) for a in answers} == {("exit", 7, b"out\nin")}
    assert attend(tmp_path, *argv, known=True).status == 7
    assert (tmp_path / "count").read_text() == "ran\n"
    assert [path.name for path in place(tmp_path).parent.iterdir()] == ["one"]
    assert place(tmp_path).stat().st_mode & 0o777 == 0o700
    assert attend(tmp_path, *argv, do="forget").ended == "forgotten"
    assert not place(tmp_path).exists()
    assert attend(tmp_path, *argv, known=True).ended == "unknown"
    assert attend(tmp_path, *argv, do="forget").ended == "forgotten"


def test_a_run_survives_the_end_of_its_request(tmp_path: Path) -> None:
    argv = ["sh", "-c", 'while [ ! -e "$1" ]; do sleep 0.05; done; echo out', "sh"]
    argv.append(str(tmp_path / "go"))
    assert attend(tmp_path, *argv, wait_s=0.0).ended == "running"
    assert attend(tmp_path, *argv, wait_s=0.1, known=True).ended == "running"
    (tmp_path / "go").touch()
    assert attend(tmp_path, *argv, known=True).stdout == b"out\n"


def test_a_run_that_somebody_else_removes_is_unknown(tmp_path: Path) -> None:
    argv = ["sleep", "100"]
    assert attend(tmp_path, *argv, wait_s=0.0).ended == "running"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(attend, tmp_path, *argv, known=True)
        wait_for((place(tmp_path) / "process").exists)
        assert attend(tmp_path, *argv, do="forget").ended == "forgotten"
        # The waiting request may have read the answer just before.
        assert waiting.result().ended in ("unknown", "exit")


def test_a_run_ends_when_its_time_is_up(tmp_path: Path) -> None:
    answer = attend(tmp_path, "sleep", "100", timeout_s=0.3)
    assert (answer.ended, answer.dead) == ("timeout", True)


def test_a_run_can_be_ended(tmp_path: Path) -> None:
    argv = ["sh", "-c", 'echo $$ > "$1.new"; mv "$1.new" "$1"; sleep 100', "sh"]
    argv.append(str(tmp_path / "pid"))
    assert attend(tmp_path, *argv, wait_s=0.0).ended == "running"
    wait_for((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    assert attend(tmp_path, *argv, do="forget").ended == "forgotten"
    assert not alive(pid)
    assert not place(tmp_path).exists()


def test_a_run_whose_keeper_was_killed_is_lost_and_ended(tmp_path: Path) -> None:
    assert attend(tmp_path, "sleep", "100", wait_s=0.0).ended == "running"
    wait_for((place(tmp_path) / "process").exists)
    pid = int((place(tmp_path) / "process").read_text().split()[0])
    status = Path(f"/proc/{pid}/status").read_text()
    keeper = int(status.partition("PPid:")[2].split()[0])
    os.kill(keeper, signal.SIGKILL)
    assert attend(tmp_path, "sleep", "100", known=True).ended == "lost"
    wait_for(lambda: not alive(pid))


def test_a_reboot_is_noticed(tmp_path: Path) -> None:
    assert attend(tmp_path, "true", boot_id="another").ended == "rebooted"
    assert not place(tmp_path).exists()
    assert attend(tmp_path, "true").status == 0
    record = place(tmp_path) / "request"
    record.write_text(json.dumps({"argv": ["true"], "boot_id": "an earlier one"}))
    assert attend(tmp_path, "true").ended == "rebooted"


def test_a_run_of_another_command_is_told_apart(tmp_path: Path) -> None:
    assert attend(tmp_path, "true").ended == "exit"
    assert attend(tmp_path, "false").ended == "other"


def test_greeting_returns_the_boot_identifier() -> None:
    answer = ask("greet")
    assert (answer.ended, answer.boot_id) == ("greeted", supervisor.boot_id())


def test_requests_are_answered_one_after_another() -> None:
    with Asking("run", argv=["sh", "-c", "cat; ulimit -n 20"], timeout_s=PATIENCE_S) as asking:
        assert asking.send().answer().ended == "exit"
        for content in (b"a\n\nb", b""):
            asking.send(b"\n")
            assert asking.process.stdout is not None
            assert os.read(asking.process.stdout.fileno(), 10) == b"\n"
            answer = asking.ask_again("run", content, argv=["cat"], timeout_s=PATIENCE_S)
            assert (answer.ended, answer.status, answer.stdout) == ("exit", 0, content)
        asking.stdin.close()
        assert asking.process.wait(PATIENCE_S) == 0


def test_many_requests_leave_no_descriptor_and_no_process_behind(tmp_path: Path) -> None:
    with Asking("run", argv=["true"], timeout_s=PATIENCE_S) as asking:
        assert asking.send().answer().ended == "exit"
        own = Path(f"/proc/{asking.process.pid}")
        before = sorted(path.name for path in (own / "fd").iterdir())
        for number in range(10):
            assert asking.ask_again("run", argv=["/none"], timeout_s=PATIENCE_S).status == 127
            assert asking.ask_again("run", argv=["sleep", "9"], timeout_s=0.01).ended == "timeout"
            fields = run_fields(tmp_path, ("true",)) | {"run_id": f"run-{number}"}
            assert asking.ask_again("attend", **fields).ended == "exit"
            assert asking.ask_again("forget", **fields).ended == "forgotten"
        wait_for(lambda: asking.ask_again("greet").ended == "greeted" and not children(own))
        assert sorted(path.name for path in (own / "fd").iterdir()) == before


def test_a_command_that_cannot_be_started_takes_nothing() -> None:
    with Asking("run", argv=["true"], timeout_s=PATIENCE_S) as asking:
        assert asking.send().answer().ended == "exit"
        pid = asking.process.pid
        before = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        for _ in range(3):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (before + 3, limits[1]))
            failed = asking.ask_again("run", argv=["true"], timeout_s=PATIENCE_S)
            assert (failed.ended, b"Too many open files" in failed.stderr) == ("failed", True)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            assert asking.ask_again("run", argv=["true"], timeout_s=PATIENCE_S).ended == "exit"
            assert len(list(Path(f"/proc/{pid}/fd").iterdir())) == before


def children(process: Path) -> list[str]:
    return (process / "task" / process.name / "children").read_text().split()
