"""Run a complete campaign on a surface and evaluate its result.

Owns how such a campaign is specified and how it is scored against the truth. The loop, the store
and the judge are the same as in every campaign; only the measured times are simulated, and the
hours are virtual.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from tuner.documents import problems
from tuner.errors import CampaignHalted, SpecError
from tuner.interruption import uninterrupted
from tuner.model import BASELINE, Configuration, Event, Recommendation, SettingEffect
from tuner.records.standing import Standing
from tuner.run.lanes import CampaignTestbed
from tuner.run.runner import Runner
from tuner.services.simulated import SimulatedTestbed
from tuner.simulate.surface import Surface
from tuner.spec.campaign import CampaignSpec
from tuner.states import CampaignState
from tuner.store import Store

_HOUR_S = 3600.0
#: Outcome of a campaign without an answer: its pilot advised against it, or it could not continue.
HALTED = "halted"


@dataclass(frozen=True, slots=True)
class Settings:
    """How campaigns on a surface are run.

    ``budget_s``: measuring time. ``noise``: of a component, None for that of the surface.
    ``sampler``: None for the default. ``pilot``: maximum number of pilot blocks; a refusal by the
    pilot is overridden.
    """

    budget_s: float = 3600.0
    noise: float | None = None
    sampler: str | None = None
    pilot: int = 3


@dataclass(frozen=True, slots=True)
class Point:
    """The regret of the recommendation after this many hours on the testbed."""

    hours: float
    regret: float


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one campaign, or of another method on the same testbed.

    ``answer``: a value of ``Answer``, or HALTED. ``configuration``: the recommended one, or else
    the finalist, or else the baseline; ``score`` and ``regret``: its true ones, see ``Surface``.
    ``certified_h``: hours on the testbed until the first certificate; None if there is none.
    ``false``: recommended at any time although not faster, or although it breaks the floor: each
    answer is shown at once. ``curve``: the regret of the configuration considered best, at each
    change; ``best``: the last of these; ``certified``: like ``curve`` for the certified
    configuration, initially the baseline. ``settings``: see ``Recommendation``.
    """

    seed: int
    answer: str
    configuration: Configuration
    score: float
    regret: float
    certified_h: float | None
    false: bool
    hours: float
    trials: int
    blocks: int
    measurements: int
    best: Configuration
    curve: tuple[Point, ...]
    certified: tuple[Point, ...] = ()
    settings: Mapping[str, SettingEffect] = field(default_factory=dict)


def current_best(standing: Standing) -> Configuration | None:
    """Return the configuration that a campaign currently considers best, by all measurements; None
    if it has not determined one.
    """
    return None if standing.best is None else standing.best.configuration


def specification(surface: Surface, seed: int, settings: Settings) -> CampaignSpec:
    """Return the specification of the campaign with this seed. Raises SpecError for invalid
    settings.
    """
    noise = {} if settings.noise is None else {"noise": settings.noise}
    search = {} if settings.sampler is None else {"sampler": settings.sampler}
    document = {
        "name": surface.name,
        "seed": seed,
        "testbed": {"simulated": {**surface.file.simulated.model_dump(), "seed": seed, **noise}},
        "spaces": {part: space.model_dump() for part, space in surface.file.spaces.items()},
        "workload": surface.file.workload.model_dump(),
        "pilot": {"blocks": settings.pilot, "override": True},
        "search": search,
        "budget": {"wall_time": settings.budget_s},
        "statistics": surface.file.statistics.model_dump(),
    }
    try:
        return CampaignSpec.model_validate(document)
    except ValidationError as problem:
        raise SpecError(problems(problem, CampaignSpec)) from None


def run_campaign(
    surface: Surface,
    seed: int,
    settings: Settings,
    tell: Callable[[Standing], None] = lambda standing: None,
) -> Result:
    """Run a campaign in a temporary store. ``tell``: called with its progress.

    Raises KeyboardInterrupt if it is stopped, SpecError for invalid settings.
    """
    return run_specified(surface, specification(surface, seed, settings), settings.noise, tell)


def run_specified(
    surface: Surface,
    spec: CampaignSpec,
    component_noise: float | None = None,
    tell: Callable[[Standing], None] = lambda standing: None,
) -> Result:
    """Run the campaign of this specification on a surface, otherwise as ``run_campaign``. Its seed
    is also that of the noise.
    """
    noise = surface.world.noise
    if component_noise is not None:
        noise = replace(noise, component=component_noise)
    world = replace(surface.world, seed=spec.seed, noise=noise)
    testbed = SimulatedTestbed(surface.spaces, world, surface.file.simulated.found)
    with _temporary_store() as store:
        record = store.create_campaign(spec.name, spec.to_json(), spec.seed, datetime.now(UTC))
        watch = _Watch(surface, lambda trial: store.trials(record.id)[trial].configuration, tell)
        only = CampaignTestbed(None, "simulated", testbed)
        outcome = Runner(store, record.id, spec, surface.workload, [only], watch).run()
        campaign = outcome.campaign
        if campaign.state in (CampaignState.CREATED, CampaignState.PAUSED):
            raise KeyboardInterrupt
        if outcome.error is not None and not isinstance(outcome.error, CampaignHalted):
            raise outcome.error
        trials, blocks = store.trials(record.id), store.blocks(record.id)
    answer = campaign.recommendation
    configuration = trials[BASELINE].configuration if answer is None else answer.configuration
    score, _ = surface.truth(configuration)
    return Result(
        seed=spec.seed,
        answer=_answer(answer),
        configuration=configuration,
        score=score,
        regret=surface.regret(configuration),
        certified_h=watch.certified[1].hours if len(watch.certified) > 1 else None,
        false=watch.false,
        hours=campaign.time_use.wall_s / _HOUR_S,
        trials=sum(trial.round > 0 for trial in trials),
        blocks=len(blocks),
        measurements=sum(len(block.measurements) for block in blocks),
        best=watch.best,
        curve=tuple(watch.curve),
        certified=tuple(watch.certified),
        settings={} if answer is None else answer.settings,
    )


@contextmanager
def _temporary_store() -> Iterator[Store]:
    """Open a store in a directory of its own; both are gone at the end, in spite of Ctrl-C."""
    with ExitStack() as stack:
        with uninterrupted():
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="fstune-"))
            store = stack.enter_context(Store.open(Path(place)))
        try:
            yield store
        finally:
            with uninterrupted():
                stack.close()


def _answer(recommendation: Recommendation | None) -> str:
    return HALTED if recommendation is None else recommendation.answer.value


@dataclass(slots=True)
class _Watch:
    """An observer that records the regret over time. ``configuration``: returns a trial's, by
    number. ``false``: whether any certificate was.
    """

    surface: Surface
    configuration: Callable[[int], Configuration]
    tell: Callable[[Standing], None]
    best: Configuration = field(init=False)
    curve: list[Point] = field(init=False)
    certified: list[Point] = field(init=False)
    false: bool = False
    _trial: int | None = None

    def __post_init__(self) -> None:
        self.best = self.surface.baseline
        at_first = Point(0.0, self.surface.regret(self.best))
        self.curve, self.certified = [at_first], [at_first]

    def say(self, event: Event) -> None:
        """See Observer.say."""

    def doing(self, what: str) -> None:
        """See Observer.doing."""

    def standing(self, standing: Standing) -> None:
        """See Observer.standing."""
        self.tell(standing)
        hours = standing.elapsed_s / _HOUR_S
        best = current_best(standing)
        if best is not None and best != self.best:
            self.best = best
            self.curve.append(Point(hours, self.surface.regret(best)))
        if standing.certified is not None and standing.certified != self._trial:
            self._trial = standing.certified
            configuration = self.configuration(standing.certified)
            self.certified.append(Point(hours, self.surface.regret(configuration)))
            is_faster = self.surface.truth(configuration).score < 0.0
            self.false |= not (is_faster and self.surface.keeps(configuration))
