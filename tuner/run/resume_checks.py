"""Whether a campaign may be resumed: it must measure with the same things as before.

The runner (``runner.py``) resumes it: it voids the block that was cut off and plans from the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.errors import ConflictError, OtherComponentsError
from tuner.measure.workload import Workload
from tuner.model import Aspect, BlockTimes
from tuner.plan.rules import Rules
from tuner.results.expiry import changes
from tuner.run.identity import differences
from tuner.run.lanes import BY_HAND
from tuner.services.kinds import ways_to_restore
from tuner.states import CampaignState, EventKind
from tuner.store import Store


class ChangedError(ConflictError):
    """A campaign is not resumed, because something that it was measured with has changed."""


def blocks_so_far(
    store: Store, campaign: str, rules: Rules, workload: Workload
) -> list[BlockTimes]:
    """Return the stored blocks. Raises ChangedError if the workload has other components now."""
    try:
        return store.block_times(campaign, rules.components)
    except OtherComponentsError as problem:
        raise ChangedError(
            f"workload {workload.spec.name} no longer has the components measured so far; "
            "undo that, or start a new campaign"
        ) from problem


def check_identity(
    store: Store, campaign: str, now: Mapping[str, Aspect], *, has_measurements: bool
) -> None:
    """Check that the aspects are those the campaign was measured with, and store new ones.

    ``has_measurements``: there are measurements. Raises ChangedError, naming the differences.
    """
    if not has_measurements:
        store.set_measured_with(campaign, now)
        return
    earlier = store.measured_with(campaign)
    if changed := differences(earlier, now):
        raise _refusal(campaign, changed)
    new = {name: aspect for name, aspect in now.items() if name not in earlier}
    store.set_measured_with(campaign, new)


def _refusal(campaign: str, changed: Sequence[str]) -> ChangedError:
    return ChangedError(
        f"changed since campaign {campaign} was measured: {'; '.join(changed)}; undo that, "
        f"or start a new campaign from it with 'fstune branch {campaign} FILE'"
    )


def earlier_findings(store: Store, campaign: str) -> dict[str, dict[str, str]]:
    """Return what the newest run found on each testbed, by its name in events; "" for an only one.

    Only runs that were allowed to measure there count: all others have stored nothing.
    """
    return {
        str(event.data.get("testbed", "")): {
            key: str(value) for key, value in event.data.items() if key != "testbed"
        }
        for event in store.events(campaign, kinds=[EventKind.TESTBED_READY])
    }


def check_testbed(campaign: str, then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Check that a testbed is as it was when it was measured, by the rules for certificates.

    Otherwise the certificate would mix what it was before and after. Raises ChangedError, naming
    the differences.
    """
    if changed := changes(then, now):
        raise _refusal(campaign, changed)


def putting_back(campaign: str, state: CampaignState, *, by_hand: bool) -> str:
    """Return what to do about a testbed that a campaign, ended in ``state``, could not restore.

    ``by_hand``: whether it has a testbed file.
    """
    if state in (CampaignState.PAUSED, CampaignState.FAILED):
        only = f"; {BY_HAND}" if by_hand else ""
        return f"to restore the rest, or to continue: fstune resume {campaign}{only}"
    return f"the next campaign there restores the rest; so do {ways_to_restore()}"
