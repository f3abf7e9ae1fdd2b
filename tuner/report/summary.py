"""The final page of a campaign: its answer, the effort, and what was restored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from search_spaces import Space
from tuner.judge.words import blocks
from tuner.model import BlockCount, Campaign, Recommendation, Trial
from tuner.records.comparison import Comparison
from tuner.records.named_comparison import NamedComparison
from tuner.report.answer import findings, section
from tuner.report.applying import applying
from tuner.report.drawing import Printable, ToWidth, paragraph, share_bar
from tuner.report.named_comparison import comparison_sections
from tuner.report.references import references_section
from tuner.report.styles import QUIET, STRONG
from tuner.states import BlockState, CampaignState
from tuner.text import clean, counted, duration
from tuner.time_use import TimeUse

_BAR_CELLS = 30
#: Cells that a label, its time and its share occupy; bars get the rest if it is wide enough.
_WIDTH_OF_NUMBERS = 40
_LEAST_FOR_BARS = 6


@dataclass(frozen=True, slots=True)
class Effort:
    """What a campaign measured: trials except the baseline, blocks, measurements, void blocks."""

    trials: int
    blocks: int
    measurements: int
    void_blocks: int = 0

    @classmethod
    def of_counts(cls, trials: Iterable[Trial], counts: Sequence[BlockCount]) -> Effort:
        """Return the effort of a campaign with these trials and numbers of blocks."""

        def blocks(state: BlockState) -> int:
            return sum(count.blocks for count in counts if count.state is state)

        return cls(
            trials=sum(trial.round > 0 for trial in trials),
            blocks=blocks(BlockState.COMPLETE),
            measurements=sum(count.measurements for count in counts),
            void_blocks=blocks(BlockState.VOID),
        )


def campaign_summary(
    campaign: Campaign,
    recommendation: Recommendation | None,
    *,
    effort: Effort,
    restored: Sequence[str] = (),
    references: Sequence[Comparison] = (),
    spaces: Mapping[str, Space] | None = None,
    comparison: NamedComparison | None = None,
) -> RenderableType:
    """Render the end of a campaign on one page.

    `restored`: a sentence for each thing that was restored; `spaces`: search spaces of the tuned
    programs, by component; `comparison`: of a campaign that compares named configurations. Without
    a recommendation (a campaign stopped early) the page reports how far the campaign got.
    """
    parts: list[RenderableType] = [title(campaign), *comparison_sections(comparison), ""]
    if recommendation is None:
        parts.append(Text(no_answer_yet(campaign.state), style=STRONG))
        if campaign.reason:
            parts.append(paragraph(campaign.reason))
    else:
        parts.append(findings(recommendation, advice=applying(recommendation, spaces or {})))
        parts += so_far(campaign)
    parts += references_section(references)
    parts.append(section("Effort", Text(effort_text(effort)), *_time(campaign.time_use)))
    if restored:
        parts.append(section("Restored", *map(paragraph, restored)))
    whole = Group(*parts)
    return Printable(ToWidth(lambda _: whole))


def no_answer_yet(state: CampaignState) -> str:
    """Say that a campaign in this state has no answer, as a headline."""
    if state is CampaignState.CANCELLED:
        return "No answer: the campaign was cancelled before it had one"
    if state is CampaignState.FAILED:
        return "No answer: the campaign failed before it had one"
    return f"No answer yet: the campaign is {state}"


def so_far(campaign: Campaign) -> list[RenderableType]:
    """Return the remark of `so_far_text`, preceded by an empty line, if there is one."""
    remark = so_far_text(campaign)
    return ["", paragraph(remark)] if remark else []


def so_far_text(campaign: Campaign) -> str:
    """Say that a campaign has not come to its end; "" if it has finished."""
    if campaign.state is CampaignState.FINISHED:
        return ""
    if campaign.state is CampaignState.CANCELLED:
        return "The campaign was cancelled before its end."
    more = "it may find more as it continues"
    if campaign.state is CampaignState.FAILED:
        return f"So far: the campaign failed; once resumed, {more}"
    return f"So far: the campaign is {campaign.state}; {more}"


def effort_text(effort: Effort) -> str:
    """Return e.g. "96 measurements in 12 blocks, 7 trials against the baseline"."""
    void = f" (and {effort.void_blocks} void)" if effort.void_blocks else ""
    return (
        f"{counted(effort.measurements, 'measurement')} in {blocks(effort.blocks)}{void}, "
        f"{counted(effort.trials, 'trial')} against the baseline"
    )


def time_rows(use: TimeUse) -> tuple[tuple[str, float], ...]:
    """Return how the time was spent: labels with seconds."""
    return (
        ("workload", use.workload_s),
        ("restarts", use.apply_s),
        ("testbed", use.testbed_s),
        ("fstune itself", use.overhead_s),
    )


def title(campaign: Campaign) -> Text:
    """Return the line with the name and the identifier of a campaign."""
    return Text.assemble(
        (clean(campaign.name), STRONG), (f"  campaign {clean(campaign.id)}", QUIET)
    )


def _time(use: TimeUse) -> tuple[RenderableType, ...]:
    if use.wall_s <= 0.0:
        return ()

    def grid(width: int) -> RenderableType:
        cells = min(_BAR_CELLS, width - _WIDTH_OF_NUMBERS)
        table = Table.grid(padding=(0, 2, 0, 0))
        for justify in ("left", "right", "right", "left"):
            table.add_column(justify=justify, no_wrap=True)
        for what, seconds in time_rows(use):
            share = seconds / use.wall_s
            bar = share_bar(share, cells) if cells >= _LEAST_FOR_BARS else ""
            table.add_row(what, duration(seconds), f"{100.0 * share:.1f}%", bar)
        table.add_row(Text("total", style=STRONG), Text(duration(use.wall_s), style=STRONG))
        return table

    return ("", ToWidth(grid))
