"""Diagnostics of OpenAFS programs, and their meaning for an administrator."""

from __future__ import annotations

from tuner.services.diagnostic import BetterWhen, Diagnostic, Unit

DIAGNOSTICS = (
    Diagnostic(
        "cm.fetched_bytes",
        "fetched from the server",
        Unit.BYTES,
        BetterWhen.FEWER,
        "What clients do not fetch comes from their caches.",
    ),
    Diagnostic(
        "cm.stored_bytes",
        "stored on the server",
        Unit.BYTES,
        BetterWhen.EITHER,
        "Clients may write the same data several times or once.",
    ),
    Diagnostic(
        "cm.dcache_misses",
        "misses of the data caches",
        Unit.COUNT,
        BetterWhen.FEWER,
        "At a miss a client asks the server for data; larger chunks or caches have fewer misses.",
    ),
    Diagnostic(
        "cm.vcache_misses",
        "misses of the status caches",
        Unit.COUNT,
        BetterWhen.FEWER,
        "At each miss a client asks the server for the status of a file.",
    ),
    Diagnostic(
        "rx.calls_waited",
        "calls that waited for a thread",
        Unit.COUNT,
        BetterWhen.FEWER,
        "A call waits when every thread of the fileserver is busy.",
    ),
    Diagnostic(
        "rx.resends",
        "packets sent again",
        Unit.COUNT,
        BetterWhen.FEWER,
        "A packet is sent again when it, or what acknowledges it, was lost or late.",
    ),
    Diagnostic(
        "udp.rcvbuf_errors",
        "datagrams dropped, receive buffer full",
        Unit.COUNT,
        BetterWhen.FEWER,
        "The program did not empty its buffer fast enough, and the packets are sent again.",
    ),
)
