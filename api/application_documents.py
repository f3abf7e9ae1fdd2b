"""Plans and applications as documents: the stored records with the names they have there."""

from __future__ import annotations

from datetime import datetime

from api.documents import Document
from tuner.applications import Application
from tuner.apply.plan import ApplyPlan
from tuner.model import Configuration, Value
from tuner.states import ApplicationState


class ApplicationDocument(Document):
    """A configuration that was, or is to be, brought into force.

    ``plan``: the identity of its plan; ``before`` and ``after``: the settings by qualified name;
    ``changed``: when it came into its state, and by whom. ``asked_by``: who has asked over HTTP for
    what has not begun yet.
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

    @classmethod
    def of(cls, application: Application) -> ApplicationDocument:
        """The document for a record."""
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
        )


class ChangeDocument(Document):
    """A setting that changes; null where it is not set."""

    name: str
    old: Value | None
    new: Value | None


class PartPlanDocument(Document):
    """What changes in one program. ``old`` and ``new``: its options; ``where_kept``: what keeps
    them when its host restarts, or what has to be done for that.
    """

    component: str
    program: str
    changes: list[ChangeDocument]
    old: list[str]
    new: list[str]
    outlives_restart: bool
    where_kept: str


class PlanDocument(Document):
    """A plan. ``identity``: of what is in effect and what shall be; ``application``: null when
    nothing has to change; ``testbed``: where, ``label`` for people; ``programs``: programs and
    versions there; ``before`` and ``after``: the settings by qualified name; ``steps``: the
    configurations on the way, the last of which is recommended; ``notes``: to be read before.
    """

    identity: str
    campaign: str
    testbed: str
    label: str
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
        """The document for a plan and the application that it is stored as."""
        parts = [
            PartPlanDocument(
                component=part.component,
                program=part.program,
                changes=[ChangeDocument(name=c.name, old=c.old, new=c.new) for c in part.changes],
                old=list(part.old),
                new=list(part.new),
                outlives_restart=part.outlives_restart,
                where_kept=part.where_kept,
            )
            for part in plan.parts
        ]
        return cls(
            identity=plan.identity,
            campaign=plan.campaign,
            testbed=plan.testbed,
            label=plan.label,
            programs=plan.programs,
            step=plan.stepwise,
            before=_settings(plan.before),
            after=_settings(plan.after),
            application=None if application is None else ApplicationDocument.of(application),
            parts=parts,
            steps=[_settings(step) for step in plan.steps],
            notes=list(plan.notes),
        )


def _settings(configuration: Configuration) -> dict[str, Value]:
    return configuration.as_dict()
