"""The page of one campaign, with its trials and events, on a terminal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tuner.judge.noise_records import NoiseReport
from tuner.judge.words import blocks as blocks_text
from tuner.model import (
    BASELINE,
    Answer,
    Block,
    BlockCount,
    BlockKind,
    Campaign,
    Configuration,
    Event,
    Recommendation,
    Trial,
)
from tuner.records.comparison import Comparison
from tuner.records.differences import changes
from tuner.records.named_comparison import NamedComparison
from tuner.records.numbers import Numbers
from tuner.report.answer import claim, headline, section
from tuner.report.diagnostics import Row, diagnostics_rows
from tuner.report.drawing import Printable, paragraph, sparkline
from tuner.report.listing import Column, Listing, stacked
from tuner.report.named_comparison import comparison_sections
from tuner.report.noise import noise_sections
from tuner.report.ranking import best_first
from tuner.report.references import clients_text, references_section
from tuner.report.styles import NAME, QUIET, SLOWER, STRONG, literal, state_text, tone
from tuner.report.summary import so_far_text, title
from tuner.report.trial_estimates import TrialEstimate, strongest_estimates
from tuner.report.why import why_sections
from tuner.states import BlockState, CampaignState, TrialState, state_now
from tuner.text import (
    counted,
    duration,
    interval,
    moment,
    signed,
    signed_interval,
)

EVENTS_SHOWN = 10
#: Trials listed in a summary.
_MOST_TRIALS = 10
_DRIFT_CELLS = 40


def campaign_page(
    campaign: Campaign,
    trials: Sequence[Trial],
    blocks: Sequence[Block],
    events: Sequence[Event],
    numbers: Numbers,
    *,
    references: Sequence[Comparison] = (),
    comparison: NamedComparison | None = None,
    counts: Sequence[BlockCount] | None = None,
    absence: str = "",
    why: Sequence[str] = (),
    everything: bool = True,
    floor: str = "",
    noise: NoiseReport | None = None,
) -> RenderableType:
    """Render one campaign: its state, its trials, its last events.

    Without `everything`, list only the trials that look best, and no diagnostics. The estimates
    from fresh blocks replace those of the search.

    `counts`: of all blocks, if `blocks` are only the newest. `absence`: why the campaign makes no
    progress although its state is running. `why`: a sentence for each large change in the
    diagnostics. `floor`: a sentence on how it was chosen. `noise`: how much each noise-reduction
    measure helped.
    """
    counts = block_counts(blocks) if counts is None else counts
    parts: list[RenderableType] = [
        title(campaign),
        "",
        _facts(campaign, trials, counts, numbers.drift, absence, floor),
    ]
    if campaign.recommendation is not None:
        r = campaign.recommendation
        remarks = [paragraph(text) for text in (r.expired, so_far_text(campaign)) if text]
        parts.append(section("Answer", _headline(r), *remarks, paragraph(claim(r))))
    parts += why_sections(campaign.recommendation, why)
    parts += comparison_sections(comparison)
    parts += references_section(references)
    if numbers.clients:
        parts.append(section("Clients", clients_text(numbers.clients)))
    if used := _testbeds(counts):
        differ = [paragraph(numbers.testbeds_differ)] if numbers.testbeds_differ else []
        parts.append(section("Testbeds", *map(paragraph, used), *differ))
    if trials:
        strongest = _trial_estimates(campaign, numbers)
        ranks = {number: row.estimate for number, row in strongest.items()}
        order = best_first(trials, _compared(campaign), ranks)
        listed = order[: None if everything else _MOST_TRIALS]
        parts += _listed("Trials", _trials_table(campaign, listed, strongest))
        if hidden := len(trials) - len(listed):
            parts.append(Text(f"and {hidden} more, see 'fstune show {campaign.id} --all'", QUIET))
    pair = _compared(campaign)
    if everything and (rows := diagnostics_rows(blocks, pair)):
        of_newest = f" of the newest {blocks_text(len(blocks))}"
        of = "" if sum(count.blocks for count in counts) == len(blocks) else of_newest
        parts += _listed(f"Diagnostics (median{of})", _diagnostics(rows, pair))
    if everything:
        parts += noise_sections(noise)
    if events:
        parts += _listed("Last events", _events(events[-EVENTS_SHOWN:]))
    return Printable(Group(*parts))


def _headline(recommendation: Recommendation) -> RenderableType:
    """Render the answer in one line, wrapped if that is too long."""
    answer = headline(recommendation)
    return paragraph(answer.plain, str(answer.style))


def _trial_estimates(campaign: Campaign, numbers: Numbers) -> dict[int, TrialEstimate]:
    """Return the strongest estimate of each trial; nothing if nothing was searched."""
    if not numbers.estimates:
        return {}
    search = {trial: (estimate, 0) for trial, estimate in numbers.estimates.items()}
    by_kind = {BlockKind.SEARCH: search, BlockKind.CERTIFY: numbers.fresh}
    return strongest_estimates(by_kind, campaign.recommendation)


def _recommended(campaign: Campaign) -> int | None:
    r = campaign.recommendation
    return r.trial if r is not None and r.answer is Answer.RECOMMENDED else None


def _listed(title: str, listing: RenderableType) -> tuple[RenderableType, ...]:
    # Not indented: an indent would wrap the lines that go to a file.
    return ("", Text(title, style=STRONG), listing)


def _facts(
    campaign: Campaign,
    trials: Sequence[Trial],
    counts: Sequence[BlockCount],
    drift: Sequence[float],
    absence: str,
    floor: str,
) -> RenderableType:
    facts = {"State": state_text(campaign.state)}
    if absence:
        facts["Stalled"] = literal(absence, SLOWER)
    if campaign.reason:
        facts["Reason"] = literal(campaign.reason)
    facts["Created"] = Text(moment(campaign.created))
    facts["Updated"] = Text(moment(campaign.updated))
    facts["Seed"] = Text(str(campaign.seed))
    if floor:
        facts["Floor"] = literal(floor)
    facts["Trials"] = Text(_trial_counts(trials, campaign.state))
    facts["Blocks"] = Text(_blocks(counts))
    if len(drift) > 1:
        spread = interval(min(drift), max(drift))
        line = sparkline(drift, _DRIFT_CELLS)
        facts["Baseline"] = Text(f"{line}  time by block, {spread} than average")
    use = campaign.time_use
    if use.wall_s > 0.0:
        own = f"{100.0 * use.overhead_share:.1f}% of it in fstune itself"
        facts["Took"] = Text(f"{duration(use.wall_s)}, {own}")
    return stacked(list(facts), [list(facts.values())])


def _trial_counts(trials: Sequence[Trial], campaign: CampaignState) -> str:
    counts = Counter(t.state for t in trials if t.number != BASELINE)
    states = (f"{counts[of]} {state_now(of, campaign)}" for of in TrialState if counts[of])
    return ", ".join(states) or "none yet"


def block_counts(blocks: Iterable[Block]) -> list[BlockCount]:
    """Count the blocks by kind, state and testbed."""
    alike: dict[tuple[BlockKind, BlockState, str | None, bool], list[int]] = defaultdict(list)
    for b in blocks:
        alike[b.kind, b.state, b.testbed, b.batch is not None].append(len(b.measurements))
    return [BlockCount(*what, len(arms), sum(arms)) for what, arms in alike.items()]


def _testbeds(counts: Sequence[BlockCount]) -> list[str]:
    """Return a line per testbed with its number of complete blocks, if there are several."""
    if not any(count.at_once for count in counts):
        return []
    blocks_by_name: Counter[str] = Counter()
    for count in counts:
        complete = count.state is BlockState.COMPLETE
        blocks_by_name[count.testbed or ""] += count.blocks if complete else 0
    return [f"{name}: {blocks_text(blocks_by_name[name])}" for name in sorted(blocks_by_name)]


def _blocks(counts: Sequence[BlockCount]) -> str:
    complete = [count for count in counts if count.state is BlockState.COMPLETE]
    certify = sum(c.blocks for c in complete if c.kind is BlockKind.CERTIFY)
    void = sum(c.blocks for c in counts if c.state is BlockState.VOID)
    arms = sum(c.measurements for c in complete)
    numbers = [f"{sum(c.blocks for c in complete)} complete"]
    if certify:
        numbers.append(f"{certify} of them for certification")
    if void:
        numbers.append(f"{void} void")
    if arms:
        numbers.append(counted(arms, "measurement"))
    return ", ".join(numbers)


def _trials_table(
    campaign: Campaign, trials: Sequence[Trial], estimates: Mapping[int, TrialEstimate]
) -> RenderableType:
    """Render trials with state, estimate against the baseline, changed settings, and reason."""
    estimated = (Column("Faster by", rigid=True), Column("95% interval", rigid=True))
    columns = (
        Column("Trial", rigid=True, right=True),
        Column("State", rigid=True),
        *(estimated if estimates else ()),
        Column("Changes"),
        Column("Reason"),
    )
    base = campaign.baseline or Configuration()
    best = _recommended(campaign)
    rows = (_trial(t, campaign.state, base, estimates, best) for t in trials)
    return Listing(columns, tuple(rows))


def _trial(
    trial: Trial,
    campaign: CampaignState,
    baseline: Configuration,
    estimates: Mapping[int, TrialEstimate],
    recommended: int | None,
) -> tuple[Text, ...]:
    is_baseline = trial.number == BASELINE
    cells = [Text(str(trial.number), style=NAME), state_text(state_now(trial.state, campaign))]
    row = estimates.get(trial.number)
    if estimates:
        if row is None:
            cells += [Text(""), Text("")]
        else:
            estimate = row.estimate
            cells.append(Text(signed(estimate.ratio), style=tone(estimate.lower, estimate.upper)))
            cells.append(Text(signed_interval(estimate.lower, estimate.upper)))
    changed = "baseline" if is_baseline else changes(baseline, trial.configuration)
    reason = "recommended" if trial.number == recommended else trial.reason
    if row is not None and row.basis:
        separator = ": " if trial.number == recommended else "; "
        reason = separator.join(filter(None, (reason, row.basis)))
    return (*cells, literal(changed), literal(reason, QUIET))


def _compared(campaign: Campaign) -> tuple[int, ...]:
    """Return the baseline and, if there is another, the trial of the answer."""
    r = campaign.recommendation
    return (BASELINE,) if r is None or r.trial == BASELINE else (BASELINE, r.trial)


def _diagnostics(rows: Sequence[Row], trials: Sequence[int]) -> RenderableType:
    heads = ["baseline" if number == BASELINE else f"trial {number}" for number in trials]
    columns = (Column("What"), *(Column(head, right=True) for head in heads))
    return Listing(columns, tuple(tuple(map(literal, (row.what, *row.texts))) for row in rows))


def _events(events: Sequence[Event]) -> RenderableType:
    columns = (Column("At", rigid=True), Column("Event"))
    rows = tuple((Text(moment(e.at), style=QUIET), literal(e.message)) for e in events)
    return Listing(columns, rows)
