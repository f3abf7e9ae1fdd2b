"""What is checked before a rollback: that nothing was applied or changed since."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.applications import Application
from tuner.apply.actor import Actor
from tuner.apply.open_testbed import OpenTestbed
from tuner.errors import ConflictError
from tuner.identifiers import is_application_id
from tuner.states import ApplicationState


def changed_since(
    actor: Actor, application: Application, left_out: Sequence[str] = ()
) -> tuple[str, ...]:
    """What somebody else has changed since an application, and its rollback would replace: a
    sentence each, none for one that was interrupted. No setting is changed. Raises TunerError as
    ``roll_back``.
    """
    destination = actor.destination(application, left_out)
    if actor.applications.unfinished([destination.name]):
        return ()
    with actor.holding(application.campaign, destination, own=application.id, only_look=True):
        check_newest(actor, application)
        with actor.opening(application, destination, putting_back=True) as testbed:
            return what_is_replaced(actor, application, testbed)


def check_replaced(application: Application, sentences: Sequence[str]) -> None:
    """Raise ConflictError if a rollback would replace what somebody else has changed."""
    if sentences:
        raise ConflictError(
            f"something was changed after {application.id} was applied, and a rollback would "
            "replace it by what was there before the application; to do that: fstune rollback "
            f"{application.id} --replace; changed: {'; '.join(sentences)}"
        )


def what_is_replaced(
    actor: Actor, application: Application, testbed: OpenTestbed
) -> tuple[str, ...]:
    """What a rollback would replace besides what was applied, once it is known to be possible."""
    before, after = application.before, application.after
    _check_journals(actor, application, testbed)
    testbed.check_record(before, after)
    return testbed.changed_since(before, after)


def check_newest(actor: Actor, application: Application) -> None:
    """Raise ConflictError for an application that is not in force, or not the newest there."""
    if application.state is not ApplicationState.APPLIED:
        raise ConflictError(
            f"application {application.id} is {application.state}: it is not in force"
        )
    newest = actor.applications.in_force(testbed=application.testbed)[0]
    if newest.id != application.id:
        raise _not_newest(application, newest)


def _not_newest(application: Application, newer: Application) -> ConflictError:
    return ConflictError(
        f"{newer.id} was applied on this testbed after {application.id}; roll that back first"
    )


def _check_journals(actor: Actor, application: Application, testbed: OpenTestbed) -> None:
    """Raise ConflictError when a host keeps a journal of a later application: one in force on a
    testbed with another name, or one that this database does not know. The latter was made from
    another database, or this one is an older copy.
    """
    journals = testbed.kept_names()
    for newer in actor.applications.in_force():
        if newer.id == application.id:
            break
        if newer.id in journals:
            raise _not_newest(application, newer)
    ids = {one.id for one in actor.applications.all()}
    later = {
        name: host
        for name, host in journals.items()
        if is_application_id(name) and name > application.id and name not in ids
    }
    if later:
        name, host = max(later.items())
        raise ConflictError(
            f"{name} was applied on {host} after {application.id}, from another database: roll it "
            f"back from there first, with fstune rollback {name}; if that database is lost, remove "
            f"applied/{name} in the restore directory of each host"
        )
