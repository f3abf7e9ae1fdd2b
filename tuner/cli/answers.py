"""Commands that tell of one stored campaign: how it went, and what it recommends."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tuner.campaign.overview import beside, overview
from tuner.campaign.presence import absence
from tuner.cli.ending import no_answer
from tuner.cli.options import (
    CampaignReference,
    Database,
    Server,
    StateDir,
    open_store,
    server_address,
)
from tuner.model import Campaign
from tuner.report.beside import Comparison
from tuner.report.recommend import (
    RecommendationDocument,
    recommendation_document,
    recommendation_flags,
    recommendation_page,
)
from tuner.report.tables import campaign_page, show
from tuner.store.pages import Pages

_EVENTS_SHOWN = 12


class Format(StrEnum):
    """How a recommendation is printed."""

    TEXT = "text"
    JSON = "json"
    FLAGS = "flags"


def show_campaign(
    campaign: CampaignReference = "last",
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Show a campaign: its trials with verdicts, and what happened last."""
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.show_campaign(address, campaign, _EVENTS_SHOWN)
        return
    with open_store(state_dir, database) as store:
        found = store.campaign(campaign)
        seen = overview(store, found)
        absent = absence(store, found.id)
        page = campaign_page(
            found,
            store.trials(found.id),
            seen.newest,
            Pages(store).events(found.id, 0, last=_EVENTS_SHOWN),
            estimates=seen.numbers.estimates,
            drift=seen.numbers.drift,
            references=seen.references,
            clients=seen.numbers.clients,
            testbeds_differ=seen.numbers.testbeds_differ,
            counts=seen.counts,
            absence="" if absent is None else absent.sentence(),
        )
        show(Console(), page)


def recommend(
    campaign: CampaignReference = "last",
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TEXT,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Print what a finished campaign recommends, and on what evidence.

    'json' is for programs; 'flags' prints the options to set, a line for each program.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        found, document, references = remote.recommendation(address, campaign)
    else:
        found, document, references = _stored_recommendation(campaign, state_dir, database)
    assert found.recommendation is not None
    match form:
        case Format.TEXT:
            page = recommendation_page(
                found, found.recommendation, client=document.client, references=references
            )
            show(Console(), page)
        case Format.JSON:
            typer.echo(document.json_text())
        case Format.FLAGS:
            typer.echo(recommendation_flags(found.recommendation), nl=False)


def _stored_recommendation(
    campaign: str, state_dir: Path | None, database: str | None
) -> tuple[Campaign, RecommendationDocument, Sequence[Comparison]]:
    with open_store(state_dir, database) as store:
        found = store.campaign(campaign)
        client = store.measured(found.id)
        references = beside(store, found)
    if found.recommendation is None:
        raise no_answer(found)
    document = recommendation_document(
        found, found.recommendation, client=client, references=references
    )
    return found, document, references
