"""Whether a certificate still applies to its testbed, as far as the store knows.

A certificate holds for the programs and hosts that it was measured with. It has expired once a
later campaign found the same testbed with different ones. The check only reads the store; nothing
is measured and no host is contacted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tuner.model import Answer, Campaign, Recommendation
from tuner.states import EventKind, VerifyOutcome
from tuner.store import Store
from tuner.store.pages import Pages
from tuner.text import clean, moment

#: What is known of a testbed, by key in its event: the user-visible term and the item separator.
_ITEMS = {
    "identity": ("programs", ", "),
    "facts": ("limits of its hosts", ", "),
    "hosts": ("hosts", "; "),
}
#: Outcomes that say something about a certificate; an imported event may have any other text.
_JUDGEMENTS = frozenset(VerifyOutcome) - {VerifyOutcome.CANNOT_BE_JUDGED}
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
    if answer is None or answer.answer is not Answer.RECOMMENDED or answer.verification:
        return ""
    pages = Pages(store)
    later = pages.later_on_same_testbed(campaign)
    if later is None:
        return ""
    findings = pages.testbed_findings([campaign.id, later.id])
    changed = changes(findings.get(campaign.id, {}), findings.get(later.id, {}))
    if not changed or _verified(store, campaign, findings.get(later.id, {})):
        return ""
    return (
        f"{Recommendation.EXPIRED}campaign {later.id} found this testbed with other "
        f"{'; '.join(changed)} ({moment(later.updated)}); where it is applied, check with "
        f"'fstune verify {campaign.id}' whether it is still valid; otherwise certify "
        f"again with 'fstune branch {campaign.id} FILE'"
    )


def _verified(store: Store, campaign: Campaign, now: Mapping[str, str]) -> bool:
    """Whether a certificate was verified on its testbed as it is ``now``, and held."""
    events = store.events(campaign.id, kinds={EventKind.VERIFIED})
    # Earlier releases did not record whether a verification ran elsewhere.
    here = [
        event
        for event in events
        if event.data.get("elsewhere") is False and event.data.get("outcome") in _JUDGEMENTS
    ]
    if not here or here[-1].data.get("outcome") != VerifyOutcome.HOLDS:
        return False
    verification = str(here[-1].data.get("campaign"))
    then = Pages(store).testbed_findings([verification]).get(verification, {})
    return bool(then.get("identity")) and not changes(then, now)


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
    """Return the campaign, with the expiry of its certificate as the first caveat."""
    reason, answer = expired(store, campaign), campaign.recommendation
    if not reason or answer is None:
        return campaign
    return replace(campaign, recommendation=replace(answer, notes=(reason, *answer.notes)))
