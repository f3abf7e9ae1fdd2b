"""States of campaigns, trials, blocks and applications, their transitions, and kinds of events.

No other module defines a transition. The outcomes of verifications are here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from tuner.errors import ConflictError


class CampaignState(StrEnum):
    """State of a campaign. ``paused`` and ``failed`` campaigns can be resumed."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TrialState(StrEnum):
    """State of a trial. ``complete``: ended without being pruned; its verdict tells how good it
    is.
    """

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"
    CANCELLED = "cancelled"


#: What is shown for a trial that is stored as running.
ACTIVE = "active"
#: States of trials that ended by what was measured.
VERDICT_STATES = (TrialState.COMPLETE, TrialState.PRUNED)


class BlockState(StrEnum):
    """State of a block. A ``void`` block is kept for the record, but not used in any test."""

    RUNNING = "running"
    COMPLETE = "complete"
    VOID = "void"


class ApplicationState(StrEnum):
    """State of an application of a configuration.

    ``committing``: the new configuration is to stay, and the hosts are being informed of that.
    ``failed``: it did not come into force; the previous configuration is in force.
    """

    PLANNED = "planned"
    APPLYING = "applying"
    COMMITTING = "committing"
    APPLIED = "applied"
    ROLLING_BACK = "rolling_back"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"


class VerifyOutcome(StrEnum):
    """Whether a certificate is still valid."""

    HOLDS = "holds"
    NO_LONGER_HOLDS = "no longer holds"
    NOT_SETTLED = "is not settled"
    CANNOT_BE_JUDGED = "cannot be judged"


State = TypeVar("State", CampaignState, TrialState, BlockState, ApplicationState)

_C, _T, _B, _A = CampaignState, TrialState, BlockState, ApplicationState

# Separate for each enum: ``running`` of a campaign equals ``running`` of a trial, as strings do.
_MOVES: Mapping[type[StrEnum], Mapping[StrEnum, frozenset[StrEnum]]] = {
    _C: {
        _C.CREATED: frozenset({_C.RUNNING, _C.FAILED, _C.CANCELLED}),
        # A campaign found in this state was killed: it is resumed as running.
        _C.RUNNING: frozenset({_C.RUNNING, _C.PAUSED, _C.FINISHED, _C.FAILED, _C.CANCELLED}),
        _C.PAUSED: frozenset({_C.RUNNING, _C.CANCELLED}),
        _C.FAILED: frozenset({_C.RUNNING, _C.CANCELLED}),
        _C.FINISHED: frozenset(),
        _C.CANCELLED: frozenset(),
    },
    _T: {
        _T.QUEUED: frozenset({_T.RUNNING, _T.CANCELLED}),
        _T.RUNNING: frozenset({_T.COMPLETE, _T.PRUNED, _T.FAILED, _T.CANCELLED}),
        # A finalist whose search is over, which may have dropped it, may still fail during
        # certification.
        _T.COMPLETE: frozenset({_T.FAILED}),
        _T.PRUNED: frozenset({_T.FAILED}),
        _T.FAILED: frozenset(),
        _T.CANCELLED: frozenset(),
    },
    _B: {
        _B.RUNNING: frozenset({_B.COMPLETE, _B.VOID}),
        _B.COMPLETE: frozenset(),
        _B.VOID: frozenset(),
    },
    _A: {
        _A.PLANNED: frozenset({_A.APPLYING, _A.FAILED}),
        _A.APPLYING: frozenset({_A.COMMITTING, _A.FAILED}),
        _A.COMMITTING: frozenset({_A.APPLIED, _A.FAILED}),
        _A.APPLIED: frozenset({_A.ROLLING_BACK}),
        # A rollback that was cut off, or could not reach a host, is started again.
        _A.ROLLING_BACK: frozenset({_A.ROLLING_BACK, _A.ROLLED_BACK}),
        _A.ROLLED_BACK: frozenset(),
        _A.FAILED: frozenset(),
    },
}

#: Applications in progress.
UNFINISHED = frozenset({_A.APPLYING, _A.COMMITTING, _A.ROLLING_BACK})
#: Applications that may be in force: only their records have the configuration from before.
IN_FORCE = UNFINISHED | {_A.APPLIED}

#: Final states of campaigns.
OVER = frozenset(state for state in CampaignState if not _MOVES[CampaignState][state])


def not_resumable(campaign: str, state: CampaignState) -> str:
    """Return what to say to someone who resumes a campaign in a final state."""
    if state == CampaignState.CANCELLED:
        return (
            f"campaign {campaign} is cancelled and cannot be resumed; to start a new one that is "
            f"guided by its results: fstune branch {campaign} FILE"
        )
    return f"campaign {campaign} is {state}; see 'fstune show {campaign}'"


def move(what: str, old: State, new: State) -> State:
    """Return ``new`` when the transition is valid; otherwise raise ConflictError, which names
    ``what``.
    """
    if new not in _MOVES[type(old)][old]:
        raise ConflictError(f"{what} is {old}; it cannot become {new}")
    return new


def state_now(trial: TrialState, campaign: CampaignState) -> str:
    """Return what to show as the state of a trial.

    Many trials are stored as running, although few are measured at a time: they are active. While
    the campaign is paused or has failed, none is measured.
    """
    if trial is not TrialState.RUNNING:
        return str(trial)
    stopped = campaign in (CampaignState.PAUSED, CampaignState.FAILED)
    return str(CampaignState.PAUSED) if stopped else ACTIVE


#: The particulars of an event, stored as JSON.
EventData = Mapping[str, str | int | float | bool | None]


class EventKind(StrEnum):
    """The kinds of events that other code looks for. All other kinds are only displayed."""

    WORKER_TOOK = "worker-took"
    RUN_DIED = "run-died"
    WORKER_LOST = "worker-lost"
    BLOCK_STARTED = "block-started"
    BLOCK_COMPLETE = "block-complete"
    BLOCK_VOID = "block-void"
    MEASURED = "measured"
    MEASURED_AGAIN = "measured-again"
    #: A workload run of a trial failed. Its repetition, if it fails too, has an event of its own.
    RUN_FAILED = "run-failed"
    REFERENCE_MEASURED = "reference-measured"
    REFERENCE_FAILED = "reference-failed"
    #: A remark about the counters of a run.
    DIAGNOSTICS = "diagnostics"
    #: A trial whose run failed twice is left out of a block.
    LEFT_OUT = "left-out"
    PILOT = "pilot"
    PILOT_WARNING = "pilot-warning"
    #: The floor chosen from the pilot's results.
    FLOOR_CHOSEN = "floor-chosen"
    PAUSED = "campaign-paused"
    #: A process waits until it may continue the campaign.
    WAITS = "campaign-waits"
    STARTED = "campaign-started"
    QUEUED = "campaign-queued"
    FAILED = "campaign-failed"
    #: What was requested, a run or an application, did not start.
    START_FAILED = "start-failed"
    #: What a run found on its testbed, before it measured there.
    TESTBED_READY = "testbed-ready"
    TESTBED_LOST = "testbed-lost"
    TESTBED_CLOSED = "testbed-closed"
    RESTORED = "restored"
    RESTORE_FAILED = "restore-failed"
    PAUSE_REQUESTED = "pause-requested"
    CANCEL_REQUESTED = "cancel-requested"
    RESUME_REQUESTED = "resume-requested"
    APPLY_REQUESTED = "apply-requested"
    ROLLBACK_REQUESTED = "rollback-requested"
    TRIAL_ADDED = "trial-added"
    TRIAL_PROMOTED = "trial-promoted"
    TRIAL_PRUNED = "trial-pruned"
    TRIAL_COMPLETE = "trial-complete"
    TRIAL_FAILED = "trial-failed"
    #: An answer that can be used while the search continues, and the final answer.
    CERTIFIED = "certified"
    RECOMMENDATION = "recommendation"
    #: The certificate of the answer so far no longer stands.
    WITHDRAWN = "withdrawn"
    #: Files that could not be removed, and that earlier such events no longer hold.
    LEFTOVERS = "leftovers"
    LEFTOVERS_REMOVED = "leftovers-removed"
    #: Doubts about the measurements, each written once.
    GUARD = "guard"
    SHARED_MACHINE = "shared-machine"
    TESTBED_EFFECT = "testbed-effect"
    #: Marks a campaign as a verification, from its beginning.
    VERIFICATION = "verification"
    #: Events of the campaign that is verified: a request over HTTP, and its outcome.
    VERIFY_REQUESTED = "verify-requested"
    VERIFIED = "verified"
    VERIFY_FAILED = "verify-failed"


#: Events after which a process that waits to continue a campaign no longer does so: another one, or
#: nobody, continues it.
ENDS_WAITING = (
    EventKind.WAITS,
    EventKind.STARTED,
    EventKind.QUEUED,
    EventKind.PAUSE_REQUESTED,
)
