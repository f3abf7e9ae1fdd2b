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
from tuner.campaign.drift import drift
from tuner.campaign.rules import rules_of, stored_rules
from tuner.campaign.runner import Outcome
from tuner.campaign.spec import CampaignSpec, read_spec
from tuner.campaign.standing import against_baseline
from tuner.cli.compose import Prepared, conduct, prepare
from tuner.cli.options import CampaignReference, Database, StateDir, open_store, state_directory
from tuner.errors import ConflictError, NotFoundError, SpecError
from tuner.judge.pilot import Pilot, PilotOutcome
from tuner.model import BlockKind, Campaign, Prior
from tuner.report.log import LogForm, LogProgress
from tuner.report.pilot import pilot_page
from tuner.report.progress import progress_for
from tuner.report.recommend import (
    recommendation_document,
    recommendation_flags,
    recommendation_page,
)
from tuner.report.summary import Effort, campaign_summary
from tuner.report.tables import campaign_page, campaigns_table, show
from tuner.states import BlockState, CampaignState
from tuner.store import Store

#: Exit status of a command ended by Ctrl-C, as shells count it.
_INTERRUPTED = 130
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


Log = Annotated[
    LogForm | None,
    typer.Option(
        "--log",
        help="Write a log to standard error, a line an event, instead of showing progress.",
        show_default=False,
    ),
]


def run(
    file: CampaignFile,
    override_pilot: OverridePilot = False,
    log: Log = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Run a campaign to its end: pilot, search, certify, recommend, put the testbed back.

    Ctrl-C pauses it; 'fstune resume' goes on. Nothing measured is lost, whatever stops it.
    """
    directory = state_directory(state_dir)
    prepared = _prepared(file, directory, override_pilot)
    with open_store(directory, database) as store:
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
        raise typer.Exit(_INTERRUPTED)
    typer.echo(f"fstune: go on with: fstune resume {campaign.id}", err=True)


def resume(
    campaign: CampaignReference = "last",
    override_pilot: OverridePilot = False,
    log: Log = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Take up a campaign that was paused, failed or killed, and run it to its end."""
    directory = state_directory(state_dir)
    with open_store(directory, database) as store:
        found = store.campaign(campaign)
        if found.state in (CampaignState.FINISHED, CampaignState.CANCELLED):
            raise ConflictError(
                f"campaign {found.id} is {found.state}; see 'fstune show {found.id}'"
            )
        spec = _overriding(CampaignSpec.from_json(found.spec), override_pilot)
        prepared = prepare(spec, directory, owned=_cell_is_its_own(store, found))
        _tell_end(store, _conduct(store, found, prepared, log)[0])


def branch(
    campaign: CampaignReference,
    file: CampaignFile,
    override_pilot: OverridePilot = False,
    log: Log = None,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Run a new campaign that begins with what an earlier one has found.

    Its comparable trials guide the search; no claim rests on them, and everything is measured anew.
    """
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


def list_campaigns(state_dir: StateDir = None, database: Database = None) -> None:
    """List all campaigns, newest first."""
    with open_store(state_dir, database) as store:
        show(Console(), campaigns_table(store.campaigns()))


def show_campaign(
    campaign: CampaignReference = "last", state_dir: StateDir = None, database: Database = None
) -> None:
    """Show a campaign: its trials with verdicts, and what happened last."""
    with open_store(state_dir, database) as store:
        found = store.campaign(campaign)
        blocks = store.blocks(found.id)
        try:
            rules = stored_rules(found)
            estimates = against_baseline(blocks, rules, BlockKind.SEARCH)
            baseline = drift(blocks, rules.components, rules.weights)
            clients = client_ratios(blocks, rules)
        except (SpecError, KeyError):
            # Its workload's file is gone, or is another one now.
            estimates, baseline, clients = {}, [], {}
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
        )
        show(Console(), page)


def recommend(
    campaign: CampaignReference = "last",
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TEXT,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Print what a finished campaign recommends, and on what evidence.

    'json' is for programs; 'flags' prints the options to set, a line for each program.
    """
    with open_store(state_dir, database) as store:
        found = store.campaign(campaign)
        client = store.measured(found.id)
        references = stored_comparisons(found, store.blocks(found.id))
    if found.recommendation is None:
        todo = "wait for it" if found.state is CampaignState.RUNNING else "see 'fstune resume'"
        raise NotFoundError(f"campaign {found.id} is {found.state} and has no answer yet; {todo}")
    match form:
        case Format.TEXT:
            page = recommendation_page(
                found, found.recommendation, client=client, references=references
            )
            show(Console(), page)
        case Format.JSON:
            document = recommendation_document(
                found, found.recommendation, client=client, references=references
            )
            typer.echo(document.json_text())
        case Format.FLAGS:
            typer.echo(recommendation_flags(found.recommendation), nl=False)


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
    console = Console()
    campaign = outcome.campaign
    blocks = store.blocks(campaign.id)
    effort = Effort(
        trials=sum(trial.race > 0 for trial in store.trials(campaign.id)),
        blocks=sum(block.state is BlockState.COMPLETE for block in blocks),
        measurements=sum(len(block.measurements) for block in blocks),
        void_blocks=sum(block.state is BlockState.VOID for block in blocks),
    )
    page = campaign_summary(
        campaign,
        campaign.recommendation,
        effort=effort,
        restored=outcome.restored,
        references=stored_comparisons(campaign, blocks),
    )
    show(console, page)
    if outcome.error is not None:
        raise outcome.error
    if campaign.state is CampaignState.CANCELLED:
        typer.echo("fstune: cancelled", err=True)
        raise typer.Exit(_INTERRUPTED)
    if campaign.state is not CampaignState.FINISHED:
        typer.echo(f"fstune: paused; go on with: fstune resume {campaign.id}", err=True)
        raise typer.Exit(_INTERRUPTED)


def _cell_is_its_own(store: Store, campaign: Campaign) -> bool:
    """Whether the campaign brought up its private cell and has not taken it down yet."""
    told = [e for e in store.events(campaign.id) if e.kind in ("testbed-owned", "testbed-closed")]
    return bool(told) and told[-1].kind == "testbed-owned"
