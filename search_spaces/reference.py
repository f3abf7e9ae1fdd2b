"""Generate the reference page of all parameters from the spaces.

``python -m search_spaces.reference docs/search-spaces.md`` writes it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from search_spaces import describe
from search_spaces.loading import load
from search_spaces.lookup import own_names
from search_spaces.model import Parameter
from search_spaces.space import Space

_HEAD = """\
# Search spaces

Every parameter that fstune knows, made from the files in `search_spaces/` by `make docs`: change
those, not this page. `fstune space explain NAME PARAMETER` prints the same for one parameter.

A search leaves each parameter unset or gives it a value. *Negative controls* are inert in a short
trial: a campaign can search them on purpose (`also`) to see that no effect is found where there is
none. Parameters of the risk classes *durability*, *security* and *availability* stay as found
unless a campaign names the class (`allow_risk`) or a preset that sets them.

A space of your own is a file like these, by the schema `search_spaces/schema.json`, which editors
understand; with `extends: NAME` it contains only what differs. `fstune space check FILE` checks it.

*For* says what a space can be used for: `campaigns` on real programs (docs/campaigns.md names the
testbeds), `simulation` (campaigns on simulated testbeds), `reading` (`fstune space` shows it,
samples it and parses with it). A campaign refuses a space that is not for it.

| Space | Part | Parameters | Searched | For | What it is |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page as Markdown."""
    spaces = [load(name) for name in own_names()]
    rows = [
        f"| [{s.name}](#{_anchor(s.name)}) | {s.part} | {len(s.parameters)} | "
        f"{len(s.searched)} | {', '.join(s.uses)} | {s.title} |\n"
        for s in spaces
    ]
    return _HEAD + "".join(rows) + "".join(_space(space) for space in spaces)


def _anchor(heading: str) -> str:
    return "".join(c for c in heading.lower() if c.isalnum() or c in "-_")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _space(space: Space) -> str:
    lines = [
        f"\n## {space.name}\n",
        f"{space.title}. Program: `{space.program}`, {space.versions}. "
        f"Written as {describe.form(space)}.",
        f"For {describe.purpose(space)}.",
        f"Evidence: {space.evidence}.",
    ]
    if space.facts:
        lines += [
            "\nFacts about the host:\n",
            "| Fact | Assumed | About |",
            "|---|---|---|",
        ]
        lines += [
            f"| `{f.name}` | {f.assumed} {f.unit} | {_cell(f.about)} |"
            for f in space.facts.values()
        ]
    for parameter in space.parameters:
        lines += _parameter(parameter)
    if space.constraints:
        lines += ["\n### Rules over the whole configuration\n"]
        lines += [f"- `{c.rule.text}`: otherwise {c.why}" for c in space.constraints]
    lines += ["\n### Published configurations\n", "| Name | Settings | Source |", "|---|---|---|"]
    lines += [
        f"| {p.name} | {f'`{_cell(p.options)}`' if p.options else ''} | {_cell(p.source)} |"
        for p in space.presets
    ]
    if space.left_out:
        lines += ["\n### Left out\n", "| What | Why |", "|---|---|"]
        lines += [
            f"| `{o.flag}`{f' ({o.versions})' if o.versions else ''} | {_cell(o.left_out)} |"
            for o in space.left_out.values()
        ]
    return "\n".join(lines) + "\n"


def _parameter(parameter: Parameter) -> list[str]:
    rows = [f"| {label} | {_cell(text)} |" for label, text in describe.details(parameter)]
    about = parameter.about[0].upper() + parameter.about[1:]
    return [f"\n### {parameter.name}\n", f"{about}.\n", "| | |", "|---|---|", *rows]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
