"""Putting campaigns on the queue: which workers may take them, and which testbeds they use."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tuner.compose import prepare
from tuner.errors import SpecError
from tuner.model import Campaign
from tuner.services.kind import Workers
from tuner.services.kinds import types_of_testbeds
from tuner.spec.campaign import CampaignSpec
from tuner.states import EventKind
from tuner.store import NewEvent
from tuner.store.queue import Queue

#: The maximum length of the name of a queue.
_LONGEST = 128


def queue_name(key: str, state_directory: Path) -> str:
    """Return the queue for campaigns on testbeds with this key, from this host and state directory:
    testbeds that any worker can use share one queue; ``KEY@HOST`` is the queue of another host.
    SpecError.
    """
    host = socket.gethostname()
    kind, at, elsewhere = key.partition("@")
    workers = types_of_testbeds()[kind][1].workers if kind in types_of_testbeds() else None
    if at and elsewhere and workers is Workers.HOST:
        return _short(key)
    if at or workers is None:
        types = types_of_testbeds()
        also = [f"{each}@HOST" for each, (_, one) in types.items() if one.workers is Workers.HOST]
        raise SpecError(f"--testbeds {key}: must be {', '.join(types)} or {' or '.join(also)}")
    match workers:
        case Workers.ANY:
            return kind
        case Workers.HOST:
            return _short(f"{kind}@{host}")
        case Workers.STATE:
            return _short(f"{kind}@{host}:{state_directory.absolute()}")


def enqueue(
    queue: Queue, campaign: Campaign, state_directory: Path, *, override_pilot: bool = False
) -> str:
    """Put a stored campaign on the queue; return the name of the queue. ConflictError when it is
    queued already.

    What the campaign refers to is looked up first, so that mistakes are reported here: SpecError,
    TestbedError.
    """
    # Imported here: it is slow to import, and most commands do not need it.
    from tuner.work.jobs import deferring

    spec = CampaignSpec.from_json(campaign.spec)
    prepared = prepare(spec, state_directory)
    name = queue_name(spec.sections[0].key, state_directory)
    message = f"on the queue {name}, for a worker"
    event = NewEvent(datetime.now(UTC), EventKind.QUEUED, message, {"queue": name})
    testbeds = sorted(one.name for one in prepared.identities if one.name)
    defer = deferring(campaign.id, name, testbeds, override_pilot=override_pilot)
    queue.put(campaign.id, defer, event)
    return name


def queues_of(kinds: Sequence[str], state_directory: Path) -> tuple[str, ...]:
    """Return the queues that a worker takes campaigns from, without duplicates. SpecError."""
    names = [
        queue_name(kind.strip(), state_directory) for each in kinds for kind in each.split(",")
    ]
    return tuple(dict.fromkeys(names))


def _short(name: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
