"""What a campaign measured beside its arms: the service against a reference."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.records.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Comparison:
    """The time of the tuned service over that of a reference, with its interval of 95%.

    ``settings``: those of the service, ``as found`` or ``as recommended``. ``clients``: so many ran
    the service's workload at once, while one runs the reference's. ``cold``: False when the
    reference's cold reads may have been answered from memory.
    """

    reference: str
    settings: str
    estimate: Estimate
    blocks: int
    clients: int
    cold: bool
