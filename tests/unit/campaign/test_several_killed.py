"""The process of a campaign on several testbeds is killed in the middle of its blocks."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.killing import Point, forks
from tests.unit.campaign.campaigns import FAST, OTHER, THREADS, failing, faster
from tests.unit.campaign.test_several import several
from tuner.model import Block, Trial
from tuner.states import BlockState, TrialState
from tuner.store import Store

#: Clear effects and a sampler that follows nothing measured: what is measured again is drawn anew.
SPEC = several(
    faster(-0.3),
    failing("start", low=250),
    noise=0.0005,
    first=(OTHER, {THREADS: 256}, FAST),
    search={"trials_per_race": 2, "blocks_per_race": 5, "max_trials": 4, "sampler": "random"},
)
#: What to kill at, and the how manieth time.
KILLS = (
    ("apply", "before", 1),
    ("add_measurement", "before", 2),
    ("add_measurement", "within", 6),
    ("move_trial", "after", 1),
    ("workload", "after", 5),
    ("apply", "before", 9),
    ("end_block", "within", 2),
    ("end_block", "after", 3),
)


def outcome(state: Path) -> tuple[object, list[Block]]:
    with Store.open(state) as store:
        campaign = store.campaign("last")
        trials, blocks = store.trials(campaign.id), store.blocks(campaign.id)
    answer = campaign.recommendation
    assert answer is not None
    failed = {t.number for t in trials if t.state is TrialState.FAILED}
    complete = [b for b in blocks if b.state is BlockState.COMPLETE]
    measured = sorted((b.kind, b.race, b.slot, sorted(set(b.order) - failed)) for b in complete)
    return (answer.trial, answer.configuration, list(map(tried, trials)), measured), blocks


def tried(trial: Trial) -> object:
    return trial.configuration, trial.race, trial.origin, trial.state


def test_killed_and_resumed_it_decides_what_it_would_have(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(yaml.safe_dump(SPEC.model_dump(mode="json", exclude_none=True)))
    with forks(root, tmp_path, file) as commands:
        expected, _ = outcome(tmp_path / "warm")
        state = tmp_path / "state"
        arguments = ["run", str(file)]
        killed = 0
        for deed, side, passes in KILLS:
            point = Point(deed, side)
            if commands.fstune(*arguments, "--state-dir", str(state), point=point, passes=passes):
                break  # it was past that point
            arguments, killed = ["resume"], killed + 1
        assert killed >= 5
        while arguments == ["resume"]:
            if commands.fstune("resume", "--state-dir", str(state)):
                break
    found, blocks = outcome(state)
    assert found == expected
    assert not any(b.state is BlockState.RUNNING for b in blocks)
    measured = [(b.number, m.trial) for b in blocks for m in b.measurements]
    assert len(measured) == len(set(measured))
    assert sum(b.state is BlockState.VOID for b in blocks) >= killed
