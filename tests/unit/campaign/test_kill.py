"""The process of a campaign is killed at many moments; what was measured stays, and it goes on."""

from __future__ import annotations

import random
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from tests.unit.campaign import child
from tests.unit.campaign.campaigns import failing, faster, spec
from tuner.model import Block, Campaign, Trial
from tuner.states import BlockState, CampaignState
from tuner.store import Store

NEVER = 10**9
Fstune = Callable[[Path, Sequence[str], int, str], int]
# Clear effects and a sampler that follows nothing measured: void blocks change numbers, and with
# them the simulated noise, but no decision.
SPEC = spec(
    faster(-0.3),
    failing("start", low=250),
    noise=0.0005,
    first=({"fileserver.threads": 20}, {"fileserver.threads": 256}, {"fileserver.threads": 200}),
    search={"trials_per_race": 2, "blocks_per_race": 5, "max_trials": 4, "sampler": "random"},
)


@pytest.fixture
def campaign_file(tmp_path: Path) -> Path:
    path = tmp_path / "campaign.yaml"
    path.write_text(yaml.safe_dump(SPEC.model_dump(mode="json", exclude_none=True)))
    return path


@pytest.fixture(scope="module")
def fstune(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fstune]:
    """Return what runs the command and returns its exit status, negative for a signal."""
    said = tmp_path_factory.mktemp("said") / "said"
    with (
        said.open("w") as output,
        subprocess.Popen(
            [sys.executable, "-m", child.__name__],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None

        def run(state: Path, arguments: Sequence[str], kill: int, side: str) -> int:
            words = [str(kill), side, *arguments, "--state-dir", str(state)]
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(shlex.join(words) + "\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
            assert status in (0, -signal.SIGKILL), said.read_text()[-2000:]
            return status

        yield run
        process.stdin.close()


def stored(state: Path) -> tuple[Campaign, list[Trial], list[Block]]:
    with Store.open(state) as store:
        campaign = store.campaign("last")
        return campaign, store.trials(campaign.id), store.blocks(campaign.id)


def decisions(state: Path) -> object:
    """All that a user would notice: who was tried, how that ended, and the answer."""
    campaign, trials, _ = stored(state)
    answer = campaign.recommendation
    assert answer is not None
    return (
        [(t.configuration, t.race, t.origin, t.state) for t in trials],
        (answer.answer, answer.trial, answer.configuration, answer.flags),
    )


def measured(blocks: Sequence[Block]) -> dict[tuple[int, int], object]:
    found = [((b.number, m.trial), m) for b in blocks for m in b.measurements]
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.fixture(scope="module")
def uninterrupted(fstune: Fstune, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, int]:
    """What the campaign decides when nobody kills it, and how many writes that takes."""
    directory = tmp_path_factory.mktemp("whole")
    path = directory / "campaign.yaml"
    path.write_text(yaml.safe_dump(SPEC.model_dump(mode="json", exclude_none=True)))
    assert fstune(directory / "state", ["run", str(path)], NEVER, "after") == 0
    with Store.open(directory / "state") as store:
        writes = len(store.events(store.campaign("last").id))
    return decisions(directory / "state"), writes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(10))
def test_kill_and_resume(
    fstune: Fstune,
    tmp_path: Path,
    campaign_file: Path,
    uninterrupted: tuple[object, int],
    part: int,
) -> None:
    """Killed twice, at two moments of its tenth of the campaign."""
    expected, writes = uninterrupted
    draw = random.Random(part)
    at = max(1, int(writes * (part + draw.random()) / 10))
    state = tmp_path / "state"
    before: dict[tuple[int, int], object] = {}
    arguments = ["run", str(campaign_file)]
    for kill, side in ((at, "after"), (1 + draw.randrange(12), "before")):
        if fstune(state, arguments, kill, side) == 0:
            break
        arguments = ["resume"]
        campaign, _, blocks = stored(state)
        assert campaign.state in (CampaignState.CREATED, CampaignState.RUNNING)
        now = measured(blocks)
        assert before.items() <= now.items()
        before = now
    campaign, _, _ = stored(state)
    if campaign.state is not CampaignState.FINISHED:
        assert fstune(state, ["resume"], NEVER, "after") == 0
    campaign, _, blocks = stored(state)
    assert campaign.state is CampaignState.FINISHED
    assert before.items() <= measured(blocks).items()
    assert not any(b.state is BlockState.RUNNING for b in blocks)
    for block in blocks:
        if block.state is BlockState.COMPLETE:
            missing = set(block.order) - {m.trial for m in block.measurements}
            assert missing <= {2}  # the one that does not start
    assert decisions(state) == expected


def test_killed_again_and_again_it_still_gets_there(
    fstune: Fstune, tmp_path: Path, campaign_file: Path, uninterrupted: tuple[object, int]
) -> None:
    """More kills than the void blocks that one run allows."""
    state = tmp_path / "state"
    arguments = ["run", str(campaign_file)]
    for _ in range(6):
        assert fstune(state, arguments, 11, "after") == -signal.SIGKILL
        arguments = ["resume"]
    assert fstune(state, arguments, NEVER, "after") == 0
    assert decisions(state) == uninterrupted[0]
