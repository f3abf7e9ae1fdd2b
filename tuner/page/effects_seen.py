"""The effects of a campaign's parameters, worked out once for all who look."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import search_spaces
from tuner.campaign.parameter_effects import parameter_effects
from tuner.campaign.spec import CampaignSpec, load_space
from tuner.errors import SpecError
from tuner.page.snapshot import Seen
from tuner.propose.encoding import Tunable
from tuner.records.parameter_effects import ParameterEffects

#: Campaigns whose effects are remembered.
_KEPT = 50
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


class EffectsSeen:
    """Works out effects and remembers them. Any thread may ask.

    ``files``: search spaces in files may be opened, which the campaign's author chose; not the
    packaged ones alone.
    """

    def __init__(self, *, files: bool) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, ParameterEffects] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, "effects")
        self._pending: dict[str, Future[ParameterEffects]] = {}

    def of(self, seen: Seen) -> ParameterEffects:
        """The effects in a campaign as it is seen; while another is at it, those known before."""
        count, known = len(seen.scored), self._kept.get(seen.campaign.id)
        if known is not None and _near(known.blocks_measured, count):
            return known
        if not self._lock.acquire(blocking=known is None):
            assert known is not None
            return known
        try:
            known = self._kept.get(seen.campaign.id)
            if known is None or not _near(known.blocks_measured, count):
                known = self._kept[seen.campaign.id] = self._or_unknown(seen)
                self._kept.move_to_end(seen.campaign.id)
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            return known
        finally:
            self._lock.release()

    def soon(self, seen: Seen) -> Latest:
        """The effects as far as they are known in a moment. Those that are not will be later: they
        are worked out in the background.
        """
        known = self._kept.get(seen.campaign.id)
        if known is not None and _near(known.blocks_measured, len(seen.scored)):
            return Latest(known, pending=False)
        name = seen.campaign.id
        pending = self._pending.get(name)
        if pending is None or pending.done():
            pending = self._pending[name] = self._pool.submit(self.of, seen)
            pending.add_done_callback(lambda _: self._pending.pop(name, None))
        if known is not None:
            return Latest(known, pending=True)
        try:
            effects = pending.result(_MOMENT_S)
        except TimeoutError:
            return Latest(None, pending=True)
        # Who began it may have seen less of the campaign.
        return Latest(effects, pending=not _near(effects.blocks_measured, len(seen.scored)))

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _or_unknown(self, seen: Seen) -> ParameterEffects:
        """The effects; unknown ones where they cannot be worked out, so that nobody tries again
        before there is more to work with.
        """
        try:
            return self._worked_out(seen)
        except Exception as problem:  # a defect here must not take the page or the report with it
            _log.exception("campaign %s: its effects could not be worked out", seen.campaign.id)
            return _unknown(seen, f"a defect of fstune: {problem!r}")

    def _worked_out(self, seen: Seen) -> ParameterEffects:
        rules = seen.rules
        if rules is None:
            return _unknown(seen, "the workload is gone or is another now")
        try:
            spec = CampaignSpec.from_json(seen.campaign.spec)
            named = {section.name for section in spec.spaces.values()}
            if not self.files and not named <= set(search_spaces.names()):
                return _unknown(seen, "its search spaces are files, which are not opened here")
            spaces = {part: load_space(section, part) for part, section in spec.spaces.items()}
        except SpecError as problem:
            return _unknown(seen, f"its search spaces cannot be read: {problem}")
        # What hosts allow is not stored; it moves defaults alone, and these a little.
        tunables = {
            part: Tunable(space, {name: fact.assumed for name, fact in space.facts.items()}, {})
            for part, space in spaces.items()
        }
        scores = [scores for _, scores in seen.scored]
        return parameter_effects(tunables, seen.trials, scores, rules.weights, rules.race.delta)


def _near(known: int, count: int) -> bool:
    return known <= count <= known * (1.0 + _GROWTH)


def _unknown(seen: Seen, reason: str) -> ParameterEffects:
    return ParameterEffects(0, len(seen.scored), 0, (), (), reason)
