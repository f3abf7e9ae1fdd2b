"""Server-side counterparts of the commands, used when a server is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, TypeVar

from tuner.cli.ending import CampaignEnd, effort_of, no_answer
from tuner.cli.say import say
from tuner.cli.watching import Blocks, connection_message, needed_events, watched
from tuner.documents import read_document
from tuner.errors import SpecError
from tuner.model import Block, BlockKind, Campaign, Event, Trial, Wish
from tuner.new_file import new_file
from tuner.page.forms import ReportForm
from tuner.page.recommendations import Filters, KnownRecommendation
from tuner.records.comparison import Comparison
from tuner.records.estimate import Estimate
from tuner.records.numbers import Numbers
from tuner.records.status import Absence, Status
from tuner.remote.address import address_of, server_options
from tuner.remote.campaigns import Campaigns
from tuner.remote.client import Client
from tuner.remote.records import comparisons_of, recommendation_of
from tuner.remote.stream import follow
from tuner.report.json_documents import campaign_json
from tuner.report.listing import output, show
from tuner.report.log import LogForm
from tuner.report.noise import noise_document
from tuner.report.recommendation_document import RecommendationDocument
from tuner.report.standing import guided_by
from tuner.report.tables import campaign_page
from tuner.run.steering import refuse_last
from tuner.run.stored_floor import floor_sentence
from tuner.spec.campaign import CampaignSpec
from tuner.states import BlockState, CampaignState

Result = TypeVar("Result")


@contextmanager
def _campaigns(server: str) -> Iterator[Campaigns]:
    with Client(address_of(server)) as client:
        yield Campaigns(client)


class _ServerSource:
    """A campaign on a server, as a ``Source``. While it is followed, the server may be restarted:
    that ends a run, so what follows an end is asked for until the server is back. ``lost``: shows
    that it is away already before that.
    """

    def __init__(
        self,
        campaigns: Campaigns,
        campaign: str,
        lost: Callable[[str], None] | None = None,
    ) -> None:
        self._campaigns = campaigns
        self._id = campaign
        self.options = server_options(campaigns.client.url)
        #: Of all blocks up to ``_last``, which have ended: complete ones by kind, measurements.
        self._complete: Counter[BlockKind] = Counter()
        self._measurements = 0
        self._last: Block | None = None
        #: Shows that the server is unreachable; None if then nothing can be followed.
        self._lost = lost

    def campaign(self) -> Campaign:
        return self._ask(lambda: self._campaigns.campaign(self._id))

    def events(self, after: int) -> list[Event]:
        return self._ask(lambda: self._campaigns.events(self._id, after))

    def earlier(self, after: int) -> list[Event]:
        """See Source.earlier; none from a server of an earlier release."""
        newest = partial(self._campaigns.newest_events, self._id, after)
        of_kinds = partial(self._campaigns.events_of, self._id, after)
        try:
            return self._ask(lambda: needed_events(newest, of_kinds))
        except SpecError:
            return []

    def follow(
        self,
        after: int,
        lost: Callable[[str], None],
        missed: Callable[[Absence | None], None],
    ) -> Iterator[Event]:
        self._lost = lost
        return follow(self._campaigns.client, self._id, after, lost=lost, missed=missed)

    def trials(self) -> list[Trial]:
        return self._campaigns.trials(self._id)

    def blocks(self) -> Blocks | None:
        after = 0 if self._last is None else self._last.number
        new = self._campaigns.blocks(self._id, after)
        final = list(takewhile(lambda row: row[0].state is not BlockState.RUNNING, new))
        self._complete += _complete(final)
        self._measurements += sum(count for _, count in final)
        self._last = final[-1][0] if final else self._last
        others = new[len(final) :]
        last = others[-1][0] if others else self._last
        if last is None:
            return None
        return Blocks(
            last=last,
            complete=(self._complete + _complete(others))[last.kind],
            measurements=self._measurements + sum(count for _, count in others),
        )

    def estimates(self, kind: BlockKind) -> dict[int, tuple[Estimate, int]]:
        return self._campaigns.estimates(self._id, kind)

    def end(self) -> CampaignEnd:
        return self._ask(self._end)

    def _end(self) -> CampaignEnd:
        campaign, answer = _with_answer(self._campaigns, self._campaigns.campaign(self._id))
        trials, rows = self.trials(), self._campaigns.blocks(self._id)
        blocks, measurements = [block for block, _ in rows], sum(count for _, count in rows)
        return CampaignEnd(
            campaign,
            effort_of(trials, blocks, measurements),
            comparisons_of(answer) if answer is not None else (),
            self._campaigns.comparison(self._id, trials),
        )

    def _ask(self, ask: Callable[[], Result]) -> Result:
        if self._lost is None:
            return ask()
        return self._campaigns.client.patiently(ask, self._lost)


def _complete(rows: Iterable[tuple[Block, int]]) -> Counter[BlockKind]:
    """Count the complete blocks by kind."""
    return Counter(block.kind for block, _ in rows if block.state is BlockState.COMPLETE)


def run(server: str, file: Path, log: LogForm | None, *, override_pilot: bool, quiet: bool) -> None:
    """Start a campaign on the server and watch it."""
    spec = _spec(file, override_pilot)
    with _campaigns(server) as campaigns:
        _watch_new(campaigns, campaigns.create(spec, _wait_note), log, quiet=quiet)


def branch(
    server: str,
    campaign: str,
    file: Path,
    log: LogForm | None,
    *,
    override_pilot: bool,
    quiet: bool,
) -> None:
    """Start a campaign on the server that is guided by an earlier one, and watch it."""
    spec = _spec(file, override_pilot)
    with _campaigns(server) as campaigns:
        new, trials, why = campaigns.branch(spec, campaign, _wait_note)
        if trials is not None:
            say(f"fstune: {guided_by(trials, [campaign], why)}", err=True)
        _watch_new(campaigns, new, log, quiet=quiet)


def resume(
    server: str, campaign: str, log: LogForm | None, *, override_pilot: bool, quiet: bool
) -> None:
    """Resume a campaign on the server, and watch it from there on."""
    with _campaigns(server) as campaigns:
        identifier = campaigns.campaign(campaign).id
        events = campaigns.events(identifier)
        campaigns.resume(identifier, override_pilot=override_pilot)
        after = events[-1].number if events else 0
        watched(_ServerSource(campaigns, identifier, _away_note), after, log, quiet=quiet)


def watch(server: str, campaign: str, log: LogForm | None, *, quiet: bool) -> None:
    """Watch a campaign on the server from its beginning."""
    with _campaigns(server) as campaigns:
        identifier = campaigns.campaign(campaign).id
        watched(_ServerSource(campaigns, identifier), 0, log, quiet=quiet)


def steer(server: str, campaign: str, wish: Wish) -> None:
    """Pause or cancel a campaign on the server."""
    with _campaigns(server) as campaigns:
        if wish is Wish.CANCEL:
            refuse_last(campaign, campaigns.campaign, "cancel")
        now = campaigns.steer(campaign, wish)
    outcome = f"will {wish} at the next safe point"
    if now.state is not CampaignState.RUNNING:
        outcome = f"is {now.state}: {now.reason}" if now.reason else f"is {now.state}"
    say(f"campaign {now.id} {outcome}")


def list_campaigns(server: str) -> tuple[list[Campaign], dict[str, str]]:
    """Return a server's campaigns and, by identifier, why some of them are stalled."""
    with _campaigns(server) as campaigns:
        rows = campaigns.all()
        running = any(each.state is CampaignState.RUNNING for each in rows)
        return rows, campaigns.status().stalled() if running else {}


def show_campaign(
    server: str,
    campaign: str,
    most_events: int,
    *,
    everything: bool = False,
    as_json: bool = False,
) -> None:
    """Show a campaign on a server."""
    with _campaigns(server) as campaigns:
        record, answer = _with_answer(campaigns, campaigns.campaign(campaign))
        trials = campaigns.trials(record.id)
        pairs = campaigns.estimates(record.id, BlockKind.SEARCH)
        estimates = {number: estimate for number, (estimate, _) in pairs.items()}
        comparison = campaigns.comparison(record.id, trials)
        noise = campaigns.noise(record.id) if everything or as_json else None
        if as_json:
            stalled = _absence(campaigns, record)
            document = None if noise is None else noise_document(*noise)
            say(campaign_json(record, trials, estimates, stalled, comparison, document))
            return
        events = campaigns.events(record.id)
        fresh = campaigns.estimates(record.id, BlockKind.CERTIFY)
        numbers = Numbers(estimates, fresh, campaigns.drift(record.id))
        page = campaign_page(
            replace(record, baseline=trials[0].configuration if trials else None),
            trials,
            campaigns.blocks_with_measurements(record.id),
            events[-most_events:],
            numbers,
            references=comparisons_of(answer) if answer is not None else (),
            comparison=comparison,
            absence=_absence(campaigns, record),
            why=campaigns.why(record.id) if answer is not None else (),
            everything=everything,
            floor=floor_sentence(events),
            noise=None if noise is None else noise[0],
        )
    show(output(), page)


def _absence(campaigns: Campaigns, record: Campaign) -> str:
    if record.state is not CampaignState.RUNNING:
        return ""
    absence = campaigns.status().absence(record.id)
    return "" if absence is None else absence.sentence(server_options(campaigns.client.url))


def recommendation(
    server: str, campaign: str
) -> tuple[Campaign, RecommendationDocument, Sequence[Comparison], Sequence[str]]:
    """Return a server's campaign with its recommendation, references and changes ("why").

    Raises NotFoundError if it has no answer yet.
    """
    with _campaigns(server) as campaigns:
        record, answer = _with_answer(campaigns, campaigns.campaign(campaign))
        if answer is None:
            raise no_answer(record, _absence(campaigns, record))
        if answer.why is None:
            # Servers of earlier releases return it only on a separate request.
            answer = answer.model_copy(update={"why": campaigns.why(record.id)})
    return record, answer, comparisons_of(answer), answer.why or ()


def recommendations(server: str, filters: Filters, limit: int) -> list[KnownRecommendation]:
    """Return the certified recommendations of all campaigns on a server."""
    with _campaigns(server) as campaigns:
        return campaigns.recommendations(filters, limit)


def status(server: str) -> Status:
    """Return who runs which campaign where, according to the server."""
    with _campaigns(server) as campaigns:
        return campaigns.status()


def export(server: str, campaign: str, file: Path) -> None:
    """Export a campaign of a server to a new local file."""
    with _campaigns(server) as campaigns:
        identifier = campaigns.campaign(campaign).id
        with new_file(file) as output:
            size = campaigns.export(identifier, output)
    say(f"campaign {identifier}: {size} bytes written to {file}")


def export_to(server: str, campaign: str, output: BinaryIO) -> None:
    """Export a campaign of a server to an open file."""
    with _campaigns(server) as campaigns:
        campaigns.export(campaigns.campaign(campaign).id, output)


def report(server: str, campaign: str, form: ReportForm, output: BinaryIO) -> str:
    """Write the report of a server's campaign to an open file; return the campaign's identifier."""
    with _campaigns(server) as campaigns:
        identifier = campaigns.campaign(campaign).id
        campaigns.report(identifier, form, output)
    return identifier


def _wait_note(why: str) -> None:
    say(f"fstune: {why}; trying again for ten minutes, since it may have been started", err=True)


def _away_note(why: str) -> None:
    say(f"fstune: {connection_message(why)}", err=True)


def _watch_new(
    campaigns: Campaigns, campaign: Campaign, log: LogForm | None, *, quiet: bool
) -> None:
    say(f"fstune: campaign {campaign.id} runs at {campaigns.client.url}", err=True)
    watched(_ServerSource(campaigns, campaign.id, _away_note), 0, log, quiet=quiet)


def _spec(file: Path, override_pilot: bool) -> CampaignSpec:
    """Read a campaign file without resolving names, which are those of the server."""
    spec = read_document(file, CampaignSpec, "a campaign file")
    if not override_pilot:
        return spec
    return spec.model_copy(update={"pilot": spec.pilot.model_copy(update={"override": True})})


def _with_answer(
    campaigns: Campaigns, record: Campaign
) -> tuple[Campaign, RecommendationDocument | None]:
    """Return a campaign with its complete answer, and the answer's document or None."""
    if record.recommendation is None:
        return record, None
    document = campaigns.recommendation(record.id)
    return replace(record, recommendation=recommendation_of(document)), document
