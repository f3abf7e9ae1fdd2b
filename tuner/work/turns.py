"""Whose turn it is on the testbeds of the queue: the order of arrival decides. Pure.

Procrastinate gives each testbed to one job at a time, in order, but knows only the first testbed of
each job: a campaign on several would be overtaken on the others for as long as new ones arrive.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from tuner.queue_records import QueuedRun


def is_ahead(runs: Sequence[QueuedRun], job: int, served: Collection[str], soon: datetime) -> bool:
    """Whether a job that arrived before this one, and can run, needs one of its testbeds.

    ``runs``: the queue, in order; ``served``: the queues that workers take jobs from. A job that
    is queued for later than ``soon``, that no worker serves, or that Procrastinate keeps behind
    such a one on its first testbed, cannot run: nobody waits for it. A job only ever waits for
    earlier ones, so no two wait for each other.
    """
    testbeds = next((set(run.testbeds) for run in runs if run.id == job), set[str]())
    stuck = set[str]()
    for run in runs:
        if run.id >= job:
            break
        later = run.not_before is not None and run.not_before > soon
        unable = later or run.queue not in served or not stuck.isdisjoint(run.testbeds[:1])
        if unable and not run.taken:
            stuck.update(run.testbeds[:1])
        elif not testbeds.isdisjoint(run.testbeds):
            return True
    return False
