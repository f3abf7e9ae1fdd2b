"""Render what a campaign measured in addition to its arms: references and individual clients.

Owns the sentence that compares the service with a reference. It is not a claim of the campaign:
no selection was based on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from tuner.judge.words import blocks as blocks_text
from tuner.records.comparison import Comparison
from tuner.report.answer import section
from tuner.report.drawing import paragraph
from tuner.text import clean, faster, unbounded


def comparison_sentence(comparison: Comparison) -> str:
    """State in a sentence how long the service takes compared with a reference.

    For example "The service as found takes 1.80 times as long as local-disk (95% interval 1.62 to
    2.01, 12 blocks)."
    """
    c, e = comparison, comparison.estimate
    bounded = (
        "95% interval not yet bounded"
        if unbounded(e.lower, e.upper)
        else f"95% interval {_times(e.lower)} to {_times(e.upper)}"
    )
    sentence = (
        f"The service {c.settings} takes {_times(e.ratio)} times as long as {clean(c.reference)}"
    )
    sentence += f" ({bounded}, {blocks_text(c.blocks)})"
    if c.clients > 1:
        sentence += f"; {c.clients} clients at once against one"
    if not c.cold:
        sentence += "; the reference's cold reads may have come from memory"
    return f"{sentence}."


def _times(ratio: float) -> str:
    """Format with three significant digits, the most that a campaign's noise ever justifies."""
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}" if ratio < 99.95 else f"{ratio:.0f}"


def references_section(comparisons: Sequence[Comparison]) -> tuple[RenderableType, ...]:
    """Render a titled section with a sentence per comparison; nothing without comparisons."""
    if not comparisons:
        return ()
    return (
        section(
            "Compared with references", *(paragraph(comparison_sentence(c)) for c in comparisons)
        ),
    )


def clients_text(ratios: Mapping[str, float]) -> RenderableType:
    """Render a line per client that compares it with the mean; `ratios`: of times, by host."""
    return Text("\n".join(f"{clean(host)}: {_among(ratio)}" for host, ratio in ratios.items()))


def _among(ratio: float) -> str:
    ratio_words = faster(ratio)
    return (
        "like the mean of all"
        if ratio_words == "no change"
        else f"{ratio_words} than the mean of all"
    )
