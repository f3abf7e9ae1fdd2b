"""A report as Markdown, for tickets and change requests without attachments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tuner.page.document import ReportDocument
from tuner.page.effect_plots import basis
from tuner.page.html import OUTCOMES, RESTS_ON, estimate, floors, level, subject
from tuner.page.names import KINDS
from tuner.report.answer import SETTING_GAIN
from tuner.report.noise import HEADINGS, adjusted
from tuner.text import clean, moment, signed, signed_interval

_SPECIAL = re.compile(r"([\\`*_\[\]|#~!])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def report_markdown(document: ReportDocument) -> str:
    """Return the report. External text is escaped and never becomes markup or HTML."""
    d = document
    lines = [
        f"# {text(d.answer)}",
        "",
        text(
            f"Report on the campaign {d.campaign_name} ({d.campaign}), {d.state}, "
            f"as of {moment(d.as_of)}; by fstune {d.fstune}"
        ),
        "",
        text(d.question),
        "",
        f"**{text(d.answer)}.** {text(d.reason)}".rstrip(),
        *_section("How sure the answer is", _list(d.sure)),
    ]
    if d.compared is not None:
        table = _table(d.compared.headings, d.compared.rows)
        lines += _section("Compared with the baseline", [*table, "", *_list(d.compared.claim)])
        by = _table(d.compared.component_headings, d.compared.components)
        lines += _section("By component", by)
    if d.recommendation is not None:
        lines += _section("Caveats", _list(d.recommendation.notes))
        lines += _section(
            "Compared with references", _list(r.text for r in d.recommendation.references)
        )
    gains = any(s.gain for s in d.settings)
    settings = _table(
        ("Setting", "Baseline", subject(d), *([SETTING_GAIN] if gains else [])),
        [(s.name, s.before, s.after, *([s.gain] if gains else [])) for s in d.settings],
    )
    if settings and d.equal:
        settings += ["", f"{d.equal} more, equal in both."]
    same = ["Nothing differs: the settings are as found."]
    lines += _section("Settings that differ from the baseline", settings or same)
    lines += ["", *_list(d.meanings)] if d.meanings else []
    lines += _section("To apply, and to undo", _applying(d))
    floor = floors(d)
    components = [
        (name, signed(e.ratio), signed_interval(e.lower, e.upper), floor.get(name, ""))
        for name, of in d.components.items()
        if (e := estimate(of)) is not None
    ]
    headings = ("Component", f"{subject(d)}: faster by", level(d), "Floor")
    lines += _section("Components of the workload", _table(headings, components))
    counters = [(c.what, c.baseline or "not known", c.trial or "not known") for c in d.counters]
    lines += _section("Why: what changed with the settings", _list(d.why))
    lines += _section("Diagnostics", _table(("Counted", "Baseline", subject(d)), counters))
    lines += _section("What each parameter does", _effects(d))
    quiet = ["Nothing in the campaign's own data threatens its answer."]
    lines += _section("Threats to validity", _list(d.threats) or quiet)
    lines += _section(
        "What was measured, and where", _list(f"{f.what}: {f.text}" for f in d.measured)
    )
    lines += _section("All verdicts", _verdicts(d))
    happened = [f"{moment(one.at)} {one.message}" for one in d.disturbances]
    lines += _section("Disturbances", _list(happened) or ["No disturbance was recorded."])
    if d.noise is not None:
        table = _table(HEADINGS, d.noise.rows())
        lines += _section("Noise of the score", [*table, "", text(adjusted(d.noise.adjustment))])
    if d.campaign_file:
        lines += _section("To reproduce it: campaign.yaml", _code(d.campaign_file.splitlines()))
    lines += _section("To reproduce it: commands", _code(d.commands))
    return "\n".join(lines) + "\n"


def text(raw: str) -> str:
    """Escape ``raw`` for Markdown and HTML and put it on one line."""
    escaped = _SPECIAL.sub(r"\\\1", clean(raw))
    return "".join(_ENTITIES.get(character, character) for character in escaped)


def _section(title: str, content: Sequence[str]) -> list[str]:
    return ["", f"## {text(title)}", "", *content] if content else []


def _list(sentences: Iterable[str]) -> list[str]:
    return [f"- {text(sentence)}" for sentence in sentences]


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(map(text, row))} |" for row in rows]
    head = [f"| {' | '.join(map(text, headings))} |", "|---" * len(headings) + "|"]
    return head + lines if lines else []


def _code(lines: Iterable[str]) -> list[str]:
    """Return an indented code block, which no line can terminate; each input is one line."""
    return [f"    {clean(line)}" for line in lines]


def _applying(d: ReportDocument) -> list[str]:
    lines: list[str] = []
    for step in d.applying:
        lines += [
            f"{text(step.part)}: put these options into {text(step.put)}; then {text(step.then)}:",
            "",
            *_code([step.options or "(no options)"]),
            "",
            "To undo it, do the same with these options as found:",
            "",
            *_code([step.undo or "(none of them)"]),
            "",
        ]
    return lines[:-1]


def _effects(d: ReportDocument) -> list[str]:
    of = d.effects
    if not of.parameters:
        return []
    rows = [(one.name, one.text) for one in of.parameters]
    pairs = _list(pair.text for pair in of.pairs)
    lines = [text(f"{of.worth} {basis(of)}"), "", *_table(("Parameter", "What is known"), rows)]
    return [*lines, *(["", *pairs] if pairs else [])]


def _verdicts(d: ReportDocument) -> list[str]:
    rows = []
    for one in d.verdicts:
        e = estimate(one)
        numbers = ("", "") if e is None else (signed(e.ratio), signed_interval(e.lower, e.upper))
        about = (str(one.trial), KINDS[one.kind], OUTCOMES[one.outcome], str(one.blocks))
        rows.append((*about, *numbers, one.changes))
    headings = ("Trial", "In", "Verdict", "Blocks", "Faster by", "95% interval", "Changes")
    return [text(RESTS_ON), "", *_table(headings, rows)] if rows else []
