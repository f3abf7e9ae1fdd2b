"""What is applied, rolled back and verified at a server: asked for, then waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter

from tuner.applications import Application
from tuner.apply.plan import ApplyPlan, PartPlan
from tuner.apply.verdict import Verified
from tuner.errors import ConflictError, ServerError
from tuner.records.differences import Difference
from tuner.remote.client import Client, campaign_path
from tuner.remote.records import checked, mapping, read_configuration
from tuner.states import UNFINISHED

_POLL_S = 1.0
#: A week: nobody waits for longer.
_MOST_POLLS = 7 * 24 * 3600
_APPLICATION = TypeAdapter(Application)
_PARTS: TypeAdapter[list[dict[str, Any]]] = TypeAdapter(list[dict[str, Any]])
_TEXTS = TypeAdapter(tuple[str, ...])
_VERIFIED = TypeAdapter(Verified)

Result = TypeVar("Result")


class RemoteApplications:
    """The applications of ``client``'s server. Methods raise what ``Client`` raises."""

    def __init__(self, client: Client, pause: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._pause = pause

    def plan(self, campaign: str, *, stepwise: bool) -> tuple[ApplyPlan, Application]:
        """A plan of there, stored. ConflictError when there is nothing to change."""
        answer = self._client.post(campaign_path(campaign, "plans"), body={"step": stepwise})
        return read_plan(answer)

    def apply(self, application: Application) -> Application:
        """Apply a plan, and wait for the end; what is stored of it then."""
        where = campaign_path(application.campaign, "plans", application.plan, "apply")
        return self._awaited(read_application(self._client.post(where)))

    def roll_back(self, campaign: str) -> Application:
        """Roll back what is in force of a campaign, and wait for the end."""
        return self._awaited(
            read_application(self._client.post(campaign_path(campaign, "rollback")))
        )

    def of(self, campaign: str) -> list[Application]:
        """What was planned, applied and rolled back of a campaign, newest first."""
        found = self._client.get(campaign_path(campaign, "applications"))
        return [read_application(document) for document in checked(_PARTS, found)]

    def verify(self, campaign: str, blocks: int) -> tuple[str, Verified]:
        """Verify what a campaign recommends, and wait for the end: the identifier of the
        verification and what it found. ConflictError when it could not be measured.
        """
        where = campaign_path(campaign, "verifications")
        asked = mapping(self._client.post(where, body={"blocks": blocks}))
        number = checked(TypeAdapter(int), asked.get("number"))

        def look() -> Mapping[str, Any] | None:
            known = checked(_PARTS, self._client.get(where))
            later = [
                one
                for one in known
                if one.get("number", 0) > number and one.get("state") != "requested"
            ]
            return later[0] if later else None

        done = self._until(look)
        if done.get("state") != "done":
            raise ConflictError(str(done.get("text")))
        return str(done.get("verification")), checked(_VERIFIED, done)

    def _awaited(self, application: Application) -> Application:
        """An application when nobody is in the middle of it, and nobody has still to begin."""

        def look() -> Application | None:
            (now,) = [one for one in self.of(application.campaign) if one.id == application.id]
            busy = now.state in UNFINISHED or now.asked_by is not None
            return None if busy else now

        return self._until(look)

    def _until(self, look: Callable[[], Result | None]) -> Result:
        for _ in range(_MOST_POLLS):
            if (found := look()) is not None:
                return found
            self._pause(_POLL_S)
        raise ServerError(f"{self._client.url}: it does not say what became of it")


def read_application(document: Any) -> Application:
    """An application; how its testbed is reached is the server's own."""
    fields = mapping(document)
    known = {name: read_configuration(fields.get(name)) for name in ("before", "after")}
    stored = {"stepwise": fields.get("step"), "section": ""}
    return checked(_APPLICATION, fields | known | stored)


def read_plan(document: Any) -> tuple[ApplyPlan, Application]:
    """A plan and its application. ServerError unless the plan that is shown is the one that the
    identity stands for.
    """
    fields = mapping(document)
    application = read_application(fields.get("application"))
    steps = checked(TypeAdapter(list[dict[str, Any]]), fields.get("steps"))
    plan = ApplyPlan(
        campaign=application.campaign,
        testbed=application.testbed,
        label=application.testbed,
        programs=application.programs,
        before=application.before,
        after=application.after,
        parts=tuple(_part(part) for part in checked(_PARTS, fields.get("parts"))),
        steps=tuple(read_configuration(step) for step in steps),
        notes=checked(_TEXTS, fields.get("notes")),
        stepwise=application.stepwise,
    )
    if not plan.identity == application.plan == fields.get("identity"):
        raise ServerError("the server's plan is not the one that its identity stands for")
    return plan, application


def _part(fields: Mapping[str, Any]) -> PartPlan:
    changes = checked(TypeAdapter(tuple[Difference, ...]), fields.get("changes"))
    return checked(TypeAdapter(PartPlan), {**fields, "changes": changes})
