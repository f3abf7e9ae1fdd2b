"""``fstune init``: the first campaign file, and the testbed file that it needs.

Owns the questions common to all campaigns. Each kind of service defines its own additional
questions; every question becomes an option here.
"""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

import search_spaces
import workloads
from search_spaces import Risk, Space
from tuner.cli.campaign import refusal
from tuner.cli.interview import Asker
from tuner.cli.options import StateDir, state_directory
from tuner.cli.say import say
from tuner.compose import Prepared, prepare
from tuner.documents import Duration, checked_name, meant
from tuner.errors import ConflictError, NotFoundError, SpecError, StoreError
from tuner.measure.workload import load_workload
from tuner.new_file import prepared_files, put_in_place
from tuner.plan.answer import AT_STAKE
from tuner.report.listing import output, show
from tuner.report.testbed import findings_page
from tuner.services.kind import Rehearsal
from tuner.services.kinds import starts
from tuner.services.start import Choice, Draft, Question, Start
from tuner.spec.campaign import read_spec
from tuner.spec.first_file import SHORT_S, FirstFile, harmless_presets, risks_of

_START = Question("start", "What should be tuned?", "You can start over at any time.")
_TIME = Question(
    "time",
    "How long may it measure (30m, 6h, 2d)?",
    "With more time, smaller gains can be shown; it can be interrupted and resumed.",
)
_WORKLOAD = Question(
    "workload",
    "Which workload should become faster?",
    "Settings are judged by it; 'fstune workload list' says what each one does.",
)
_PRESETS = Question(
    "presets",
    "First try settings that others have published (yes, no)?",
    "They cost a block each and often give the search a good start.",
    "yes",
)
_RISK = Question(
    "allow-risk",
    "Which risk classes may be searched, in addition to performance alone?",
    "Leave it at none unless you would use such a setting.",
    "none",
)


@dataclass(frozen=True, slots=True)
class _Files:
    """Where to write the files. ``replace``: existing files may be replaced."""

    campaign: Path
    testbed: Path
    replace: bool

    def free(self, asker: Asker, file: Path) -> bool:
        """Whether an existing file may be replaced. Raises ConflictError if it must not be."""
        if not file.exists() or self.replace:
            return self.replace
        if asker.sure(f"{file} exists. Replace it?"):
            return True
        raise ConflictError(f"{file} exists; name a new file, or give --force to replace it")


def _init(files: _Files, asker: Asker, directory: Path, name: str | None) -> None:
    replace = {files.campaign.name: files.free(asker, files.campaign)}
    start = asker.ask(_START, lambda word: _start(word, directory), **_offer(directory))
    _refuse_options_of_others(asker, start)
    beginning = start.begin(asker, files.testbed, directory)
    if beginning.file is not None:
        replace[files.testbed.name] = files.free(asker, files.testbed)
    first_file, choices = _fill(beginning, asker, _checked_name(name))
    texts = {files.campaign.name: first_file.text()}
    if beginning.file is not None:
        texts[files.testbed.name] = beginning.file
    with prepared_files(texts, files.campaign.parent) as place:
        prepared, rehearsals = _checked(place / files.campaign.name, directory, asker)
        put_in_place(place, replace, files.campaign.parent)
    _tell(files, [Choice("start", start.name, start.title), *beginning.choices, *choices], texts)
    _tell_next(files.campaign, prepared, rehearsals)


def _checked_name(name: str | None) -> str | None:
    """Return the name of the campaign, if there is one. Raises SpecError."""
    try:
        checked_name(name)
    except ValueError as problem:
        raise SpecError(f"--name: {problem}") from None
    return name


def _offer(directory: Path) -> dict[str, Any]:
    """Return the arguments of the question for a start: their descriptions, and the default."""
    lines, default = [], None
    for name, start in starts().items():
        why_not = start.unavailable(directory)
        if default is None and why_not is None and not start.needs_answers:
            default = name
        lines.append(f"{name}: {start.title}" + (f" (not here: {why_not})" if why_not else ""))
    return {"default": default, "known": "\n  ".join([*lines, ""])}


def _start(word: str, directory: Path) -> Start:
    all_starts = starts()
    if word not in all_starts:
        raise ValueError(f"{word!r}: choose one of {', '.join(all_starts)}")
    if (why_not := all_starts[word].unavailable(directory)) is not None:
        raise ValueError(f"{word}: not possible on this machine: {why_not}")
    return all_starts[word]


def _refuse_options_of_others(asker: Asker, start: Start) -> None:
    """Raise SpecError for an option that only other starts use: it would be ignored."""
    for name, other in starts().items():
        for question in other.questions:
            if asker.is_answered(question) and question not in start.questions:
                raise SpecError(
                    f"--{question.name} belongs to --start {name}, not to --start {start.name}"
                )


def _fill(beginning: Draft, asker: Asker, name: str | None) -> tuple[FirstFile, list[Choice]]:
    """Ask the questions common to all campaigns."""
    time_s, time = asker.ask(_TIME, _duration, default=beginning.wall_time)
    short = time_s < SHORT_S
    workload = asker.ask(
        _WORKLOAD,
        _workload,
        default=beginning.workload,
        known=f"Packaged: {', '.join(workloads.packaged())}.",
    )
    spaces = {part: search_spaces.load(keys["name"]) for part, keys in beginning.spaces.items()}
    guesses = {part: harmless_presets(space, short=short) for part, space in spaces.items()}
    presets = guesses if any(guesses.values()) and asker.ask(_PRESETS, _yes) else {}
    risks = _ask_risks(spaces, asker)
    choices = [
        Choice("time", time, "the pilot at the beginning reports how small a gain this can show"),
        Choice("workload", workload, "the answer is about what it measures"),
        Choice(
            "presets",
            "; ".join(f"{part}: {', '.join(each)}" for part, each in presets.items() if each)
            or "none",
            "published settings are tried first, only those that put nothing but speed at stake",
        ),
        Choice(
            "risk classes",
            ", ".join(sorted({each for several in risks.values() for each in several}))
            or "performance alone",
            "settings of other classes stay as they are unless --allow-risk allows them",
        ),
    ]
    first_file = FirstFile(
        name=name or beginning.name,
        section=beginning.section,
        description=beginning.description,
        spaces=beginning.spaces,
        workload=workload,
        wall_time=time,
        wall_time_s=time_s,
        presets=presets,
        risks=risks,
    )
    return first_file, choices


def _duration(text: str) -> tuple[float, str]:
    try:
        return TypeAdapter(Duration).validate_python(text), text.strip()
    except ValidationError as problem:
        message = problem.errors()[0]["msg"].removeprefix("Value error, ")
        raise ValueError(f"{text!r}: {message}") from None


def _workload(text: str) -> str:
    """Return the name of a packaged workload, or the absolute path of a workload file."""
    if text not in workloads.packaged() and not Path(text).exists():
        hint = meant(text, workloads.packaged())
        raise ValueError(
            f"workload {text}: no workload and no file {text!r}; see 'fstune workload list'{hint}"
        )
    try:
        load_workload(text)
    except SpecError as problem:
        raise ValueError(str(problem)) from None
    return text if text in workloads.packaged() else str(Path(text).absolute())


def _yes(text: str) -> bool:
    words = {"yes": True, "y": True, "no": False, "n": False}
    if text.lower() not in words:
        raise ValueError(f"{text!r}: write yes or no")
    return words[text.lower()]


def _ask_risks(spaces: Mapping[str, Space], asker: Asker) -> dict[str, list[str]]:
    of = {part: risks_of(space) for part, space in spaces.items()}
    there = [risk for risk in Risk if any(risk in each for each in of.values())]
    if not there:
        return {}

    def read(text: str) -> list[Risk]:
        words = text.replace(",", " ").split()
        wrong = [word for word in words if word not in [*map(str, there), "none"]]
        if wrong:
            names = ", ".join(map(str, there))
            raise ValueError(f"{wrong[0]!r}: choose from {names}, or none")
        return [risk for risk in there if str(risk) in words]

    risks_text = "\n  ".join([*(f"{risk}: {AT_STAKE[risk]}" for risk in there), ""])
    allowed = asker.ask(_RISK, read, known=risks_text)
    return {part: [str(r) for r in each if r in allowed] for part, each in of.items()}


def _checked(
    file: Path, directory: Path, asker: Asker
) -> tuple[Prepared, list[tuple[Rehearsal, str | None]]]:
    """Read the campaign as ``fstune run`` does, and check its hosts as ``fstune campaign check``.

    Returns each rehearsal with the reason why the campaign would be refused there, if any.
    """
    spec = read_spec(file)
    prepared = prepare(spec, directory)
    rehearsals = []
    for section in spec.sections:
        if section.type.hosts(section.section):
            asker.doing("checking the files against the hosts")
        rehearsal = section.type.rehearse(section.section, prepared.needs, directory)
        if rehearsal is not None:
            rehearsals.append((rehearsal, refusal(rehearsal, prepared)))
    return prepared, rehearsals


def _tell(files: _Files, choices: Sequence[Choice], texts: Mapping[str, str]) -> None:
    say("\nChosen")
    width = max(len(choice.what) for choice in choices)
    for choice in choices:
        say(f"  {choice.what:{width}}  {choice.value}")
        say(f"  {'':{width}}  {choice.why}")
    names = " and ".join(str(files.campaign.parent / name) for name in texts)
    say(f"\nWrote {names}; both may be edited." if len(texts) > 1 else f"\nWrote {names}.")


def _tell_next(
    campaign: Path, prepared: Prepared, rehearsals: Sequence[tuple[Rehearsal, str | None]]
) -> None:
    console = output()
    for rehearsal, _ in rehearsals:
        show(console, findings_page(rehearsal.findings))
    file = shlex.quote(str(campaign))
    reasons = [reason for _, reason in rehearsals if reason is not None]
    if reasons:
        say("\nA campaign would be refused now, for the reasons above. When they are fixed:")
        say(f"  fstune campaign check {file}")
        return
    say("\nNext:")
    if rehearsals:
        say(f"  fstune campaign check {file}    # every command that would change something")
    say(f"  fstune run {file}")


def _questions() -> list[Question]:
    """Return all questions that may be asked, each once."""
    of_starts = (question for start in starts().values() for question in start.questions)
    every = [_START, _TIME, _WORKLOAD, _PRESETS, _RISK, *of_starts]
    return list({question.name: question for question in every}.values())


def init(**options: Any) -> None:
    """Write a first campaign file, and its testbed file, after a few questions.

    Every question can also be answered by an option; with --yes nothing is asked, and each choice
    is printed with its reason. Hosts are only read. The files are checked as by 'fstune run', and
    no existing file is replaced without asking.
    """
    file, yes = options["file"], options["yes"]
    if not file.parent.is_dir():
        raise NotFoundError(f"{file}: there is no directory {file.parent}")
    if not os.access(file.parent, os.W_OK):  # told before the questions, not after them
        raise StoreError(f"{file.parent}: cannot be written")
    if file.suffix not in (".yaml", ".yml"):
        raise SpecError(f"{file}: name a file that ends in .yaml")
    person = not yes and sys.stdin.isatty()
    if not yes and not person:
        raise SpecError("standard input is not a terminal; answer with options, and give --yes")
    answers = {
        question.name: value
        for question in _questions()
        if (value := options[_identifier(question)]) is not None
    }
    testbed_file = file.with_name(f"{file.stem}-testbed{file.suffix}")
    files = _Files(file, testbed_file, options["force"])
    directory = state_directory(options["state_dir"])
    _init(files, Asker(answers, person=person), directory, options["name"])


def _identifier(question: Question) -> str:
    return question.name.replace("-", "_")


def _parameters() -> list[inspect.Parameter]:
    """Return the parameters of the command: the common ones, and an option per question."""
    parameters: list[tuple[str, Any, Any]] = [
        (
            "file",
            Annotated[
                Path,
                typer.Argument(
                    help="The campaign file to write; a testbed file, if it needs one, is "
                    "written next to it."
                ),
            ],
            Path("campaign.yaml"),
        ),
        (
            "name",
            Annotated[str | None, typer.Option("--name", help="Name of the campaign.")],
            None,
        ),
    ]
    for question in _questions():
        words = f" One of: {', '.join(starts())}." if question is _START else ""
        default = f" Default: {question.default}." if question.default else ""
        option = typer.Option(
            f"--{question.name}",
            help=f"{question.text}{words} {question.why}{default}",
            show_default=False,
        )
        parameters.append((_identifier(question), Annotated[str | None, option], None))
    asks_nothing = typer.Option("--yes", "-y", help="Ask nothing: use options and defaults.")
    replaces = typer.Option("--force", help="Replace existing files.")
    parameters += [
        ("yes", Annotated[bool, asks_nothing], False),
        ("force", Annotated[bool, replaces], False),
        ("state_dir", StateDir, None),
    ]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, annotation, default in parameters
    ]


def _with_signature(command: Callable[..., None], of: Sequence[inspect.Parameter]) -> None:
    """Set a command's signature, part of which is defined by the kinds of services."""
    command.__signature__ = inspect.Signature(of)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in of}


_with_signature(init, _parameters())
