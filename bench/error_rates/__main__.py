"""Runs the study: ``python -m bench.error_rates`` (``make bench`` installs what it needs).

Writes errors (``results.csv``), guards (``guards.csv``) and ``results.svg`` beside this file, and
the tables of ``README.md``. Takes a few minutes of one core; same figures every time.
"""

from __future__ import annotations

from pathlib import Path

from bench.error_rates import study
from bench.error_rates.guards import Look

HERE = Path(__file__).resolve().parent
PATHS = 100_000
CAMPAIGNS = 4_000
LOOK = Look(wrong=500, quiet=300)
MARK = "<!-- {}: written by the study -->"


def with_table(text: str, name: str, table: str) -> str:
    """`text` with what stands between the two marks of this name replaced by the table."""
    mark = MARK.format(name)
    before, _, after = text.split(mark)
    return f"{before}{mark}\n\n{table}\n\n{mark}{after}"


def main() -> None:
    """Run everything at full size."""
    errors = study.error_rows(PATHS)
    study.write_csv(errors, HERE / "results.csv")
    study.plot(errors, HERE / "results.svg")
    guards = study.guard_rows(CAMPAIGNS, LOOK)
    study.write_csv(guards, HERE / "guards.csv")
    readme = HERE / "README.md"
    text = readme.read_text(encoding="utf-8")
    text = with_table(text, "errors, 20 blocks", study.error_table(errors, 20))
    text = with_table(text, "errors, 50 blocks", study.error_table(errors, 50))
    text = with_table(text, "guards", study.guard_table(guards))
    readme.write_text(text, encoding="utf-8")
    broken = [row for row in errors if row.promised and not row.kept]
    for row in broken:
        print(f"not kept: {row.rule}, {row.noise}, {row.blocks} blocks: {row.error:.4f}")
    promised = sum(row.promised for row in errors)
    print(f"{promised - len(broken)} of {promised} promised rows kept")


if __name__ == "__main__":
    main()
