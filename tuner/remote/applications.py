"""Applying, rolling back and verifying on a server: send the request, wait for the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import TypeAdapter

from tuner.applications import Application
from tuner.apply.plan import ApplyPlan, PartPlan
from tuner.apply.verify_verdict import Verified
from tuner.errors import ConflictError, NotFoundError, ServerError
from tuner.records.differences import Difference
from tuner.remote.client import PASSING, PATIENCE_S, Client, Unreachable, campaign_path
from tuner.remote.records import checked, mapping, read_configuration
from tuner.states import IN_FORCE, UNFINISHED

_POLL_S = 1.0
#: A week, the longest time to wait.
_MOST_POLLS = 7 * 24 * 3600
_APPLICATION = TypeAdapter(Application)
_PARTS: TypeAdapter[list[dict[str, Any]]] = TypeAdapter(list[dict[str, Any]])
_TEXT = TypeAdapter(str)
_TEXTS = TypeAdapter(tuple[str, ...])
_VERIFIED = TypeAdapter(Verified)

Result = TypeVar("Result")


class RemoteApplications:
    """The applications of ``client``'s server. Methods raise what ``Client`` raises."""

    def __init__(
        self,
        client: Client,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._pause = pause
        self._clock = clock

    def plan(self, campaign: str, *, stepwise: bool) -> tuple[ApplyPlan, Application | None]:
        """Return a plan made by the server and its stored application, None when nothing has to
        change.
        """
        where = campaign_path(campaign, "plans")
        with self._going_on(campaign):
            answer = self._client.post(where, body={"step": stepwise}, looks=True)
        return read_plan(answer)

    def apply(self, application: Application) -> Application:
        """Apply a plan and wait for the end; return the application as stored then."""
        where = campaign_path(application.campaign, "plans", application.plan, "apply")
        with self._going_on(application.campaign):
            current = self._client.post(where, looks=True)
        return self._awaited(read_application(current))

    @contextmanager
    def _going_on(self, campaign: str) -> Iterator[None]:
        """Add to the error of a lost connection where the outcome of the request can be seen."""
        try:
            yield
        except Unreachable as problem:
            if problem.is_refusal:
                raise
            raise ServerError(f"{problem}; {self._hint(campaign)}") from problem

    def _hint(self, campaign: str) -> str:
        where = f"{self._client.url}{campaign_path(campaign, 'applications')}"
        return f"it may continue there: see {where}"

    def roll_back(self, campaign: str) -> Application:
        """Roll back a campaign's application that is in force, and wait for the end."""
        with self._going_on(campaign):
            current = self._client.post(campaign_path(campaign, "rollback"))
        return self._awaited(read_application(current))

    def in_force(self, reference: str) -> list[Application]:
        """Return the applications that are, or may be, in force: of a campaign, or of all for
        ``last``. The most recently applied one comes first.
        """
        if reference == "last":
            documents = self._client.get("/v1/applications", {"in_force": True})
            return [read_application(document) for document in checked(_PARTS, documents)]
        applications = [one for one in self.of(reference) if one.state in IN_FORCE]
        return sorted(applications, key=lambda one: one.changed, reverse=True)

    def all(self) -> list[Application]:
        """Return the applications of all campaigns, newest first."""
        answer = self._client.get("/v1/applications")
        return [read_application(document) for document in checked(_PARTS, answer)]

    def of(self, campaign: str) -> list[Application]:
        """Return the applications of a campaign, newest first."""
        documents = self._client.get(campaign_path(campaign, "applications"))
        return [read_application(document) for document in checked(_PARTS, documents)]

    def verify(self, campaign: str, blocks: int) -> tuple[str, Verified]:
        """Verify what a campaign recommends and wait for the end; return the identifier of the
        verification and its result. ConflictError when it could not be measured.
        """
        where = campaign_path(campaign, "verifications")
        with self._going_on(campaign):
            request = mapping(self._client.post(where, body={"blocks": blocks}))
        number = checked(TypeAdapter(int), request.get("number"))

        def look() -> Mapping[str, Any] | None:
            documents = checked(_PARTS, self._client.get(where))
            return next((one for one in documents if one.get("request") == number), None)

        outcome = self._until(campaign, look)
        if outcome.get("state") != "done":
            raise ConflictError(str(outcome.get("text")))
        return str(outcome.get("verification")), checked(_VERIFIED, outcome)

    def _awaited(self, application: Application) -> Application:
        """Wait until an application is neither in progress nor about to be; return it as stored
        then.
        """

        def look() -> Application | None:
            applications = {one.id: one for one in self.of(application.campaign)}
            if (now := applications.get(application.id)) is None:
                raise NotFoundError(f"{self._client.url}: {application.id} no longer exists")
            busy = now.state in UNFINISHED or now.asked_by is not None
            return None if busy else now

        return self._until(application.campaign, look)

    def _until(self, campaign: str, look: Callable[[], Result | None]) -> Result:
        """Look until there is a result. Raises ServerError when the server is away for ten
        minutes.
        """
        away_since_s: float | None = None
        for _ in range(_MOST_POLLS):
            try:
                if (result := look()) is not None:
                    return result
                away_since_s = None
            except PASSING as problem:
                now_s = self._clock()
                away_since_s = now_s if away_since_s is None else away_since_s
                if now_s - away_since_s > PATIENCE_S:
                    end = f"given up after {PATIENCE_S / 60.0:.0f} min; {self._hint(campaign)}"
                    raise ServerError(f"{problem}; {end}") from problem
            self._pause(_POLL_S)
        raise ServerError(f"{self._client.url}: it does not report an outcome")


def read_application(document: Any) -> Application:
    """Read an application; how its testbed is reached is known only to the server."""
    fields = mapping(document)
    configurations = {name: read_configuration(fields.get(name)) for name in ("before", "after")}
    defaults = {"stepwise": fields.get("step"), "section": ""}
    return checked(_APPLICATION, fields | configurations | defaults)


def read_plan(document: Any) -> tuple[ApplyPlan, Application | None]:
    """Read a plan and its application, None when nothing has to change. ServerError when the
    identity does not match the contents of the plan.
    """
    fields = mapping(document)
    planned = fields.get("application")
    application = None if planned is None else read_application(planned)
    steps = checked(TypeAdapter(list[dict[str, Any]]), fields.get("steps"))
    campaign, testbed, label, programs = (
        checked(_TEXT, fields.get(name)) for name in ("campaign", "testbed", "label", "programs")
    )
    plan = ApplyPlan(
        campaign=campaign,
        testbed=testbed,
        label=label,
        programs=programs,
        before=read_configuration(fields.get("before")),
        after=read_configuration(fields.get("after")),
        parts=tuple(_part(part) for part in checked(_PARTS, fields.get("parts"))),
        steps=tuple(read_configuration(step) for step in steps),
        notes=checked(_TEXTS, fields.get("notes")),
        stepwise=checked(TypeAdapter(bool), fields.get("step")),
        clients=checked(_TEXTS, fields.get("clients", ())),
    )
    identity = plan.identity if application is None else application.plan
    if not plan.identity == identity == fields.get("identity"):
        raise ServerError("the server's plan is not the one that its identity belongs to")
    if plan.is_empty is not (application is None):
        raise ServerError("the server's plan does not state whether it changes anything")
    return plan, application


def _part(fields: Mapping[str, Any]) -> PartPlan:
    changes = checked(TypeAdapter(tuple[Difference, ...]), fields.get("changes"))
    return checked(TypeAdapter(PartPlan), {**fields, "changes": changes})
