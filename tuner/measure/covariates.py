"""Covariates of a run: unrelated load on the machines, computed from its diagnostics. Pure.

A covariate explains noise only as long as the configuration does not influence it. Processor time
of the measured programs and the workload is therefore subtracted, and so are interrupts, most of
which are caused by their packets. The rest can depend on the configuration in only two ways:
through kernel threads that work for the programs, and through fixed costs of each run, whatever its
length. Whether it does is tested where covariates are used (``tuner.judge.adjustment``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tuner.model import COVARIATES

#: Prefix of the numbers of the server's machine.
_SERVER: Final = "host"
_MACHINE: Final = ".machine"
_PROGRAM: Final = ".cpu_s"

Diagnostics = Mapping[str, float | str]


def covariates(diagnostics: Diagnostics) -> dict[str, float]:
    """The covariates of a run by name (``COVARIATES``), in processors: seconds of processor time
    per second of the run, averaged over the machines of a role.

    ``others``: used by anything but the watched programs and the workload; ``stolen``: taken by the
    hypervisor; ``iowait``: idle while waiting for a disk. Roles: ``server`` is the server's
    machine, ``clients`` are the machines of the clients; if a client runs on the server's machine,
    all of them form the role ``server``. A covariate is omitted if one of its counters is missing.
    """
    clients = {
        name.removesuffix(_MACHINE): value
        for name, value in diagnostics.items()
        if name.endswith(_MACHINE) and isinstance(value, str)
    }
    if not clients:
        return {}
    theirs = set(clients.values())
    roles = {"server": {_SERVER}, "clients": theirs}
    if _SERVER in theirs:
        roles = {"server": theirs}
    by_name: dict[str, float] = {}
    for role, machines in roles.items():
        elapsed_s = _total(diagnostics, machines, "elapsed_s")
        if elapsed_s is None or elapsed_s <= 0.0:
            continue
        by_kind = {
            "others": _others_s(diagnostics, machines, clients),
            "stolen": _total(diagnostics, machines, "steal_s"),
            "iowait": _total(diagnostics, machines, "iowait_s"),
        }
        for what, seconds in by_kind.items():
            if seconds is not None:
                by_name[f"{what}_{role}"] = seconds / elapsed_s
    return by_name


def covariate_row(diagnostics: Diagnostics) -> tuple[float | None, ...]:
    """The covariates in the order of ``COVARIATES``, None for unknown ones; () without any."""
    row = covariates(diagnostics)
    return tuple(row.get(name) for name in COVARIATES) if row else ()


def _others_s(
    diagnostics: Diagnostics, machines: Iterable[str], clients: Mapping[str, str]
) -> float | None:
    """Processor seconds on these machines except those of our programs and of interrupts."""
    busy = _total(diagnostics, machines, "busy_s")
    interrupts = [_total(diagnostics, machines, what) for what in ("irq_s", "softirq_s")]
    values = [busy, *interrupts, *(_programs_s(diagnostics, at, clients) for at in machines)]
    if set(machines) & set(clients.values()):
        values.append(_number(diagnostics, "engine_cpu_s"))
    numbers = [value for value in values if value is not None]
    return numbers[0] - sum(numbers[1:]) if len(numbers) == len(values) else None


def _programs_s(diagnostics: Diagnostics, machine: str, clients: Mapping[str, str]) -> float | None:
    """Processor seconds of the watched programs on a machine; None when unknown.

    On the server's machine every program must be a process. Elsewhere a client may run in the
    kernel, without a process; its work then counts as the workload's.
    """
    names = {name.removesuffix(_PROGRAM) for name in diagnostics if name.endswith(_PROGRAM)}
    there = [where for where, at in clients.items() if at == machine]
    if machine == _SERVER:
        servers = names - clients.keys()
        if not servers or not names.issuperset(there):
            return None
        there += servers
    return sum(_number(diagnostics, f"{where}{_PROGRAM}") or 0.0 for where in there)


def _total(diagnostics: Diagnostics, machines: Iterable[str], name: str) -> float | None:
    """The sum of one counter over these machines; None when it is unknown for one of them."""
    numbers = [_number(diagnostics, f"{machine}.{name}") for machine in machines]
    values = [value for value in numbers if value is not None]
    return sum(values) if len(values) == len(numbers) else None


def _number(diagnostics: Diagnostics, name: str) -> float | None:
    value = diagnostics.get(name)
    return None if value is None or isinstance(value, str) else float(value)
