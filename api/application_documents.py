"""JSON documents for plans and applications."""

from __future__ import annotations

from datetime import datetime

from api.documents import Document
from tuner.applications import Application
from tuner.apply.plan import ApplyPlan
from tuner.model import Value
from tuner.states import ApplicationState


class ApplicationDocument(Document):
    """A configuration that was or will be applied.

    ``plan``: identity of its plan. ``before``, ``after``: settings by qualified name. ``changed``,
    ``changed_by``: when it entered its current state, and who moved it there. ``asked_by``: who
    sent the pending HTTP request; null if none is pending. ``clients``: the client hosts of the
    testbed, empty if its name determines them, or if an earlier release did not store them.
    """

    id: str
    campaign: str
    state: ApplicationState
    reason: str
    testbed: str
    programs: str
    plan: str
    step: bool
    before: dict[str, Value]
    after: dict[str, Value]
    planned: datetime
    planned_by: str
    changed: datetime
    changed_by: str
    asked_by: str | None
    clients: list[str]

    @classmethod
    def of(cls, application: Application) -> ApplicationDocument:
        """Convert an application."""
        return cls(
            id=application.id,
            campaign=application.campaign,
            state=application.state,
            reason=application.reason,
            testbed=application.testbed,
            programs=application.programs,
            plan=application.plan,
            step=application.stepwise,
            before=application.before.as_dict(),
            after=application.after.as_dict(),
            planned=application.planned,
            planned_by=application.planned_by,
            changed=application.changed,
            changed_by=application.changed_by,
            asked_by=application.asked_by,
            clients=list(application.clients),
        )


class ChangeDocument(Document):
    """A setting that changes; null means not set."""

    name: str
    old: Value | None
    new: Value | None


class PartPlanDocument(Document):
    """Changes to one program.

    ``old``, ``new``: its command-line options. ``where_kept``: where they are stored so that they
    survive a restart of the host, or what to do to make them persistent. ``how_changed``: what the
    change means for what runs, such as "is restarted".
    """

    name: str
    program: str
    changes: list[ChangeDocument]
    old: list[str]
    new: list[str]
    outlives_restart: bool
    where_kept: str
    how_changed: str


class PlanDocument(Document):
    """A plan for applying a recommended configuration.

    ``identity``: hash of the settings in effect and of the target settings. ``application``: null
    when nothing has to change. ``testbed``: the target, with ``label`` as its display name, and
    ``clients`` as its client hosts, if that does not determine them.
    ``programs``: programs and versions there. ``before``, ``after``: settings by qualified name.
    ``steps``: successive configurations, ending with the recommended one. ``notes``: to read before
    applying.
    """

    identity: str
    campaign: str
    testbed: str
    label: str
    clients: list[str]
    programs: str
    step: bool
    before: dict[str, Value]
    after: dict[str, Value]
    application: ApplicationDocument | None
    parts: list[PartPlanDocument]
    steps: list[dict[str, Value]]
    notes: list[str]

    @classmethod
    def of(cls, plan: ApplyPlan, application: Application | None) -> PlanDocument:
        """Convert a plan and the application stored for it."""
        return cls(
            identity=plan.identity,
            campaign=plan.campaign,
            testbed=plan.testbed,
            label=plan.label,
            clients=list(plan.clients),
            programs=plan.programs,
            step=plan.stepwise,
            before=plan.before.as_dict(),
            after=plan.after.as_dict(),
            application=None if application is None else ApplicationDocument.of(application),
            parts=[PartPlanDocument.model_validate(part) for part in plan.parts],
            steps=[step.as_dict() for step in plan.steps],
            notes=list(plan.notes),
        )
