"""Plans, applications and verifications as lines of text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.applications import Application
from tuner.apply.plan import ApplyPlan, PartPlan
from tuner.apply.verify_verdict import Verified
from tuner.errors import SpecError
from tuner.formats.registry import formats, render
from tuner.records.differences import Difference, changes, differences
from tuner.services.form import Part
from tuner.services.kinds import programs
from tuner.states import ApplicationState
from tuner.text import confidence_text, counted, faster, interval, moment, value_text

_NONE = "(no options)"


def plan_lines(plan: ApplyPlan) -> Iterator[str]:
    """A plan: the changes part by part, the steps, and notes to read beforehand."""
    yield f"What campaign {plan.campaign} recommends, on {plan.label}"
    if plan.clients:
        yield f"Clients: {', '.join(plan.clients)}."
    yield f"Programs: {plan.programs}."
    if plan.is_empty:
        yield ""
        yield "Nothing to change: the recommended configuration is in effect."
        return
    for part in plan.parts:
        yield ""
        yield from _part(part)
    if len(plan.steps) > 1:
        yield ""
        yield f"In {counted(len(plan.steps), 'step')}, with a check after each:"
        now = plan.before
        for number, step in enumerate(plan.steps, start=1):
            yield f"  {number}. {', '.join(map(_change, differences(now, step)[0]))}"
            now = step
    if plan.notes:
        yield ""
        yield "Before you apply it:"
        yield from (f"  {note}" for note in plan.notes)
    yield ""
    yield f"Identity of this plan: {plan.identity}"


def _part(part: PartPlan) -> Iterator[str]:
    yield f"{part.name} ({part.program}) {part.how_changed}"
    for change in part.changes:
        mark = "+" if change.old is None else "-" if change.new is None else "~"
        yield f"  {mark} {_change(change)}"
    yield f"    options now:   {' '.join(part.old) or _NONE}"
    yield f"    options after: {' '.join(part.new) or _NONE}"
    if part.outlives_restart:
        yield f"    After a restart of the host: {part.where_kept}."
        return
    yield f"    Lost when the host is rebooted: {part.where_kept}."
    program = programs().get(part.program)
    name = "" if program is None else program.format
    if name not in formats() or not part.new:
        return
    try:
        rendering = render(name, [Part(part.name, part.program, part.new)])
    except SpecError:
        return
    yield f"    As {name}, for {formats()[name].where} ({rendering.mind}):"
    yield from (f"      {line}" for line in rendering.text.splitlines())


def _change(change: Difference) -> str:
    return f"{change.name}: {value_text(change.old)} -> {value_text(change.new)}"


def application_lines(applications: Sequence[Application]) -> Iterator[str]:
    """A list of applications, in the given order: which, where, what changed, who and when."""
    if not applications:
        yield "nothing has been applied yet"
    for one in applications:
        why = f": {one.reason}" if one.reason else ""
        yield f"{one.id}  {one.state}{why}"
        yield f"  campaign {one.campaign}, testbed: {one.testbed}"
        if one.clients:
            yield f"  clients: {', '.join(one.clients)}"
        yield f"  {changes(one.before, one.after)} (before: {changes(one.after, one.before)})"
        yield f"  planned by {one.planned_by}, {moment(one.planned)}"
        yield f"  last changed by {one.changed_by}, {moment(one.changed)}"


def nothing_of(reference: str) -> str:
    """The start of a not-found message, for a campaign or, with ``last``, for any."""
    return "nothing" if reference == "last" else f"nothing of {reference}"


def verified_lines(result: Verified) -> Iterator[str]:
    """The result of a verification."""
    yield f"The certificate {result.outcome}."
    yield (
        f"Recommended against what was there before: {faster(result.ratio)}, "
        f"{confidence_text(result.confidence)} {interval(result.lower, result.upper)}, in "
        f"{counted(result.blocks, 'fresh block')}"
    )
    yield result.reason
    if result.caveat:
        yield f"Caveat: {result.caveat}."


def rolled_back_line(application: Application) -> str:
    """How the rollback of an application has ended; one that was cut off may only be undone."""
    if application.state is ApplicationState.FAILED:
        return f"{application.id} was undone: {application.reason}"
    done = f"{application.id} is rolled back: the previous settings are in effect"
    return f"{done} ({application.reason})" if application.reason else done
