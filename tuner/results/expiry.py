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
_ANSWERS = ("certified", "recommendation")
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
    pages = Pages(store)
    later = pages.later_on_same_testbed(campaign)
    if later is None:
        return ""
    findings = pages.testbed_findings([campaign.id, later.id])
    now = findings.get(later.id, {})
    changed = changes(findings.get(campaign.id, {}), now)
    if not changed:
        return ""
    reason = (
        f"{Recommendation.EXPIRED}campaign {later.id} found this testbed with other "
        f"{'; '.join(changed)} ({moment(later.updated)})"
    )
    again = _again(campaign)
    event = _verified(store, campaign, now)
    if event is None or event.data.get("outcome") != VerifyOutcome.HOLDS:
        return (
            f"{reason}; where it is applied, check with 'fstune verify {campaign.id}' whether it "
            f"is still valid; otherwise {again}"
        )
    less = _less(event, answer)
    return f"{reason}; {less}; {again}" if less else ""


def _certifies(answer: Recommendation) -> bool:
    return answer.answer is Answer.RECOMMENDED and not answer.verification


def _again(campaign: Campaign) -> str:
    return f"certify again with 'fstune branch {campaign.id} FILE'"


def _verified(store: Store, campaign: Campaign, now: Mapping[str, str]) -> Event | None:
    """Return the event of the newest verification that says something about the certificate, if it
    was made on the testbed as it is ``now``; None otherwise.
    """
    newest: Event | None = None
    for event in store.events(campaign.id, kinds={EventKind.VERIFIED, *_ANSWERS}):
        if event.kind != EventKind.VERIFIED:
            newest = None
        # Earlier releases did not record whether a verification ran elsewhere.
        elif event.data.get("elsewhere") is False and event.data.get("outcome") in _JUDGEMENTS:
            newest = event
    if newest is None or not _ends(newest):
        return None
    verification = str(newest.data.get("campaign"))
    then = Pages(store).testbed_findings([verification]).get(verification, {})
    return newest if then.get("identity") and not changes(then, now) else None


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
    reason = expired(store, campaign)
    if not reason:
        now = Pages(store).testbed_findings([campaign.id]).get(campaign.id, {})
        event = _verified(store, campaign, now)
        less = "" if event is None else _less(event, answer)
        if not less:
            return campaign
        reason = f"{less}; {_again(campaign)}"
    return replace(campaign, recommendation=replace(answer, notes=(reason, *answer.notes)))
