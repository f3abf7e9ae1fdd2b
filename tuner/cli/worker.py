"""The command that takes campaigns from a PostgreSQL queue and runs them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import (
    Database,
    StateDir,
    database_address,
    open_or_make_store,
    state_directory,
)
from tuner.cli.say import say
from tuner.errors import ConflictError, SpecError
from tuner.model import Campaign
from tuner.report.log import LogForm, lines
from tuner.run.steering import in_use
from tuner.services.kind import Workers
from tuner.services.kinds import types_of_testbeds
from tuner.settings import DatabaseSettings
from tuner.states import CampaignState
from tuner.store import Store
from tuner.store.queue import Queue

Queued = Annotated[
    bool,
    typer.Option(
        "--queue",
        help="Do not run it here: put it on the queue, for a 'fstune worker'. Needs PostgreSQL.",
    ),
]

#: How to name the testbeds of a type, by the workers that can reach them.
_NAMES = {
    Workers.ANY: "'{key}'",
    Workers.STATE: "'{key}' (those of this machine's state directory)",
    Workers.HOST: "'{key}' (queued on this machine) or '{key}@HOST' (queued on that one; same "
    "files and keys here)",
}


def _choices() -> str:
    types = types_of_testbeds().items()
    return "; ".join(_NAMES[each.workers].format(key=key) for key, (_, each) in types)


def worker(
    testbeds: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Take campaigns on these testbeds only: {_choices()}. Default: every type, of "
            "this machine.",
            show_default=False,
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=100, help="Campaigns to run at once, each in a process.")
    ] = 1,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Answer Prometheus at ADDRESS:PORT (plain HTTP, no token).", show_default=False
        ),
    ] = None,
    log: Annotated[
        LogForm, typer.Option("--log", help="How the log on standard error is written.")
    ] = LogForm.CONSOLE,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Run campaigns from the queue, on any number of machines that share a PostgreSQL.

    Only one campaign at a time uses a testbed. Ctrl-C pauses the running campaigns and leaves them
    to other workers; those of a killed worker are resumed by another one.
    """
    directory = state_directory(state_dir)
    address = database_address(database)
    with ExitStack() as open_:
        store = open_.enter_context(open_or_make_store(state_dir, database))
        queue = Queue.create(store)
        assert address is not None
        # Imported here because other commands do not need them and the import is slow.
        import asyncio

        from tuner.work.metrics import WorkerMetrics
        from tuner.work.queueing import queues_of
        from tuner.work.worker import Orders, Worker

        limit_s = DatabaseSettings().takeover_after_s
        queues = queues_of(testbeds or tuple(types_of_testbeds()), directory)
        orders = Orders(directory, address, queues, concurrency, limit_s, log)
        numbers = WorkerMetrics(concurrency)
        if metrics is not None:
            open_.callback(numbers.serve(metrics))
        writer = lines(sys.stderr, log)

        def say(level: str, kind: str, **fields: object) -> None:
            getattr(writer, level)(kind, **fields)

        _quieten_library()
        asyncio.run(Worker(store, queue, orders, numbers, say).work())


def to_queue(
    store: Store,
    campaign: Callable[[], Campaign],
    directory: Path,
    server: str | None,
    *,
    override_pilot: bool = False,
) -> None:
    """Put a campaign on the queue and print how to watch it.

    Raises SpecError if a queue is impossible here.
    """
    if server is not None:
        raise SpecError("--queue: not with --server, which has its own ('serve --queue')")
    queue = Queue.create(store)
    from tuner.work.queueing import enqueue

    record = campaign()
    if record.state is CampaignState.RUNNING and in_use(store, record.id):
        raise ConflictError(f"campaign {record.id} is already running")
    name = enqueue(queue, record, directory, override_pilot=override_pilot)
    say(f"campaign {record.id} is on the queue {name}")
    say(f"fstune: see 'fstune status' and 'fstune show {record.id}'", err=True)
    if not any(name in worker.queues for worker in queue.workers()):
        say("fstune: no worker takes campaigns from it yet; see 'fstune worker'", err=True)


def _quieten_library() -> None:
    """Limit Procrastinate's logging to its own problems: we log the outcome of jobs ourselves."""
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    logging.getLogger("procrastinate.worker").setLevel(logging.CRITICAL)
    logging.getLogger("procrastinate.worker.worker").setLevel(logging.WARNING)
