"""Socket buffer limits in the kernel of one host: raising, verifying and restoring them.

Unset means the value from before any lasting change by fstune, which is recorded in the journal
that was closed in favour of a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.connector import Connector, check, check_change, failure_data, understood
from tuner.services.journal import Journal, WithJournal

PROGRAM = "sysctl"
RMEM_MAX, WMEM_MAX = "net.core.rmem_max", "net.core.wmem_max"
#: All tuned settings, by the kernel's names.
SETTINGS = (RMEM_MAX, WMEM_MAX)

_RESTORE = "host-network-restore.sh"
_FILES = tuple("/proc/sys/" + name.replace(".", "/") for name in SETTINGS)
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_TIMEOUT_S = 20.0


@dataclass(slots=True)
class KernelLimits(WithJournal):
    """The limits of one host, by the kernel's names.

    ``kernel``: a unique identifier of the kernel; ``initial``: the original values; ``usual``: the
    values that unset stands for.
    """

    host: Connector
    directory: str
    kernel: str
    initial: dict[str, int]
    usual: dict[str, int]
    #: Values that each may have because of our commands: two if a command was interrupted.
    _ours: dict[str, set[int]] = field(default_factory=dict)

    @classmethod
    def attach(cls, host: Connector, directory: str) -> KernelLimits:
        """Read the original limits, without changing anything. Raises TestbedError.

        If an interrupted run left a journal, it has the original values and takes precedence.
        """
        journal = _journal(host, directory)
        record = journal.read("found")
        now = limits_now(host)
        initial = now if record is None else _read(host, record)
        limits = cls(host, directory, kernel_of(host), initial, _usual(journal, initial))
        if record is not None:
            limits._ours = {name: {value} for name, value in now.items()}
        return limits

    @property
    def journal(self) -> Journal:
        """Its restore journal."""
        return _journal(self.host, self.directory)

    def set(self, values: Mapping[str, int]) -> bool:
        """Put values into effect, and reset the others to their usual values.

        Returns whether anything was changed. Raises ConfigurationError for a value that is below
        the usual one or that the kernel refuses, and TestbedError when somebody else has changed
        one meanwhile.
        """
        target = {**self.usual, **values}
        for name, value in target.items():
            if value < self.usual[name]:
                raise ConfigurationError(
                    f"{self.host.host}: {name} = {value} is below the {self.usual[name]} that was "
                    "found; fstune only raises it"
                )
        now = limits_now(self.host)
        for name, value in now.items():
            if value not in self._ours.get(name, set()) | {self.initial[name]}:
                raise TestbedError(
                    f"{self.host.host}: somebody else has changed {name} meanwhile: {value}; "
                    "nothing was set"
                )
        changed = {name: value for name, value in target.items() if value != now[name]}
        if not changed:
            return False
        self._record()
        for name, value in changed.items():
            self._ours[name] = {now[name], value}
            self._give(name, value)
            self._ours[name] = {value}
        return True

    def record(self) -> None:
        """Write the journal, also where nothing had to be changed: all hosts of a testbed have
        one, or none has.
        """
        self._record()

    def rehearse(self) -> None:
        """Run all modifying commands of ``set``, with the original values: for a dry connector."""
        self._record()
        for name, value in self.initial.items():
            check_change(self.host, _command(name, value))

    def keep(self, name: str) -> None:
        """See LastingPart.keep."""
        self.journal.keep(name)
        self.recorded = False

    def reopen(self, name: str) -> None:
        """See LastingPart.reopen."""
        journal = self.journal
        journal.reopen(name)
        if (record := journal.read("found")) is not None:
            self.initial = _read(self.host, record)
            self.usual = _usual(journal, self.initial)

    def restore(self) -> str:
        """See Part.restore."""
        if self.recorded:
            self._begin()  # somebody may have removed it
        done = self.journal.restore() or "left as found"
        self.recorded, self._ours = False, {}
        return f"network limits of {self.host.host} {done}"

    def _give(self, name: str, value: int) -> None:
        command = _command(name, value)
        result = self.host.change(command, timeout_s=_TIMEOUT_S)
        if result.status != 0:
            where = self.host.host
            message = f"{where}: the kernel does not accept {name} = {value}: {result.tail}"
            raise ConfigurationError(message, failure_data(result, where))

    def _begin(self) -> bool:
        record = [f"{name}={value}" for name, value in self.initial.items()]
        return self.journal.begin({"found": record}, {})


def limits_now(host: Connector) -> dict[str, int]:
    """Read the limits in effect now. Raises TestbedError."""
    output = check(host, ["cat", *_FILES], timeout_s=_TIMEOUT_S)
    with understood(host.host):
        return dict(zip(SETTINGS, map(int, output.split()), strict=True))


def kernel_of(host: Connector) -> str:
    """Identify the kernel: hosts that share one, such as containers, have the same identifier.

    Raises TestbedError.
    """
    return check(host, ["cat", _BOOT_ID], timeout_s=_TIMEOUT_S).strip()


def _command(name: str, value: int) -> list[str]:
    return [PROGRAM, "-w", f"{name}={value}"]


def _usual(journal: Journal, initial: dict[str, int]) -> dict[str, int]:
    """The values from before the first configuration that stays, if any; else the original ones."""
    for lasting in journal.kept_journals():
        if (record := lasting.read("found")) is not None:
            return _read(journal.host, record)
    return dict(initial)


def _read(host: Connector, record: Sequence[str]) -> dict[str, int]:
    """Parse the original values in the record of a journal."""
    with understood(host.host):
        pairs = dict(one.split("=") for one in record)
        return {name: int(pairs[name]) for name in SETTINGS}


def _journal(host: Connector, directory: str) -> Journal:
    return Journal(host, f"{directory}/host_network", __package__, _RESTORE)
