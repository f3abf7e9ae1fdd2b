"""Storage of campaigns: their states, baselines and answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, update

from tuner.errors import ConflictError
from tuner.identifiers import new_campaign_id
from tuner.model import Campaign, Configuration, Event, Prior, Recommendation
from tuner.states import CampaignState, TrialState
from tuner.store import posted_requests, queries, statements, tables
from tuner.store.leases import LeaseStore
from tuner.store.posted_requests import PostedRequest
from tuner.store.rows import NewEvent, values
from tuner.time_use import TimeUse

#: The state, and the reason, for trials still open when their campaign ends.
_TRIALS_END = {
    CampaignState.FINISHED: (TrialState.COMPLETE, "the campaign ended"),
    CampaignState.CANCELLED: (TrialState.CANCELLED, "the campaign was cancelled"),
}


class CampaignStore(LeaseStore):
    """Methods for campaigns as such; see ``Store``."""

    def create_campaign(
        self,
        name: str,
        spec: str,
        seed: int,
        at: datetime,
        *,
        priors: Sequence[Prior] = (),
        request: PostedRequest | None = None,
    ) -> Campaign:
        """Store a new campaign and its first event. ``spec``: JSON text; 0 <= ``seed`` < 2**64.

        ``priors``: findings of earlier campaigns. ``request``: the request that creates it; if a
        campaign was already created by the same request, that one is returned.
        """
        event = NewEvent(at, "campaign-created", f"campaign {name} is created")
        table = tables.campaign

        def add(connection: Connection) -> Campaign:
            campaign = Campaign(
                id=new_campaign_id(at),
                name=name,
                state=CampaignState.CREATED,
                spec=spec,
                seed=seed,
                created=at,
                updated=at,
            )
            row = values(table, campaign) | values(table, campaign.time_use)
            if request is not None and (
                earlier := posted_requests.campaign_of(connection, request, at)
            ):
                return queries.campaigns(connection, table.c.id == earlier)[0]
            connection.execute(insert(table).values(row))
            if request is not None:
                posted_requests.keep(connection, request, campaign.id, at)
            for number, prior in enumerate(priors):
                prior_row = values(tables.prior, prior, campaign=campaign.id, number=number)
                connection.execute(insert(tables.prior).values(prior_row))
            queries.add_event(connection, campaign.id, event)
            return campaign

        try:
            return self._database.write(add)
        except ConflictError:
            # Lost a race against the same request, whose campaign exists now; or another campaign
            # of the same second has the identifier: one in 500,000 pairs.
            return self._database.write(add)

    def campaigns(self) -> list[Campaign]:
        """Return every campaign, newest first."""
        return self._database.read(queries.campaigns)

    def campaign(self, reference: str) -> Campaign:
        """Return a campaign by its identifier, by a unique prefix of it or unique name, or the
        ``last`` one.
        """

        def find(connection: Connection) -> Campaign:
            identifier = queries.resolve(connection, reference, self._database.where)
            return queries.campaigns(connection, tables.campaign.c.id == identifier)[0]

        return self._database.read(find)

    def move_campaign(
        self,
        campaign: str,
        state: CampaignState,
        reason: str,
        event: NewEvent,
        *,
        before: CampaignState | None = None,
    ) -> Event:
        """Change the state of a campaign. When its run ends, the pending request to it is deleted.
        At the end of the campaign, its open trials end in the same transaction: if only some of
        them had ended, a resumed run would decide differently.

        ``before``: the state that the decision relies on; ConflictError if it is another by now.
        """
        table = tables.campaign

        def move(connection: Connection, row: Row[Any]) -> Event:
            if before not in (None, row.state):
                raise ConflictError(f"campaign {campaign} is {row.state} by now; try again")
            this, what = table.c.id == campaign, f"campaign {campaign}"
            queries.move(connection, table, this, what, state, reason=reason)
            if state is not CampaignState.RUNNING:
                connection.execute(statements.DROP_REQUEST, {"of": campaign})
            if state in _TRIALS_END:
                queries.end_trials(connection, campaign, *_TRIALS_END[state])
            return queries.add_event(connection, campaign, event)

        return self._change(campaign, move)

    def set_baseline(
        self, campaign: str, configuration: Configuration, event: NewEvent
    ) -> Event | None:
        """Store the baseline as read from the testbed. Storing the same one again changes nothing
        and returns None.
        """
        table = tables.campaign

        def set_once(connection: Connection, row: Row[Any]) -> Event | None:
            if row.baseline == configuration:
                return None
            if row.baseline is not None:
                raise ConflictError(f"campaign {campaign} was started with another baseline")
            connection.execute(
                update(table).where(table.c.id == campaign).values(baseline=configuration)
            )
            return queries.add_event(connection, campaign, event)

        return self._change(campaign, set_once)

    def add_time_use(self, campaign: str, use: TimeUse) -> None:
        """Add to the campaign's time use. This is accounting and stores no event."""
        self._change(campaign, lambda connection, row: queries.add_time_use(connection, row, use))

    def save_recommendation(
        self, campaign: str, recommendation: Recommendation, event: NewEvent
    ) -> Event:
        """Store the answer of a campaign, replacing an earlier one. Its trial must be stored
        already.
        """
        table = tables.recommendation
        effects = [
            values(tables.effect, effect, campaign=campaign, component=name)
            for name, effect in recommendation.components.items()
        ]

        def save(connection: Connection, _: Row[Any]) -> Event:
            for old in (tables.effect, table):
                connection.execute(delete(old).where(old.c.campaign == campaign))
            connection.execute(
                insert(table).values(values(table, recommendation, campaign=campaign))
            )
            if effects:
                connection.execute(insert(tables.effect), effects)
            return queries.add_event(connection, campaign, event)

        return self._change(campaign, save)
