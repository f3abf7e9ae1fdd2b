"""Routes that list search spaces, workloads, testbeds and certified recommendations."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

import search_spaces
import workloads
from api import problems
from api.authorisation import READ
from api.documents import Document
from api.paging import Limit
from api.query import STRICT
from api.service import Serving
from search_spaces import describe
from tuner.errors import NotFoundError
from tuner.measure.workload import load_workload
from tuner.page.recommendations import Filters, KnownRecommendation, known_recommendations
from tuner.report.recommendation_document import RecommendationDocument
from tuner.services.kinds import offer, offers

router = APIRouter(
    prefix="/v1", tags=["catalogue"], dependencies=[STRICT, READ], responses=problems.responses()
)

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,80}$")]
Filter = Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$")]


class SpaceDocument(Document):
    """A search space in a list."""

    name: str
    part: str
    title: str
    program: str
    versions: str
    parameters: int
    searched: int


class WorkloadDocument(Document):
    """A workload in a list. ``components``: the weight of each timed component."""

    name: str
    description: str
    least_clients: int
    components: dict[str, float]


class TestbedDocument(Document):
    """A testbed available to campaigns started over HTTP. ``hosts``: number of hosts."""

    __test__ = False
    name: str
    kind: str
    title: str
    hosts: int | None


class BestDocument(Document):
    """A campaign's recommendation and its origin.

    ``fingerprint``: hash of the testbed's programs and versions, equal for equal ones.
    ``certificate``: the claim, its level and the number of fresh blocks. ``expired``: why the
    certificate is no longer valid for its testbed, "" if it is valid.
    """

    campaign: str
    finished: datetime
    age_s: float
    testbed: str
    identity: str
    fingerprint: str
    expired: str
    workload: str
    spaces: dict[str, str]
    certificate: str
    recommendation: RecommendationDocument


@router.get("/spaces", operation_id="list_spaces")
def list_spaces() -> list[SpaceDocument]:
    """List the search spaces included in fstune."""
    return list(_spaces())


@cache
def _spaces() -> tuple[SpaceDocument, ...]:
    # Packaged search spaces do not change while the service runs.
    return tuple(
        SpaceDocument(
            name=space.name,
            part=space.part,
            title=space.title,
            program=space.program,
            versions=space.versions,
            parameters=len(space.parameters),
            searched=len(space.searched),
        )
        for space in search_spaces.installed().values()
    )


@router.get("/spaces/{name}", operation_id="get_space", responses=problems.responses(404))
def get_space(name: Name) -> dict[str, Any]:
    """Get a complete search space: parameters, limits, sources, rules and presets."""
    spaces = search_spaces.installed()
    if name not in spaces:
        raise NotFoundError(f"there is no search space {name}")
    return dict(describe.document(spaces[name]))


@router.get("/workloads", operation_id="list_workloads")
def list_workloads() -> list[WorkloadDocument]:
    """List the workloads included in fstune."""
    return [_workload(name) for name in workloads.packaged()]


@router.get("/workloads/{name}", operation_id="get_workload", responses=problems.responses(404))
def get_workload(name: Name) -> dict[str, Any]:
    """Get a complete workload document, as read by the workload engine."""
    if name not in workloads.packaged():
        raise NotFoundError(f"there is no workload {name}")
    return dict(json.loads(load_workload(name).document))


@cache
def _workload(name: str) -> WorkloadDocument:
    spec = load_workload(name).spec
    return WorkloadDocument(
        name=name,
        description=spec.description,
        least_clients=spec.least_clients,
        components={part.name: part.weight for part in spec.components},
    )


@router.get("/testbeds", operation_id="list_testbeds")
def list_testbeds(serving: Serving) -> list[TestbedDocument]:
    """List the testbeds available to campaigns started over HTTP."""
    documents = [
        TestbedDocument(name=key, kind=key, title=title, hosts=None)
        for key, title in offers().items()
        if key in serving.settings.allow
    ]
    for file in serving.settings.testbed_files():
        if (one := offer(file)) is None:
            continue  # the error is raised when a campaign is started on it
        document = TestbedDocument(name=file.stem, kind=one.key, title=one.title, hosts=one.hosts)
        documents.append(document)
    return documents


@router.get("/recommendations", operation_id="find_recommendations")
def find_recommendations(
    serving: Serving,
    testbed: Filter = None,
    workload: Filter = None,
    space: Filter = None,
    version: Filter = None,
    fingerprint: Filter = None,
    limit: Limit = 10,
) -> list[BestDocument]:
    """Find certified recommendations, largest certain improvement first.

    ``testbed``, ``workload``, ``space``: names as used by campaigns. ``version``: part of the
    program versions reported by the testbed. ``fingerprint``: of the testbed. Expired
    recommendations come last. Only the newest campaigns that have an answer are searched.
    """
    filters = Filters(testbed, workload, space, version, fingerprint)
    now = datetime.now(UTC)
    return [_best(one, now) for one in known_recommendations(serving.store, filters, limit)]


def _best(answer: KnownRecommendation, now: datetime) -> BestDocument:
    names = answer.names
    return BestDocument(
        campaign=answer.campaign,
        finished=answer.finished,
        age_s=max(0.0, (now - answer.finished).total_seconds()),
        testbed=names.testbed,
        identity=answer.identity,
        fingerprint=answer.fingerprint,
        expired=answer.expired,
        workload=names.workload,
        spaces=dict(names.spaces),
        certificate=answer.document.claim,
        recommendation=answer.document,
    )
