"""Threats to the validity of a campaign's answer, derived from its own data. Pure.

They are sentences on what may make the answer wrong elsewhere, or weaker than it looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.judge.levels import FEW_BLOCKS
from tuner.judge.words import blocks
from tuner.model import Answer, Campaign, Event, Trial
from tuner.page.rows import spread
from tuner.records.differences import names_of_changes
from tuner.records.estimate import is_clear
from tuner.report.summary import Effort
from tuner.results.drift import DriftPoint
from tuner.services.kinds import programs
from tuner.spec.campaign import CampaignSpec
from tuner.states import EventKind, TrialState
from tuner.text import clean, counted, duration

#: Relative standard deviation of the baseline between blocks from which it is reported.
_RESTLESS = 0.05
#: Relative change of the baseline from the first to the last third of the blocks from which it is
#: reported.
_MOVED = 0.03
_SHORT_S = 3600.0
#: A floor above this permits a noticeable loss of a component.
_WIDE_FLOOR = 0.1
#: Kinds of events whose messages state a threat.
_TELLING = (
    EventKind.GUARD,
    EventKind.PILOT_WARNING,
    EventKind.SHARED_MACHINE,
    EventKind.TESTBED_EFFECT,
    EventKind.TESTBED_LOST,
)
_MOST_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Evidence:
    """The data that threats are derived from.

    ``spec``: None if it is from another release; ``programs``: the tuned programs, with versions if
    measured; ``clients``: number that ran the workload concurrently; ``events``: disturbances;
    ``readable``: whether figures can be computed; ``chosen_floor``: the result of ``floor: auto``,
    None before it was chosen; ``hosts``: whether kernel, disks and sysctls of the hosts were
    recorded; ``without_effect``: settings of the answer that leave the value in effect as it was.
    """

    campaign: Campaign
    spec: CampaignSpec | None
    programs: str
    clients: int
    trials: Sequence[Trial]
    effort: Effort
    events: Sequence[Event]
    drift: Sequence[DriftPoint]
    readable: bool
    chosen_floor: float | None = None
    hosts: bool = False
    without_effect: frozenset[str] = frozenset()


def threats(evidence: Evidence) -> list[str]:
    """Return the threats to an answer, one sentence each, the gravest kinds first."""
    sentences = [*_where(evidence), *_how_long(evidence), *_claims(evidence)]
    return [*dict.fromkeys([*sentences, *_disturbed(evidence)])]


def _where(evidence: Evidence) -> Iterator[str]:
    types = [] if evidence.spec is None else [section.type for section in evidence.spec.sections]
    yield from dict.fromkeys(each.threat for each in types if each.threat)
    if not all(each.real for each in types):
        return
    for name, program in programs().items():
        if program.threat and _names_program(name, evidence.programs):
            yield program.threat
    if evidence.clients == 1:
        yield ("One client ran the workload: how the server performs with many was not measured.")
    if evidence.effort.measurements:
        what = "Hardware, kernel and sysctl settings"
        if evidence.hosts:
            what = "Processors, memory and network interfaces"
        yield (
            f"{what} of the hosts were not recorded: this report cannot show whether they are "
            "still the same."
        )


def _names_program(program: str, text: str) -> bool:
    """Whether a text names a program, as opposed to one whose name merely begins like it."""
    return re.search(rf"(?<![\w.]){re.escape(program)}(?![\w.])", text) is not None


def _how_long(evidence: Evidence) -> Iterator[str]:
    spec, workload_s = evidence.spec, evidence.campaign.time_use.workload_s
    if 0.0 < workload_s < _SHORT_S:
        yield (
            f"The workload ran for {duration(workload_s)} in total: enough for large gains. "
            "Smaller ones, and better settings, may have been missed."
        )
    if spec is None:
        return
    if spec.workload.scale != 1.0:
        yield f"The workload ran at {spec.workload.scale:g} times its full size."
    if spec.pilot.blocks == 0:
        yield "There was no pilot: the noise of the testbed was not measured beforehand."
    floor = spec.statistics.given_floor or evidence.chosen_floor
    if floor is not None and floor > _WIDE_FLOOR:
        yield (
            f"A component of the workload may be up to {100.0 * floor:g}% slower "
            "before it counts against a configuration."
        )
    if spec.statistics.adjust:
        yield (
            "Gains are judged after subtracting the influence of other load on the machines, as "
            "estimated by a model."
        )


def _claims(evidence: Evidence) -> Iterator[str]:
    answer = evidence.campaign.recommendation
    if answer is not None and answer.answer is Answer.RECOMMENDED:
        if 0 < answer.blocks < FEW_BLOCKS:
            what = "verification" if answer.verification else "certificate"
            yield (
                f"The {what} rests on {blocks(answer.blocks)}: its error is valid for "
                "differences that are roughly normal, which so few cannot show."
            )
        open_ones = [n for n, effect in answer.components.items() if not effect.floor_held]
        if open_ones:
            yield (
                f"Components whose floors were not settled: {', '.join(map(clean, open_ones))}. "
                "They may be slower than the floor allows."
            )
        names = names_of_changes(answer.baseline, answer.configuration)
        together = set(names) - evidence.without_effect
        if len(together) > 1:
            sentence = "Several settings changed together: the gain is that of all of them"
            clear = {n for n, of in answer.settings.items() if is_clear(of.lower, of.upper)}
            if together <= clear:
                yield f"{sentence}; how much each contributes is not certified."
            else:
                yield f"{sentence}, and some may do nothing."
    failed = sum(trial.state is TrialState.FAILED for trial in evidence.trials)
    if failed:
        were = "was" if failed == 1 else "were"
        yield f"{counted(failed, 'configuration')} did not run, and {were} not judged."
    if not evidence.readable:
        yield (
            "The workload's file is missing or has changed: verdicts, components and drift cannot "
            "be computed again from the measurements."
        )


def _disturbed(evidence: Evidence) -> Iterator[str]:
    restless = spread(evidence.drift)
    if restless > _RESTLESS:
        yield (
            f"The baseline varied by {100.0 * restless:.1f}% from block to block (standard "
            "deviation): the testbed was not quiet. Comparisons are made within a block, which "
            "removes what affects all of its arms equally."
        )
    third = len(evidence.drift) // 3
    if third:
        ratios = [point.ratio for point in evidence.drift]
        before, after = sum(ratios[:third]) / third, sum(ratios[-third:]) / third
        moved = after / before - 1.0
        if abs(moved) > _MOVED:
            how = "slower" if moved > 0.0 else "faster"
            yield (
                f"The baseline became {100.0 * abs(moved):.1f}% {how} from the first third of the "
                "blocks to the last: the testbed was not the same throughout."
            )
    void = evidence.effort.void_blocks
    if void:
        them = "it" if void == 1 else "them"
        yield f"{blocks(void)} did not count, because something went wrong in {them}."
    paused = sum(event.kind == EventKind.PAUSED for event in evidence.events)
    if paused:
        times = counted(paused, "time")
        yield f"The campaign was paused {times}; the testbed may have changed meanwhile."
    messages = list(dict.fromkeys(e.message for e in evidence.events if e.kind in _TELLING))
    for message in messages[:_MOST_SHOWN]:
        yield f"The campaign itself warned: {clean(message.removeprefix('warn: '))}."
    if len(messages) > _MOST_SHOWN:
        more = counted(len(messages) - _MOST_SHOWN, "more warning")
        yield f"The disturbances show {more}."
