"""Commands on search spaces: parameters, their limits, and the reasons for them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Annotated

import typer
from rich.table import Table

import search_spaces
from search_spaces import (
    Chance,
    Expression,
    ExpressionError,
    Form,
    Parameter,
    Role,
    Space,
    SpaceError,
    describe,
    draw,
)
from tuner.cli import completion
from tuner.cli.output import AsJson, list_rows, say_wrapped
from tuner.cli.say import say
from tuner.errors import SpecError
from tuner.report.listing import Column, output
from tuner.report.styles import QUIET, literal

app = typer.Typer(
    no_args_is_help=True,
    help="Search spaces: which settings there are, their limits, and what they mean.",
)

#: Maximum number of configurations for 'space sample', which prints them as it draws them.
_MOST_DRAWS = 1_000_000
#: Number of configurations that 'space check' draws and checks against the rules.
_DRAWS_TO_CHECK = 500

Name = Annotated[
    str,
    typer.Argument(help="A space's name, or a file of your own.", autocompletion=completion.spaces),
]


@contextmanager
def _reported() -> Iterator[None]:
    """Convert errors of search spaces to SpecError."""
    try:
        yield
    except (SpaceError, ExpressionError) as problem:
        raise SpecError(str(problem)) from problem


@app.command("list")
def list_spaces(as_json: AsJson = False) -> None:
    """List the search spaces that are installed."""
    with _reported():
        spaces = [*search_spaces.installed().values()]
    if as_json:
        documents = [
            {
                "name": s.name,
                "part": s.part,
                "program": s.program,
                "versions": s.versions,
                "searched": len(s.searched),
                "parameters": len(s.parameters),
                "title": s.title,
                "for": [str(use) for use in s.uses],
            }
            for s in spaces
        ]
        say(json.dumps(documents, indent=2, ensure_ascii=False))
        return
    columns = (
        Column("name", rigid=True),
        Column("part", rigid=True),
        Column("searched", rigid=True, right=True),
        Column("for"),
        Column("title"),
    )
    rows = [
        (
            s.name,
            s.part,
            f"{len(s.searched)} of {len(s.parameters)}",
            ", ".join(s.uses),
            s.title,
        )
        for s in spaces
    ]
    list_rows(columns, rows)


@app.command("show")
def show_space(name: Name, as_json: AsJson = False) -> None:
    """Show a space: its parameters, rules and published configurations."""
    with _reported():
        space = search_spaces.load(name)
    if as_json:
        say(json.dumps(describe.document(space), indent=2, ensure_ascii=False))
        return
    say_wrapped(f"{space.name}: {space.title}")
    say_wrapped(f"part {space.part}; program {space.program}, {space.versions}")
    say_wrapped(f"for {describe.purpose(space)}")
    if space.evidence:
        say_wrapped(f"evidence: {space.evidence}")
    say_wrapped("")
    columns = (
        Column("parameter", rigid=True),
        Column("written", rigid=True),
        Column("proposed"),
        Column("default", rigid=True),
        Column("searched", rigid=True),
    )
    list_rows(columns, [_row(parameter) for parameter in space.parameters])
    if space.constraints:
        say_wrapped("\nrules:")
        for constraint in space.constraints:
            say_wrapped(f"  {constraint.rule.text}: otherwise {constraint.why}")
    if space.presets:
        say_wrapped("\npublished configurations:")
        for preset in space.presets:
            say_wrapped(f"  {preset.name}: {preset.options or 'nothing set'} ({preset.source})")
    one = f"{shlex.quote(name)} {space.parameters[0].name}"
    say_wrapped(f"\none parameter in full: fstune space explain {one}")


@app.command("check")
def check(
    file: Annotated[
        str | None, typer.Argument(help="A space of your own; without it, all that are installed.")
    ] = None,
) -> None:
    """Check that a space file is valid, and that configurations drawn from it are, too."""
    for name in search_spaces.names() if file is None else [file]:
        with _reported():
            space = search_spaces.load(name)
            _check_draws(space)
        say(
            f"{name}: valid; {len(space.parameters)} parameters, {len(space.searched)} searched, "
            f"{_DRAWS_TO_CHECK} configurations drawn, all valid"
        )


@app.command("sample")
def sample(
    name: Name,
    number: Annotated[
        int, typer.Option("-n", "--number", min=1, max=_MOST_DRAWS, help="How many.")
    ] = 5,
    seed: Annotated[int, typer.Option(help="The same seed draws the same configurations.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Draw configurations from a space, as settings for a host as the space assumes it."""
    with _reported():
        space = search_spaces.load(name)
        ask = Chance(seed)
        for index in range(number):
            values = draw(space, ask)
            if not as_json:
                say("; ".join(space.lines(values)) or "# nothing set: the program's defaults")
                continue
            one = json.dumps({"values": values, "rendered": space.render(values)}, indent=2)
            say(("[\n" if index == 0 else ",\n") + one, nl=False)
    if as_json:
        say("\n]")


@app.command("explain", context_settings={"ignore_unknown_options": True})
def explain(
    name: Name,
    parameter: Annotated[
        str, typer.Argument(help="A parameter of the space.", autocompletion=completion.parameters)
    ],
) -> None:
    """Explain one parameter: what it does, its limits, and the sources."""
    with _reported():
        entry = search_spaces.load(name)[parameter]
    say_wrapped(f"{entry.name}: {entry.about}")
    say_wrapped("")
    details = [(label, text.replace("`", "")) for label, text in describe.details(entry)]
    console = output()
    if console.is_terminal:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for label, text in details:
            grid.add_row(literal(label, QUIET), literal(text))
        console.print(grid)
    else:
        width = max(len(label) for label, _ in details)
        say("\n".join(f"{label:<{width}}  {text}" for label, text in details))


@app.command("parse", context_settings={"ignore_unknown_options": True})
def parse(
    command: Annotated[
        str,
        typer.Argument(metavar="COMMAND_LINE", help="In quotes; also as in a configuration file."),
    ],
    space: Annotated[
        str | None, typer.Option(help="The space; not needed if the line begins with its program.")
    ] = None,
) -> None:
    """Print the configuration that a command line means, and what is wrong with it."""
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise SpecError(f"{command!r} is not a command line: {problem}") from None
    from tuner.services.kinds import programs

    if words and words[0] in {program.lead for program in programs().values()}:
        del words[0]
    with _reported():
        search_space = search_spaces.load(space if space is not None else _space_of(words))
        _refuse_other_program(search_space, words)
        parsed = search_space.parse(words)
        say(f"space: {search_space.name}")
        for parameter in search_space.parameters:
            if parameter.name in parsed.values:
                value = describe.text_of(parsed.values[parameter.name])
                say(f"{parameter.name} = {value}")
        if parsed.rest:
            say(f"not searched: {shlex.join(parsed.rest)}")
        if not parsed.values and not parsed.rest:
            say("nothing set: the program's defaults")
        for line in search_space.lines(parsed.values):
            say(f"in full: {line}")
        for sentence in search_space.violations(parsed.values):
            say(f"caution, on the host that the space assumes: {sentence}")


def _space_of(words: list[str]) -> str:
    """Return the newest search space for the program that a command line begins with."""
    program = PurePosixPath(words[0]).name if words else ""
    names = [n for n, space in search_spaces.installed().items() if space.program == program]
    if not names:
        raise SpaceError(
            f"{program!r} is not a program of any space; name a space with --space "
            f"(see 'fstune space list')"
        )
    return names[-1]


def _refuse_other_program(space: Space, words: list[str]) -> None:
    """Raise SpaceError for a command line that begins with the path of another program: it would be
    read as the value of an option.
    """
    has_options = space.form in (Form.LIBCMD, Form.EXACT)
    if not has_options or not words or not words[0].startswith("/"):
        return
    program = PurePosixPath(space.program).name
    if PurePosixPath(words[0]).name != program:
        raise SpaceError(
            f"{words[0]!r} is not {program}, the program of {space.name}; leave it out if the rest "
            f"are options of {program}"
        )


def _check_draws(space: Space) -> None:
    ask = Chance(1)
    for _ in range(_DRAWS_TO_CHECK):
        values = draw(space, ask)
        line = "; ".join(space.lines(values))
        if wrong := space.violations(values):
            raise SpaceError(f"{space.name}: {line!r} was drawn, but is not valid: {wrong[0]}")
        if space.parse(space.render(values)).values != values:
            raise SpaceError(f"{space.name}: {line!r} was drawn, but is read as something else")


def _row(parameter: Parameter) -> tuple[str, ...]:
    role = "no" if parameter.role is Role.HELD else str(parameter.risk)
    default = parameter.defaults["none"]
    why_not = "control" if parameter.role is Role.CONTROL else role
    return (
        parameter.name,
        " | ".join(parameter.flags),
        f"{describe.sensible(parameter)} {parameter.unit}".strip(),
        "computed" if isinstance(default, Expression) else describe.text_of(default),
        "yes" if parameter.searched else why_not,
    )
