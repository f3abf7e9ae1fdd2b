"""``fstune run``, ``pilot``, ``resume`` and ``branch``: begin a campaign or continue it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.ending import show_end, stored_end, tell_end
from tuner.cli.options import (
    CampaignReference,
    Database,
    Log,
    Quiet,
    Server,
    StateDir,
    open_or_make_store,
    open_store,
    server_address,
    state_directory,
)
from tuner.cli.say import say
from tuner.cli.worker import Queued, to_queue
from tuner.compose import Prepared, conduct, prepare
from tuner.errors import INTERRUPTED, ConflictError, InUseError, SpecError, TunerError
from tuner.judge.pilot import Pilot, PilotOutcome
from tuner.model import Campaign, Prior
from tuner.plan.rules import rules_of
from tuner.report.listing import output
from tuner.report.live import LiveProgress
from tuner.report.log import LogForm, LogProgress
from tuner.report.pilot import pilot_page
from tuner.report.progress import progress_for
from tuner.report.standing import guided_by
from tuner.run.priors import guiding_trials, no_priors, priors
from tuner.run.runner import RunOutcome
from tuner.run.steering import in_use, refuse_verification
from tuner.run.waiting import wait
from tuner.run.warm_start import warm_start
from tuner.spec.campaign import CampaignSpec, read_spec
from tuner.spec.checking import check_measurements
from tuner.states import OVER, CampaignState, not_resumable
from tuner.store import Store
from tuner.store.deletion import delete_campaign

CampaignFile = Annotated[Path, typer.Argument(help="The campaign file (YAML).")]

OverridePilot = Annotated[
    bool,
    typer.Option("--override-pilot", help="Continue although the pilot advises against it."),
]

FromQueue = Annotated[
    bool,
    typer.Option("--from-queue", help="A worker resumes it, at nobody's request.", hidden=True),
]


def run(
    file: CampaignFile,
    override_pilot: OverridePilot = False,
    queue: Queued = False,
    log: Log = None,
    quiet: Quiet = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Run a campaign to its end: pilot, search, certify, recommend, restore the testbed.

    Ctrl-C pauses it after the current run of the workload, a second Ctrl-C at once; 'fstune resume'
    continues it. Completed blocks are never lost; the block in progress is measured again. On a
    server it continues even if nobody watches. Outside the hours of its testbed it waits.
    """
    if not queue and (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.run(address, file, log, override_pilot=override_pilot, quiet=quiet)
        return
    directory = state_directory(state_dir)
    prepared = _prepared(file, directory, override_pilot)
    with open_or_make_store(directory, database) as store:
        if queue:
            to_queue(store, lambda: _guided(store, prepared), directory, server)
            return
        campaign = _guided(store, prepared)
        _tell_end(store, _conduct(store, campaign, prepared, directory, log, quiet=quiet)[0])


def pilot(
    file: CampaignFile,
    log: Log = None,
    quiet: Quiet = False,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Measure only the baseline and its twin: how noisy is the testbed, what can be detected?

    The campaign is paused afterwards; 'fstune resume' starts the search.
    """
    directory = state_directory(state_dir)
    prepared = _prepared(file, directory, override_pilot=False)
    if not prepared.spec.pilot.blocks:
        reason = (
            "a file with 'compare' has no pilot unless it has 'pilot: {blocks: 3}', or more blocks"
            if prepared.spec.compare
            else "pilot.blocks is 0; a pilot takes at least 3 blocks"
        )
        raise SpecError(f"{file}: {reason}")
    with open_or_make_store(directory, database) as store:
        campaign = _guided(store, prepared)
        try:
            outcome, result = _conduct(
                store, campaign, prepared, directory, log, quiet=quiet, pilot_only=True
            )
        except ConflictError:
            _forget_refused(store, campaign.id)
            raise
    problem = None if result is None else show_end(pilot_page(result))
    if outcome.error is not None:
        raise outcome.error
    if result is None or result.outcome is PilotOutcome.UNDECIDED:
        raise typer.Exit(INTERRUPTED)
    say(f"fstune: continue with: fstune resume {campaign.id}", err=True)
    if problem is not None:
        raise problem


def resume(
    campaign: CampaignReference = "last",
    override_pilot: OverridePilot = False,
    queue: Queued = False,
    log: Log = None,
    quiet: Quiet = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
    from_queue: FromQueue = False,
) -> None:
    """Resume a campaign that was paused, failed or killed, and run it to its end."""
    if not queue and (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.resume(address, campaign, log, override_pilot=override_pilot, quiet=quiet)
        return
    directory = state_directory(state_dir)
    with open_store(state_dir, database) as store:
        record = store.campaign(campaign)
        refuse_verification(store, record.id)
        if queue:
            to_queue(store, lambda: record, directory, server, override_pilot=override_pilot)
            return
        if record.state in OVER:
            raise ConflictError(not_resumable(record.id, record.state))
        spec = _overriding(CampaignSpec.from_json(record.spec), override_pilot)
        prepared = prepare(spec, directory)
        outcome, _ = _conduct(
            store, record, prepared, directory, log, quiet=quiet, from_queue=from_queue
        )
        _tell_end(store, outcome)


def branch(
    campaign: CampaignReference,
    file: CampaignFile,
    override_pilot: OverridePilot = False,
    queue: Queued = False,
    log: Log = None,
    quiet: Quiet = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Run a new campaign whose search is guided by the results of an earlier one.

    Only comparable trials are used, and no claim rests on them: everything is measured afresh.
    """
    if not queue and (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        remote.branch(address, campaign, file, log, override_pilot=override_pilot, quiet=quiet)
        return
    directory = state_directory(state_dir)
    prepared = _prepared(file, directory, override_pilot)
    with open_store(state_dir, database) as store:
        old = store.campaign(campaign)

        def begin() -> Campaign:
            rules = rules_of(prepared.spec, prepared.workload)
            guidance = priors(store, old.id, rules, prepared.parameters)
            why = "" if guidance else no_priors(store, old.id, rules)
            say(f"fstune: {guided_by(guiding_trials(guidance), [old.id], why)}", err=True)
            return _create(store, prepared.spec, guidance)

        if queue:
            to_queue(store, begin, directory, server)
            return
        _tell_end(store, _conduct(store, begin(), prepared, directory, log, quiet=quiet)[0])


def _prepared(file: Path, directory: Path, override_pilot: bool) -> Prepared:
    spec = _overriding(read_spec(file), override_pilot)
    try:
        check_measurements(spec)
        return prepare(spec, directory)
    except SpecError as problem:
        raise SpecError(f"{file}: {problem}") from problem


def _overriding(spec: CampaignSpec, override: bool) -> CampaignSpec:
    if not override:
        return spec
    pilot_section = spec.pilot.model_copy(update={"override": True})
    return spec.model_copy(update={"pilot": pilot_section})


def _guided(store: Store, prepared: Prepared) -> Campaign:
    """Create a campaign, warm-started from similar ones if its file asks for that."""
    spec = prepared.spec
    rules = rules_of(spec, prepared.workload)
    guidance, used = warm_start(store, spec, rules, prepared.aspects, prepared.parameters)
    if spec.warm_start == "auto":
        none = "no earlier campaign guides the search: none that has finished is similar"
        say(f"fstune: {guided_by(guiding_trials(guidance), used) if used else none}", err=True)
    return _create(store, spec, guidance)


def _create(store: Store, spec: CampaignSpec, guidance: Sequence[Prior] = ()) -> Campaign:
    now = datetime.now(UTC)
    return store.create_campaign(spec.name, spec.to_json(), spec.seed, now, priors=guidance)


def _conduct(
    store: Store,
    campaign: Campaign,
    prepared: Prepared,
    directory: Path,
    log: LogForm | None,
    *,
    quiet: bool = False,
    pilot_only: bool = False,
    from_queue: bool = False,
) -> tuple[RunOutcome, Pilot | None]:
    """Run a campaign, and wait and continue it where only its testbeds' hours end the run.
    ``from_queue``: do not wait, as the worker does.

    After a wait, a testbed that others use is a reason to wait on: they may have waited for the
    same hours.
    """
    title = f"{campaign.name} · {campaign.id}"
    progress = (
        progress_for(output(), title=title, quiet=quiet)
        if log is None
        else LogProgress(sys.stderr, log, campaign.id)
    )
    acknowledge = progress.notice if isinstance(progress, LiveProgress) else _acknowledge
    last: tuple[RunOutcome, Pilot | None] | None = None
    with progress as observer:
        while True:
            try:
                last = outcome, result = conduct(
                    store,
                    campaign,
                    prepared,
                    observer,
                    pilot_only=pilot_only,
                    keep_request=from_queue,
                    patient=from_queue or last is not None,
                    stopping=None if log is not None else acknowledge,
                )
                until = outcome.until
            except InUseError:
                if last is None:
                    raise
                until = datetime.now(UTC)
            if from_queue or until is None:
                return outcome, result
            names = [each.name for each in prepared.identities]
            free = partial(_is_free, store, campaign.id, names)
            if not wait(store, campaign.id, until, observer, is_free=free):
                return replace(outcome, campaign=store.campaign(campaign.id)), result
            prepared = prepare(prepared.spec, directory)


def _forget_refused(store: Store, campaign: str) -> None:
    """Delete a campaign whose run was refused before it began: the command is to be repeated, which
    creates another.
    """
    with suppress(TunerError):  # the refusal says more
        new = store.campaign(campaign).state is CampaignState.CREATED
        if new and not in_use(store, campaign):
            delete_campaign(store, campaign)


def _is_free(store: Store, campaign: str, testbeds: Sequence[str]) -> bool:
    return not in_use(store, campaign, testbeds)


def _acknowledge(message: str) -> None:
    """Acknowledge a stop signal at once.

    Writes to the file descriptor directly: the stream may be in use when the signal arrives.
    """
    with suppress(OSError):
        os.write(2, f"fstune: {message}\n".encode())


def _tell_end(store: Store, outcome: RunOutcome) -> None:
    try:
        end = stored_end(store, outcome.campaign)
    except TunerError:
        # What ended the campaign says more, and decides the status.
        if outcome.error is None:
            raise
        raise outcome.error from None
    tell_end(end, outcome.restored, outcome.error)
