"""Record each finding of the plan once: ended trials, pilot, guards, certificates, the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.judge.assumptions import Alarm
from tuner.judge.race import Action
from tuner.model import BASELINE, Answer, Recommendation, Trial
from tuner.plan.answer import recommendation, withdrawal
from tuner.plan.certifying import guards_due
from tuner.plan.piloting import TWIN_ORIGIN
from tuner.plan.planner import Planner
from tuner.plan.steps import Finish, Halt, Phase, Plan
from tuner.results.testbed_effect import effect_between
from tuner.run.event_writer import EventWriter
from tuner.run.failures import failed_runs, left_out
from tuner.run.stored_floor import tell_floor
from tuner.services.target import Target
from tuner.states import EventData, EventKind, TrialState
from tuner.store import Store


class Notes:
    """Records the findings of a campaign's plan. ``together``: it has several testbeds."""

    def __init__(
        self,
        store: Store,
        campaign: str,
        planner: Planner,
        target: Target,
        writer: EventWriter,
        *,
        together: bool,
    ) -> None:
        self._store = store
        self._id = campaign
        self._planner = planner
        self._target = target
        self._writer = writer
        self._together = together

    def write(self, trials: Sequence[Trial], now: Plan) -> None:
        """Record everything that is new in a plan."""
        self._settle(trials, now)
        tell_floor(self._writer, self._planner.rules)
        self._tell_certified(trials, now)
        self._tell_pilot(trials, now)
        self._tell_guards(now)
        self._tell_testbeds(now)

    def _settle(self, trials: Sequence[Trial], now: Plan) -> None:
        """Record the judge's decisions, once each."""
        for number, ending in now.endings.items():
            if trials[number].state is TrialState.RUNNING:
                is_pruned = ending.state is TrialState.PRUNED
                kind = EventKind.TRIAL_PRUNED if is_pruned else EventKind.TRIAL_COMPLETE
                event = self._writer.event(
                    kind, f"trial {number}: {ending.reason}", {"trial": number}
                )
                self._writer.show(
                    self._store.move_trial(self._id, number, ending.state, ending.reason, event)
                )
        if now.incumbent == BASELINE:
            return
        # If it was promoted in an earlier block of a batch, its reason is not among the newest
        # decisions.
        reasons = [
            decision.reason
            for decision in now.decisions
            if decision.action is Action.PROMOTE and decision.trial == now.incumbent
        ]
        if self._together or reasons:
            message = ": ".join([f"trial {now.incumbent} is the incumbent", *reasons])
            self._writer.once(EventKind.TRIAL_PROMOTED, message, {"trial": now.incumbent})

    def _tell_pilot(self, trials: Sequence[Trial], now: Plan) -> None:
        """Once the pilot has ended, report its result and complete the twin."""
        twin = next((t for t in trials if t.origin == TWIN_ORIGIN), None)
        over = now.phase is not Phase.PILOT
        if now.pilot is None or twin is None or not over or twin.state is not TrialState.RUNNING:
            return
        pilot = now.pilot
        for warning in pilot.warnings:
            self._writer.tell(EventKind.PILOT_WARNING, f"pilot: {warning}")
        reason = f"the pilot is over: {pilot.outcome}"
        message = f"pilot {pilot.outcome}: {pilot.outlook.reason}; baseline {pilot.verdict.reason}"
        event = self._writer.event(
            EventKind.PILOT,
            message,
            {
                "outcome": str(pilot.outcome),
                "blocks": pilot.verdict.n,
                "sd_difference": pilot.noise.sd_difference,
                "cv": pilot.noise.cv,
            },
        )
        self._writer.show(
            self._store.move_trial(self._id, twin.number, TrialState.COMPLETE, reason, event)
        )

    def _tell_guards(self, now: Plan) -> None:
        """Report each alarm once, when a check of the guards is due."""
        for guard in now.guards if self._is_look() else ():
            if guard.alarm is not Alarm.NONE:
                data: EventData = {"guard": str(guard.kind), "alarm": str(guard.alarm)}
                message = f"{guard.alarm}: {guard.reason}"
                self._writer.once(EventKind.GUARD, message, data, {"value": guard.value})

    def _is_look(self) -> bool:
        return guards_due(self._planner.table, self._planner.rules.testbeds)

    def _tell_testbeds(self, now: Plan) -> None:
        """Report once that testbeds differ, when a check of the guards is due and at the end."""
        if not self._together or not (self._is_look() or isinstance(now.step, Finish)):
            return
        effect = effect_between(self._planner.table)
        if effect is not None and effect.shown:
            data: EventData = {"trial": effect.trial}
            message = f"warn: {effect.reason}"
            self._writer.once(EventKind.TESTBED_EFFECT, message, data, {"p": effect.p})

    def _tell_certified(self, trials: Sequence[Trial], now: Plan) -> None:
        """Store an answer that can be used while the search continues, and that it is withdrawn
        when it is no longer one. What is stored decides, so that a resumed campaign does as well.
        """
        if isinstance(now.step, Finish):
            return
        earlier = self._store.campaign(self._id).recommendation
        if earlier is not None and earlier.answer is not Answer.RECOMMENDED:
            earlier = None
        before = None if earlier is None else earlier.trial
        if now.answer is not None and now.answer.finalist != before:
            here = replace(now, step=now.answer)
            doubts = self._failures_of(now.answer.finalist)
            advice = self._advice(here, trials, doubts)
            message = f"trial {advice.trial} {advice.reason}; the search continues"
            event = self._writer.event(EventKind.CERTIFIED, message, {"trial": advice.trial})
            self._writer.show(self._store.save_recommendation(self._id, advice, event))
        # A plan that halts, or is still in the pilot, has not judged the certificates.
        is_judgement = now.phase is not Phase.PILOT and not isinstance(now.step, Halt)
        if now.answer is None and earlier is not None and is_judgement:
            advice = withdrawal(now, trials, earlier, self._target.flags)
            event = self._writer.event(EventKind.WITHDRAWN, advice.reason, {"trial": before})
            self._writer.show(self._store.save_recommendation(self._id, advice, event))

    def answer(self, now: Plan) -> None:
        """Store the answer. ``now.step`` must be Finish."""
        trials = self._store.trials(self._id)
        effect = effect_between(self._planner.table) if self._together else None
        doubts = [effect.reason] if effect is not None and effect.shown else []
        if isinstance(now.step, Finish):
            doubts += self._failures_of(now.step.finalist)
        advice = self._advice(now, trials, doubts)
        message = f"{advice.answer.replace('_', ' ')}: {advice.reason}"
        event = self._writer.event(EventKind.RECOMMENDATION, message)
        self._writer.show(self._store.save_recommendation(self._id, advice, event))

    def _advice(self, now: Plan, trials: Sequence[Trial], doubts: Sequence[str]) -> Recommendation:
        rules, target = self._planner.rules, self._target
        return recommendation(
            now, trials, rules, target.flags, target.risks, campaign=self._id, doubts=doubts
        )

    def _failures_of(self, trial: int | None) -> tuple[str, ...]:
        """Caveats for a trial: runs of it failed, or it was not measured where workloads failed."""
        if trial is None:
            return ()
        return (*failed_runs(self._store, self._id, trial), *self._missing_on(trial))

    def _missing_on(self, trial: int) -> tuple[str, ...]:
        """Caveats for a trial that was never measured on a testbed on which workloads failed."""
        if not self._together:
            return ()
        table = self._planner.table
        ran = {one.block.testbed for one in table.scored if trial in one.scores}
        out = left_out(self._store, self._id, table.ended_blocks)
        missing = {one.testbed for one in out if one.testbed} - ran
        own = missing & {one.testbed for one in out if one.trial == trial}
        return (
            *(f"it did not run on {name}: its workload failed there" for name in sorted(own)),
            *(
                f"it was never measured on {name}, where the workloads of other trials failed"
                for name in sorted(missing - own)
            ),
        )
