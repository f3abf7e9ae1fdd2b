"""Turn a certificate, or the lack of a finalist, into the campaign's recommendation. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from search_spaces import Risk
from tuner.judge.adjustment import raw_alpha
from tuner.judge.assumptions import Alarm
from tuner.judge.certify import Certificate, CertificateOutcome, ComponentVerdict
from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.levels import ALPHA, FLOOR_ALPHA
from tuner.judge.score import margin
from tuner.judge.verdict import Outcome
from tuner.judge.words import percent
from tuner.model import (
    BASELINE,
    Answer,
    ComponentEffect,
    Configuration,
    Recommendation,
    Trial,
)
from tuner.plan.rules import Rules
from tuner.plan.setting_effects import caveats, setting_effects
from tuner.plan.steps import Finish, Plan
from tuner.records.differences import differences
from tuner.records.none_ran import NONE_RAN
from tuner.states import TrialState
from tuner.text import confidence_text, counted, faster, value_text

#: What a setting of each risk class other than performance puts at risk.
AT_STAKE = {
    Risk.DURABILITY: "acknowledged data may be lost when the machine fails",
    Risk.SECURITY: "protection is given up for speed",
    Risk.AVAILABILITY: "some networks or hosts may no longer work with it",
}

Flags = Callable[[Configuration], Mapping[str, tuple[str, ...]]]
#: What each setting of a configuration can harm, by qualified name; also one that it leaves unset.
Risks = Callable[[Configuration], Mapping[str, Risk]]


def recommendation(
    plan: Plan,
    trials: Sequence[Trial],
    rules: Rules,
    flags: Flags,
    risks: Risks,
    *,
    campaign: str = "ID",
    doubts: Sequence[str] = (),
) -> Recommendation:
    """Return the recommendation for the user. ``plan.step`` must be Finish.

    ``flags``: renders a configuration. ``campaign``: identifier, for a command that is suggested.
    ``doubts``: caveats in addition to those of the guards.
    """
    assert isinstance(plan.step, Finish)
    baseline = trials[BASELINE].configuration
    certificate = plan.step.certificate
    if plan.step.finalist is None or certificate is None:
        reason = _no_finalist_reason(plan, trials, rules, campaign)
        return replace(_keep(baseline, reason, flags), notes=_spare(plan, rules))
    finalist = trials[plan.step.finalist].configuration
    verdict = certificate.verdict
    effects = setting_effects(plan.step.contributions, finalist, baseline)
    return Recommendation(
        answer=Answer.RECOMMENDED if certificate.is_certified else Answer.NO_IMPROVEMENT,
        reason=_reason(certificate.conclusion, plan.step.finalist, certificate, plan, rules),
        trial=plan.step.finalist,
        configuration=finalist,
        baseline=baseline,
        flags=flags(finalist),
        baseline_flags=flags(baseline),
        confidence=_confidence(certificate.alpha),
        blocks=verdict.n,
        ratio=verdict.ratio,
        lower=math.exp(verdict.interval.lower),
        upper=math.exp(verdict.interval.upper),
        largest_compatible_improvement=_still_possible(plan.step, certificate),
        e_value=verdict.e_value,
        threshold=verdict.threshold,
        components=_effects(certificate, rules),
        settings=effects,
        notes=(
            *caveats(effects, finalist, baseline, certified=certificate.is_certified),
            *_risks(finalist, baseline, risks),
            *_floor_note(rules),
            *_floors(certificate, rules),
            *_left_open(plan.step, rules),
            *_adjusted(plan.step),
            *(() if rules.compares else _others(plan.step, plan, trials, rules)),
            *_doubts(plan.step),
            *doubts,
            *_spare(plan, rules),
        ),
    )


def withdrawal(
    plan: Plan, trials: Sequence[Trial], earlier: Recommendation, flags: Flags
) -> Recommendation:
    """Return what replaces an earlier recommendation once it is no longer an answer, as long as
    there is no other.
    """
    trial = earlier.trial
    if trials[trial].state is TrialState.FAILED:
        why = f"it does not run: {trials[trial].reason}"
    elif trial in plan.certificates:
        why = plan.certificates[trial].reason.removeprefix("not certified: ")
        adjustment = plan.adjustments.get(trial)
        # An earlier release may have adjusted where this one does not.
        if adjustment is not None and adjustment.reason not in earlier.notes:
            why = f"{why}; {adjustment.reason}"
    else:
        why = "its certificate is no longer valid"
    reason = f"trial {trial} was certified, and is withdrawn: {why}"
    return _keep(trials[BASELINE].configuration, reason, flags)


def _keep(baseline: Configuration, reason: str, flags: Flags) -> Recommendation:
    """The answer that recommends no trial."""
    return Recommendation(
        answer=Answer.NO_IMPROVEMENT,
        reason=reason,
        trial=BASELINE,
        configuration=baseline,
        baseline=baseline,
        flags=flags(baseline),
        baseline_flags=flags(baseline),
        confidence=_confidence(ALPHA),
        blocks=0,
    )


def _effects(certificate: Certificate, rules: Rules) -> dict[str, ComponentEffect]:
    def effect(component: ComponentVerdict) -> ComponentEffect:
        verdict = component.verdict
        lower, upper = math.exp(verdict.interval.lower), math.exp(verdict.interval.upper)
        return ComponentEffect(verdict.ratio, lower, upper, component.holds)

    verdicts = zip(rules.components, certificate.components, strict=True)
    return {name: effect(component) for name, component in verdicts}


def _reason(
    sentence: str, finalist: int, certificate: Certificate, plan: Plan, rules: Rules
) -> str:
    """Return the certificate's ``sentence``, with why an undecided one was left so.

    A comparison gives nothing up: what is not settled in it ran out of budget.
    """
    if certificate.outcome is not CertificateOutcome.UNDECIDED:
        return sentence
    if certificate.largest_compatible_improvement <= rules.race.delta:
        worth = percent(margin(rules.race.delta))
        why = f"not certified, as a gain above {worth}, the least worth acting on, is ruled out"
    elif rules.compares or finalist in plan.ended_by_budget:
        why = "not certified within the budget"
    else:
        why = "not certified, and given up, as further blocks promised no better answer"
    return f"{why}: {sentence.removeprefix('undecided: ')}"


def _confidence(alpha: float) -> float:
    """Two-sided confidence level matching a one-sided certificate at ``alpha``."""
    return 1.0 - 2.0 * alpha


def _still_possible(step: Finish, certificate: Certificate) -> float:
    """Largest improvement not ruled out: for the certified finalist, otherwise for any finalist."""
    if certificate.is_certified:
        return certificate.largest_compatible_improvement
    every = (certificate, *step.others.values())
    return max(c.largest_compatible_improvement for c in every)


def _others(step: Finish, plan: Plan, trials: Sequence[Trial], rules: Rules) -> tuple[str, ...]:
    """One sentence on the outcome of each other finalist, and on why it is not the answer."""

    def with_settings(number: int | None) -> str:
        assert number is not None
        changed, _ = differences(trials[BASELINE].configuration, trials[number].configuration)
        return f"trial {number}, with {counted(len(changed), 'setting')},"

    sentences = []
    for number, certificate in step.others.items():
        if certificate.is_certified:
            sentences.append(
                f"{with_settings(number)} is also certified: {certificate.verdict.reason}; "
                f"{with_settings(step.finalist)} is the better answer by all measurements"
            )
        else:
            reason = _reason(certificate.reason, number, certificate, plan, rules)
            sentences.append(f"trial {number}, another finalist: {reason}")
    return tuple(sentences)


def _floors(certificate: Certificate, rules: Rules) -> tuple[str, ...]:
    """Note components whose floor is only guaranteed at a laxer error than the gain."""
    unsettled = [each.name for each in certificate.components if not each.holds]
    if not certificate.is_certified or not unsettled:
        return ()
    sure, floor = f"{100.0 * (1.0 - FLOOR_ALPHA):.0f}%", percent(margin(rules.race.floor))
    of_gain = f"{100.0 * (1.0 - certificate.alpha):.4g}%"
    two_sided = confidence_text(_confidence(certificate.alpha))
    return (
        f"{', '.join(unsettled)}: shown to lose no more than {floor} with only {sure} confidence "
        f"for each component; the gain is shown with {of_gain}, one end of its {two_sided}",
    )


def _floor_note(rules: Rules) -> tuple[str, ...]:
    """How the floor was chosen, if the campaign file did not give one."""
    return (f"the floor was chosen by the pilot: {rules.floor_reason}",) * bool(rules.floor_reason)


def _left_open(step: Finish, rules: Rules) -> tuple[str, ...]:
    """Report that the certificate would not be given again with all fresh blocks, and why."""
    now, floor = step.latest, percent(margin(rules.race.floor))
    if now is None or step.certificate is None:
        return ()
    further = now.verdict.n - step.certificate.verdict.n
    blocks = "another fresh block" if further == 1 else f"{further} further fresh blocks"
    # Its own pairs may be the same: later blocks of other finalists change the guards.
    what = f"with {blocks} included" if further else "by the guards of later blocks"
    open_floors = [each for each in now.components if not each.passes]
    estimates = {
        f"the floor of {floor} for {each.name}": f"{each.name} is {each.verdict.reason}"
        for each in open_floors
    }
    if now.verdict.outcome is not Outcome.BETTER:
        estimates = {"the gain": now.verdict.reason} | estimates
    elif now.doubt:
        # Its own test shows the gain, but not another one that must show it too.
        estimates = {"the gain": f"{now.verdict.reason}; {now.doubt}"} | estimates
    return (
        f"{what}, {' and '.join(estimates)} would no longer be shown: "
        f"{'; '.join(estimates.values())}; noise alone can cause this, and the error holds for all "
        "looks together, so the certificate and its numbers stay",
    )


def _adjusted(step: Finish) -> tuple[str, ...]:
    """Report whether the gain was adjusted for other load, if it was to be, and the effect of doing
    so or the reason why not.
    """
    if step.adjustment is None:
        return ()
    if not step.adjustment.used or step.certificate is None or not step.certificate.is_certified:
        return (step.adjustment.reason,)
    raw = f"{100.0 * raw_alpha(step.certificate.alpha):.2g}%"
    return (
        step.adjustment.reason,
        "the error of an adjusted gain supposes that the configuration does not influence other "
        f"load; without the adjustment, a gain is shown at an error of {raw} only, and its least "
        "size is not",
    )


def _doubts(step: Finish) -> tuple[str, ...]:
    """One sentence for each guard that warns."""
    return tuple(guard.reason for guard in step.guards if guard.alarm is not Alarm.NONE)


def _risks(configuration: Configuration, baseline: Configuration, risks: Risks) -> tuple[str, ...]:
    """One sentence for each changed setting that puts more than performance at risk."""
    before, now = baseline.as_dict(), configuration.as_dict()

    def change(name: str) -> str:
        if name in now:
            return f"{name} = {value_text(now[name])}"
        return f"leaving {name} unset, which was {value_text(before[name])},"

    return tuple(
        f"{change(name)} puts {risk} at risk: {AT_STAKE[risk]}"
        for name, risk in risks(configuration).items()
        if risk is not Risk.PERFORMANCE and before.get(name) != now.get(name)
    )


def _no_finalist_reason(plan: Plan, trials: Sequence[Trial], rules: Rules, campaign: str) -> str:
    configurations = [t for t in trials if t.round > 0]
    if not configurations:
        return _nothing_tried(plan, rules)
    pruned = sum(t.state is TrialState.PRUNED for t in configurations)
    failed = sum(t.state is TrialState.FAILED for t in configurations)
    if failed == len(configurations):
        return f"{NONE_RAN}{_why_none_ran(configurations, campaign)}"
    parts = [_what_looked_best(plan, configurations, rules)]
    if pruned:
        were = "was" if pruned == 1 else "were"
        parts.append(f"{counted(pruned, 'configuration')} {were} dropped early")
    if failed:
        parts.append(f"{counted(failed, 'configuration')} did not run")
    return "; ".join(parts)


def _why_none_ran(failed: Sequence[Trial], campaign: str) -> str:
    """How many configurations failed, for which reason most of them did, and what tells the rest.

    A reason may be long, as it may quote a program, so the command is not at its end.
    """
    [(reason, count)] = Counter(trial.reason for trial in failed).most_common(1)
    show = f"'fstune show {campaign}'"
    if len(failed) == 1:
        return f"the only one tried failed (details: {show}): {reason}"
    most = f"{count} of them" if count < len(failed) else "all"
    return (
        f"all {len(failed)} tried failed ({show} says why each did), {most} with the reason: "
        f"{reason}"
    )


def _nothing_tried(plan: Plan, rules: Rules) -> str:
    """Why a campaign ends without a block of the search."""
    if not plan.can_search:
        return (
            "there was nothing to try: no configuration that the campaign file allows differs from "
            "the one as found"
        )
    no_room = f"the budget had no room for {_full_block(rules)} and {_certificate(rules)}"
    if rules.pilot is not None:
        pace = "at this pace, " if rules.budget_measurements is None else ""
        no_room = f"{pace}{no_room} after the pilot"
    counts = {"search.arms": rules.arms, "certification.finalists": rules.finalists}
    keys = " or ".join(key for key, count in counts.items() if count > 1)
    smaller = f" or a smaller {keys}" if keys else ""
    return f"{no_room}; choose a larger budget{smaller} in the campaign file"


def _full_block(rules: Rules) -> str:
    """The block of the search that must fit the budget, however few configurations are left."""
    where = " on every testbed" if rules.testbeds > 1 else ""
    return f"a full block of the search{where} (search.arms: {rules.arms})"


def _certificate(rules: Rules) -> str:
    """The shortest attempt, which must fit too: every block of it measures all finalists."""
    many = f" (certification.finalists: {rules.finalists})" if rules.finalists > 1 else ""
    return f"a certificate{many}"


def _spare(plan: Plan, rules: Rules) -> tuple[str, ...]:
    """How much of the budget is left, and why. A comparison measures only what it needs."""
    if not plan.spare or rules.compares:
        return ()
    if plan.answer is not None and rules.stop_certified:
        why = "the campaign was to end with the first certificate"
    elif not plan.can_search:
        why = "nothing was left to try"
    elif plan.answer is not None:
        why = f"{_full_block(rules)} takes more"
    else:
        # Once the search has begun, an attempt may have a single finalist.
        certificate = "a certificate" if plan.round > 0 else _certificate(rules)
        why = f"{_full_block(rules)} and {certificate} take more"
    return (f"left of the budget: {plan.spare}, as {why}",)


def _what_looked_best(plan: Plan, configurations: Sequence[Trial], rules: Rules) -> str:
    """Why the best candidate at the end of the search, if there is one, was not certified."""
    least, count, best = margin(rules.race.delta), len(configurations), plan.best
    if best is None or best.gain < least:
        worth = percent(least)
        if count == 1:
            return f"the only configuration tried did not look {worth} faster than the baseline"
        return f"none of {count} configurations tried looked {worth} faster than the baseline"
    looks = f"what looks best is {faster(math.exp(-best.gain))} than the baseline"
    if plan.room < MIN_PAIRS:
        return (
            f"{looks}, but the budget has no room left for the {MIN_PAIRS} fresh blocks that a "
            "certificate takes"
        )
    is_new = all(trial.configuration != best.configuration for trial in configurations)
    if is_new and rules.max_trials is not None and count >= rules.max_trials:
        return f"{looks}, but search.max_trials ({rules.max_trials}) allows no other configuration"
    return f"{looks}, but was unlikely to be certified with the rest of the budget"
