"""Waiting for a process that is only about to release a testbed.

The result of applying, rolling back or verifying is stored shortly before its process has closed
the testbed; without waiting, a process that comes in between would be refused.
"""

from __future__ import annotations

import time

from tuner.errors import NotFoundError
from tuner.holders import is_gone
from tuner.interruption import check
from tuner.states import CampaignState
from tuner.store import Store
from tuner.store.applications import Applications

#: A final check of the clients and closing the hosts take some seconds.
_LONGEST_S = 30.0
_PAUSE_S = 0.2
_AT_WORK = (CampaignState.CREATED, CampaignState.RUNNING)

#: Sleeps for a number of seconds; tests replace it.
pause = time.sleep


def wait_until_free(store: Store, campaign: str, testbed: str) -> None:
    """Wait while this testbed, or any testbed for this campaign, is leased by a process that is
    about to release it; half a minute at most. Raises KeyboardInterrupt on a stop signal.
    """
    for _ in range(int(_LONGEST_S / _PAUSE_S)):
        if not _lets_go(store, campaign, testbed):
            return
        check()
        pause(_PAUSE_S)


def _lets_go(store: Store, campaign: str, testbed: str) -> bool:
    """Whether somebody holds a lease, but has no application or campaign in progress there."""
    holding = [
        lease
        for lease in store.leases()
        if (lease.testbed == testbed or lease.campaign == campaign) and lease.is_live(is_gone)
    ]
    if Applications(store).unfinished([lease.testbed for lease in holding]):
        return False
    try:
        states = [store.campaign(lease.campaign).state for lease in holding]
    except NotFoundError:
        return False
    return bool(states) and all(state not in _AT_WORK for state in states)
