"""A campaign as it can be seen at one moment: rows and what follows from them, worked out once for
all who look until something happens.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from api.documents import VerdictDocument
from tuner.campaign.comparing import estimate
from tuner.campaign.drift import DriftPoint, drift
from tuner.campaign.rules import Rules, stored_rules
from tuner.campaign.standing import against_baseline
from tuner.campaign.times import differences
from tuner.errors import SpecError
from tuner.judge.verdict import assess
from tuner.model import BASELINE, Block, BlockKind, Campaign, Event, Trial
from tuner.report.drawing import Estimate
from tuner.states import BlockState
from tuner.store import Store
from tuner.store.pages import Pages

_KEPT = 16


@dataclass(frozen=True, slots=True)
class Step:
    """The incumbent after a block of the search, with its estimate then; None: the baseline."""

    block: int
    trial: int
    estimate: Estimate | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What is seen of a campaign. ``newest``: the number of its newest event then.

    ``estimates``: of every trial, by kind of block, with the number of blocks. ``components``: of
    the trial that matters most (finalist or incumbent), in the newest kind of block it was in.
    ``readable``: false when its workload's file is gone, and nothing can be worked out.
    """

    newest: int
    campaign: Campaign
    trials: tuple[Trial, ...]
    events: tuple[Event, ...]
    blocks: int
    measured: int
    running: tuple[Block, ...]
    measuring_s: float
    rules: Rules | None
    estimates: dict[BlockKind, dict[int, tuple[Estimate, int]]]
    verdicts: tuple[VerdictDocument, ...]
    drift: tuple[DriftPoint, ...]
    steps: tuple[Step, ...]
    leader: int
    components: dict[str, Estimate]

    @property
    def readable(self) -> bool:
        """Whether the rules that the numbers need are known."""
        return self.rules is not None


class Sight:
    """Looks at campaigns of a store, and remembers the last ones. Any thread may ask."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pages = Pages(store)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Seen] = OrderedDict()

    def of(self, campaign: str) -> Seen:
        """The campaign with this whole identifier, as it is now. NotFoundError."""
        newest = self.pages.newest_event(campaign)
        with self._lock:
            known = self._kept.get(campaign)
            if known is not None and known.newest == newest:
                self._kept.move_to_end(campaign)
                return known
        seen = look(self.store, campaign, newest)
        with self._lock:
            self._kept[campaign] = seen
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return seen


def rules_if_known(campaign: Campaign) -> Rules | None:
    """The rules of a stored campaign; None when its workload's file is gone or is another now."""
    try:
        return stored_rules(campaign)
    except (SpecError, KeyError, ValueError, OSError):
        return None


def look(store: Store, campaign: str, newest: int) -> Seen:
    """Work out what is seen of a campaign. ``newest``: read before, so that it is never ahead."""
    found = store.campaign(campaign)
    trials, blocks = store.trials(found.id), store.blocks(found.id)
    events = store.events(found.id)
    rules = rules_if_known(found)
    estimates: dict[BlockKind, dict[int, tuple[Estimate, int]]] = {}
    verdicts: list[VerdictDocument] = []
    points: list[DriftPoint] = []
    steps: tuple[Step, ...] = ()
    components: dict[str, Estimate] = {}
    leader = _leader(found, events)
    try:
        if rules is not None:
            estimates = {kind: against_baseline(blocks, rules, kind) for kind in BlockKind}
            verdicts = verdicts_of(blocks, rules)
            points = drift(blocks, rules.components, rules.weights)
            steps = _steps(blocks, events, rules)
            components = _components(blocks, rules, leader)
    except KeyError:
        # The workload's file is another one now: it times other components.
        rules = None
    return Seen(
        newest=newest,
        campaign=found,
        trials=tuple(trials),
        events=tuple(events),
        blocks=len(blocks),
        measured=sum(len(block.measurements) for block in blocks),
        running=tuple(block for block in blocks[-1:] if block.state is BlockState.RUNNING),
        measuring_s=sum(block.duration_s for block in blocks),
        rules=rules,
        estimates=estimates,
        verdicts=tuple(verdicts),
        drift=tuple(points),
        steps=steps,
        leader=leader,
        components=components,
    )


def verdicts_of(blocks: Sequence[Block], rules: Rules) -> list[VerdictDocument]:
    """Every trial against the baseline, on the blocks of each kind, by kind and number."""
    found = []
    for kind in BlockKind:
        most = rules.certify_blocks if kind is BlockKind.CERTIFY else rules.race.max_blocks
        pairs = differences(blocks, rules.components, rules.weights, kind)
        for trial in sorted(pairs):
            verdict = assess(pairs[trial], delta=rules.race.delta, max_n=most)
            found.append(VerdictDocument.of(trial, kind, verdict))
    return found


def _leader(campaign: Campaign, events: Sequence[Event]) -> int:
    if campaign.recommendation is not None:
        return campaign.recommendation.trial
    return list(_incumbents(events).values() or [BASELINE])[-1]


def _components(blocks: Sequence[Block], rules: Rules, trial: int) -> dict[str, Estimate]:
    for kind in (BlockKind.CERTIFY, BlockKind.SEARCH):
        found: dict[str, Estimate] = {}
        for name in rules.components:
            pairs = differences(blocks, (name,), (1.0,), kind).get(trial)
            if pairs:
                found[name] = _estimate(pairs, rules, kind)
        if found:
            return found
    return {}


def _estimate(pairs: Sequence[float], rules: Rules, kind: BlockKind) -> Estimate:
    most = rules.certify_blocks if kind is BlockKind.CERTIFY else rules.race.max_blocks
    return estimate(pairs, most)


def _steps(blocks: Sequence[Block], events: Sequence[Event], rules: Rules) -> tuple[Step, ...]:
    """The incumbent after each complete block of the search, as it was told."""
    search = [b for b in blocks if b.kind is BlockKind.SEARCH and b.state is BlockState.COMPLETE]
    incumbents = _incumbents(events)
    pairs = differences(search, rules.components, rules.weights)
    counted: Counter[int] = Counter()
    steps: list[Step] = []
    for block in search:
        counted.update(m.trial for m in block.measurements)
        incumbent = incumbents.get(block.number, BASELINE)
        known = pairs.get(incumbent, [])[: counted[incumbent]]
        shown = _estimate(known, rules, BlockKind.SEARCH) if known else None
        steps.append(Step(block.number, incumbent, shown))
    return tuple(steps)


def _incumbents(events: Sequence[Event]) -> dict[int, int]:
    """By block: what was told after it and before the next one began."""
    found: dict[int, int] = {}
    incumbent, block = BASELINE, 0
    for event in events:
        if event.kind == "block-complete":
            block = _number(event, "block")
        elif event.kind == "trial-promoted":
            incumbent = _number(event, "trial")
        elif event.kind in ("trial-pruned", "trial-failed"):
            incumbent = BASELINE if _number(event, "trial") == incumbent else incumbent
        found[block] = incumbent
    return found


def _number(event: Event, name: str) -> int:
    value = event.data.get(name)
    return value if isinstance(value, int) else 0
