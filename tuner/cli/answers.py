"""Commands that report on stored campaigns: their course, and what they recommend."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.ending import no_answer
from tuner.cli.options import (
    CampaignReference,
    Database,
    Server,
    StateDir,
    open_store,
    server_address,
)
from tuner.cli.output import AsJson
from tuner.cli.say import say
from tuner.errors import NO_IMPROVEMENT, SpecError
from tuner.formats.registry import formats, render
from tuner.judge.noise_records import NoiseReport
from tuner.model import Answer, Campaign
from tuner.page.recommendations import Filters, known_json, known_page, known_recommendations
from tuner.page.why import why
from tuner.plan.rules import stored_rules
from tuner.records.comparison import Comparison
from tuner.report.answer import why_baseline
from tuner.report.json_documents import campaign_json
from tuner.report.listing import output, show
from tuner.report.noise import noise_document
from tuner.report.recommendation_document import (
    RecommendationDocument,
    recommendation_document,
    recommendation_flags,
    recommendation_page,
)
from tuner.report.tables import campaign_page
from tuner.results.expiry import with_expiry
from tuner.results.named_comparison import stored_comparison
from tuner.results.noise import campaign_noise
from tuner.results.overview import overview, reference_comparisons
from tuner.run.presence import absence
from tuner.run.stored_floor import floor_sentence
from tuner.services.form import Part
from tuner.spec.space_section import stored_spaces
from tuner.states import EventKind
from tuner.store import Store
from tuner.store.pages import Pages

_MOST_EVENTS = 12
#: Maximum number of recommendations listed.
_LISTED = 100


class Format(StrEnum):
    """How a recommendation is printed."""

    TEXT = "text"
    JSON = "json"
    FLAGS = "flags"
    # Add a member for each export format: vars() is the namespace of the class body here.
    vars().update({name.upper(): name for name in formats()})


def show_campaign(
    campaign: CampaignReference = "last",
    everything: Annotated[
        bool,
        typer.Option("--all", "--verbose", "-v", help="List all trials, and the diagnostics."),
    ] = False,
    as_json: AsJson = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Show a campaign: its trials, best first, and what happened last.

    After the baseline and the recommended trial come those shown to be faster, by what they gain at
    least, then all others, by their estimates. 'on 3 fresh blocks' marks an estimate from all
    blocks so far that took no part in the search. The trial of the answer has the numbers of the
    answer.
    """
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.show_campaign(
            address, campaign, _MOST_EVENTS, everything=everything, as_json=as_json
        )
        return
    with open_store(state_dir, database) as store:
        record = with_expiry(store, store.campaign(campaign))
        view = overview(store, record)
        absent = absence(store, record.id)
        stalled = "" if absent is None else absent.sentence()
        if as_json:
            trials, estimates = store.trials(record.id), view.numbers.estimates
            comparison, noise = stored_comparison(store, record, trials), _noise(store, record)
            document = None if noise is None else noise_document(*noise)
            say(campaign_json(record, trials, estimates, stalled, comparison, document))
            return
        noise = _noise(store, record) if everything else None
        page = campaign_page(
            record,
            store.trials(record.id),
            view.newest,
            Pages(store).events(record.id, 0, last=_MOST_EVENTS),
            view.numbers,
            references=view.references,
            comparison=stored_comparison(store, record),
            counts=view.counts,
            absence=stalled,
            why=_why(store, record),
            everything=everything,
            floor=floor_sentence(store.events(record.id, kinds=[EventKind.FLOOR_CHOSEN])),
            noise=None if noise is None else noise[0],
        )
        show(output(), page)


def _noise(store: Store, campaign: Campaign) -> tuple[NoiseReport, tuple[str, ...]] | None:
    """Return how much each noise-reduction measure helped, and the components.

    None if too little was repeated to tell, or if the workload's file is gone or has changed.
    """
    try:
        rules = stored_rules(campaign)
        report = campaign_noise(store, campaign.id, rules)
    except SpecError:
        return None
    return None if report is None else (report, rules.components)


def recommend(
    campaign: CampaignReference = "last",
    form: Annotated[
        Format,
        typer.Option(
            "--format", metavar="FORMAT", help=f"How to print it: {', '.join(map(str, Format))}."
        ),
    ] = Format.TEXT,
    part: Annotated[
        str | None,
        typer.Option(
            "--part",
            help="Print only the settings of this part (such as fileserver); for the formats after "
            "'flags'.",
            show_default=False,
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also show the evidence in numbers.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="List the certified recommendations of all campaigns instead, the largest "
            "guaranteed gain first.",
        ),
    ] = False,
    testbed: Annotated[
        str | None, typer.Option("--testbed", help="With --all: of this testbed.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", help="With --all: for this workload.")
    ] = None,
    space: Annotated[
        str | None, typer.Option("--space", help="With --all: of this search space.")
    ] = None,
    version: Annotated[
        str | None,
        typer.Option("--version", help="With --all: of programs whose versions contain this."),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option("--fingerprint", help="With --all: of testbeds with this fingerprint."),
    ] = None,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Print what a campaign recommends, and on what evidence.

    'json' is for programs; 'flags' prints the options to set, those of each program on a line below
    a comment with its name. The formats after it are configuration files and commands
    (docs/formats.md); they contain what was tuned, not your other settings. The exit status is 3 if
    nothing is better than the baseline. A certificate expires when a later campaign finds other
    programs, limits, kernels, disks or kernel settings on its testbed.
    """
    filters = Filters(testbed, workload, space, version, fingerprint)
    if everything:
        if campaign != "last" or part is not None or verbose:
            raise SpecError("--all lists all campaigns: it takes no campaign, --part or --verbose")
        _list_all(filters, form, state_dir, database, server)
        return
    if filters != Filters():
        raise SpecError("--testbed, --workload and the like can only be used with --all")
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        answer = remote.recommendation(address, campaign)
    else:
        answer = _stored_recommendation(campaign, state_dir, database)
    record, document, references, sentences = answer
    assert record.recommendation is not None
    if part is not None and form in (Format.TEXT, Format.JSON, Format.FLAGS):
        raise SpecError(f"--part: the format {form} shows all parts; see docs/formats.md")
    match form:
        case Format.TEXT:
            page = recommendation_page(
                record,
                record.recommendation,
                client=document.client,
                references=references,
                spaces=stored_spaces(record.spec),
                why=sentences,
                verbose=verbose,
            )
            show(output(), page)
        case Format.JSON:
            say(document.json_text())
        case Format.FLAGS:
            say(recommendation_flags(record.recommendation), nl=False)
        case _:
            _print_rendering(form, record, part)
    if form not in (Format.TEXT, Format.JSON) and record.recommendation.expired:
        say(f"fstune: {record.recommendation.expired}", err=True)
    if record.recommendation.answer is Answer.NO_IMPROVEMENT:
        raise typer.Exit(NO_IMPROVEMENT)


def _list_all(
    filters: Filters,
    form: Format,
    state_dir: Path | None,
    database: str | None,
    server: str | None,
) -> None:
    if form not in (Format.TEXT, Format.JSON):
        raise SpecError(f"--all: the format {form} is for one campaign")
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        rows = remote.recommendations(address, filters, _LISTED)
    else:
        with open_store(state_dir, database) as store:
            rows = known_recommendations(store, filters, _LISTED)
    if form is Format.JSON:
        say(known_json(rows))
    elif not rows:
        say("No certified recommendation matches.")
    else:
        show(output(), known_page(rows))


def _print_rendering(form: Format, record: Campaign, part: str | None) -> None:
    """Print the settings as a file or commands; remarks go to standard error."""
    answer, spaces = record.recommendation, stored_spaces(record.spec)
    assert answer is not None
    no_gain = answer.answer is Answer.NO_IMPROVEMENT
    flags = answer.baseline_flags if no_gain else answer.flags
    if part is not None and part not in flags:
        raise SpecError(f"--part {part}: choose one of {', '.join(flags)}")
    parts = [
        Part(name, spaces[name].program, tuple(words))
        for name, words in flags.items()
        if name in spaces and part in (None, name)
    ]
    result = render(form, parts)
    if no_gain:
        say(f"fstune: {why_baseline(answer)}", err=True)
    for sentence in (*result.left_out, result.mind):
        say(f"fstune: {sentence}", err=True)
    say(result.text, nl=False)


def _stored_recommendation(
    campaign: str, state_dir: Path | None, database: str | None
) -> tuple[Campaign, RecommendationDocument, Sequence[Comparison], Sequence[str]]:
    with open_store(state_dir, database) as store:
        record = store.campaign(campaign)
        record = with_expiry(store, record)
        client = store.measured_programs(record.id)
        references, sentences = reference_comparisons(store, record), _why(store, record)
        if record.recommendation is None:
            absent = absence(store, record.id)
            raise no_answer(record, "" if absent is None else absent.sentence())
    document = recommendation_document(
        record, record.recommendation, client=client, references=references, why=sentences
    )
    return record, document, references, sentences


def _why(store: Store, campaign: Campaign) -> Sequence[str]:
    """Return sentences on what changed with the answer's settings; none without an answer."""
    answer = campaign.recommendation
    return () if answer is None else why(store, campaign.id, answer.trial)
