"""Records with every field set, and matching events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone

from tuner.model import (
    BASELINE,
    Answer,
    Block,
    BlockKind,
    ComponentEffect,
    ComponentResult,
    Configuration,
    Measurement,
    PageCache,
    Recommendation,
    ReferenceRun,
    SettingEffect,
    Trial,
)
from tuner.states import BlockState, TrialState
from tuner.store import NewEvent, Store

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
ELSEWHERE = timezone(timedelta(hours=-5, minutes=-30))

BASELINE_CONFIGURATION = Configuration.of({"fileserver.threads": 128, "fileserver.nojumbo": False})
CANDIDATE = Configuration.of({"fileserver.threads": 256, "cachemanager.size": "large"})
#: Diagnostics of a run on one machine: others used half a processor, and .02 were stolen.
DISTURBED: Mapping[str, float | str] = {
    "client1.cpu_s": 1.0,
    "client1.machine": "host",
    "engine_cpu_s": 2.0,
    "host.busy_s": 10.0,
    "host.elapsed_s": 10.0,
    "host.iowait_s": 0.0,
    "host.irq_s": 0.25,
    "host.softirq_s": 0.75,
    "host.steal_s": 0.2,
    "server.cpu_s": 1.0,
}


def event(kind: str = "test", at: datetime = NOON) -> NewEvent:
    return NewEvent(at, kind, f"a {kind} happened", {"share": 0.1, "number": 3, "none": None})


def trial(number: int, state: TrialState = TrialState.RUNNING) -> Trial:
    return Trial(
        number=number,
        configuration=CANDIDATE if number else BASELINE_CONFIGURATION,
        round=1 if number else 0,
        origin="sampler",
        state=state,
        flags={"fileserver": ("-p", str(number)), "cachemanager": ()},
        reason="proposed",
    )


def block(number: int, *order: int) -> Block:
    return Block(
        number=number,
        kind=BlockKind.SEARCH,
        round=1,
        order=order or (1, BASELINE),
        state=BlockState.RUNNING,
        reason="planned",
    )


def measurement(of: int, position: int = 0) -> Measurement:
    return Measurement(
        trial=of,
        position=position,
        started=datetime(2026, 3, 1, 6, 30, 0, 1, tzinfo=ELSEWHERE),
        requested=CANDIDATE,
        effective=BASELINE_CONFIGURATION,
        actions=("fileserver: restart", "cachemanager: remount"),
        apply_s=0.1 + 0.2,
        workload_s=61.5,
        components={
            "copy": ComponentResult(1 / 3, 12_000, 2**40, 1e-4, 2e-4, 3e-4, 0.5),
            "build": ComponentResult(5e-324, 0, 0),
        },
        diagnostics={"calls": 3.0, "calls_waited": 0.7},
        engine_sha256="ab" * 32,
        seed=2**64 - 1,
    )


def reference() -> ReferenceRun:
    return ReferenceRun(
        name="local-disk",
        position=1,
        started=NOON,
        workload_s=30.5,
        components={"copy": ComponentResult(0.25, 12_000, 2**40, 1e-4, 2e-4, 3e-4, 0.5)},
        page_cache=PageCache.DROPPED,
        engine_sha256="cd" * 32,
        seed=7,
    )


def recommendation() -> Recommendation:
    return Recommendation(
        answer=Answer.RECOMMENDED,
        reason="certified",
        trial=1,
        configuration=CANDIDATE,
        baseline=BASELINE_CONFIGURATION,
        flags={"fileserver": ("-p", "256")},
        baseline_flags={"fileserver": ("-p", "128")},
        confidence=0.95,
        blocks=24,
        ratio=0.9,
        lower=0.85,
        upper=0.95,
        largest_compatible_improvement=0.15,
        e_value=float("inf"),
        threshold=20.0,
        components={
            "copy": ComponentEffect(0.9, 0.8, 1.0, True),
            "build": ComponentEffect(1.1, 1.0, 1.2, False),
        },
        settings={"fileserver.threads": SettingEffect(0.9, 0.85, 0.96)},
    )


def new_campaign(store: Store, trials: int = 2) -> str:
    """Store a campaign with a baseline trial and ``trials - 1`` others, all running; return its
    identifier.
    """
    campaign = store.create_campaign("small", "{}", 7, NOON).id
    for number in range(trials):
        store.add_trials(campaign, [(trial(number), event())])
    return campaign
