"""A campaign on several testbeds is killed in the middle of its blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.killing import Forks, Point, forks
from tests.unit.campaign.campaigns import FAST, OTHER, THREADS, failing, faster
from tests.unit.campaign.conftest import ON_BOTH
from tests.unit.campaign.outcomes import Place
from tests.unit.campaign.several import several
from tuner.model import Block, Trial
from tuner.states import BlockState, TrialState
from tuner.store import problems

pytestmark = pytest.mark.slow

#: Without noise, and with a sampler that ignores the measurements, because repeated measurements
#: are drawn anew.
SPEC = several(
    faster(-0.3),
    failing("start", low=250),
    names=("a", "b"),
    noise=0.0,
    first=(OTHER, {THREADS: 256}, FAST),
    search={"arms": 2, "blocks_per_trial": 5, "max_trials": 4, "sampler": "random"},
)
#: The point at which to kill, and at which of its passes.
KILLS = (
    ("apply", "before", 1),
    ("add_measurement", "before", 2),
    ("add_measurement", "within", 6),
    ("save_recommendation", "after", 1),
    ("workload", "after", 3),
    ("apply", "before", 3),
    ("end_block", "within", 2),
    ("end_block", "after", 3),
)


def outcome(place: Place) -> tuple[object, list[Block]]:
    with place.open() as store:
        assert problems(store) == []
        campaign = store.campaign("last")
        trials, blocks = store.trials(campaign.id), store.blocks(campaign.id)
    answer = campaign.recommendation
    assert answer is not None
    failed = {t.number for t in trials if t.state is TrialState.FAILED}
    complete = [b for b in blocks if b.state is BlockState.COMPLETE]
    measured = sorted((b.kind, b.round, b.slot, sorted(set(b.order) - failed)) for b in complete)
    return (answer.trial, answer.configuration, list(map(trial_result, trials)), measured), blocks


def trial_result(trial: Trial) -> object:
    return trial.configuration, trial.round, trial.origin, trial.state


@pytest.fixture(scope="module")
def campaign_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("campaign") / "campaign.yaml"
    file.write_text(yaml.safe_dump(SPEC.model_dump(mode="json", exclude_none=True)))
    return file


@pytest.fixture(scope="module")
def forked(
    root: Path, campaign_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Forks, object]]:
    """Return the process that runs commands, and the outcome of a campaign that is not killed."""
    directory = tmp_path_factory.mktemp("forks")
    with forks(root, directory, campaign_file) as commands:
        yield commands, outcome(Place(directory / "warm"))[0]


@ON_BOTH
def test_killed_and_resumed_it_makes_the_same_decisions(
    forked: tuple[Forks, object], campaign_file: Path, store_place: Place
) -> None:
    commands, expected = forked
    arguments = ["run", str(campaign_file)]
    killed = 0
    for action, side, passes in KILLS:
        point = Point(action, side)
        if commands.fstune(*arguments, *store_place.options, point=point, passes=passes):
            break  # it was past that point
        arguments, killed = ["resume"], killed + 1
    else:
        assert commands.fstune(*arguments, *store_place.options), commands.output
    assert killed >= 4
    decisions, blocks = outcome(store_place)
    assert decisions == expected
    assert not any(b.state is BlockState.RUNNING for b in blocks)
    measured = [(b.number, m.trial) for b in blocks for m in b.measurements]
    assert len(measured) == len(set(measured))
    assert sum(b.state is BlockState.VOID for b in blocks) >= killed
