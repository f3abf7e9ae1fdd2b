"""The results that must not depend on how often a campaign was cut off, and a campaign to test
this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from tests.unit.campaign.campaigns import failing, faster, spec
from tuner.model import BASELINE, Block, Campaign, Configuration, Measurement, Trial
from tuner.plan.guide import Noise
from tuner.plan.planner import Planner
from tuner.plan.rules import stored_rules
from tuner.plan.steps import Finish
from tuner.propose.prediction import Contribution, Prediction
from tuner.spec.campaign import CampaignSpec
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import Store, problems

# Without noise every number of the answer equals that of an undisturbed run. With noise, void
# blocks would change block numbers, and with them the random draws of a simulated testbed. The
# sampler ignores the measurements.
SPEC = spec(
    faster(-0.3),
    failing("start", low=250),
    noise=0.0,
    first=({"fileserver.threads": 20}, {"fileserver.threads": 256}, {"fileserver.threads": 200}),
    search={"arms": 2, "blocks_per_trial": 5, "max_trials": 4, "sampler": "random"},
    references=[{"name": "local disk", "path": "/srv"}],
)


@dataclass(frozen=True)
class Place:
    """Where a campaign is stored."""

    state: Path
    address: str | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line options with which a command finds it."""
        database = () if self.address is None else ("--database", self.address)
        return ("--state-dir", str(self.state), *database)

    def open(self) -> Store:
        return Store.open(self.state, self.address)


class Hopeless:
    """A guide with nothing left to try, so that the best certificate so far is the answer."""

    best = None
    noise = Noise(0.0, ())

    def look(self, trials: object, table: object, out: object, floor: float) -> Hopeless:
        return self

    def simplest(self, certified: Configuration) -> None:
        return None

    def hope(self, gain: float, *, new: bool) -> float:
        return 0.0

    def contributions(self, trial: Trial) -> list[Contribution]:
        return []

    def prediction(self, trial: Trial) -> Prediction:
        return Prediction(trial.configuration, 0.0, 0.0, 0.0, ())

    def picks(self, count: int, most_new: int | None) -> tuple[()]:
        return ()


def write_campaign(path: Path, of: CampaignSpec = SPEC) -> Path:
    path.write_text(yaml.safe_dump(of.model_dump(mode="json", exclude_none=True)))
    return path


def newest_campaign(store: Store) -> tuple[Campaign, list[Trial], list[Block]]:
    """Return the newest campaign with its trials and blocks."""
    campaign = store.campaigns()[0]
    return campaign, store.trials(campaign.id), store.blocks(campaign.id)


def measured(blocks: Sequence[Block]) -> dict[tuple[int, int], Measurement]:
    """Return all measurements by block and trial, and check that none is stored twice."""
    pairs = [((b.number, m.trial), m) for b in blocks for m in b.measurements]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def check_decisions(campaign: Campaign, trials: Sequence[Trial], blocks: Sequence[Block]) -> None:
    """Check that a campaign has ended, and that every decision follows from the stored rows."""
    assert campaign.state is CampaignState.FINISHED
    assert campaign.recommendation is not None
    failed = {trial.number for trial in trials if trial.state is TrialState.FAILED}
    for block in blocks:
        assert block.state in (BlockState.COMPLETE, BlockState.VOID)
        if block.state is BlockState.COMPLETE:
            assert set(block.order) - {m.trial for m in block.measurements} <= failed
    planner = Planner(stored_rules(campaign), Hopeless())
    replayed = planner.plan(trials, blocks, earlier_blocks=len(blocks))
    assert isinstance(replayed.step, Finish)
    assert (replayed.step.finalist or BASELINE) == campaign.recommendation.trial
    for number, ending in replayed.endings.items():
        assert (trials[number].state, trials[number].reason) == (ending.state, ending.reason)


def outcome(place: Place) -> object:
    """Return everything that must not depend on kills: the trials and how each ended, the
    measurements that count, and the answer with all its numbers.
    """
    with place.open() as store:
        assert problems(store) == []
        campaign, trials, blocks = newest_campaign(store)
    check_decisions(campaign, trials, blocks)
    complete = [b for b in blocks if b.state is BlockState.COMPLETE]
    counts = Counter(
        (b.kind, b.round, m.trial, m.requested, m.effective, times(m))
        for b in complete
        for m in b.measurements
    )
    references = Counter((b.kind, b.round, r.name) for b in complete for r in b.references)
    rows = [(t.configuration, t.round, t.origin, t.state, t.reason) for t in trials]
    answer = campaign.recommendation
    assert answer is not None
    # What was measured in vain is missing from the rest of the budget.
    notes = tuple(note for note in answer.notes if not note.startswith("left of the budget: "))
    return rows, counts, references, replace(answer, notes=notes)


def times(measurement: Measurement) -> tuple[tuple[str, float], ...]:
    return tuple((name, c.elapsed_s) for name, c in measurement.components.items())
