"""Check that a resumed campaign measures with the same things as before."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.errors import ConflictError
from tuner.measure.workload import Workload
from tuner.model import Aspect, BlockTimes
from tuner.plan.rules import Rules
from tuner.run.identity import differences
from tuner.states import CampaignState, EventKind
from tuner.store import Store


def refuse_verification(store: Store, campaign: str) -> None:
    """Raise ConflictError for a verification: if resumed, it would search and certify."""
    if store.events(campaign, kinds={EventKind.VERIFICATION}):
        raise ConflictError(
            f"campaign {campaign} is a verification, which cannot be resumed: run 'fstune verify' "
            "again"
        )


def blocks_so_far(
    store: Store, campaign: str, rules: Rules, workload: Workload
) -> list[BlockTimes]:
    """Return the stored blocks. Raises ConflictError if the workload has other components now."""
    try:
        return store.block_times(campaign, rules.components)
    except KeyError as problem:
        raise ConflictError(
            f"workload {workload.spec.name} no longer has the components measured so far; put "
            "it back or start a new campaign"
        ) from problem


def check_identity(
    store: Store, campaign: str, now: Mapping[str, Aspect], *, has_measurements: bool
) -> None:
    """Check that the aspects are those the campaign was measured with, and store new ones.

    ``has_measurements``: there are measurements. Raises ConflictError, naming the differences.
    """
    if not has_measurements:
        store.set_measured_with(campaign, now)
        return
    earlier = store.measured_with(campaign)
    if changed := differences(earlier, now):
        raise ConflictError(
            f"changed since campaign {campaign} was measured: {'; '.join(changed)}; put it back, "
            f"or start a new campaign from it with 'fstune branch {campaign} FILE'"
        )
    new = {name: aspect for name, aspect in now.items() if name not in earlier}
    store.set_measured_with(campaign, new)


def putting_back(campaign: str, state: CampaignState) -> str:
    """Return what to do about a testbed that a campaign, ended in ``state``, could not put back."""
    if state in (CampaignState.PAUSED, CampaignState.FAILED):
        return f"to put back the rest, or to continue: fstune resume {campaign}"
    return (
        "the next campaign there puts back the rest; so do 'fstune testbed restore FILE' for "
        "hosts and 'fstune cell down' for a private cell"
    )
