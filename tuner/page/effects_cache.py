"""A cache of the effects of campaigns' parameters, shared by all readers."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import search_spaces
from tuner.errors import SpecError
from tuner.page.snapshot import Snapshot
from tuner.propose.encoding import Tunable
from tuner.records.parameter_effects import ParameterEffects
from tuner.results.parameter_effects import parameter_effects
from tuner.spec.campaign import CampaignSpec
from tuner.spec.space_section import load_space

#: Maximum number of campaigns whose effects are cached.
_MOST_KEPT = 50
#: Cached effects are reused until the number of blocks has grown by more than this fraction: one
#: more block among many makes no visible difference.
_GROWTH = 0.05
#: How long a page waits for effects that are not cached yet.
_MOMENT_S = 0.2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest effects. ``effects``: None if none have been computed yet.

    ``pending``: newer ones are being computed, so asking again is worthwhile.
    """

    effects: ParameterEffects | None
    pending: bool


class EffectsCache:
    """Computes effects and caches them. Thread-safe.

    ``files``: whether search-space files, whose paths the campaign's author chose, may be opened in
    addition to the packaged spaces.
    """

    def __init__(self, *, files: bool) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._effects: OrderedDict[str, ParameterEffects] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, "effects")
        self._pending: dict[str, Future[ParameterEffects]] = {}

    def of(self, snapshot: Snapshot) -> ParameterEffects:
        """Return the effects for a snapshot; earlier ones while another thread is computing."""
        count, effects = len(snapshot.scored), self._effects.get(snapshot.campaign.id)
        if effects is not None and _near(effects.blocks_measured, count):
            return effects
        if not self._lock.acquire(blocking=effects is None):
            assert effects is not None
            return effects
        try:
            effects = self._effects.get(snapshot.campaign.id)
            if effects is None or not _near(effects.blocks_measured, count):
                effects = self._effects[snapshot.campaign.id] = self._or_unknown(snapshot)
                self._effects.move_to_end(snapshot.campaign.id)
                if len(self._effects) > _MOST_KEPT:
                    self._effects.popitem(last=False)
            return effects
        finally:
            self._lock.release()

    def soon(self, snapshot: Snapshot) -> Latest:
        """Return the effects available at once; newer ones are computed in the background."""
        earlier = self._effects.get(snapshot.campaign.id)
        if earlier is not None and _near(earlier.blocks_measured, len(snapshot.scored)):
            return Latest(earlier, pending=False)
        name = snapshot.campaign.id
        pending = self._pending.get(name)
        if pending is None or pending.done():
            pending = self._pending[name] = self._pool.submit(self.of, snapshot)
            pending.add_done_callback(lambda _: self._pending.pop(name, None))
        if earlier is not None:
            return Latest(earlier, pending=True)
        try:
            effects = pending.result(_MOMENT_S)
        except TimeoutError:
            return Latest(None, pending=True)
        # The computation may have been started for an earlier snapshot.
        return Latest(effects, pending=not _near(effects.blocks_measured, len(snapshot.scored)))

    def close(self) -> None:
        """Start no further computations."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _or_unknown(self, snapshot: Snapshot) -> ParameterEffects:
        """Return the effects, or unknown ones if computing them fails.

        These are cached too, so that the computation is not retried until there are more blocks.
        """
        try:
            return self._compute(snapshot)
        except Exception as problem:  # a defect here must not break the page or the report
            _log.exception("campaign %s: its effects could not be computed", snapshot.campaign.id)
            return _unknown(snapshot, f"a bug in fstune: {problem!r}")

    def _compute(self, snapshot: Snapshot) -> ParameterEffects:
        rules = snapshot.rules
        if rules is None:
            return _unknown(snapshot, "the workload is missing or has changed")
        try:
            spec = CampaignSpec.from_json(snapshot.campaign.spec)
            names = {section.name for section in spec.spaces.values()}
            if not self.files and not names <= set(search_spaces.names()):
                return _unknown(snapshot, "its search spaces are files, which are not opened here")
            spaces = {part: load_space(section, part) for part, section in spec.spaces.items()}
        except SpecError as problem:
            return _unknown(snapshot, f"its search spaces cannot be read: {problem}")
        # The hosts' limits are not stored; they affect only defaults, and those only slightly.
        tunables = {
            part: Tunable(space, {name: fact.assumed for name, fact in space.facts.items()}, {})
            for part, space in spaces.items()
        }
        scores = [scores for _, scores in snapshot.scored]
        return parameter_effects(tunables, snapshot.trials, scores, rules.weights, rules.race.delta)


def _near(past: int, count: int) -> bool:
    return past <= count <= past * (1.0 + _GROWTH)


def _unknown(snapshot: Snapshot, reason: str) -> ParameterEffects:
    return ParameterEffects(0, len(snapshot.scored), 0, (), (), reason)
