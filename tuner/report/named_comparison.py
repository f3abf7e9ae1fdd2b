"""Render a comparison of named configurations: two tables and the claim behind them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from tuner.records.estimate import Estimate
from tuner.records.named_comparison import NamedComparison, ShownEffect, Word
from tuner.report.answer import columns, section
from tuner.report.drawing import paragraph
from tuner.report.styles import FASTER, NAME, QUIET, SLOWER, literal
from tuner.text import confidence_text, signed, signed_interval, unbounded

TITLE = "Compared with the baseline"
BY_COMPONENT = "By component"

_WORDS = {
    Word.FASTER: "faster",
    Word.SLOWER: "slower",
    Word.SAME: "no difference",
    Word.OPEN: "not settled",
    Word.FAILED: "did not run",
}
_TONES = {Word.FASTER: FASTER, Word.SLOWER: SLOWER}


def word(effect: ShownEffect) -> str:
    """Return the result in a word or two."""
    return _WORDS[effect.word]


def headings(comparison: NamedComparison) -> tuple[str, ...]:
    """Return the headings of the table of configurations."""
    interval = confidence_text(comparison.confidence)
    return ("Configuration", "Result", "Faster by", interval, "Blocks", "Settings")


def rows(comparison: NamedComparison) -> list[tuple[str, ...]]:
    """Return a row of texts for each configuration."""
    return [
        (r.name, word(r.whole), *_numbers(r.whole.estimate), str(r.blocks), r.changes)
        for r in comparison.rows
    ]


def component_headings(comparison: NamedComparison) -> tuple[str, ...]:
    """Return the headings of the table of components, which has a column per configuration."""
    return ("Component", *(row.name for row in comparison.rows))


def component_rows(comparison: NamedComparison) -> list[tuple[str, ...]]:
    """Return a row of texts for each component; no rows before anything was measured."""
    names = list(dict.fromkeys(name for row in comparison.rows for name in row.components))
    return [(name, *(_cell(row.components.get(name)) for row in comparison.rows)) for name in names]


def claim(comparison: NamedComparison) -> tuple[str, ...]:
    """Return the sentences that state what the tables claim."""
    together, each = (
        f"{100.0 * level:.4g}%" for level in (comparison.together, comparison.confidence)
    )
    delta = f"{100.0 * comparison.delta:.3g}%"
    return (
        f"The intervals of all configurations are valid together with {together} confidence, also "
        f"under repeated looks; those of components are valid individually with {each}.",
        f"'no difference': shown to be within {delta} of the baseline, either way; 'not settled': "
        "more blocks are needed to tell.",
        *_reasons(comparison),
    )


def _reasons(comparison: NamedComparison) -> list[str]:
    """Return why configurations have no result, once each: guards refuse all of them alike."""
    names: dict[tuple[Word, str], list[str]] = {}
    for row in comparison.rows:
        if row.reason:
            names.setdefault((row.whole.word, row.reason), []).append(row.name)
    return [f"{', '.join(of)} {_WORDS[word]}: {reason}" for (word, reason), of in names.items()]


def comparison_sections(comparison: NamedComparison | None) -> tuple[RenderableType, ...]:
    """Render the comparison as sections; none for a campaign that searches."""
    if comparison is None:
        return ()
    whole = columns(*headings(comparison), right=(2, 4))
    for row, cells in zip(comparison.rows, rows(comparison), strict=True):
        tone = _TONES.get(row.whole.word, "")
        text = Text(cells[1], style=tone)
        whole.add_row(literal(cells[0], NAME), text, *map(literal, cells[2:]))
    parts = [section(TITLE, whole, *(paragraph(text, QUIET) for text in claim(comparison)))]
    if by_component := component_rows(comparison):
        table = columns(*component_headings(comparison))
        for line in by_component:
            table.add_row(literal(line[0], NAME), *map(literal, line[1:]))
        parts.append(section(BY_COMPONENT, table))
    return tuple(parts)


def _numbers(estimate: Estimate | None) -> Sequence[str]:
    if estimate is None:
        return ("", "")
    if unbounded(estimate.lower, estimate.upper):
        return (signed(estimate.ratio), "no bound yet")
    return (signed(estimate.ratio), signed_interval(estimate.lower, estimate.upper))


def _cell(effect: ShownEffect | None) -> str:
    if effect is None or effect.estimate is None:
        return ""
    return f"{signed(effect.estimate.ratio)}, {word(effect)}"
