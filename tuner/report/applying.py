"""What a recommended setting means, what it costs, where it goes and how it is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from search_spaces import Space, describe
from tuner.model import Answer, Recommendation
from tuner.report.drawing import paragraph
from tuner.report.findings import flag_line, section
from tuner.report.words import differences, value_text

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class _Program:
    """Where the options of a program go, and what puts them into effect."""

    where: str
    then: str


_PROGRAMS: Mapping[str, _Program] = {
    "dafileserver": _Program(
        "the 'parm' line of the dafileserver in BosConfig of the server (seen with 'bos status "
        "SERVER -long')",
        "bos restart SERVER dafs",
    ),
    "afsd": _Program(
        "the options of afsd on every client: OPTIONS in /etc/openafs/afs.conf, or AFSD_ARGS in "
        "/etc/sysconfig/openafs",
        "systemctl restart openafs-client, with nothing in use below /afs",
    ),
    "afsd.fuse": _Program(
        "the command line of afsd.fuse on every client",
        "unmount /afs and start afsd.fuse with them",
    ),
}


def applying(
    recommendation: Recommendation, spaces: Mapping[str, Space]
) -> Sequence[RenderableType]:
    """Sections for a recommendation; none without one, or where the ``spaces`` are not known."""
    r = recommendation
    if r.answer is not Answer.RECOMMENDED:
        return ()
    meanings = [*_meanings(r, spaces), *_costs(r, spaces)]
    todo = [line for component in spaces for line in _todo(component, r, spaces[component])]
    found: list[RenderableType] = []
    if meanings:
        found.append(section("What these settings are", *map(paragraph, meanings)))
    if todo:
        found.append(section("To apply, and to undo", *map(paragraph, todo)))
    return found


def _meanings(r: Recommendation, spaces: Mapping[str, Space]) -> list[str]:
    found = []
    for change in differences(r.baseline, r.configuration)[0]:
        component, _, name = change.name.partition(".")
        space = spaces.get(component)
        if space is None or name not in space.by_name:
            continue
        parameter = space[name]
        unit = f" ({parameter.unit})" if parameter.unit else ""
        before = space.in_effect(r.baseline.part(component)).get(name)
        what = "default" if change.old is None else "as found"
        effective = f"; {what}: {value_text(before)}" if before is not None else ""
        found.append(f"{change.name}{unit}: {_brief(parameter.about)}{effective}")
    return found


def _brief(about: str) -> str:
    """The first clause of what a parameter is."""
    return about.split(";")[0].split(". ")[0].rstrip(".")


def _costs(r: Recommendation, spaces: Mapping[str, Space]) -> list[str]:
    """About how much memory each program takes more or less, on a host as its space assumes."""
    found = []
    for component, space in spaces.items():
        old = space.memory_bytes(r.baseline.part(component)) / _MIB
        new = space.memory_bytes(r.configuration.part(component)) / _MIB
        if round(old) != round(new):
            found.append(
                f"memory of {space.program} on each host: about {new:.0f} MiB instead of "
                f"{old:.0f} MiB (an estimate)"
            )
    return found


def _todo(component: str, r: Recommendation, space: Space) -> list[str]:
    new, old = r.flags.get(component, ()), r.baseline_flags.get(component, ())
    if new == old:
        return []
    program = _PROGRAMS.get(
        space.program, _Program(f"the settings of {space.program}: {describe.form(space)}", "")
    )
    then = program.then or f"restart {space.program}"
    back = flag_line(old) or "no options"
    return [
        f"{component}: put the options below into {program.where}; then {then}",
        f"{component}, undo: the same with what was found: {back}",
    ]
