"""Waiting for whoever has only to let go of a testbed.

What was applied, rolled back or verified is stored a moment before the process that did it has
closed the testbed; whoever comes then would be refused by chance.
"""

from __future__ import annotations

import time

from tuner.campaign.holding import is_gone
from tuner.errors import NotFoundError
from tuner.interruption import check
from tuner.states import CampaignState
from tuner.store import Store
from tuner.store.applications import Applications

#: Clients that are checked once more, and hosts that are left, take some seconds.
_LONGEST_S = 30.0
_PAUSE_S = 0.2
_AT_WORK = (CampaignState.CREATED, CampaignState.RUNNING)

#: Waits for a number of seconds.
pause = time.sleep


def wait_until_free(store: Store, campaign: str, testbed: str) -> None:
    """Wait while a process holds a testbed, or one for this campaign, and nothing is under way
    there that takes longer; half a minute at most. KeyboardInterrupt on a stop signal.
    """
    for _ in range(int(_LONGEST_S / _PAUSE_S)):
        if not _lets_go(store, campaign, testbed):
            return
        check()
        pause(_PAUSE_S)


def _lets_go(store: Store, campaign: str, testbed: str) -> bool:
    """Whether somebody holds it, and what that is for is over, or only a look at it."""
    holding = [
        lease
        for lease in store.leases()
        if (lease.testbed == testbed or lease.campaign == campaign)
        and lease.beat_age_s <= lease.limit_s
        and not is_gone(lease.holder)
    ]
    if Applications(store).unfinished([lease.testbed for lease in holding]):
        return False
    try:
        states = [store.campaign(lease.campaign).state for lease in holding]
    except NotFoundError:
        return False
    return bool(states) and all(state not in _AT_WORK for state in states)
