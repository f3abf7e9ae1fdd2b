"""The connector to this machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tuner.hosts.connector import CommandFailed, CommandTimeout, OutputTooLarge
from tuner.hosts.local import LocalConnector

HERE = LocalConnector()


def test_a_command_has_input_two_outputs_and_a_status() -> None:
    done = HERE.run(["sh", "-c", "cat; echo no >&2; exit 3"], input=b"yes")
    assert (done.status, done.stdout, done.stderr) == (3, "yes", "no\n")
    assert HERE.run(["sh", "-c", "kill -TERM $$"]).status == -15
    assert HERE.run(["/nonexistent/program"]).status == 127
    assert HERE.run(["/etc"]).status == 126


def test_a_file_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    content = bytes(range(256)) * 20
    path = tmp_path / "a 'b'"
    HERE.put(str(path), content, mode=0o640)
    assert HERE.get(str(path)) == content
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(CommandFailed, match="No such file"):
        HERE.get(str(tmp_path / "missing"))
    with pytest.raises(CommandFailed):
        HERE.put(str(tmp_path / "missing" / "file"), content)


@pytest.mark.slow
def test_limits_of_time_and_size() -> None:
    started = time.monotonic()
    with pytest.raises(CommandTimeout, match=r"localhost: sleep 60: not finished after 0\.2 s"):
        HERE.run(["sleep", "60"], timeout_s=0.2)
    assert time.monotonic() - started < 50
    with pytest.raises(OutputTooLarge, match="head -c: it wrote more than 16 MiB"):
        HERE.run(["head", "-c", "20000000", "/dev/zero"])


def test_answers_are_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "de")  # LC_ALL does not override it, except for plain C
    environment = HERE.run(["env"]).stdout.splitlines()
    assert {"LC_ALL=C.UTF-8", "LANGUAGE="} <= set(environment)


def test_system_programs_are_there_for_cron_jobs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host would otherwise be changed, and restored, without them."""
    monkeypatch.setenv("PATH", "/opt/own::/usr/bin:/bin")
    (path,) = (line for line in HERE.run(["env"]).stdout.splitlines() if line.startswith("PATH="))
    own, *rest = path.removeprefix("PATH=").split(":")
    assert own == "/opt/own"
    assert {"/usr/sbin", "/sbin", "/usr/bin", "/bin"} <= set(rest)
    assert len(rest) == len(set(rest))
    assert "" not in rest  # that would be the current directory
