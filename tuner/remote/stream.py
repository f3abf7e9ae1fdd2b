"""The live event stream of a campaign, without gaps across lost connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tuner.errors import ServerError
from tuner.model import Event
from tuner.records.status import Absence
from tuner.remote.client import PASSING, PATIENCE_S, Client, campaign_path
from tuner.remote.records import read_absence, read_event

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 10.0


def follow(
    client: Client,
    campaign: str,
    after: int,
    *,
    lost: Callable[[str], None] = lambda _: None,
    missed: Callable[[Absence | None], None] = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Event]:
    """Yield every event with a number above ``after``, in order, each once; end with the campaign.

    A broken connection is reopened after the last event; ``lost`` is called with the reason, and
    with "" when it works again. ``missed`` is called with the reason why the campaign is not
    progressing, and with None when it is again. Raises ServerError when the server is away for ten
    minutes.
    """
    path = campaign_path(campaign, "events", "stream")
    failures, since = 0, 0.0
    while True:
        why, since_s, announced = "the stream ended early", clock(), False
        try:
            with client.stream(path, after) as stream:
                since_s = clock()
                if failures:
                    lost("")
                for item in stream:
                    announced = True
                    if item.event == "over":
                        return
                    if item.event == "presence":
                        missed(read_absence(item.data, campaign))
                        continue
                    event = read_event(item.data)
                    if event.number > after:
                        after = event.number
                        yield event
        except PASSING as problem:
            why = str(problem)
        # A connection that was open for a while was no failure, even if there were no events.
        if announced or clock() - since_s > _LONGEST_PAUSE_S:
            failures = 0
        if not failures:
            since = clock()
            lost(why)
        elif clock() - since > PATIENCE_S:
            raise ServerError(
                f"{why}; given up after {PATIENCE_S / 60.0:.0f} min. The campaign continues; "
                f"to watch it again: fstune watch {campaign}"
            )
        pause(min(_FIRST_PAUSE_S * 2.0 ** min(failures, 10), _LONGEST_PAUSE_S))
        failures += 1
