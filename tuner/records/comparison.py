"""Record of the measurements of the service against a reference."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.records.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Comparison:
    """The time of the tuned service over that of a reference, with its 95% interval.

    ``settings``: those of the service, ``as found`` or ``as recommended``. ``clients``: number of
    clients that ran the service's workload at once; the reference's runs on one. ``cold``: False if
    the reference's cold reads may have been served from memory.
    """

    reference: str
    settings: str
    estimate: Estimate
    blocks: int
    clients: int
    cold: bool
