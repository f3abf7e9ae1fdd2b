"""Whether a certificate still applies to its testbed, as far as the store knows.

A certificate holds for the programs and hosts that it was measured with. It has expired once a
later campaign found the same testbed with different ones, and is valid again once a verification
there found that it holds, with no less than what was certified. A verification that found less is
a caveat also where nothing has expired. The check only reads the store; nothing is measured and no
host is contacted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tuner.judge.words import interval
from tuner.model import Answer, Campaign, Event, Recommendation
from tuner.states import EventKind, VerifyOutcome
from tuner.store import Store
from tuner.store.pages import Pages
from tuner.text import clean, faster, log_ratio, moment

#: What is known of a testbed, by key in its event: the user-visible term and the item separator.
_ITEMS = {
    "identity": ("programs", ", "),
    "facts": ("limits of its hosts", ", "),
    "hosts": ("hosts", "; "),
}
#: Outcomes that say something about a certificate; an imported event may have any other text.
_JUDGEMENTS = frozenset(VerifyOutcome) - {VerifyOutcome.CANNOT_BE_JUDGED}
#: Kinds of events with a new answer, which may be about another configuration than was verified.
_ANSWERS = (EventKind.CERTIFIED, EventKind.RECOMMENDATION)
#: Maximum number of host changes to name.
_MOST_NAMED = 3


def fingerprint(testbed: Mapping[str, str]) -> str:
    """Return a short hash of a testbed's description: equal for equal descriptions."""
    text = "\n".join(
        testbed.get(key, "") for key in _ITEMS if key == "identity" or testbed.get(key)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def expired(store: Store, campaign: Campaign) -> str:
    """Return why a campaign's certificate has expired, as a sentence; "" if it has not."""
    answer = campaign.recommendation
    if answer is None or not _certifies(answer):
        return ""
    later = Pages(store).later_on_same_testbed(campaign)
    if later is None:
        return ""
    return _caveats(store, campaign, answer, later, _judgement(store, campaign))[0]


def _caveats(
    store: Store,
    campaign: Campaign,
    answer: Recommendation,
    later: Campaign | None,
    verified: Event | None,
) -> tuple[str, str]:
    """Return why a certificate has expired, or else that a verification of the testbed as it is now
    found less than what was certified; "" for what is not so.

    ``later``: the newest campaign on the same testbed; ``verified``: see ``_judgement``.
    """
    verification = "" if verified is None else str(verified.data.get("campaign"))
    others = ("" if later is None else later.id, verification)
    findings = Pages(store).testbed_findings([campaign.id, *filter(None, others)])
    then = findings.get(campaign.id, {})
    now = then if later is None else findings.get(later.id, {})
    changed = changes(then, now)
    if not changed:
        now = then
    if verified is not None and not _is_of(findings.get(verification, {}), now):
        verified = None
    less = "" if verified is None else _less(verified, answer)
    again = f"certify again with 'fstune branch {campaign.id} FILE'"
    if later is None or not changed:
        return "", f"{less}; {again}" if less else ""
    reason = (
        f"{Recommendation.EXPIRED}campaign {later.id} found this testbed with other "
        f"{'; '.join(changed)} ({moment(later.updated)})"
    )
    if verified is None or verified.data.get("outcome") != VerifyOutcome.HOLDS:
        return (
            f"{reason}; where it is applied, check with 'fstune verify {campaign.id}' whether it "
            f"is still valid; otherwise {again}"
        ), ""
    return f"{reason}; {less}; {again}" if less else "", ""


def _certifies(answer: Recommendation) -> bool:
    return answer.answer is Answer.RECOMMENDED and not answer.verification


def _judgement(store: Store, campaign: Campaign) -> Event | None:
    """Return the event of the newest verification that says something about the certificate; None
    if there is none.
    """
    newest: Event | None = None
    for event in store.events(campaign.id, kinds={EventKind.VERIFIED, *_ANSWERS}):
        if event.kind != EventKind.VERIFIED:
            newest = None
        # Earlier releases did not record whether a verification ran elsewhere.
        elif event.data.get("elsewhere") is False and event.data.get("outcome") in _JUDGEMENTS:
            newest = event
    return newest if newest is not None and _ends(newest) else None


def _is_of(verification: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a verification found the testbed as it is ``now``."""
    return bool(verification.get("identity")) and not changes(verification, now)


def _ends(event: Event) -> tuple[float, ...]:
    """Return the ratio of a verification, and the ends and the confidence of its interval; () if
    the event does not have them.
    """
    values = (event.data.get(key) for key in ("ratio", "lower", "upper", "confidence"))
    numbers = tuple(float(v) for v in values if isinstance(v, int | float) and v > 0.0)
    return numbers if len(numbers) == 4 else ()


def _less(event: Event, answer: Recommendation) -> str:
    """Return what a verification measured, if it is less than the least gain that was certified;
    "" otherwise.
    """
    ratio, lower, upper, confidence = _ends(event)
    if answer.upper is None or lower <= answer.upper:
        return ""
    d, low, high = map(log_ratio, (ratio, lower, upper))
    return (
        f"verified on {event.at:%Y-%m-%d}: {faster(ratio)} "
        f"({interval(d, low, high, confidence)}), less than what was certified, at least "
        f"{faster(answer.upper)}"
    )


def changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the differences as phrases. Whatever older releases did not store counts as equal."""
    phrases = []
    for key, (what, separator) in _ITEMS.items():
        old, new = (clean(each.get(key, "")).split(separator) for each in (then, now))
        if key == "hosts":
            if changed := _changed_values(old, new):
                phrases.append(f"{what}: {changed}")
        elif old != new and "" not in (*old, *new):
            gained = [one for one in new if one not in old] or new
            lost = [one for one in old if one not in new] or old
            phrases.append(f"{what} {separator.join(gained)}, not {separator.join(lost)}")
    return phrases


def _changed_values(old: Iterable[str], new: Iterable[str]) -> str:
    """Return the values that differ among those read both times: a later release may read more."""
    before, after = (dict(one.split(" = ", 1) for one in of if " = " in one) for of in (old, new))
    phrases = [
        f"{what} {after[what]}, not {value}"
        for what, value in before.items()
        if what in after and after[what] != value
    ]
    more = [f"and {len(phrases) - _MOST_NAMED} more"] if len(phrases) > _MOST_NAMED else []
    return ", ".join((*phrases[:_MOST_NAMED], *more))


def with_expiry(store: Store, campaign: Campaign) -> Campaign:
    """Return the campaign, with the expiry of its certificate as the first caveat, or else that a
    verification found less than what was certified.
    """
    answer = campaign.recommendation
    if answer is None or not _certifies(answer):
        return campaign
    later = Pages(store).later_on_same_testbed(campaign)
    verified = _judgement(store, campaign)
    if later is None and verified is None:
        return campaign
    reasons = _caveats(store, campaign, answer, later, verified)
    notes = (*filter(None, reasons), *answer.notes)
    return replace(campaign, recommendation=replace(answer, notes=notes))
