"""Server-side counterparts of the apply, rollback and verify commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from tuner.applications import Application
from tuner.apply.pages import (
    application_lines,
    nothing_of,
    plan_lines,
    rolled_back_line,
    verified_lines,
)
from tuner.apply.verify_verdict import Verified
from tuner.cli.say import say
from tuner.errors import INTERRUPTED, ConflictError, NotFoundError, SpecError
from tuner.identifiers import is_application_id
from tuner.remote.address import address_of, server_options
from tuner.remote.applications import RemoteApplications
from tuner.remote.client import Client
from tuner.states import ApplicationState

Agree = Callable[[], None]
#: Applications that were cut off before it was decided that they stay.
_UNDECIDED = (ApplicationState.APPLYING, ApplicationState.COMMITTING)


@contextmanager
def _applications(server: str) -> Iterator[tuple[Client, RemoteApplications]]:
    with Client(address_of(server)) as client:
        yield client, RemoteApplications(client)


def apply(server: str, campaign: str, agree: Agree | None, *, stepwise: bool) -> None:
    """Plan on the server, and apply the plan once the user agrees; ``agree`` None: only plan."""
    _refuse_application(campaign)
    with _applications(server) as (client, applications):
        plan, application = applications.plan(campaign, stepwise=stepwise)
        for line in plan_lines(plan):
            say(line)
        if application is None or agree is None:
            return
        agree()
        with _going_on(client):
            result = applications.apply(application)
        _check(result, ApplicationState.APPLIED)
        say(
            f"applied: {result.id}; to undo it: "
            f"fstune rollback {result.campaign}{server_options(client.url)}"
        )


def rollback(server: str, reference: str, agree: Agree) -> None:
    """Roll back on the server the newest application in effect, once the user agrees.

    ``reference``: a campaign, or ``last`` for any. Raises NotFoundError if none is in effect.
    """
    _refuse_application(reference)
    with _applications(server) as (client, applications):
        in_force = applications.in_force(reference)
        if not in_force:
            raise NotFoundError(f"{nothing_of(reference)} is in force on {client.url}")
        for line in application_lines(in_force[:1]):
            say(line)
        agree()
        with _going_on(client):
            result = applications.roll_back(in_force[0].campaign)
        # One that was cut off before it was decided on is undone, which does not count as rolled
        # back.
        undone = (ApplicationState.FAILED,) if in_force[0].state in _UNDECIDED else ()
        _check(result, ApplicationState.ROLLED_BACK, *undone)
        say(rolled_back_line(result))


def applications(server: str) -> None:
    """List the applications on the server."""
    with _applications(server) as (_, applications):
        for line in application_lines(applications.all()):
            say(line)


def verify(server: str, reference: str, blocks: int) -> Verified:
    """Verify a recommendation on the server and print the result.

    ``reference``: a campaign, or ``last`` for that of the newest application in effect, if any.
    """
    _refuse_application(reference)
    with _applications(server) as (client, applications):
        in_force = applications.in_force(reference) if reference == "last" else []
        applied = [one.campaign for one in in_force if one.state is ApplicationState.APPLIED]
        campaign = applied[0] if applied else reference
        with _going_on(client):
            verification, result = applications.verify(campaign, blocks)
        options = server_options(client.url)
    for line in verified_lines(result):
        say(line)
    say(f"The measurements: fstune show {verification}{options}")
    return result


def _refuse_application(reference: str) -> None:
    if is_application_id(reference):
        raise SpecError(f"{reference}: on a server, name the campaign")


@contextmanager
def _going_on(client: Client) -> Iterator[None]:
    """Say, when Ctrl-C ends the waiting, that the server continues with what was requested."""
    try:
        yield
    except KeyboardInterrupt as stop:
        say(
            f"fstune: the server {client.url} continues with it; see: fstune applications"
            f"{server_options(client.url)}",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from stop


def _check(result: Application, *states: ApplicationState) -> None:
    """Raise ConflictError if an application is in none of the requested states."""
    if result.state not in states:
        why = f": {result.reason}" if result.reason else "; its campaign's events say why"
        raise ConflictError(f"{result.id} is {result.state}{why}")
