"""A whole host as its kernel counts it: processor time and UDP. Pure."""

from __future__ import annotations

from tuner.measure.diagnostics.process import TICKS_PER_S

_UDP = {
    "InDatagrams": "datagrams_received",
    "OutDatagrams": "datagrams_sent",
    "InErrors": "receive_errors",
    "RcvbufErrors": "rcvbuf_errors",
    "SndbufErrors": "sndbuf_errors",
}
#: Columns of the first line of /proc/stat after its name (proc(5)).
_USER, _NICE, _SYSTEM, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = 0, 1, 2, 4, 5, 6, 7


def cpu_counters(text: str) -> dict[str, float]:
    """Processor seconds of all processors together, from the ``cpu`` line of /proc/stat: busy,
    waiting for disks, and stolen by the hypervisor. Raises ValueError.
    """
    name, *columns = text.split()[:9] or [""]
    if name != "cpu" or len(columns) != 8:
        raise ValueError(f"/proc/stat: no processor time in {text.strip()[:200]!r}")
    ticks = [int(column) for column in columns]
    busy = sum(ticks[column] for column in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ))
    return {
        "busy_s": busy / TICKS_PER_S,
        "iowait_s": ticks[_IOWAIT] / TICKS_PER_S,
        "steal_s": ticks[_STEAL] / TICKS_PER_S,
    }


def udp_counters(text: str) -> dict[str, float]:
    """Datagrams and errors of the host's network, from /proc/net/snmp; ``rcvbuf_errors`` are those
    dropped because a program's receive buffer was full. Raises ValueError.
    """
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("Udp: ")]
    if len(lines) != 2:
        raise ValueError(f"/proc/net/snmp: no UDP in {text.strip()[:200]!r}")
    found = dict(zip(*lines, strict=False))
    try:
        return {ours: float(found[theirs]) for theirs, ours in _UDP.items()}
    except KeyError as problem:
        raise ValueError(f"/proc/net/snmp: no {problem} in {text.strip()[:200]!r}") from None
