"""What all campaigns of a store recommend: certified settings, by what they were measured on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from tuner.campaign.expiry import expired, fingerprint
from tuner.model import Answer, Campaign, Recommendation
from tuner.page.names import Names, names
from tuner.records.differences import changes
from tuner.report.drawing import Printable, paragraph
from tuner.report.recommend import RecommendationDocument, recommendation_document
from tuner.report.styles import NAME, literal
from tuner.report.tables import Column, Listing
from tuner.store import Store
from tuner.store.pages import Pages
from tuner.text import faster

#: So many of the newest campaigns that have an answer are looked at.
_CONSIDERED = 1000


@dataclass(frozen=True, slots=True)
class Filters:
    """What is asked for; None for whatever. ``testbed``, ``workload``, ``space``: as campaigns name
    them; ``version``: a part of what the testbed said of its programs; ``fingerprint``: of the
    testbed.
    """

    testbed: str | None = None
    workload: str | None = None
    space: str | None = None
    version: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A certified recommendation of a campaign, whose identifier is ``campaign``. ``identity``: of
    the programs that it was measured with; ``expired``: why it does not speak for its testbed any
    more, "" where it does.
    """

    campaign: str
    finished: datetime
    named: Names
    identity: str
    fingerprint: str
    expired: str
    answer: Recommendation
    document: RecommendationDocument


def known_recommendations(store: Store, filters: Filters, limit: int) -> list[Known]:
    """Those that fit, the largest improvement that is certain first, expired ones last."""
    pages = Pages(store)
    fitting = [c for c in pages.answered(_CONSIDERED) if _fits(c, filters)]
    found = pages.found_on_testbed([campaign.id for campaign in fitting])
    every = []
    for campaign in fitting:
        look, answer = found.get(campaign.id, {}), campaign.recommendation
        identity, mark = look.get("identity", ""), fingerprint(look)
        if answer is None or (filters.version or "") not in identity:
            continue
        if filters.fingerprint in (None, mark):
            every.append(
                Known(
                    campaign=campaign.id,
                    finished=campaign.updated,
                    named=names(campaign),
                    identity=identity,
                    fingerprint=mark,
                    expired=expired(store, campaign),
                    answer=answer,
                    document=recommendation_document(campaign, answer, client=identity),
                )
            )
    every.sort(key=lambda one: (bool(one.expired), _certain(one.answer)))
    return every[:limit]


def known_page(found: Sequence[Known]) -> RenderableType:
    """A line for each on a terminal, and why those that have expired have."""
    columns = (
        Column("Campaign", rigid=True),
        Column("Testbed"),
        Column("Fingerprint", rigid=True),
        Column("Workload"),
        Column("Gain", right=True, rigid=True),
        Column("Settings"),
    )
    table = Listing(columns, tuple(map(_line, found)))
    gone = [paragraph(f"{one.campaign} {one.expired}") for one in found if one.expired]
    return Printable(Group(table, *(["", *gone] if gone else [])))


def _line(known: Known) -> tuple[Text, ...]:
    answer = known.answer
    gain = "" if answer.ratio is None else faster(answer.ratio)
    return (
        literal(known.campaign, NAME),
        literal(known.named.testbed),
        literal(known.fingerprint),
        literal(known.named.workload),
        literal("expired" if known.expired else gain),
        literal(changes(answer.baseline, answer.configuration)),
    )


def known_json(found: Sequence[Known]) -> str:
    """The same as JSON, each with its whole recommendation."""
    return json.dumps(list(map(_document, found)), indent=2, ensure_ascii=False)


def _document(known: Known) -> dict[str, object]:
    return {
        "campaign": known.campaign,
        "testbed": known.named.testbed,
        "fingerprint": known.fingerprint,
        "identity": known.identity,
        "workload": known.named.workload,
        "spaces": dict(known.named.spaces),
        "expired": known.expired,
        "recommendation": known.document.model_dump(mode="json", by_alias=True),
    }


def _fits(campaign: Campaign, filters: Filters) -> bool:
    answer, named = campaign.recommendation, names(campaign)
    return (
        answer is not None
        and answer.answer is Answer.RECOMMENDED
        and filters.testbed in (None, named.testbed)
        and filters.workload in (None, named.workload)
        and (filters.space is None or filters.space in named.spaces.values())
    )


def _certain(answer: Recommendation) -> float:
    """The largest time ratio that the measurements allow: the smaller, the better for certain."""
    return float("inf") if answer.upper is None else answer.upper
