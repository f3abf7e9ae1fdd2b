"""Campaigns on the simulated testbed, from proposal to recommendation, and their results.

Defines the worlds and the campaign that is run in each, and counts right and wrong answers. The
loop, the store and the judge are those of every campaign; only the times are random.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tuner.compose import prepare
from tuner.errors import CampaignHalted
from tuner.judge.pilot import PilotOutcome
from tuner.model import Answer, BlockKind, Configuration, Event
from tuner.records.standing import Standing
from tuner.run.runner import Runner
from tuner.services.simulated import Effect, World
from tuner.spec.campaign import CampaignSpec
from tuner.store import Store

_PARAMETER: Final = "fileserver.threads"
_FIRST: Final = (16, 32, 64, 96, 160, 224)
"""Values of the configurations that are tried first; the proposer adds the rest."""

_MOST_TRIALS: Final = 9
_ALPHA: Final = 0.025

REFUSED: Final = "refused"


@dataclass(frozen=True, slots=True)
class Setting:
    """A world by name.

    noise: sd of a component's log time; gain: additional work done in the same time with one of the
    first values (.05 = 5%), 0 if nothing differs from the baseline.
    """

    name: str
    noise: float
    gain: float


SETTINGS: Final = (
    Setting("nothing to find", 0.014, 0.0),
    Setting("nothing to find, noisy", 0.05, 0.0),
    Setting("one is 5% faster", 0.014, 0.05),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One campaign. answer: REFUSED if the pilot advised against it.

    truth, ratio, lower, upper: time of the finalist over the baseline's: true, estimated and its
    95% interval; empty without a finalist. false: recommended although it is not faster. found:
    recommended and faster.
    """

    world: str
    seed: int
    trials: int
    pilot_blocks: int
    search_blocks: int
    certify_blocks: int
    measurements: int
    answer: str
    truth: float | None
    ratio: float | None
    lower: float | None
    upper: float | None
    false: bool
    found: bool


class _Silent:
    """An observer that ignores everything."""

    def say(self, event: Event) -> None:
        pass

    def doing(self, what: str) -> None:
        pass

    def standing(self, standing: Standing) -> None:
        pass


def specification(setting: Setting, seed: int) -> CampaignSpec:
    """Return this seed's campaign, with its own order of the first values and its own winner."""
    chance = random.Random(f"{setting.name}:{seed}")
    values = chance.sample(_FIRST, len(_FIRST))
    effect = {
        "parameter": _PARAMETER,
        "value": chance.choice(_FIRST),
        "change": 1.0 / (1.0 + setting.gain) - 1.0,
    }
    return CampaignSpec.model_validate(
        {
            "name": f"study {seed}",
            "seed": seed,
            "testbed": {
                "simulated": {
                    "noise": setting.noise,
                    "block_noise": 2.0 * setting.noise,
                    "seed": seed,
                    "effects": [effect] if setting.gain else [],
                }
            },
            "spaces": {
                "fileserver": {"name": "openafs-fileserver-1.8", "only": ["threads"]},
                "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
            },
            "workload": "mixed-use",
            "search": {"max_trials": _MOST_TRIALS, "sampler": "random"},
            "budget": {"wall_time": "1h"},
            "first": [{_PARAMETER: value} for value in values],
        }
    )


def campaign(setting: Setting, seed: int) -> Row:
    """Run one campaign in a store of its own, and return its result."""
    spec = specification(setting, seed)
    with tempfile.TemporaryDirectory() as place, Store.open(Path(place) / "state") as store:
        directory = Path(place)
        preparation = prepare(spec, directory)
        record = store.create_campaign(spec.name, spec.to_json(), spec.seed, datetime.now(UTC))
        runner = Runner(
            store,
            record.id,
            preparation.spec,
            preparation.workload,
            preparation.campaign_testbeds(record.id),
            _Silent(),
        )
        outcome = runner.run()
        is_refused = (
            isinstance(outcome.error, CampaignHalted)
            and runner.pilot is not None
            and runner.pilot.outcome is PilotOutcome.REFUSED
        )
        if outcome.error is not None and not is_refused:
            raise outcome.error
        answer, blocks = outcome.campaign.recommendation, store.blocks(record.id)
        trials = sum(trial.round > 0 for trial in store.trials(record.id))
    if answer is None and not is_refused:
        raise AssertionError(f"campaign {seed} ended without an answer")
    kinds = Counter(block.kind for block in blocks)
    has_interval = answer is not None and answer.ratio is not None
    truth = 1.0 if answer is None else _truth(spec, answer.configuration)
    recommended = answer is not None and answer.answer is Answer.RECOMMENDED
    return Row(
        world=setting.name,
        seed=seed,
        trials=trials,
        pilot_blocks=kinds[BlockKind.PILOT],
        search_blocks=kinds[BlockKind.SEARCH],
        certify_blocks=kinds[BlockKind.CERTIFY],
        measurements=sum(len(block.measurements) for block in blocks),
        answer=REFUSED if answer is None else answer.answer.value,
        truth=truth if has_interval else None,
        ratio=None if answer is None else answer.ratio,
        lower=None if answer is None else answer.lower,
        upper=None if answer is None else answer.upper,
        false=recommended and truth >= 1.0,
        found=recommended and truth < 1.0,
    )


def _truth(spec: CampaignSpec, configuration: Configuration) -> float:
    simulated = spec.sections[0].section
    assert simulated is not None
    effects = tuple(Effect(**e.model_dump(exclude_none=True)) for e in simulated.effects)
    # Every effect here is the same for all components.
    return math.exp(World(effects=effects).log_change(configuration, "any"))


def most_false(campaigns: int) -> float:
    """Return the largest share of false recommendations that keeps the promise: 2.5% + 3 SE."""
    return _ALPHA + 3.0 * math.sqrt(_ALPHA * (1.0 - _ALPHA) / campaigns)


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table of the results with a line per world."""
    heads = ["world", "campaigns", "refused", "with a finalist", "false", "found"]
    heads += ["interval right", "pilot blocks", "search blocks", "fresh blocks", "measurements"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for world in dict.fromkeys(row.world for row in rows):
        mine = [row for row in rows if row.world == world]
        with_interval = [row for row in mine if row.ratio is not None]
        right = sum(_holds(row) for row in with_interval)
        cells = [world, len(mine), sum(r.answer == REFUSED for r in mine)]
        cells += [len(with_interval), sum(r.false for r in mine)]
        cells += [sum(r.found for r in mine), f"{right} of {len(with_interval)}"]
        cells += [f"{_mean([r.pilot_blocks for r in mine]):.1f}"]
        cells += [f"{_mean([r.search_blocks for r in mine]):.1f}"]
        cells += [f"{_mean([r.certify_blocks for r in with_interval]):.1f}"]
        cells += [f"{_mean([r.measurements for r in mine]):.0f}"]
        lines.append(_line(cells))
    return "\n".join(lines)


def _holds(row: Row) -> bool:
    if row.truth is None or row.lower is None or row.upper is None:
        return False
    return row.lower <= row.truth <= row.upper


def _mean(values: Sequence[int]) -> float:
    return sum(values) / max(len(values), 1)


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
