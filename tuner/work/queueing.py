"""Putting campaigns on the queue: which workers may take one, and what it shares with others."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tuner.campaign.spec import CampaignSpec
from tuner.compose import prepare
from tuner.errors import SpecError
from tuner.model import Campaign
from tuner.store import NewEvent
from tuner.store.queue import Queue

#: The longest name of a queue.
_LONGEST = 128
KINDS = ("simulated", "hosts", "cell")


def queue_named(kind: str, state_directory: Path) -> str:
    """The queue of the campaigns on a kind of testbed, as this host and state directory have it.

    ``simulated``: every worker has those. ``hosts``: the file, and the keys that it names, are this
    host's; ``hosts@HOST`` is another one's. ``cell``: it is in this state directory. SpecError.
    """
    host = socket.gethostname()
    match kind:
        case "simulated":
            return kind
        case "hosts":
            return f"hosts@{host}"
        case "cell":
            return _short(f"cell@{host}:{state_directory.absolute()}")
    if kind.startswith("hosts@"):
        return _short(kind)
    raise SpecError(f"--testbeds {kind}: it is {', '.join(KINDS)} or hosts@HOST")


def enqueue(
    queue: Queue, campaign: Campaign, state_directory: Path, *, override_pilot: bool = False
) -> str:
    """Put a stored campaign on the queue; returns its name. ConflictError when it is there already.

    What it names is looked up first, so that mistakes are told here. SpecError, TestbedError.
    """
    # Taken in here: most commands have no use for it, and it takes time.
    from tuner.work.jobs import deferring

    spec = CampaignSpec.from_json(campaign.spec)
    prepared = prepare(spec, state_directory)
    name = queue_named(spec.places[0].kind, state_directory)
    said = f"on the queue {name}, for a worker"
    event = NewEvent(datetime.now(UTC), "campaign-queued", said, {"queue": name})
    testbeds = sorted(place.name for place in prepared.places if place.name)
    defer = deferring(campaign.id, name, testbeds, override_pilot=override_pilot)
    queue.put(campaign.id, defer, event)
    return name


def queues_of(kinds: Sequence[str], state_directory: Path) -> tuple[str, ...]:
    """The queues that a worker takes campaigns from, each once. SpecError."""
    named = [
        queue_named(kind.strip(), state_directory) for each in kinds for kind in each.split(",")
    ]
    return tuple(dict.fromkeys(named))


def _short(name: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
