"""The final page and exit status of commands that have run or watched a campaign."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import typer
from rich.console import Console, RenderableType

from tuner.cli.say import say
from tuner.errors import INTERRUPTED, NotFoundError, TunerError
from tuner.model import Block, Campaign, Trial
from tuner.records.comparison import Comparison
from tuner.records.named_comparison import NamedComparison
from tuner.report.listing import output, show
from tuner.report.summary import Effort, campaign_summary
from tuner.results.named_comparison import stored_comparison
from tuner.results.overview import reference_comparisons
from tuner.spec.applicable import can_be_applied
from tuner.spec.space_section import stored_spaces
from tuner.states import BlockState, CampaignState
from tuner.store import Store
from tuner.store.pages import Pages


@dataclass(frozen=True, slots=True)
class CampaignEnd:
    """A campaign that no longer runs or is paused, with what its final page needs."""

    campaign: Campaign
    effort: Effort
    references: Sequence[Comparison] = ()
    comparison: NamedComparison | None = None


def stored_end(store: Store, campaign: Campaign) -> CampaignEnd:
    """Return the end of a stored campaign."""
    counts = Pages(store).block_counts(campaign.id)
    effort = Effort.of_counts(store.trials(campaign.id), counts)
    return CampaignEnd(
        campaign, effort, reference_comparisons(store, campaign), stored_comparison(store, campaign)
    )


def effort_of(trials: Sequence[Trial], blocks: Sequence[Block], measurements: int) -> Effort:
    """Count what was measured."""
    return Effort(
        trials=sum(trial.round > 0 for trial in trials),
        blocks=sum(block.state is BlockState.COMPLETE for block in blocks),
        measurements=measurements,
        void_blocks=sum(block.state is BlockState.VOID for block in blocks),
    )


def tell_end(
    end: CampaignEnd, restored: Sequence[str], error: TunerError | None, options: str = ""
) -> None:
    """Print the final page, then exit with the campaign's status. Ctrl-C cuts off the page, not how
    the campaign is continued.

    Raises the campaign's error, or typer.Exit unless it finished, even if nobody reads standard
    output any more or it cannot be written; of a campaign that finished, OSError for the latter.
    ``options``: the options that locate the campaign, for the command suggested next.
    """
    campaign = end.campaign
    problem, is_complete = None, False
    try:
        page = campaign_summary(
            campaign,
            campaign.recommendation,
            effort=end.effort,
            restored=restored,
            references=end.references,
            spaces=stored_spaces(campaign.spec),
            comparison=end.comparison,
        )
        problem = show_end(page)
        is_complete = True
    except KeyboardInterrupt:
        pass  # what follows is short
    if error is not None:
        raise error
    if campaign.state is CampaignState.CANCELLED:
        say("fstune: cancelled", err=True)
        raise typer.Exit(INTERRUPTED)
    if campaign.state is CampaignState.RUNNING:
        say(f"fstune: another process runs it; see: fstune watch {campaign.id}{options}", err=True)
        raise typer.Exit(INTERRUPTED)
    if campaign.state is not CampaignState.FINISHED:
        say(f"fstune: paused; continue with: fstune resume {campaign.id}{options}", err=True)
        raise typer.Exit(INTERRUPTED)
    if problem is not None:
        raise problem
    if not is_complete:
        raise typer.Exit(INTERRUPTED)
    try:
        say(f"\nFor a report with plots: fstune report {campaign.id} --html FILE{options}")
        if can_be_applied(campaign):
            say(f"To see what applying it would change: fstune apply {campaign.id} --plan{options}")
    except BrokenPipeError:
        _drop_output()


def show_end(page: RenderableType) -> OSError | None:
    """Print a page. Return why it could not be written, for the caller to raise after what matters
    more; None if it was, or if nobody reads standard output any more.
    """
    try:
        show(output(_EndConsole), page)
    except OSError as problem:
        _drop_output()
        return problem
    return None


class _EndConsole(Console):
    """A console that goes on, unlike rich's, when nobody reads standard output any more."""

    def on_broken_pipe(self) -> None:
        """Drop what is printed."""
        self.quiet = True
        _drop_output()


def _drop_output() -> None:
    """Send standard output to /dev/null, and with it standard error if both go to one pipe."""
    streams = [sys.stdout]
    if sys.stderr and os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno()):
        streams.append(sys.stderr)
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(null, stream.fileno())
    os.close(null)


def no_answer(campaign: Campaign, absence: str = "") -> NotFoundError:
    """Return the error for a campaign without a recommendation.

    ``absence``: why it makes no progress although its state is running.
    """
    if absence:
        return NotFoundError(f"campaign {campaign.id} has no answer yet: {absence}")
    if campaign.state is CampaignState.CANCELLED:
        return NotFoundError(
            f"campaign {campaign.id} was cancelled before it had an answer; see 'fstune show "
            f"{campaign.id}'"
        )
    todo = "wait for it" if campaign.state is CampaignState.RUNNING else "see 'fstune resume'"
    return NotFoundError(
        f"campaign {campaign.id} is {campaign.state} and has no answer yet; {todo}"
    )
