"""A campaign's process is killed at any point; the campaign ends as if nothing had happened."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.killing import ACTIONS, POINTS, Forks, Point, forks
from tests.postgresql import Server
from tests.unit.campaign.outcomes import (
    SPEC,
    Place,
    measured,
    newest_campaign,
    outcome,
    write_campaign,
)
from tuner.model import Measurement
from tuner.states import CampaignState
from tuner.store import Store

#: Kills at random moments, besides one at each point.
MOMENTS = 8
#: Size of the groups of kills that are sorted into the order in which a campaign reaches them.
TOGETHER = 20
#: Points that are passed repeatedly, so that kills do not always hit the first time.
OFTEN = {"add_event", "plan", "apply", "read back", "workload", "add_measurement"}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def points(database: str) -> tuple[Point, ...]:
    """Return where to kill. On a server only around what a campaign does with its database: all
    that matters to the server elsewhere is which write was the last.
    """
    if database == "sqlite":
        return POINTS
    return tuple(point for point in POINTS if ACTIONS[point.action][0] is Store)


@pytest.fixture
def places(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Return an iterator of empty places."""
    states = (tmp_path / f"state{number}" for number in count())
    if database == "sqlite":
        return (Place(state) for state in states)
    server: Server = request.getfixturevalue("postgresql")
    # One database for all of them: each takes 8 MB.
    name = server.new(request.getfixturevalue("template"))

    def emptied(state: Path) -> Place:
        server.execute("TRUNCATE campaign, mark CASCADE", name)
        return Place(state, server.url(name))

    return (emptied(state) for state in states)


@pytest.fixture
def campaign_file(database: str, tmp_path: Path) -> Path:
    """Return the file of the campaign. On a server it ends at its certificate: the search that
    follows does nothing with a database that it has not done before.
    """
    stop = "budget" if database == "sqlite" else "certified"
    return write_campaign(tmp_path / "campaign.yaml", SPEC.model_copy(update={"stop": stop}))


@pytest.fixture(scope="module")
def forked(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    directory = tmp_path_factory.mktemp("forks")
    with forks(root, directory, write_campaign(directory / "campaign.yaml")) as process:
        yield process


class Victim:
    """A campaign that is killed repeatedly; its measurements must survive."""

    def __init__(self, forked: Forks, campaign_file: Path, place: Place) -> None:
        self.place = place
        self._forked = forked
        self._file = str(campaign_file)
        self._before: dict[tuple[int, int], Measurement] = {}
        self._wall_s = 0.0
        self._exists = False
        self.over = False

    def live(
        self, point: Point | None = None, passes: int = 1, after_s: float | None = None
    ) -> bool:
        """Start or resume it; returns whether it was killed."""
        command = ["resume"] if self._exists else ["run", self._file]
        survived = self._forked.fstune(
            *command, *self.place.options, point=point, passes=passes, after_s=after_s
        )
        with self.place.open() as store:
            self._exists = bool(store.campaigns())
            if not self._exists:
                assert not survived
                return True
            campaign, _, blocks = newest_campaign(store)
        self.over = campaign.state is CampaignState.FINISHED
        assert self.over or not survived
        assert self.over or campaign.state in (CampaignState.CREATED, CampaignState.RUNNING)
        now = measured(blocks)
        assert self._before.items() <= now.items()
        assert campaign.time_use.wall_s >= self._wall_s
        self._before, self._wall_s = now, campaign.time_use.wall_s
        return not survived


def shuffled(points: Sequence[Point], draw: random.Random) -> list[Point | None]:
    """Return all kills in random order, sorted within each group; None means a random moment."""
    kills: list[Point | None] = [*points, *[None] * MOMENTS]
    draw.shuffle(kills)
    actions = list(ACTIONS)

    def when(point: Point | None) -> float:
        return draw.random() * len(actions) if point is None else actions.index(point.action)

    for start in range(0, len(kills), TOGETHER):
        kills[start : start + TOGETHER] = sorted(kills[start : start + TOGETHER], key=when)
    return kills


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_anywhere_it_ends_as_if_undisturbed(
    forked: Forks, campaign_file: Path, points: Sequence[Point], places: Iterator[Place]
) -> None:
    """Each campaign is killed until it has ended; then the next one begins."""

    def begin() -> Victim:
        return Victim(forked, campaign_file, next(places))

    whole = begin()
    began_s = time.monotonic()
    assert not whole.live()
    takes_s = time.monotonic() - began_s
    expected = outcome(whole.place)

    draw = random.Random(20)
    hit: Counter[Point | None] = Counter()
    victim, campaigns = begin(), 1
    for point in shuffled(points, draw):
        passes = draw.randint(1, 4) if point is not None and point.action in OFTEN else 1
        after_s = 0.3 * takes_s * draw.random() if point is None else None
        while victim.over or not victim.live(point, passes, after_s):
            # It had passed that point already; a new campaign reaches every point.
            assert outcome(victim.place) == expected, (point, hit)
            victim, campaigns, passes = begin(), campaigns + 1, 1
            after_s = after_s and after_s / 2
        hit[point] += 1
    while not victim.over:
        victim.live()
    assert outcome(victim.place) == expected
    assert hit == Counter([*points, *[None] * MOMENTS])
    assert campaigns > 1
