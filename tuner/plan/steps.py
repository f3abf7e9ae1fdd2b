"""The plan of a campaign as records: its next step, with the order of arms, and its state."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tuner.judge.adjustment import DifferenceAdjustment
from tuner.judge.assumptions import Guard
from tuner.judge.certify import Certificate
from tuner.judge.pilot import Pilot
from tuner.judge.race import Decision
from tuner.model import BASELINE, BlockKind, Trial
from tuner.plan.guide import Pick
from tuner.propose.prediction import Contribution, Prediction
from tuner.states import TrialState


class Phase(StrEnum):
    """The current phase of the campaign."""

    PILOT = "pilot"
    SEARCH = "search"
    CERTIFY = "certify"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Explore:
    """Measure blocks with these arms, one block for each of ``groups``, each on its own testbed.

    The arms are existing trials, and new ones, which must be stored first. ``round``: the number of
    this round; ``number``: of the first block.
    """

    round: int
    number: int
    kind: BlockKind
    groups: tuple[tuple[Pick, ...], ...]


@dataclass(frozen=True, slots=True)
class RunBlock:
    """Measure these arms once each, in this order. ``batch`` and ``slot``: see ``Block``;
    ``testbed``: where an earlier block of the same slot was cut off.
    """

    number: int
    kind: BlockKind
    round: int
    order: tuple[int, ...]
    batch: int | None = None
    slot: int = 0
    testbed: str | None = None

    @classmethod
    def shuffled(
        cls,
        seed: int,
        number: int,
        kind: BlockKind,
        round_: int,
        trials: Sequence[int],
        *,
        batch: int | None = None,
        slot: int = 0,
        testbed: str | None = None,
    ) -> RunBlock:
        """Return a block of the baseline and these trials, in a fresh random order derived from the
        campaign's seed and the block's number.
        """
        order = [BASELINE, *trials]
        random.Random(f"{seed}:block:{number}").shuffle(order)
        return cls(number, kind, round_, tuple(order), batch, slot, testbed)

    def restarts(self, trials: Mapping[int, Trial]) -> frozenset[str]:
        """Return the parts that every arm restarts, even one that does not change them.

        A program may be faster or slower just after its start. Baseline and a single trial are
        restarted equally often. Of several trials, some change a part and some do not: in blocks
        that certify, each of them and the baseline restart the parts that any of them changes.
        """
        configurations = [trials[number].configuration for number in self.order]
        if self.kind is not BlockKind.CERTIFY or len(configurations) <= 2:
            return frozenset()
        settings = [frozenset(each.items) for each in configurations]
        differing = frozenset.union(*settings) - frozenset.intersection(*settings)
        return frozenset(name.partition(".")[0] for name, _ in differing)


@dataclass(frozen=True, slots=True)
class RunBatch:
    """Measure these blocks concurrently, each on a separate testbed."""

    blocks: tuple[RunBlock, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """An answer; as a step, it means that nothing more is to be measured.

    ``finalist``: the one to report, None if nothing was worth certifying. ``others``: certificates
    of the other finalists. ``attempt``: the number of the attempt that certified it.
    ``contributions``: the effect of each of the finalist's settings, at the end of a campaign.
    ``guards``, ``adjustment``: those on whose terms the certificate was judged. A later attempt has
    others, which say nothing about this answer. ``latest``: the certificate by all fresh blocks,
    if those after ``certificate`` left the gain or a floor open again.
    """

    finalist: int | None
    certificate: Certificate | None
    others: Mapping[int, Certificate] = field(default_factory=dict)
    attempt: int | None = None
    contributions: tuple[Contribution, ...] = ()
    guards: tuple[Guard, ...] = ()
    adjustment: DifferenceAdjustment | None = None
    latest: Certificate | None = None


@dataclass(frozen=True, slots=True)
class Halt:
    """The campaign cannot continue."""

    reason: str


Step = Explore | RunBlock | RunBatch | Finish | Halt


@dataclass(frozen=True, slots=True)
class Ending:
    """How the measurements of a trial ended."""

    state: TrialState
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step and the state of the campaign.

    ``round``: the newest round that has a block. ``incumbent``: the baseline if there is none.
    ``live``: the trials that are shown as being measured. ``endings``: of every trial that the
    judge has ended. ``decisions``: those of the newest search block. ``certificate``: of the
    leading finalist; ``certificates``: the newest of each finalist; ``adjustments``: those of its
    differences. ``answers``: the answers so far, of which the last counts. ``pilot``: its
    assessment, once it has enough blocks. ``guards``: of the search so far, and of the newest
    attempt. ``best``: the best candidate, if it was computed. ``room``: the number of fresh blocks
    of an attempt with one finalist that still fit the budget. ``ended_by_budget``: the finalists
    whose newest attempt ended because no further block fitted. At the end, ``can_search``: a block
    of the search would have something to measure; ``spare``: the part of the budget that is left,
    in words, "" if it is small.
    """

    step: Step
    phase: Phase
    round: int
    incumbent: int
    live: tuple[int, ...]
    endings: Mapping[int, Ending]
    decisions: tuple[Decision, ...]
    certificate: Certificate | None = None
    certificates: Mapping[int, Certificate] = field(default_factory=dict)
    adjustments: Mapping[int, DifferenceAdjustment] = field(default_factory=dict)
    answers: tuple[Finish, ...] = ()
    best: Prediction | None = None
    pilot: Pilot | None = None
    guards: tuple[Guard, ...] = ()
    room: int = 0
    ended_by_budget: frozenset[int] = frozenset()
    can_search: bool = True
    spare: str = ""

    @property
    def answer(self) -> Finish | None:
        """The answer so far; None if nothing is certified."""
        return self.answers[-1] if self.answers else None
