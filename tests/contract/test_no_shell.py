"""No command is built by formatting strings.

Commands are argument lists, and programs for a shell or another interpreter are constants.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tuner.hosts import exchange

ROOMS = ("api", "deploy", "search_spaces", "tuner", "workloads")
INTERPRETERS = {"sh", "bash", "dash", "ksh", "zsh", "python3", "perl", "awk", "eval"}
STRINGS_TO_SHELLS = {
    "os": {"system", "popen"},
    "subprocess": {"getoutput", "getstatusoutput"},
    "asyncio": {"create_subprocess_shell"},
}
#: The only module that passes strings to a remote login shell: these attributes.
SPEAKS_SSH = Path("tuner/hosts/ssh.py")
COMMAND_LINES = {"_command": "BOOTSTRAP", "_conversation": "CONVERSATION"}
#: Modules that run a script from a field.
RUN_SCRIPTS_OF_A_FIELD = ("tuner/measure/diagnostics/probe.py",)
#: Modules with such scripts, and their names; each is built from constants only.
CONSTANT_ALL_THE_SAME = {
    "tuner/measure/diagnostics/probe.py": ("GLANCE", "REST", "COMMON"),
    "tuner/services/openafs/counters.py": ("_SERVER", "_CLIENT"),
}


def word(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.rpartition("/")[2]
    return None


def constants(tree: ast.Module) -> set[str]:
    """Names that the module binds to a literal."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def formatted(source: str) -> list[int]:
    """Lines that pass an interpreter a program that is not a constant, or a shell a string."""
    tree = ast.parse(source)
    constant_names = constants(tree)
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            words = [word(one) for one in node.elts]
            for at, argument in enumerate(words[:-1]):
                program = node.elts[at + 1]
                literal = isinstance(program, ast.Constant) or (
                    isinstance(program, ast.Name) and program.id in constant_names
                )
                if argument == "-c" and INTERPRETERS & set(words[:at]) and not literal:
                    lines.append(program.lineno)
        elif isinstance(node, ast.keyword) and node.arg == "shell":
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                lines.append(node.value.lineno)
        elif isinstance(node, ast.ImportFrom):
            if STRINGS_TO_SHELLS.get(node.module or "", set()) & {one.name for one in node.names}:
                lines.append(node.lineno)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in STRINGS_TO_SHELLS.get(node.value.id, set()):
                lines.append(node.lineno)
        elif isinstance(node, ast.JoinedStr):
            beginning = word(node.values[0]) if node.values else None
            if (
                beginning is not None
                and beginning.split(" ")[0] in INTERPRETERS
                and " -c" in beginning
            ):
                lines.append(node.lineno)
    return sorted(set(lines))


def is_command_line(call: ast.Call) -> bool:
    """Whether the command is one of ``COMMAND_LINES``."""
    match call.args:
        case [ast.Attribute(value=ast.Name(id="self"), attr=name)]:
            return name in COMMAND_LINES
    return False


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('run(["sh", "-c", f"rm {path}"])', [1]),
        ('run(["sh", "-c", "rm " + path])', [1]),
        ('run(["sh", "-c", "rm {}".format(path)])', [1]),
        ('run(["sh", "-c", script])', [1]),
        ('run([*enter, "/bin/bash", "-e", "-c", script])', [1]),
        ('run(("python3", "-I", "-c", f"print({x})"))', [1]),
        ('run(f"sh -c {script}".split())', [1]),
        ("run(x, shell=True)", [1]),
        ("run(x, shell=flag)", [1]),
        ("import os\nos.system(x)", [2]),
        ("from subprocess import getoutput", [1]),
        ('SCRIPT = "kill $1"\nrun(["sh", "-c", SCRIPT, "sh", pid])', []),
        ('run(["sh", "-c", \'kill "$@"\', "sh", *pids])', []),
        ('run(["grep", "-c", pattern, path])', []),
        ("run(x, shell=False)", []),
    ],
)
def test_a_formatted_command_is_recognised(source: str, lines: list[int]) -> None:
    assert formatted(source) == lines


def test_no_command_is_made_by_formatting(root: Path, repository_files: tuple[Path, ...]) -> None:
    modules = [name for name in repository_files if name.parts[0] in ROOMS and name.suffix == ".py"]
    assert len(modules) > 100
    hits = [f"{m}:{n}" for m in modules for n in formatted((root / m).read_text())]
    places = [place for place in hits if place.rpartition(":")[0] not in CONSTANT_ALL_THE_SAME]
    assert places == []
    assert {place.rpartition(":")[0] for place in hits} == set(RUN_SCRIPTS_OF_A_FIELD)


def test_scripts_passed_under_another_name_are_constants(root: Path) -> None:
    all_scripts = {script for scripts in CONSTANT_ALL_THE_SAME.values() for script in scripts}
    for name, scripts in CONSTANT_ALL_THE_SAME.items():
        tree = ast.parse((root / name).read_text())
        values = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for script in scripts:
            for node in ast.walk(values[script]):
                assert isinstance(node, ast.Constant | ast.BinOp | ast.Add | ast.Name | ast.Load)
                assert not isinstance(node, ast.Name) or node.id in all_scripts
        probe_scripts = [
            node.args[2]
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Probe"
        ]
        assert probe_scripts or name in RUN_SCRIPTS_OF_A_FIELD
        assert {ast.unparse(one) for one in probe_scripts} <= set(scripts)


def test_probes_are_made_where_their_scripts_are_looked_at(
    root: Path, repository_files: tuple[Path, ...]
) -> None:
    makers = {
        str(name)
        for name in repository_files
        if name.parts[0] in ROOMS and name.suffix == ".py"
        for node in ast.walk(ast.parse((root / name).read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Probe")
    }
    assert makers
    assert makers <= set(CONSTANT_ALL_THE_SAME)


def test_only_constants_go_to_a_login_shell(root: Path, repository_files: tuple[Path, ...]) -> None:
    calls = [
        (name, node)
        for name in repository_files
        if name.parts[0] in ROOMS and name.suffix == ".py"
        for node in ast.walk(ast.parse((root / name).read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("exec_command", "invoke_shell")
    ]
    assert {name for name, _ in calls} == {SPEAKS_SSH}
    assert [call.lineno for _, call in calls if not is_command_line(call)] == []
    text = (root / SPEAKS_SSH).read_text()
    for attribute, constant in COMMAND_LINES.items():
        assert text.count(f"self.{attribute} = ") == 1
        assert f"self.{attribute} = quote([*self._sudo, *{constant}])\n" in text
        words = getattr(exchange, constant)
        # What every login shell reads alike, csh too.
        assert not [one for one in words if set(one) & set("'!\n\\")]
