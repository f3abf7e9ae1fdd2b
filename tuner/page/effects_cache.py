"""The effects of a campaign's parameters, worked out once for all who look."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import search_spaces
from tuner.campaign.parameter_effects import parameter_effects
from tuner.campaign.space_section import load_space
from tuner.campaign.spec import CampaignSpec
from tuner.errors import SpecError
from tuner.page.snapshot import Snapshot
from tuner.propose.encoding import Tunable
from tuner.records.parameter_effects import ParameterEffects

#: Campaigns whose effects are remembered.
_MOST_KEPT = 50
#: While a campaign has not grown by this part, what was worked out is shown again: one block of
#: many changes nothing that anybody sees.
_GROWTH = 0.05
#: A page waits so long for effects that nobody has worked out yet.
_MOMENT_S = 0.2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest effects. ``effects``: None before anybody has worked them out; ``pending``:
    newer ones are being worked out, so that they are worth asking for again.
    """

    effects: ParameterEffects | None
    pending: bool


class EffectsCache:
    """Works out effects and remembers them. Any thread may ask.

    ``files``: search spaces in files may be opened, which the campaign's author chose; not the
    packaged ones alone.
    """

    def __init__(self, *, files: bool) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._effects: OrderedDict[str, ParameterEffects] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, "effects")
        self._pending: dict[str, Future[ParameterEffects]] = {}

    def of(self, snapshot: Snapshot) -> ParameterEffects:
        """The effects in a snapshot; while another thread computes them, the earlier ones."""
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
        """The effects as far as they are known in a moment. Those that are not will be later: they
        are worked out in the background.
        """
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
        # Who began it may have seen less of the campaign.
        return Latest(effects, pending=not _near(effects.blocks_measured, len(snapshot.scored)))

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _or_unknown(self, snapshot: Snapshot) -> ParameterEffects:
        """The effects; unknown ones where they cannot be worked out, so that nobody tries again
        before there is more to work with.
        """
        try:
            return self._compute(snapshot)
        except Exception as problem:  # a defect here must not take the page or the report with it
            _log.exception("campaign %s: its effects could not be worked out", snapshot.campaign.id)
            return _unknown(snapshot, f"a defect of fstune: {problem!r}")

    def _compute(self, snapshot: Snapshot) -> ParameterEffects:
        rules = snapshot.rules
        if rules is None:
            return _unknown(snapshot, "the workload is gone or is another now")
        try:
            spec = CampaignSpec.from_json(snapshot.campaign.spec)
            names = {section.name for section in spec.spaces.values()}
            if not self.files and not names <= set(search_spaces.names()):
                return _unknown(snapshot, "its search spaces are files, which are not opened here")
            spaces = {part: load_space(section, part) for part, section in spec.spaces.items()}
        except SpecError as problem:
            return _unknown(snapshot, f"its search spaces cannot be read: {problem}")
        # What hosts allow is not stored; it moves defaults alone, and these a little.
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
