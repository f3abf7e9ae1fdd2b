"""Whether a certificate still speaks for its testbed, as far as the store knows.

A certificate holds for the programs and hosts that it was measured with. When a later campaign
found the same testbed with others, it has expired; nothing is measured or asked to find that out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from tuner.model import Answer, Campaign
from tuner.store import Store
from tuner.store.pages import Pages
from tuner.text import clean, moment

#: What was found of a testbed, by the words for it in its event.
_FOUND = {"identity": "programs", "facts": "limits of its hosts"}


def fingerprint(found: Mapping[str, str]) -> str:
    """A short word for what was found of a testbed: equal where that was equal."""
    text = "\n".join(found.get(key, "") for key in _FOUND if key == "identity" or found.get(key))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def expired(store: Store, campaign: Campaign) -> str:
    """Why a campaign's certificate has expired, a sentence; "" where it has not."""
    answer = campaign.recommendation
    if answer is None or answer.answer is not Answer.RECOMMENDED:
        return ""
    pages = Pages(store)
    later = pages.later_on_same_testbed(campaign)
    if later is None:
        return ""
    found = pages.found_on_testbed([campaign.id, later.id])
    then, now = found.get(campaign.id, {}), found.get(later.id, {})
    # What older releases did not store is not known to differ.
    changed = [
        f"{what} {clean(now[key])}, not {clean(then[key])}"
        for key, what in _FOUND.items()
        if then.get(key) and now.get(key) and then[key] != now[key]
    ]
    if not changed:
        return ""
    return (
        f"expired: campaign {later.id} found this testbed with other {'; '.join(changed)} "
        f"({moment(later.updated)}); where it is applied, see with "
        f"'fstune verify {campaign.id}' whether it still holds, else certify "
        f"anew with 'fstune branch {campaign.id} FILE'"
    )


def with_expiry(store: Store, campaign: Campaign) -> Campaign:
    """The campaign with that its certificate has expired first among what must be read with it."""
    said, answer = expired(store, campaign), campaign.recommendation
    if not said or answer is None:
        return campaign
    return replace(campaign, recommendation=replace(answer, notes=(said, *answer.notes)))
