"""The campaigns of a server, as records; and what can be done with them there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

from tuner.campaign.named_comparison import ORIGIN
from tuner.campaign.spec import CampaignSpec
from tuner.errors import NotFoundError
from tuner.model import Block, BlockKind, Campaign, Event, Trial, Wish
from tuner.page.forms import ReportForm
from tuner.page.recommendations import Filters, KnownRecommendation
from tuner.records.estimate import Estimate
from tuner.records.named_comparison import NamedComparison
from tuner.records.status import Status
from tuner.remote.client import Client, campaign_path
from tuner.remote.records import (
    read_answer,
    read_blocks,
    read_campaign,
    read_comparison,
    read_estimates,
    read_event,
    read_ratios,
    read_recommendation,
    read_sentences,
    read_status,
    read_trial,
)
from tuner.report.recommend import RecommendationDocument


class Campaigns:
    """What ``client``'s server has. Methods raise what ``Client`` raises."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def all(self) -> list[Campaign]:
        """All campaigns, newest first."""
        return [read_campaign(document) for document in self.client.pages("/v1/campaigns")]

    def campaign(self, reference: str) -> Campaign:
        """One, by identifier, the beginning of one, or ``last``."""
        return read_campaign(self.client.get(campaign_path(reference)))

    def trials(self, campaign: str) -> list[Trial]:
        """Its trials, by number."""
        return [read_trial(document) for document in self._pages(campaign, "trials")]

    def status(self) -> Status:
        """What runs there, and what waits."""
        return read_status(self.client.get("/v1/status"))

    def blocks(self, campaign: str) -> tuple[list[Block], int]:
        """Its blocks by number, without their measurements; and how many of these there are."""
        documents = list(self._pages(campaign, "blocks"))
        return read_blocks(documents), sum(
            len(document.get("measured", ())) for document in documents
        )

    def blocks_with_measurements(self, campaign: str) -> list[Block]:
        """Its blocks by number, with their measurements."""
        measurements = list(self._pages(campaign, "measurements"))
        return read_blocks(self._pages(campaign, "blocks"), measurements)

    def events(self, campaign: str, after: int = 0) -> list[Event]:
        """What happened after the event of a number, in order."""
        events = (read_event(document) for document in self._pages(campaign, "events"))
        return [event for event in events if event.number > after]

    def estimates(self, campaign: str, kind: BlockKind) -> dict[int, tuple[Estimate, int]]:
        """Its trials against the baseline; none when the server cannot tell any more."""
        try:
            verdicts = self.client.get(campaign_path(campaign, "verdicts"))
        except NotFoundError:
            return {}
        return read_estimates(verdicts, kind)

    def drift(self, campaign: str) -> list[float]:
        """The baseline's time in each block over its mean of all."""
        return read_ratios(self.client.get(campaign_path(campaign, "drift")))

    def report(self, campaign: str, form: ReportForm, output: BinaryIO) -> None:
        """Write its report to a file, which is empty but for it then."""
        self.client.download(f"{campaign_path(campaign, 'report')}?format={form}", output)

    def recommendation(self, campaign: str) -> RecommendationDocument:
        """Its answer; NotFoundError before it has one."""
        return read_answer(self.client.get(campaign_path(campaign, "recommendation")))

    def why(self, campaign: str) -> list[str]:
        """What changed with the settings of its answer, a sentence each; none when the server
        cannot tell.
        """
        try:
            return read_sentences(self.client.get(campaign_path(campaign, "why")))
        except NotFoundError:
            return []

    def comparison(self, campaign: str, trials: Sequence[Trial]) -> NamedComparison | None:
        """What it compares, if it compares given configurations; None when the server cannot tell
        any more. ``trials``: its trials.
        """
        if not any(trial.origin.startswith(ORIGIN) for trial in trials):
            return None
        try:
            return read_comparison(self.client.get(campaign_path(campaign, "comparison")))
        except NotFoundError:
            return None

    def recommendations(self, filters: Filters, limit: int) -> list[KnownRecommendation]:
        """The certified recommendations of all campaigns that fit, as the server orders them."""
        params = {name: value for name, value in asdict(filters).items() if value is not None}
        documents = self.client.get("/v1/recommendations", {**params, "limit": limit})
        if not isinstance(documents, list):
            raise self.client.misunderstood("/v1/recommendations")
        return list(map(read_recommendation, documents))

    def export(self, campaign: str, output: BinaryIO) -> int:
        """Write all of it to a file, as ``fstune import`` takes it; returns its bytes."""
        return self.client.download(campaign_path(campaign, "export"), output)

    def create(self, spec: CampaignSpec) -> Campaign:
        """Begin one on the server."""
        return self._post_spec("/v1/campaigns", spec)

    def branch(self, campaign: str, spec: CampaignSpec) -> Campaign:
        """Begin one whose search is guided by what another has found."""
        return self._post_spec(campaign_path(campaign, "branch"), spec)

    def resume(self, campaign: str, *, override_pilot: bool) -> None:
        """Take up one that has stopped."""
        params = {"override_pilot": json.dumps(override_pilot)}
        self.client.post(campaign_path(campaign, "resume"), params)

    def steer(self, campaign: str, wish: Wish) -> Campaign:
        """Pause or cancel one at its next safe point; how it is now."""
        return read_campaign(self.client.post(campaign_path(campaign, wish)))

    def _post_spec(self, path: str, spec: CampaignSpec) -> Campaign:
        # Only what was written: the server has its own defaults, and may know others.
        body = spec.model_dump_json(exclude_unset=True)
        return read_campaign(self.client.create(path, body, uuid.uuid4().hex))

    def _pages(self, campaign: str, of: str) -> Iterator[Any]:
        return self.client.pages(campaign_path(campaign, of))
