"""The certified recommendations of all campaigns of a store, filtered by where they apply."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from tuner.model import Answer, Campaign, Recommendation
from tuner.page.names import Names, names
from tuner.records.differences import changes
from tuner.report.drawing import Printable, paragraph
from tuner.report.listing import Column, Listing
from tuner.report.recommendation_document import RecommendationDocument, recommendation_document
from tuner.report.styles import NAME, literal
from tuner.results.expiry import expiries, fingerprint
from tuner.store import Store
from tuner.store.pages import Pages
from tuner.text import faster

#: Number of campaigns considered, the newest ones with an answer.
_CONSIDERED = 1000


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on recommendations; None matches anything.

    ``testbed``, ``workload``, ``space``: as named in campaigns; ``version``: a substring of the
    program versions that the testbed reported; ``fingerprint``: of the testbed.
    """

    testbed: str | None = None
    workload: str | None = None
    space: str | None = None
    version: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class KnownRecommendation:
    """A certified recommendation of the campaign with identifier ``campaign``.

    ``identity``: program versions that it was measured with; ``expired``: why it no longer applies
    to its testbed, "" if it does.
    """

    campaign: str
    finished: datetime
    names: Names
    identity: str
    fingerprint: str
    expired: str
    answer: Recommendation
    document: RecommendationDocument


def known_recommendations(store: Store, filters: Filters, limit: int) -> list[KnownRecommendation]:
    """Return matching recommendations: largest guaranteed gain first, expired ones last."""
    pages = Pages(store)
    fitting = [c for c in pages.with_answer(_CONSIDERED) if _fits(c, filters)]
    findings = pages.testbed_findings([campaign.id for campaign in fitting])
    reasons = expiries(store, fitting)
    every = []
    for campaign in fitting:
        look, answer = findings.get(campaign.id, {}), campaign.recommendation
        identity, mark = look.get("identity", ""), fingerprint(look)
        if answer is None or (filters.version or "") not in identity:
            continue
        if filters.fingerprint in (None, mark):
            every.append(
                KnownRecommendation(
                    campaign=campaign.id,
                    finished=campaign.updated,
                    names=names(campaign),
                    identity=identity,
                    fingerprint=mark,
                    expired=reasons.get(campaign.id, ""),
                    answer=answer,
                    document=recommendation_document(campaign, answer, client=identity),
                )
            )
    every.sort(key=lambda one: (bool(one.expired), _certain(one.answer)))
    return every[:limit]


def known_page(rows: Sequence[KnownRecommendation]) -> RenderableType:
    """Render a line per recommendation, and the reasons of those that have expired."""
    columns = (
        Column("Campaign", rigid=True),
        Column("Testbed"),
        Column("Fingerprint", rigid=True),
        Column("Workload"),
        Column("Gain", right=True, rigid=True),
        Column("At least", right=True, rigid=True),
        Column("Settings"),
    )
    table = Listing(columns, tuple(map(_line, rows)))
    expired_lines = [paragraph(f"{one.campaign} {one.expired}") for one in rows if one.expired]
    return Printable(Group(table, *(["", *expired_lines] if expired_lines else [])))


def _line(row: KnownRecommendation) -> tuple[Text, ...]:
    answer = row.answer
    gain = "" if answer.ratio is None else faster(answer.ratio)
    least = "" if row.expired or answer.upper is None else faster(answer.upper)
    return (
        literal(row.campaign, NAME),
        literal(row.names.testbed),
        literal(row.fingerprint),
        literal(row.names.workload),
        literal("expired" if row.expired else gain),
        literal(least),
        literal(changes(answer.baseline, answer.configuration)),
    )


def known_json(rows: Sequence[KnownRecommendation]) -> str:
    """Return the same as JSON, each with its complete recommendation."""
    return json.dumps(list(map(_document, rows)), indent=2, ensure_ascii=False)


def _document(row: KnownRecommendation) -> dict[str, object]:
    return {
        "campaign": row.campaign,
        "testbed": row.names.testbed,
        "fingerprint": row.fingerprint,
        "identity": row.identity,
        "workload": row.names.workload,
        "spaces": dict(row.names.spaces),
        "expired": row.expired,
        "recommendation": row.document.model_dump(mode="json", by_alias=True),
    }


def _fits(campaign: Campaign, filters: Filters) -> bool:
    answer, all_names = campaign.recommendation, names(campaign)
    return (
        answer is not None
        and answer.answer is Answer.RECOMMENDED
        and filters.testbed in (None, all_names.testbed)
        and filters.workload in (None, all_names.workload)
        and (filters.space is None or filters.space in all_names.spaces.values())
    )


def _certain(answer: Recommendation) -> float:
    """Return the upper bound of the time ratio: the smaller, the larger the guaranteed gain."""
    return float("inf") if answer.upper is None else answer.upper
