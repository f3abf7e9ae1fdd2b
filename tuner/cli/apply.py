"""The apply, rollback and verify commands, and the list of applications."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tuner.applications import Application
from tuner.apply.actor import Actor, finish, renamed
from tuner.apply.applying import carry_out, check_planned, make_plan, roll_back
from tuner.apply.destination import Destination, recommended
from tuner.apply.pages import (
    application_lines,
    nothing_of,
    plan_lines,
    rolled_back_line,
    verified_lines,
)
from tuner.apply.rollback_checks import changed_since, check_replaced
from tuner.apply.verifying import check_certified, for_requester, telling_failure
from tuner.apply.verifying import verify as measure_again
from tuner.cli.options import (
    CampaignReference,
    Database,
    Server,
    StateDir,
    open_store,
    server_address,
    state_directory,
)
from tuner.cli.say import say
from tuner.errors import INTERRUPTED, NO_IMPROVEMENT, ConflictError, NotFoundError, SpecError
from tuner.identifiers import is_application_id
from tuner.model import Campaign
from tuner.states import UNFINISHED, ApplicationState, VerifyOutcome
from tuner.store import Store
from tuner.store.applications import Applications

TestbedFile = Annotated[
    Path | None,
    typer.Option(
        "--testbed",
        help="A testbed file to use instead of the testbed of the measurements.",
        show_default=False,
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="CLIENT",
        help="A client that is gone for good, as 'fstune applications' names it: it is not "
        "restored. Can be repeated.",
        show_default=False,
    ),
]
Replace = Annotated[
    bool,
    typer.Option(
        "--replace",
        help="Also overwrite what somebody else has changed since the application.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Reference = Annotated[
    str,
    typer.Argument(
        metavar="CAMPAIGN|APPLICATION",
        help="An application, or a campaign: its newest application in force. 'last' is the "
        "newest of all.",
    ),
]


def apply(
    campaign: CampaignReference = "last",
    testbed: TestbedFile = None,
    step: Annotated[
        bool,
        typer.Option("--step", help="Change one setting after another, with a check after each."),
    ] = False,
    yes: Yes = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Show the plan and save it; change nothing.")
    ] = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Apply what a campaign recommends: plan, ask, change, check, and undo if a check fails.

    The plan lists what is in effect now and what will be. Until the last check has passed, every
    host can restore itself, and does so if anything goes wrong. Instead of a campaign, a saved plan
    can be named by its identifier (a2026...): it is carried out if its starting configuration is
    still in effect. An interrupted application is finished: it stays in force if all checks had
    passed and every host still has it; otherwise it is undone everywhere.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        _refuse_testbed(testbed)
        from tuner.cli import remote_apply

        agree = None if plan_only else partial(_agree, yes, "Apply it?")
        remote_apply.apply(address, campaign, agree, stepwise=step)
        return
    with open_store(state_dir, database) as store:
        actor = Actor(store, state_directory(state_dir), _who(), _tell)
        if is_application_id(campaign):
            if testbed is not None or step:
                raise SpecError(
                    "--testbed and --step are for a new plan: name the campaign; a saved plan is "
                    "carried out as it is"
                )
            application = actor.applications.get(campaign)
            # --plan must not even finish an interrupted application: that changes hosts too.
            if application.state in UNFINISHED and not plan_only:
                _finish(actor, application)
                return
            for line in application_lines([application]):
                say(line)
            if plan_only:
                return
            check_planned(application)
        else:
            record = store.campaign(campaign)
            destination = Destination.of(record, actor.state_directory, testbed)
            plan, planned = make_plan(
                actor, record, destination, stepwise=step, only_look=plan_only
            )
            for line in plan_lines(plan):
                say(line)
            if planned is None:
                return
            application = planned
            if not yes or plan_only:
                say(f"To carry it out later: fstune apply {application.id}")
            if plan_only:
                return
        _agree(yes, "Apply it?")
        with _interruptible():
            result = carry_out(renamed(actor, application), application)
    say(f"applied: {result.id}; to undo it: fstune rollback {result.id}")


def _finish(actor: Actor, application: Application) -> None:
    """Finish an interrupted application. Raises ConflictError if it is not in effect afterwards."""
    with _interruptible():
        result = finish(actor, application)
    if result.state is not ApplicationState.APPLIED:
        raise ConflictError(
            f"{result.id} was interrupted and has been undone: it is {result.state}"
        )
    say(f"{result.id} is in force; to undo it: fstune rollback {result.id}")


def rollback(
    reference: Reference = "last",
    yes: Yes = False,
    without: Without = None,
    replace: Replace = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Restore exactly what was in effect before an application, and check that it is in effect.

    This includes applications that were interrupted at any point. Later changes by somebody else
    (to a command line or notifier of the fileserver's instance, a client's file of options, a
    setting) are listed; without --replace, the rollback is then refused. A client that is gone for
    good can be left out: remove it from the testbed file and name it with --without. Both are
    recorded.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        for option, is_given in (("--without", bool(without)), ("--replace", replace)):
            if is_given:
                raise SpecError(
                    f"{option}: not through a server; run it on the machine of the server"
                )
        from tuner.cli import remote_apply

        remote_apply.rollback(address, reference, partial(_agree, yes, "Roll it back?"))
        return
    with open_store(state_dir, database) as store:
        actor = Actor(store, state_directory(state_dir), _who(), _tell)
        application = _application(store, reference)
        left_out = tuple(without or ())
        for line in application_lines([application]):
            say(line)
        if left_out:
            say(f"  this time: {actor.destination(application, left_out).not_restored}")
        if not yes:  # otherwise it is looked at once, when it is rolled back
            with _interruptible():
                changes = changed_since(actor, application, left_out)
            if not replace:
                check_replaced(application, changes)
            for sentence in changes:
                say(f"  changed since, and replaced by what was before: {sentence}")
        _agree(yes, "Roll it back?")
        with _interruptible():
            result = roll_back(renamed(actor, application), application, left_out, replace=replace)
    say(rolled_back_line(result))


def verify(
    reference: Reference = "last",
    blocks: Annotated[int, typer.Option(help="Fresh blocks to measure.", min=3, max=500)] = 10,
    testbed: TestbedFile = None,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
    request: Annotated[
        int | None, typer.Option(help="The event that asked for it over HTTP.", hidden=True)
    ] = None,
) -> None:
    """Measure a recommendation against the previous configuration again: does it still hold?

    What was in effect is restored at the end; a warning says if it was neither of the two. The exit
    status is 3 if the recommendation is not shown to hold.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        _refuse_testbed(testbed)
        from tuner.cli import remote_apply

        result = remote_apply.verify(address, reference, blocks)
        if result.outcome is not VerifyOutcome.HOLDS:
            raise typer.Exit(NO_IMPROVEMENT)
        return
    with open_store(state_dir, database) as store:
        actor = Actor(store, state_directory(state_dir), _who(), _tell)
        application = _to_verify(store, reference, testbed)
        record = store.campaign(reference if application is None else application.campaign)
        actor = for_requester(actor, record.id, request)
        with _interruptible(), telling_failure(actor, record.id, request):
            answer = recommended(record)
            before, after = answer.baseline, answer.configuration
            if testbed is not None or application is None:
                destination = Destination.of(record, actor.state_directory, testbed, measures=True)
                application = _in_force_at(store, record, destination)
            else:
                destination = Destination.of_application(
                    record, application, actor.state_directory, measures=True
                )
            if application is not None:
                check_certified(application, answer)
                before, after = application.before, application.after
            verification, result = measure_again(
                actor, record, answer, before, after, destination, blocks, request=request
            )
    for line in verified_lines(result):
        say(line)
    say(f"The measurements: fstune show {verification.id}")
    if result.outcome is not VerifyOutcome.HOLDS:
        raise typer.Exit(NO_IMPROVEMENT)


def applications(
    state_dir: StateDir = None, database: Database = None, server: Server = None
) -> None:
    """List what was applied: which configuration, where, by whom, and what was there before."""
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote_apply

        remote_apply.applications(address)
        return
    with open_store(state_dir, database) as store:
        for line in application_lines(Applications(store).all()):
            say(line)


def _application(store: Store, reference: str) -> Application:
    """Return the application that a reference denotes. Raises NotFoundError."""
    records = Applications(store)
    if is_application_id(reference):
        return records.get(reference)
    campaign = None if reference == "last" else store.campaign(reference).id
    in_force = records.in_force(campaign=campaign)
    if not in_force:
        raise NotFoundError(f"{nothing_of(reference)} is in force; see 'fstune applications'")
    return in_force[0]


def _to_verify(store: Store, reference: str, testbed: Path | None) -> Application | None:
    """Return the application to verify, or None if nothing has been applied.

    If ``reference`` is an application's identifier, that application; otherwise the newest one in
    effect, of the given campaign or, with "last", of any. Raises NotFoundError, and SpecError if an
    application is combined with a testbed file.
    """
    records = Applications(store)
    if is_application_id(reference):
        if testbed is not None:
            raise SpecError("--testbed: an application is verified where it was applied")
        return records.get(reference)
    campaign = None if reference == "last" else store.campaign(reference).id
    in_force = records.in_force(campaign=campaign)
    return next((one for one in in_force if one.state is ApplicationState.APPLIED), None)


def _in_force_at(store: Store, campaign: Campaign, destination: Destination) -> Application | None:
    """Return the newest application of a campaign that is in effect on a testbed."""
    in_force = Applications(store).in_force(campaign=campaign.id, testbed=destination.name)
    there = [one for one in in_force if one.clients in ((), destination.clients)]
    return next((one for one in there if one.state is ApplicationState.APPLIED), None)


def _refuse_testbed(testbed: Path | None) -> None:
    if testbed is not None:
        raise SpecError(
            "--testbed: a server accepts no files; settings go where they were measured"
        )


def _agree(yes: bool, question: str) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConflictError("standard input is not a terminal; read the plan, then give --yes")
    if not typer.confirm(question):
        say("fstune: nothing was changed", err=True)
        raise typer.Exit(1)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn a stop signal into the exit status of an interrupted command."""
    try:
        yield
    except KeyboardInterrupt as stop:
        message = "stopped; see 'fstune applications' for what is in force"
        say(f"fstune: {message}", err=True)
        raise typer.Exit(INTERRUPTED) from stop


def _who() -> str:
    """Return the user to record: the account and, with sudo, the original user."""
    name = pwd.getpwuid(os.getuid()).pw_name
    became = os.environ.get("SUDO_USER", "")
    return f"{name} (sudo by {became})" if became and became != name else name


def _tell(message: str) -> None:
    # Nobody may read this any more, and what is being done must be finished all the same.
    with suppress(OSError):
        if message:
            say(f"{datetime.now(UTC):%H:%M:%S} {message}", err=True)
