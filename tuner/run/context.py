"""The context in which the arms of a block are measured: testbed, ledger, and where to report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tuner.plan.rules import Rules
from tuner.records.standing import Observer
from tuner.run.event_writer import EventWriter
from tuner.run.failures import Failures
from tuner.run.ledger import Ledger
from tuner.services.testbed import ReadyTestbed
from tuner.store import Store
from tuner.time_use import TimeUse


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """A campaign on an open testbed.

    ``testbed``: its name. ``writing_use``: yields the time use to be stored. ``check_stop``: called
    before a workload run and after a failed one; ``safe_point``: called between two arms; whatever
    they raise ends the block. A patient stop lets a workload run finish.
    """

    store: Store
    campaign: str
    rules: Rules
    testbed: str | None
    ready: ReadyTestbed
    ledger: Ledger
    observer: Observer
    writer: EventWriter
    failures: Failures
    writing_use: Callable[[], AbstractContextManager[TimeUse]]
    check_stop: Callable[[], None]
    safe_point: Callable[[], None]
