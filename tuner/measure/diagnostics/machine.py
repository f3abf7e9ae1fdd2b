"""Counters of a whole host: processor time, uptime, and UDP. Pure."""

from __future__ import annotations

import re

from tuner.measure.diagnostics.process import TICKS_PER_S

_UDP = {
    "InDatagrams": "datagrams_received",
    "OutDatagrams": "datagrams_sent",
    "InErrors": "receive_errors",
    "RcvbufErrors": "rcvbuf_errors",
    "SndbufErrors": "sndbuf_errors",
}
#: Columns of the first line of /proc/stat, counted after its name (proc(5)).
_USER, _NICE, _SYSTEM, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = 0, 1, 2, 4, 5, 6, 7
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")
_BOOT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def cpu_counters(text: str) -> dict[str, float]:
    """Processor seconds of all processors together, from the ``cpu`` line of /proc/stat: busy
    (including hard and soft interrupts), hard interrupts, soft interrupts, waiting for disks, and
    stolen by the hypervisor. Raises ValueError.
    """
    name, *columns = text.split()[:9] or [""]
    if name != "cpu" or len(columns) != 8:
        raise ValueError(f"/proc/stat: no processor time in {text.strip()[:200]!r}")
    ticks = [float(column) for column in columns]
    busy = sum(ticks[column] for column in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ))
    return {
        "busy_s": busy / TICKS_PER_S,
        "irq_s": ticks[_IRQ] / TICKS_PER_S,
        "softirq_s": ticks[_SOFTIRQ] / TICKS_PER_S,
        "iowait_s": ticks[_IOWAIT] / TICKS_PER_S,
        "steal_s": ticks[_STEAL] / TICKS_PER_S,
    }


def uptime_counters(text: str) -> dict[str, float]:
    """Seconds since boot, from /proc/uptime; the difference of two readings is the time that their
    counters cover. Raises ValueError.
    """
    first = (text.split() or [""])[0]
    if not _SECONDS.fullmatch(first):
        raise ValueError(f"/proc/uptime: no time in {text.strip()[:200]!r}")
    return {"elapsed_s": float(first)}


def machine_name(text: str) -> str:
    """Identify a machine, also where several of our hosts run on the same one, by its boot
    identifier from /proc/sys/kernel/random/boot_id. Raises ValueError.
    """
    if not _BOOT.fullmatch(text.strip()):
        raise ValueError(f"boot_id: no identifier in {text.strip()[:200]!r}")
    return text.strip()


def udp_counters(text: str) -> dict[str, float]:
    """UDP datagrams and errors of the host, from /proc/net/snmp. ``rcvbuf_errors``: datagrams
    dropped because a program's receive buffer was full. Raises ValueError.
    """
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("Udp: ")]
    if len(lines) != 2:
        raise ValueError(f"/proc/net/snmp: no UDP in {text.strip()[:200]!r}")
    counters = dict(zip(*lines, strict=False))
    try:
        return {ours: float(counters[theirs]) for theirs, ours in _UDP.items()}
    except KeyError as problem:
        raise ValueError(f"/proc/net/snmp: no {problem} in {text.strip()[:200]!r}") from None
