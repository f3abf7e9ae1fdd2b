"""Whether a certificate still applies to its testbed, as far as the store knows.

A certificate holds for the programs and hosts that it was measured with. It has expired once a
later campaign found the same testbed with different ones, and is valid again once a verification
there found that it holds, with no less than what was certified. A verification that found less is
a caveat also where nothing has expired. The check only reads the store; nothing is measured and no
host is contacted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
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
#: Number of campaigns that a query is about: databases limit its parameters.
_AT_ONCE = 1000


def fingerprint(testbed: Mapping[str, str]) -> str:
    """Return a short hash of a testbed's description: equal for equal descriptions."""
    text = "\n".join(
        testbed.get(key, "") for key in _ITEMS if key == "identity" or testbed.get(key)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def expired(store: Store, campaign: Campaign) -> str:
    """Return why a campaign's certificate has expired, as a sentence; "" if it has not."""
    return expiries(store, [campaign]).get(campaign.id, "")


def caveat(store: Store, campaign: Campaign) -> str:
    """Return why a campaign's certificate has expired, or else that a verification found less than
    what was certified; "" for neither.
    """
    return "".join(_caveats(store, [campaign]).get(campaign.id, ()))


def expiries(store: Store, campaigns: Sequence[Campaign]) -> dict[str, str]:
    """Return the same for many campaigns, by identifier; those without a certificate are missing.
    A thousand campaigns take as many queries as one.
    """
    return {campaign: reasons[0] for campaign, reasons in _caveats(store, campaigns).items()}


def _caveats(store: Store, campaigns: Sequence[Campaign]) -> dict[str, tuple[str, str]]:
    """Return the caveats of each certificate, by campaign; see ``_caveats_of``."""
    caveats: dict[str, tuple[str, str]] = {}
    certified = [c for c in campaigns if c.recommendation and _certifies(c.recommendation)]
    for start in range(0, len(certified), _AT_ONCE):
        caveats |= _caveats_at_once(Pages(store), certified[start : start + _AT_ONCE])
    return caveats


def _caveats_at_once(pages: Pages, certified: Sequence[Campaign]) -> dict[str, tuple[str, str]]:
    later, verified = pages.later_on_same_testbed(certified), _judgements(pages, certified)
    others = {campaign.id for campaign in later.values()} | set(
        map(_campaign_of, verified.values())
    )
    findings = {}
    if others:
        findings = pages.testbed_findings([*{*later, *verified, *others}])
    caveats = {}
    for campaign in certified:
        if campaign.recommendation is not None:
            of = later.get(campaign.id), verified.get(campaign.id)
            caveats[campaign.id] = _caveats_of(campaign, campaign.recommendation, *of, findings)
    return caveats


def _caveats_of(
    campaign: Campaign,
    answer: Recommendation,
    later: Campaign | None,
    verified: Event | None,
    findings: Mapping[str, Mapping[str, str]],
) -> tuple[str, str]:
    """Return why a certificate has expired, or else that a verification of the testbed as it is now
    found less than what was certified; "" for what is not so.

    ``later``: the newest campaign on the same testbed; ``verified``: see ``_judgements``;
    ``findings``: what they and the campaign found on their testbeds.
    """
    then = findings.get(campaign.id, {})
    now = then if later is None else findings.get(later.id, {})
    changed = changes(then, now)
    if not changed:
        now = then
    if verified is not None and not _is_of(findings.get(_campaign_of(verified), {}), now):
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


def _judgements(pages: Pages, campaigns: Iterable[Campaign]) -> dict[str, Event]:
    """Return, by campaign, the event of the newest verification that says something about its
    certificate, if there is one.
    """
    kinds = {EventKind.VERIFIED, *_ANSWERS}
    newest: dict[str, Event] = {}
    for campaign, events in pages.events_of([c.id for c in campaigns], kinds).items():
        for event in events:
            if event.kind != EventKind.VERIFIED:
                newest.pop(campaign, None)
            # Earlier releases did not record whether a verification ran elsewhere.
            elif event.data.get("elsewhere") is False and event.data.get("outcome") in _JUDGEMENTS:
                newest[campaign] = event
    return {campaign: event for campaign, event in newest.items() if _ends(event)}


def _campaign_of(verified: Event) -> str:
    """Return the campaign that verified: a verification is one, too."""
    return str(verified.data.get("campaign"))


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
    return with_expiries(store, [campaign])[0]


def with_expiries(store: Store, campaigns: Sequence[Campaign]) -> list[Campaign]:
    """Return the same for many campaigns, of which a thousand take as many queries as one."""
    caveats = _caveats(store, campaigns)
    return [_with_notes(each, caveats.get(each.id, ())) for each in campaigns]


def _with_notes(campaign: Campaign, notes: Iterable[str]) -> Campaign:
    answer, new = campaign.recommendation, tuple(filter(None, notes))
    if answer is None or not new:
        return campaign
    return replace(campaign, recommendation=replace(answer, notes=(*new, *answer.notes)))
