"""Commands that run campaigns and tell about them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tuner.campaign.branching import priors
from tuner.campaign.comparing import client_ratios, stored_comparisons
from tuner.campaign.drift import baseline_started, drift
from tuner.campaign.equivalence import effect_between
from tuner.campaign.rules import rules_of, stored_rules
from tuner.campaign.runner import Outcome
from tuner.campaign.scores import ScoreTable
from tuner.campaign.spec import CampaignSpec, read_spec
from tuner.campaign.standing import against_baseline
from tuner.cli.compose import Prepared, conduct, prepare
from tuner.cli.ending import INTERRUPTED, no_answer, stored_end, tell_end
from tuner.cli.options import (
    CampaignReference,
    Database,
    Log,
    Server,
    StateDir,
    open_store,
    server_address,
    state_directory,
)
from tuner.cli.worker import Queued, to_queue
from tuner.errors import ConflictError, SpecError
from tuner.judge.pilot import Pilot, PilotOutcome
from tuner.model import BlockKind, Campaign, Prior
from tuner.report.beside import Comparison
from tuner.report.log import LogForm, LogProgress
from tuner.report.pilot import pilot_page
from tuner.report.progress import progress_for
from tuner.report.recommend import (
    RecommendationDocument,
    recommendation_document,
    recommendation_flags,
    recommendation_page,
)
from tuner.report.tables import campaign_page, campaigns_table, show
from tuner.states import CampaignState
from tuner.store import Store

_EVENTS_SHOWN = 12


CampaignFile = Annotated[Path, typer.Argument(help="The campaign file (YAML).")]


class Format(StrEnum):
    """How a recommendation is printed."""

    TEXT = "text"
    JSON = "json"
    FLAGS = "flags"


OverridePilot = Annotated[
    bool,
    typer.Option("--override-pilot", help="Go on although the pilot advises against."),
]


def run(
    file: CampaignFile,
    override_pilot: OverridePilot = False,
    queue: Queued = False,
    log: Log = None,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Run a campaign to its end: pilot, search, certify, recommend, put the testbed back.

    Ctrl-C pauses it; 'fstune resume' goes on. Nothing measured is lost, whatever stops it. At a
    server it goes on without being watched.
    """
    if not queue and (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.run(address, file, log, override_pilot=override_pilot)
        return
    directory = state_directory(state_dir)
    prepared = _prepared(file, directory, override_pilot)
    with open_store(directory, database) as store:
        if queue:
            to_queue(store, lambda: _created(store, prepared.spec), directory, server)
            return
        _tell_end(store, _conduct(store, _created(store, prepared.spec), prepared, log)[0])


def pilot(
    file: CampaignFile,
    log: Log = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Measure only the baseline against itself: how noisy is the testbed, what can be found on it?

    The campaign is paused after it; 'fstune resume' begins the search.
    """
    directory = state_directory(state_dir)
    prepared = _prepared(file, directory, override_pilot=False)
    if not prepared.spec.pilot.blocks:
        raise SpecError(f"{file}: pilot.blocks is 0; give it blocks")
    with open_store(directory, database) as store:
        campaign = _created(store, prepared.spec)
        outcome, found = _conduct(store, campaign, prepared, log, pilot_only=True)
    if found is not None:
        show(Console(), pilot_page(found))
    if outcome.error is not None:
        raise outcome.error
    if found is None or found.outcome is PilotOutcome.UNDECIDED:
        raise typer.Exit(INTERRUPTED)
    typer.echo(f"fstune: go on with: fstune resume {campaign.id}", err=True)


def resume(
    campaign: CampaignReference = "last",
    override_pilot: OverridePilot = False,
    queue: Queued = False,
    log: Log = None,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Take up a campaign that was paused, failed or killed, and run it to its end."""
    if not queue and (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.resume(address, campaign, log, override_pilot=override_pilot)
        return
    directory = state_directory(state_dir)
    with open_store(directory, database) as store:
        found = store.campaign(campaign)
        if queue:
            to_queue(store, lambda: found, directory, server, override_pilot=override_pilot)
            return
        if found.state in (CampaignState.FINISHED, CampaignState.CANCELLED):
            raise ConflictError(
                f"campaign {found.id} is {found.state}; see 'fstune show {found.id}'"
            )
        spec = _overriding(CampaignSpec.from_json(found.spec), override_pilot)
        prepared = prepare(spec, directory, owned=_own_cells(store, found))
        _tell_end(store, _conduct(store, found, prepared, log)[0])


def branch(
    campaign: CampaignReference,
    file: CampaignFile,
    override_pilot: OverridePilot = False,
    log: Log = None,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Run a new campaign that begins with what an earlier one has found.

    Its comparable trials guide the search; no claim rests on them, and everything is measured anew.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.branch(address, campaign, file, log, override_pilot=override_pilot)
        return
    directory = state_directory(state_dir)
    prepared = _prepared(file, directory, override_pilot)
    with open_store(directory, database) as store:
        old = store.campaign(campaign)
        rules = rules_of(prepared.spec, prepared.workload)
        trials, blocks = store.trials(old.id), store.blocks(old.id)
        found = priors(old.id, trials, blocks, rules, prepared.parameters)
        typer.echo(f"fstune: {len(found)} trials of {old.id} guide the search", err=True)
        new = _created(store, prepared.spec, found)
        _tell_end(store, _conduct(store, new, prepared, log)[0])


def _prepared(file: Path, directory: Path, override_pilot: bool) -> Prepared:
    spec = _overriding(read_spec(file), override_pilot)
    try:
        return prepare(spec, directory)
    except SpecError as problem:
        raise SpecError(f"{file}: {problem}") from problem


def _overriding(spec: CampaignSpec, override: bool) -> CampaignSpec:
    if not override:
        return spec
    pilot_section = spec.pilot.model_copy(update={"override": True})
    return spec.model_copy(update={"pilot": pilot_section})


def _created(store: Store, spec: CampaignSpec, found: Sequence[Prior] = ()) -> Campaign:
    now = datetime.now(UTC)
    return store.create_campaign(spec.name, spec.to_json(), spec.seed, now, priors=found)


def list_campaigns(
    state_dir: StateDir = None, database: Database = None, server: Server = None
) -> None:
    """List all campaigns, newest first."""
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.list_campaigns(address)
        return
    with open_store(state_dir, database) as store:
        show(Console(), campaigns_table(store.campaigns()))


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
        blocks = store.blocks(found.id)
        try:
            rules = stored_rules(found)
            table = ScoreTable.of(blocks, rules.components, rules.weights)
            estimates = against_baseline(table, rules, BlockKind.SEARCH)
            baseline = drift(table, baseline_started(blocks))
            clients = client_ratios(blocks, rules)
            effect = effect_between(table)
        except (SpecError, KeyError):
            # Its workload's file is gone, or is another one now.
            estimates, baseline, clients, effect = {}, [], {}, None
        events = store.events(found.id)[-_EVENTS_SHOWN:]
        page = campaign_page(
            found,
            store.trials(found.id),
            blocks,
            events,
            estimates={number: estimate for number, (estimate, _) in estimates.items()},
            drift=[point.ratio for point in baseline],
            references=stored_comparisons(found, blocks),
            clients=clients,
            testbeds_differ=effect.reason if effect is not None and effect.shown else "",
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
        references = stored_comparisons(found, store.blocks(found.id))
    if found.recommendation is None:
        raise no_answer(found)
    document = recommendation_document(
        found, found.recommendation, client=client, references=references
    )
    return found, document, references


def _conduct(
    store: Store,
    campaign: Campaign,
    prepared: Prepared,
    log: LogForm | None,
    *,
    pilot_only: bool = False,
) -> tuple[Outcome, Pilot | None]:
    title = f"{campaign.name} · {campaign.id}"
    progress = (
        progress_for(Console(), title=title)
        if log is None
        else LogProgress(sys.stderr, log, campaign.id)
    )
    with progress as observer:
        return conduct(store, campaign, prepared, observer, pilot_only=pilot_only)


def _tell_end(store: Store, outcome: Outcome) -> None:
    tell_end(stored_end(store, outcome.campaign), outcome.restored, outcome.error)


def _own_cells(store: Store, campaign: Campaign) -> set[str]:
    """The places whose private cell the campaign brought up and has not taken down yet; "" for that
    of its only one.
    """
    newest = {}
    for event in store.events(campaign.id, kinds=["testbed-owned", "testbed-closed"]):
        newest[str(event.data.get("testbed", ""))] = event.kind
    return {place for place, kind in newest.items() if kind == "testbed-owned"}
