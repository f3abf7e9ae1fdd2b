"""The campaigns of a server as records, and the operations on them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, BinaryIO

from tuner.errors import NotFoundError, ServerError, SpecError
from tuner.judge.noise_records import NoiseReport
from tuner.model import Block, BlockKind, Campaign, Event, Trial, Wish
from tuner.page.forms import ReportForm
from tuner.page.recommendations import Filters, KnownRecommendation
from tuner.plan.named_comparison import ORIGIN
from tuner.records.estimate import Estimate
from tuner.records.named_comparison import NamedComparison
from tuner.records.status import Status
from tuner.remote.client import Client, Params, Unreachable, campaign_path
from tuner.remote.records import (
    mapping,
    read_answer,
    read_blocks,
    read_campaign,
    read_comparison,
    read_estimates,
    read_event,
    read_noise,
    read_ratios,
    read_recommendation,
    read_sentences,
    read_status,
    read_trial,
)
from tuner.report.recommendation_document import RecommendationDocument
from tuner.spec.campaign import CampaignSpec
from tuner.text import clean


class Campaigns:
    """The campaigns of ``client``'s server. Methods raise what ``Client`` raises."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def all(self) -> list[Campaign]:
        """Return all campaigns, newest first."""
        return [read_campaign(document) for document in self.client.pages("/v1/campaigns")]

    def campaign(self, reference: str) -> Campaign:
        """Return a campaign by its identifier, a prefix of it, or ``last``."""
        return read_campaign(self.client.get(campaign_path(reference)))

    def trials(self, campaign: str) -> list[Trial]:
        """Return the trials of a campaign, by number."""
        return [read_trial(document) for document in self._pages(campaign, "trials")]

    def status(self) -> Status:
        """Return what is running on the server, and what is waiting."""
        return read_status(self.client.get("/v1/status"))

    def blocks(self, campaign: str, after: int = 0) -> list[tuple[Block, int]]:
        """Return the blocks with numbers above ``after``, by number, without measurements, each
        with the number of its measurements.
        """
        documents = self._after(campaign, "blocks", after)
        counts = [len(document.get("measured", ())) for document in documents]
        rows = zip(read_blocks(documents), counts, strict=True)
        return [(block, count) for block, count in rows if block.number > after]

    def blocks_with_measurements(self, campaign: str) -> list[Block]:
        """Return the blocks by number, with their measurements."""
        measurements = list(self._pages(campaign, "measurements"))
        return read_blocks(self._pages(campaign, "blocks"), measurements)

    def events(self, campaign: str, after: int = 0) -> list[Event]:
        """Return the events with numbers above ``after``, in order."""
        events = (read_event(document) for document in self._after(campaign, "events", after))
        return [event for event in events if event.number > after]

    def newest_events(self, campaign: str, after: int, count: int) -> list[Event]:
        """Return as many of the newest events with numbers above ``after``, in order. Raises
        SpecError if the server is of an earlier release.
        """
        return self._some_events(campaign, {"after": after, "newest": count})

    def events_of(self, campaign: str, after: int, kinds: Sequence[str]) -> list[Event]:
        """Return the events of these kinds with numbers above ``after``, in order."""
        return self._some_events(campaign, {"after": after, "kinds": ",".join(kinds)})

    def _some_events(self, campaign: str, which: Params) -> list[Event]:
        documents = self.client.pages(campaign_path(campaign, "events"), which)
        return [read_event(document) for document in documents]

    def estimates(self, campaign: str, kind: BlockKind) -> dict[int, tuple[Estimate, int]]:
        """Return its trials against the baseline; empty when the server no longer has this."""
        try:
            verdicts = self.client.get(campaign_path(campaign, "verdicts"))
        except NotFoundError:
            return {}
        return read_estimates(verdicts, kind)

    def drift(self, campaign: str) -> list[float]:
        """Return the baseline's time in each block over its mean of all blocks."""
        return read_ratios(self.client.get(campaign_path(campaign, "drift")))

    def report(self, campaign: str, form: ReportForm, output: BinaryIO) -> None:
        """Write the report of a campaign to a file, replacing its contents."""
        self.client.download(f"{campaign_path(campaign, 'report')}?format={form}", output)

    def recommendation(self, campaign: str) -> RecommendationDocument:
        """Return the answer of a campaign; NotFoundError when it has none yet."""
        return read_answer(self.client.get(campaign_path(campaign, "recommendation")))

    def why(self, campaign: str) -> list[str]:
        """Return what changed with the settings of its answer, a sentence each; empty when the
        server does not know.
        """
        try:
            return read_sentences(self.client.get(campaign_path(campaign, "why")))
        except NotFoundError:
            return []

    def noise(self, campaign: str) -> tuple[NoiseReport, tuple[str, ...]] | None:
        """Return how much each noise-reduction measure helped, and the components; None when too
        little was repeated to tell, or when the server does not know.
        """
        try:
            return read_noise(self.client.get(campaign_path(campaign, "noise")))
        except NotFoundError:
            return None

    def comparison(self, campaign: str, trials: Sequence[Trial]) -> NamedComparison | None:
        """Return the comparison, if the campaign compares given configurations; None when the
        server no longer has it. ``trials``: the trials of the campaign.
        """
        if not any(trial.origin.startswith(ORIGIN) for trial in trials):
            return None
        try:
            return read_comparison(self.client.get(campaign_path(campaign, "comparison")))
        except NotFoundError:
            return None

    def recommendations(self, filters: Filters, limit: int) -> list[KnownRecommendation]:
        """Return the matching certified recommendations of all campaigns, in the order of the
        server.
        """
        params = {name: value for name, value in asdict(filters).items() if value is not None}
        documents = self.client.get("/v1/recommendations", {**params, "limit": limit})
        if not isinstance(documents, list):
            raise self.client.misunderstood("/v1/recommendations")
        return list(map(read_recommendation, documents))

    def export(self, campaign: str, output: BinaryIO) -> int:
        """Write a whole campaign to a file for ``fstune import``; return its size in bytes."""
        return self.client.download(campaign_path(campaign, "export"), output)

    def create(self, spec: CampaignSpec, lost: Callable[[str], None] = lambda _: None) -> Campaign:
        """Create and start a campaign on the server. ``lost``: called with the reason while the
        server does not answer.
        """
        return read_campaign(self._create("/v1/campaigns", spec, lost))

    def branch(
        self, spec: CampaignSpec, campaign: str, lost: Callable[[str], None] = lambda _: None
    ) -> tuple[Campaign, int | None, str]:
        """Like ``create``, for one that is guided by what another ``campaign`` found; also return
        by how many of its trials, None if the server is too old to say so, and why by none.
        """
        answer = mapping(self._create(campaign_path(campaign, "branch"), spec, lost))
        trials = answer.get("guiding_trials")
        trials = trials if isinstance(trials, int) else None
        return read_campaign(answer), trials, clean(str(answer.get("unguided") or ""))

    def _create(self, path: str, spec: CampaignSpec, lost: Callable[[str], None]) -> Any:
        # Only what the user set: the server has its own defaults, and may know other keys.
        body = spec.model_dump_json(exclude_unset=True)
        return self.client.create(path, body, uuid.uuid4().hex, lost)

    def resume(self, campaign: str, *, override_pilot: bool) -> None:
        """Resume a stopped campaign."""
        params = {"override_pilot": json.dumps(override_pilot)}
        self._change(campaign_path(campaign, "resume"), params)

    def steer(self, campaign: str, wish: Wish) -> Campaign:
        """Pause or cancel a campaign at its next safe point; return its current record."""
        return read_campaign(self._change(campaign_path(campaign, wish)))

    def _change(self, path: str, params: Params | None = None) -> Any:
        """Send a request that is never sent twice."""
        try:
            return self.client.post(path, params)
        except Unreachable as problem:
            if not problem.may_be_done:
                raise
            raise ServerError(f"{problem}. {self.client.doubt('done')}") from problem

    def _pages(self, campaign: str, of: str) -> Iterator[Any]:
        return self.client.pages(campaign_path(campaign, of))

    def _after(self, campaign: str, of: str, after: int) -> list[Any]:
        """Return the items with numbers above ``after``; all of them if the server is of an earlier
        release.
        """
        if after:
            with suppress(SpecError):
                return list(self.client.pages(campaign_path(campaign, of), {"after": after}))
        return list(self._pages(campaign, of))
