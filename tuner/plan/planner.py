"""The plan of a campaign: from all measurements so far to the next step. Pure.

Owns the order of steps: the pilot, blocks of the search, attempts at a certificate on fresh blocks,
the answer. What is measured and when a certificate is attempted follow from the guide's view of the
stored blocks, so that a resumed campaign reaches the same decisions from the same measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.score import margin
from tuner.model import BASELINE, Block, BlockKind, BlockTimes, Trial
from tuner.plan import named_comparison
from tuner.plan.answering import Answers
from tuner.plan.attempts import Attempt, attempts
from tuner.plan.batches import AnyBlock, batch, in_groups, remeasuring, usable
from tuner.plan.budget import Cost, ended_by_budget
from tuner.plan.certifying import (
    Certification,
    can_narrow,
    certified_finalists,
    finalist_to_narrow,
    guards,
    guards_due,
    nearest,
    suspect,
)
from tuner.plan.economy import Move, Position, candidate, finalists, fresh_blocks, next_move
from tuner.plan.guide import Guide, Pick, View
from tuner.plan.halting import MAX_VOID_IN_A_ROW, no_block_reason, void_reason
from tuner.plan.judging import Judge
from tuner.plan.piloting import PilotPlan, plan_pilot
from tuner.plan.racing import Replay, advance
from tuner.plan.rounds import measured
from tuner.plan.rules import Rules, settled_rules
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import Explore, Finish, Halt, Phase, Plan, RunBlock
from tuner.propose.prediction import Prediction
from tuner.propose.proposer import Proposal
from tuner.states import BlockState, TrialState

#: Fresh blocks after which later findings of the search may end an attempt.
_LOOK_AGAIN = 4
#: An attempt is given up if the probability that all floors are met is below this.
_DOOMED = 0.1


class Planner:
    """Plans one campaign, step after step.

    It only remembers what follows from the blocks so far (``table``, and ``rules`` as settled by
    the pilot): a new planner, given the same rows, plans the same.
    """

    def __init__(self, rules: Rules, guide: Guide, compared: Sequence[Proposal] = ()) -> None:
        """``compared``: the configurations of a comparison, which searches nothing."""
        self.rules = rules
        self._compared = compared
        self.table = ScoreTable(rules.components, rules.weights)
        self._guide = guide
        self._replay = Replay()
        self._pilot: PilotPlan | None = None
        self._judge = Judge(self.table)
        self._answers = Answers(self.table, guide, self._judge)

    def plan(
        self,
        trials: Sequence[Trial],
        blocks: Sequence[Block | BlockTimes],
        *,
        earlier_blocks: int = 0,
    ) -> Plan:
        """Return what to do next.

        ``trials`` and ``blocks``: all of the campaign's, in order of number; ``blocks`` must begin
        with those of the last call. A trial stored as ``failed`` or ``cancelled`` is out. Blocks
        still marked as running must have been voided before. ``earlier_blocks``: the number of
        blocks of earlier runs; void ones among them do not halt this run.
        """
        return self._plan(trials, blocks, _failed(trials), earlier_blocks)

    def plan_batch(
        self,
        trials: Sequence[Trial],
        blocks: Sequence[AnyBlock],
        *,
        testbeds: int,
        earlier_blocks: int = 0,
    ) -> Plan:
        """As ``plan``, for several testbeds at once, with RunBatch instead of RunBlock."""
        failed = _failed(trials)
        whole, missing = usable(blocks, failed)
        now = self._plan(trials, whole, failed, len(whole), testbeds)
        most = MAX_VOID_IN_A_ROW * self.rules.testbeds
        if (reason := void_reason(blocks[earlier_blocks:], failed, most)) is not None:
            return replace(now, step=Halt(reason))
        if missing:
            phase = Phase(missing[0].kind.value)
            number = blocks[-1].number + 1
            return replace(
                now, step=remeasuring(missing, self.rules, number, testbeds), phase=phase
            )
        if isinstance(now.step, RunBlock):
            return replace(now, step=batch(now.step, whole, self.rules, testbeds))
        return now

    def _plan(
        self,
        trials: Sequence[Trial],
        blocks: Sequence[Block | BlockTimes],
        failed: set[int],
        earlier_blocks: int,
        testbeds: int = 1,
    ) -> Plan:
        table = self.table
        table.extend(blocks[len(table.ended_blocks) :])
        if self._pilot is None or self._pilot.more:
            self._pilot = plan_pilot(trials, table.ended_blocks, self.rules.pilot)
        # A pilot that is over stays so, and need not be judged again.
        if not self._pilot.more:
            self.rules = settled_rules(self.rules, self._pilot.assessment)
        advance(self._replay, trials, table, self.rules, failed)
        state = _State(
            trials=trials,
            failed=failed,
            testbeds=testbeds,
            table=table,
            rules=self.rules,
            replay=self._replay,
            pilot=self._pilot,
            guide=self._guide,
            judge=self._judge,
            answers=self._answers,
            compared=self._compared,
        )
        return state.plan(earlier_blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """Everything that one plan is made from."""

    trials: Sequence[Trial]
    failed: set[int]
    testbeds: int
    table: ScoreTable
    rules: Rules
    replay: Replay
    pilot: PilotPlan
    guide: Guide
    judge: Judge
    answers: Answers
    compared: Sequence[Proposal]

    def plan(self, earlier_blocks: int) -> Plan:
        table, rules = self.table, self.rules
        here = self._here()
        if (reason := void_reason(table.ended_blocks[earlier_blocks:], self.failed)) is not None:
            return replace(here, step=Halt(reason))
        if self.pilot.more and self.pilot.twin is not None:
            step = self._block(BlockKind.PILOT, 0, (self.pilot.twin,))
            return replace(here, step=step, phase=Phase.PILOT, live=(self.pilot.twin,))
        if here.round == 0 and self.pilot.refusal is not None and not rules.pilot_override:
            advice = "; to continue anyway, resume with --override-pilot"
            reason = f"the pilot advises against: {self.pilot.refusal}{advice}"
            return replace(here, step=Halt(reason))
        if guards_due(table, rules.testbeds):
            here = replace(here, guards=guards(table))
        all_attempts = attempts(table.ended_blocks)
        if rules.compares:
            return self._compare(here, all_attempts)
        standings = [self.judge.standing(each, rules, self.failed) for each in all_attempts]
        here = self._with_certificates(here, all_attempts, standings)
        if all_attempts and (open_ := self._open(all_attempts[-1], standings[-1])):
            step = self._block(BlockKind.CERTIFY, all_attempts[-1].round, open_)
            return replace(here, step=step, phase=Phase.CERTIFY, live=open_)
        if here.answer is not None and rules.stop_certified:
            return self._end(here, standings)
        if (cut_off := self._cut_off()) and self._arms_left() >= 1 + len(cut_off):
            step = self._block(BlockKind.SEARCH, here.round, cut_off)
            return replace(here, step=step, live=cut_off)
        return self._move(here, all_attempts, standings)

    def _compare(self, here: Plan, all_attempts: Sequence[Attempt]) -> Plan:
        """Measure given configurations until enough is known of each, or the budget is used up."""
        if not all_attempts:
            groups = tuple([tuple(self.compared)] * self.testbeds)
            step = Explore(here.round + 1, self.table.newest + 1, BlockKind.CERTIFY, groups)
            return replace(here, step=step, phase=Phase.CERTIFY)
        judgement = named_comparison.judge(all_attempts[0], self.rules, here.guards)
        here = replace(here, guards=judgement.guards)
        open_ = named_comparison.still_open(judgement, self.rules, self.failed)
        few = len(all_attempts[0].blocks) < MIN_PAIRS
        if open_ and (few or self._fits(1 + len(open_))):
            block = self._block(BlockKind.CERTIFY, all_attempts[0].round, open_)
            return replace(here, step=block, phase=Phase.CERTIFY, live=open_)
        end = named_comparison.finish(judgement, self.failed)
        return replace(here, step=end, phase=Phase.DONE, live=(), certificate=end.certificate)

    def _here(self) -> Plan:
        """The state of the campaign, without a step yet."""
        round_ = self.table.newest_round
        live: tuple[int, ...] = ()
        if self.table.ended_blocks:
            arms = set(self.table.ended_blocks[-1].order) - {BASELINE} - self.failed
            live = tuple(sorted(arms - self.replay.endings.keys()))
        return Plan(
            Halt(""),
            Phase.SEARCH,
            round_,
            self.replay.incumbent(self.table, self.failed),
            live,
            dict(self.replay.endings),
            self.replay.decisions,
            pilot=self.pilot.assessment,
            room=fresh_blocks(self._arms_left(), replace(self._rules_now(), finalists=1)),
        )

    def _with_certificates(
        self, here: Plan, all_attempts: Sequence[Attempt], standings: Sequence[Certification]
    ) -> Plan:
        """Add the certificates: that of the newest attempt, and the best one so far."""
        if not standings:
            return here
        newest, out = standings[-1], self.replay.endings
        every = {f: c for each in standings for f, c in each.certificates.items()}
        adjustments = {f: a for each in standings for f, a in each.adjustments.items()}
        return replace(
            here,
            certificate=None if newest.best is None else newest.certificates[newest.best],
            certificates=every,
            adjustments=adjustments,
            guards=newest.guards,
            ended_by_budget=ended_by_budget(self.table, self.rules, all_attempts, standings),
            answers=self.answers.so_far(all_attempts, standings, self.trials, out, self.rules),
        )

    def _open(self, attempt: Attempt, standing: Certification) -> tuple[int, ...]:
        """The finalists of the newest attempt that are worth another block."""
        if not standing.open:
            return ()
        if len(attempt.blocks) >= MIN_PAIRS and not self._fits(1 + len(standing.open)):
            return ()
        if len(attempt.blocks) < _LOOK_AGAIN:
            return standing.open
        return tuple(n for n in standing.open if not self._is_doomed(self._prediction(n)))

    def _prediction(self, trial: int) -> Prediction:
        return self._view().prediction(self.trials[trial])

    def _is_doomed(self, prediction: Prediction) -> bool:
        least = margin(self.rules.race.delta) / 2.0
        return prediction.gain < least or prediction.feasible < _DOOMED

    def _cut_off(self) -> tuple[int, ...]:
        """The trials still to be measured if the newest block is a void block of the search."""
        if not self.table.ended_blocks:
            return ()
        newest = self.table.ended_blocks[-1]
        if newest.kind is not BlockKind.SEARCH or newest.state is not BlockState.VOID:
            return ()
        out = {BASELINE, *self.failed, *self.replay.endings}
        return tuple(sorted(number for number in newest.order if number not in out))

    def _is_refuted(self, all_attempts: Sequence[Attempt], answers: Sequence[Finish]) -> bool:
        """Whether an attempt has ended without an answer since the newest block of the search."""
        rounds = (b.round for b in self.table.ended_blocks if b.kind is BlockKind.SEARCH)
        newest = max(rounds, default=0)
        successes = {answer.attempt for answer in answers}
        return any(a.round > newest and a.number not in successes for a in all_attempts)

    def _move(
        self, here: Plan, all_attempts: Sequence[Attempt], standings: Sequence[Certification]
    ) -> Plan:
        """Search on, begin an attempt, or finish."""
        rules, view = self.rules, self._view()
        # Its blocks of the search are no fresh ones: alone, they would tell nothing.
        certified = None if here.answer is None else here.answer.finalist
        picks = cache(lambda: view.picks(rules.arms * self.testbeds, self._most_new()))
        cost = Cost.of(self.table, self.testbeds)
        numbers = [each.finalist for each in here.answers if each.finalist is not None]
        position = Position(
            attempt=len(all_attempts) + 1,
            answers=tuple(map(self._prediction, numbers)),
            proven=frozenset(self.trials[n].configuration for n in certified_finalists(standings)),
            wide=here.answer is not None and can_narrow(here.answer, all_attempts, rules),
            arms_left=cost.arms_left(rules),
            total_arms=cost.total_arms(rules),
            measured=sum(len(each.block.times_s) for each in self.table.scored),
            can_search=lambda: any(
                pick != certified and self._worth_a_block(pick) for pick in picks()
            ),
            may_add=self._most_new() != 0,
            own_trials=self._own_trials,
            refuted=self._is_refuted(all_attempts, here.answers),
            suspect=suspect(guards(self.table)),
            searched=any(one.block.kind is BlockKind.SEARCH for one in self.table.scored),
        )
        best = candidate(view, rules, position)
        here = replace(here, best=best)
        move = next_move(view, best, self._rules_now(), position)
        number = self.table.newest + 1
        match move:
            case Move.SEARCH:
                groups = in_groups(picks(), self.testbeds)
                step = Explore(here.round + 1, number, BlockKind.SEARCH, groups)
                return replace(here, step=step)
            case Move.CERTIFY:
                assert best is not None
                groups = tuple([self._finalists(best, position)] * self.testbeds)
                step = Explore(here.round + 1, number, BlockKind.CERTIFY, groups)
                return replace(here, step=step, phase=Phase.CERTIFY)
            case Move.NARROW:
                assert here.answer is not None
                finalist, round_ = finalist_to_narrow(here.answer, all_attempts)
                block = self._block(BlockKind.CERTIFY, round_, finalist)
                return replace(here, step=block, phase=Phase.CERTIFY, live=finalist)
            case Move.FINISH:
                if here.answer is None and not position.may_add:
                    here = replace(here, best=view.best)  # possibly not allowed: the answer says so
                return self._end(replace(here, can_search=position.can_search()), standings)

    def _worth_a_block(self, pick: Pick) -> bool:
        """Whether the pick is new or has had fewer blocks than a trial may take. A trial that stays
        promoted is not dropped: if it were the only one left, it would be measured until the budget
        is used up.
        """
        if not isinstance(pick, int):
            return True
        return len(self.table.pairs().get(pick, ())) < self.rules.race.max_blocks

    def _finalists(self, best: Prediction, at: Position) -> tuple[Pick, ...]:
        """The candidate and further promising trials, as many as the attempt may have."""
        numbers = {t.configuration: t.number for t in reversed(measured(self.trials, self.table))}
        # Predictions take time, and a single finalist needs none.
        others = self._own_trials() if self.rules.finalists > 1 else ()
        configurations = finalists(best, others, self._rules_now(), at)
        return tuple(numbers.get(each, Proposal(each, "model")) for each in configurations)

    def _own_trials(self) -> list[Prediction]:
        """What is expected of the trials that may still be measured."""
        out = {BASELINE, *self.failed, *self.replay.endings, self.pilot.twin}
        return [
            self._prediction(t.number)
            for t in measured(self.trials, self.table)
            if t.number not in out
        ]

    def _end(self, here: Plan, standings: Sequence[Certification]) -> Plan:
        """The answer: the certified finalist, otherwise the one that came nearest."""
        if self.table.ended_blocks and not self.table.scored:
            reason = no_block_reason(self.table.ended_blocks[-1], self.trials)
            return replace(here, step=Halt(reason))
        step = here.answer or nearest(standings)
        others = {f: c for f, c in here.certificates.items() if f != step.finalist}
        step = replace(step, others=others)
        if step.finalist is not None:
            contributions = self._view().contributions(self.trials[step.finalist])
            step = replace(step, contributions=tuple(contributions))
        spare, certificate = Cost.of(self.table).spare(self.rules), step.certificate
        return replace(
            here, step=step, phase=Phase.DONE, live=(), certificate=certificate, spare=spare
        )

    def _view(self) -> View:
        trials, floor = measured(self.trials, self.table), self.rules.race.floor
        return self.guide.look(trials, self.table, self.replay.endings, floor)

    def _most_new(self) -> int | None:
        if self.rules.max_trials is None:
            return None
        count = sum(trial.round > 0 for trial in measured(self.trials, self.table))
        return max(0, self.rules.max_trials - count)

    def _arms_left(self) -> float:
        return Cost.of(self.table, self.testbeds).arms_left(self.rules)

    def _rules_now(self) -> Rules:
        """The rules with the number of testbeds in use, for what the rest of the budget allows."""
        return replace(self.rules, testbeds=self.testbeds)

    def _fits(self, arms: int) -> bool:
        return self._arms_left() >= arms * self.testbeds

    def _block(self, kind: BlockKind, round_: int, trials: Sequence[int]) -> RunBlock:
        return RunBlock.shuffled(self.rules.seed, self.table.newest + 1, kind, round_, trials)


def _failed(trials: Sequence[Trial]) -> set[int]:
    return {t.number for t in trials if t.state in (TrialState.FAILED, TrialState.CANCELLED)}
