"""The campaigns of a series, and measuring a recommendation against the default again."""

from __future__ import annotations

import csv
import math
import subprocess
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import scipy
import yaml

from tuner.model import BASELINE, Answer, Campaign, Recommendation
from tuner.plan.budget import Cost
from tuner.plan.rules import stored_rules
from tuner.plan.scores import ScoreTable
from tuner.records.differences import differences
from tuner.store import Store

HERE = Path(__file__).resolve().parent
QUICKSTART = HERE.parents[1] / "deploy" / "quickstart.yaml"
#: What each kind of campaign changes in the campaign of ``make tune``.
KINDS: dict[str, dict[str, Any]] = {"quickstart": {}, "half-hour": {"budget": {"wall_time": "30m"}}}
#: Fresh blocks in which a recommended configuration is compared with the default again.
AGAIN = 20
_LEVEL = 0.95


@dataclass(frozen=True)
class Row:
    """One campaign. Gains are fractions (.05 = 5% faster).

    ``least`` and ``most`` are the interval of the certificate. ``again``: the gain in
    ``again_blocks`` fresh blocks after the campaign, with Student's t interval at 95%.
    ``own_share``: fstune's own share of the wall time.
    """

    kind: str
    seed: int
    answer: str
    reason: str
    settings: str = ""
    gain: float | None = None
    least: float | None = None
    most: float | None = None
    fresh_blocks: int = 0
    measurements: int = 0
    wall_s: float = 0.0
    own_share: float = 0.0
    again: float | None = None
    again_least: float | None = None
    again_most: float | None = None
    again_blocks: int = 0


def campaign(
    kind: str, seed: int, document: dict[str, Any], directory: Path
) -> tuple[Row, Campaign]:
    """Run a campaign with this seed; return its row and the campaign as stored."""
    finished = _run({**document, "seed": seed}, directory, f"{kind}-{seed}")
    answer = finished.recommendation
    if answer is None:
        return Row(kind, seed, str(finished.state), finished.reason), finished
    use = finished.time_use
    row = Row(
        kind,
        seed,
        str(answer.answer),
        answer.reason,
        _settings(answer),
        gain=_gain(answer.ratio),
        least=_gain(answer.upper),
        most=_gain(answer.lower),
        fresh_blocks=answer.blocks,
        measurements=Cost.of(_scores(finished, directory)).measurements,
        wall_s=use.wall_s,
        own_share=use.overhead_share,
    )
    return row, finished


def measured_again(row: Row, finished: Campaign, document: dict[str, Any], directory: Path) -> Row:
    """Measure the recommendation of a campaign again, if it has one."""
    answer = finished.recommendation
    if answer is None or answer.answer is not Answer.RECOMMENDED:
        return row
    scores = _again(answer, document, directory, f"{row.kind}-{row.seed}-again")
    mean, n = fmean(scores), len(scores)
    reach = scipy.stats.t.ppf((1.0 + _LEVEL) / 2.0, n - 1) * stdev(scores) / math.sqrt(n)
    return replace(
        row,
        again=_gain(math.exp(mean)),
        again_least=_gain(math.exp(mean + reach)),
        again_most=_gain(math.exp(mean - reach)),
        again_blocks=n,
    )


def _again(
    answer: Recommendation, document: dict[str, Any], directory: Path, name: str
) -> list[float]:
    """Return score differences of a recommended configuration from the default.

    They are from a campaign with no other trial, fewer than ``AGAIN`` if it is soon shown to be
    slower.
    """
    configuration = answer.configuration.as_dict()
    spaces = {
        part: {key: value for key, value in _as_space(space).items() if key != "presets"}
        for part, space in document["spaces"].items()
    }
    only = {
        **document,
        "spaces": spaces,
        "first": [configuration],
        "pilot": {"blocks": 0},
        "search": {"arms": 1, "max_trials": 1, "blocks_per_trial": AGAIN},
        # So narrow that every block is measured.
        "statistics": {"delta": "0.1%", "floor": "95%"},
        "certification": {"blocks": AGAIN, "share": "90%"},
        "budget": {"wall_time": "30m", "measurements": 2 * AGAIN},
    }
    finished = _run(only, directory, name)
    return [
        one.scores[trial] - one.scores[BASELINE]
        for one in _scores(finished, directory).scored
        for trial in one.scores.keys() - {BASELINE}
    ][:AGAIN]


def _as_space(space: str | dict[str, Any]) -> dict[str, Any]:
    return {"name": space} if isinstance(space, str) else space


def _run(document: dict[str, Any], directory: Path, name: str) -> Campaign:
    """Run a campaign from the command line, as a user does; return it as stored."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**document, "name": name}))
    command = [".venv/bin/fstune", "run", str(file), "--state-dir", str(directory)]
    with (directory / f"{name}.log").open("w") as log:
        subprocess.run(command, stdout=log, stderr=log, check=False, timeout=3600)
    with Store.open(directory) as store:
        return next(each for each in store.campaigns() if each.name == name)


def _scores(campaign: Campaign, directory: Path) -> ScoreTable:
    """Return the scores of all blocks of a campaign."""
    rules = stored_rules(campaign)
    table = ScoreTable(rules.components, rules.weights)
    with Store.open(directory) as store:
        table.extend(store.blocks(campaign.id))
    return table


def _settings(answer: Recommendation) -> str:
    changed, _ = differences(answer.baseline, answer.configuration)
    return " ".join(f"{one.name}={'not set' if one.new is None else one.new}" for one in changed)


def _gain(ratio: float | None) -> float | None:
    return None if ratio is None else 1.0 / ratio - 1.0


def record(row: Row, file: Path) -> None:
    """Add a row to a file of results, in the place of an earlier one of the same seed."""
    names = [field.name for field in fields(Row)]
    rows: dict[tuple[str, int], list[str]] = {}
    if file.exists():
        with file.open(newline="", encoding="utf-8") as earlier:
            rows = {
                (each["kind"], int(each["seed"])): [each[name] for name in names]
                for each in csv.DictReader(earlier)
            }
    rows[row.kind, row.seed] = [_text(value) for value in asdict(row).values()]
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows[key] for key in sorted(rows))


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
