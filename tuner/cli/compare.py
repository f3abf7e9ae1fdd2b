"""``fstune compare``: samples of numbers from files, standard input or stored trials.

Owns the reading of such files, the interpretation of arguments, and the options. The loader of
stored trials is passed in.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Protocol

import typer

from tuner.cli.options import Database, StateDir
from tuner.cli.say import say
from tuner.errors import SpecError
from tuner.judge.ministat import CONFIDENCES, Edition
from tuner.judge.two_sample import MIN_VALUES
from tuner.report.compare import Sample, compare, compare_page
from tuner.report.compare_document import compare_document
from tuner.report.listing import output, show
from tuner.report.ministat import classic, classic_text
from tuner.report.plots import SYMBOLS
from tuner.text import counted

_REFERENCE: Final = re.compile(r"(?P<campaign>[^:/\s]+):(?P<trial>\d+)")
_CLASSIC_WIDTH: Final = 74
#: Limits of absolute values: measured quantities are within them, and their squares stay finite.
_SMALLEST, _LARGEST = 1e-100, 1e100
_MOST_LINES: Final = 5
_MOST_SHOWN: Final = 40
#: Enough for millions of numbers; stops reading of an endless device named by mistake.
_MOST_BYTES: Final = 64 << 20


class TrialLoader(Protocol):
    """Loads stored trials as samples."""

    def __call__(
        self, campaign: str, trial: int, state_dir: Path | None, database: str | None
    ) -> Sample:
        """Return the trial's geometric-mean time (s) in each of its complete blocks.

        The sample includes the blocks. ``state_dir``, ``database``: where the trial is stored, None
        for the default. Raises NotFoundError if there is no such campaign or trial.
        """


def compare_command(load_trial: TrialLoader) -> Callable[..., None]:
    """Return the command, which loads stored trials with `load_trial`."""

    def compare_(
        samples: Annotated[
            list[str],
            typer.Argument(
                metavar="SAMPLE",
                help="Files of numbers, one per line; - for standard input; CAMPAIGN:TRIAL for a "
                "stored trial. Each later one is compared with the first.",
                show_default=False,
            ),
        ],
        confidence: Annotated[
            float, typer.Option("-c", "--confidence", help="Confidence level in percent.")
        ] = 95.0,
        column: Annotated[
            int, typer.Option("-C", "--column", min=1, help="Column of the numbers in each file.")
        ] = 1,
        holm: Annotated[
            bool, typer.Option("--holm", help="One error rate for all comparisons together.")
        ] = False,
        plot: Annotated[bool, typer.Option(help="Draw the values.")] = True,
        json: Annotated[bool, typer.Option("--json", help="Print a JSON document.")] = False,
        ministat: Annotated[
            bool, typer.Option("--ministat", help="Answer as the classic ministat does.")
        ] = False,
        edition: Annotated[
            Edition,
            typer.Option(help="Which ministat to imitate; medians and percentages differ."),
        ] = Edition.OLD,
        separate: Annotated[
            bool, typer.Option("-s", "--separate", help="With --ministat: a line for each bar.")
        ] = False,
        state_dir: StateDir = None,
        database: Database = None,
    ) -> None:
        """Compare samples of numbers: how much do they differ, and is there evidence for it?"""
        _check_confidence(confidence, ministat)
        names = _checked(samples, ministat)

        def load(campaign: str, trial: int) -> Sample:
            return load_trial(campaign, trial, state_dir, database)

        numbers = [_sample(name, column, load) for name in names]
        result = None
        if ministat:
            result = classic(numbers, confidence=confidence, edition=edition, corrected=holm)
        if result is not None and not json:
            width = _classic_width()
            text = classic_text(result, plot=plot, width=width, separate=separate)
            say(text, nl=False)
            return
        compared = compare(numbers, confidence=confidence, corrected=holm)
        if json:
            say(compare_document(compared, result).json_text(), nl=False)
        else:
            show(output(), compare_page(compared, plot=plot))

    return compare_


def read_numbers(lines: Iterable[str], name: str, column: int = 1) -> tuple[float, ...]:
    """Return the numbers in one column (counted from 1) of lines of blank-separated columns.

    Empty lines and anything after a `#` are ignored. Raises SpecError, naming `name` and the
    lines, if a line lacks the column or has something other than a finite number of a plausible
    size in it, and for fewer than 3 numbers.
    """
    values: list[float] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        columns = line.partition("#")[0].split()
        if not columns:
            continue
        if len(columns) < column:
            bad.append((number, f"no column {column}"))
            continue
        value = _number(columns[column - 1])
        if value is None:
            bad.append((number, f"{columns[column - 1][:_MOST_SHOWN]!r} is not a number"))
        elif value and not _SMALLEST <= abs(value) <= _LARGEST:
            limits = f"{_SMALLEST:g} to {_LARGEST:g}"
            bad.append(
                (number, f"{columns[column - 1][:_MOST_SHOWN]!r} is not within {limits} in size")
            )
        else:
            values.append(value)
    if bad:
        first, what = bad[0]
        rest = [str(line) for line, _ in bad[1:]]
        lines_text = ", ".join(rest[:_MOST_LINES]) + (", ..." if len(rest) > _MOST_LINES else "")
        also = f" (likewise line {lines_text})" if rest else ""
        raise SpecError(f"{name}, line {first}: {what}{also}; fix it or put a # before it")
    if len(values) < MIN_VALUES:
        raise SpecError(f"{name}: {len(values)} numbers, at least {MIN_VALUES} needed")
    return tuple(values)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def _sample(name: str, column: int, load: Callable[[str, int], Sample]) -> Sample:
    if name == "-":
        if sys.stdin is None:
            raise SpecError("standard input is closed; name a file instead of -")
        return Sample("<stdin>", _read(sys.stdin.buffer, "standard input", column))
    if "\0" in name:
        raise SpecError(f"{name!r}: not a valid path")
    path = Path(name)
    reference = _REFERENCE.fullmatch(name)
    if reference is not None and not path.exists():
        sample = load(reference["campaign"], int(reference["trial"]))
        if len(sample.values) < MIN_VALUES:
            blocks = counted(len(sample.values), "complete block")
            raise SpecError(
                f"{name}: {blocks}, at least {MIN_VALUES} needed; choose another trial of "
                f"'fstune show {reference['campaign']} --all'"
            )
        return sample
    try:
        with path.open("rb") as file:
            return Sample(name, _read(file, name, column))
    except OSError as problem:
        raise SpecError(f"{name}: {problem.strerror}; name a file, - or CAMPAIGN:TRIAL") from None


def _read(file: BinaryIO, name: str, column: int) -> tuple[float, ...]:
    content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise SpecError(f"{name}: longer than {_MOST_BYTES >> 20} MiB")
    return read_numbers(content.decode("utf-8-sig", "replace").split("\n"), name, column)


def _checked(names: Sequence[str], ministat: bool) -> Sequence[str]:
    if names.count("-") > 1:
        raise SpecError("standard input can be read only once; give - only once")
    if len(names) < 2:
        raise SpecError("nothing to compare with; name two samples or more")
    if ministat and len(names) > len(SYMBOLS):
        raise SpecError(f"--ministat has symbols for {len(SYMBOLS)} samples, got {len(names)}")
    return names


def _check_confidence(confidence: float, ministat: bool) -> None:
    if ministat and confidence not in CONFIDENCES:
        levels = ", ".join(f"{level:g}" for level in CONFIDENCES)
        raise SpecError(f"--confidence must be one of {levels} with --ministat")
    if not 50.0 <= confidence < 100.0:
        raise SpecError(f"--confidence must be from 50 to below 100 percent, got {confidence:g}")


def _classic_width() -> int:
    """Return the plot width of the classic tool: the terminal's width minus the borders."""
    return shutil.get_terminal_size().columns - 2 if sys.stdout.isatty() else _CLASSIC_WIDTH
