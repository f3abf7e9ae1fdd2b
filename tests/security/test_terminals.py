"""Attack: a host, a server or a file writes to the user's terminal."""

from __future__ import annotations

import ast
import io
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from tuner.cli import app
from tuner.cli.say import plain, say
from tuner.errors import TestbedError
from tuner.report.testbed import commands_page, findings_page, hosts_page
from tuner.services.facts import HostFacts
from tuner.services.kind import Finding
from tuner.services.openafs.facts import ServerFacts

#: Clears the screen, sets the title, makes the terminal type, hides and reverses text.
ATTACK = "\x1b[2J\x1b]0;root\x07\x9b31m\u202e\x08\r\x00ok"
HARMLESS = set("\n\t")


def harmful(text: str) -> set[str]:
    return {c for c in text if not c.isprintable()} - HARMLESS


def test_an_error_rewrites_no_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise TestbedError(f"fs9: bos: exit status 1: {ATTACK}\nfstune: all is well")

    monkeypatch.setattr(app, "app", fails)
    with pytest.raises(SystemExit) as caught:
        app.main()
    message = capsys.readouterr().err
    assert caught.value.code == TestbedError.exit_code
    assert harmful(message) == set()
    assert message.count("\n") == 1


def test_facts_from_hosts_rewrite_no_screen() -> None:
    facts = HostFacts(
        ATTACK, ATTACK, ATTACK, 1, 1, 1, ATTACK, 0.0, 0.0, frozenset({ATTACK}), ((ATTACK, 1),)
    )
    names = frozenset({ATTACK, "bench"})
    programs = ServerFacts(ATTACK, (ATTACK,), names, names, 1, 1)
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=True, color_system=None)
    console.print(hosts_page(ATTACK, [facts], ATTACK, programs.lines()))
    console.print(findings_page([Finding(ATTACK, True, ATTACK)]))
    console.print(commands_page([(ATTACK, (ATTACK, ATTACK))]))
    assert harmful(out.getvalue()) == set()


def test_sentences_keep_their_lines_and_lose_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"a\n{ATTACK}\tb", nl=False)
    assert harmful(capsys.readouterr().out) == set()
    assert plain("a\nb\tc é 漢") == "a\nb\tc é 漢"


@pytest.mark.parametrize(
    ("command", "file", "key"),
    [
        ("space", "search_spaces/host-network.yaml", "title"),
        ("workload", "workloads/mixed-use.yaml", "description"),
    ],
)
def test_a_file_that_is_shown_rewrites_no_screen(
    root: Path, tmp_path: Path, command: str, file: str, key: str
) -> None:
    document = yaml.safe_load((root / file).read_text())
    document[key] = ATTACK
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump(document))
    result = CliRunner().invoke(app.app, [command, "show", str(own)])
    assert result.exit_code == 0
    assert "ok" in result.stdout.splitlines()[0]
    assert harmful(result.stdout) == set()


def test_the_command_line_prints_only_through_say(root: Path) -> None:
    """Checks ``tuner/cli``; ``rich`` gets only text that ``clean`` or ``plain`` has processed."""
    calls = []
    for path in sorted((root / "tuner" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "typer.echo",
                "typer.secho",
                "sys.stdout.write",
                "sys.stderr.write",
                "Text",
            ):
                calls.append(f"{path.name}:{node.lineno}")
    assert [where for where in calls if not where.startswith(("say.py:", "output.py:"))] == []
    assert sys.stdout is not None
