"""toyd as a kind of service: one part, and one way to name a testbed, ``toy: {directory: DIR}``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from search_spaces import Space
from tests.toy import toyd
from tests.toy.format import ToydConf
from tuner.documents import Section
from tuner.errors import ConfigurationError
from tuner.hosts.local import LocalConnector
from tuner.measure.diagnostics.watch import Watch
from tuner.measure.driver import ClientEngine
from tuner.measure.references import install_references
from tuner.measure.workload import Workload
from tuner.model import Value
from tuner.services.kind import Kind, Needs, Program, TestbedIdentity, TestbedType, Workers
from tuner.services.part import Part, verify_effective
from tuner.services.target import Target
from tuner.services.testbed import ReadyTestbed, Testbed, Unavailable

_STARTS_WITHIN_S = 30.0


@dataclass
class Toyd:
    """The program in one directory; see Part."""

    directory: Path
    space: Space
    facts: Mapping[str, int] = field(default_factory=dict)
    identity: str = "toyd 1.0"
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.before = self._configuration.read_text()
        self.initial: Mapping[str, Value] = self.space.parse(self.before.split()).values
        self._start()

    @property
    def _configuration(self) -> Path:
        return self.directory / "toyd.conf"

    @property
    def _copy(self) -> Path:
        """The original configuration while another one may be in effect."""
        return copy_in(self.directory)

    def apply(self, values: Mapping[str, Value], *, restart: bool = False) -> str | None:
        text = "".join(f"{word}\n" for word in self.space.render(values))
        if text == self._configuration.read_text() and not restart:
            return None
        if not self._copy.exists():
            fresh = self.directory / "toyd.conf.new"
            fresh.write_text(self.before)
            fresh.rename(self._copy)
        self._restart(text)
        return "restart"

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        answers: dict[str, Value] = {name: int(value) for name, value in self._status().items()}
        return verify_effective(self.space, values, self.facts, answers)

    def incarnation(self) -> str:
        return self._status()["pid"]

    def restore(self) -> str:
        if not self._copy.exists():
            return "toyd left as found"
        self._restart(self.before)
        self._copy.unlink()
        return "toyd restored"

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def _status(self) -> dict[str, str]:
        lines = (self.directory / "toyd.status").read_text().splitlines()
        return dict(line.split("=") for line in lines)

    def _restart(self, text: str) -> None:
        self.stop()
        self._configuration.write_text(text)
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, toyd.__file__, str(self.directory)], stderr=subprocess.DEVNULL
        )
        until_s = time.monotonic() + _STARTS_WITHIN_S
        while not (self.directory / "toyd.status").exists():
            if self.process.poll() is not None or time.monotonic() > until_s:
                raise ConfigurationError("toyd does not start with these settings")
            time.sleep(0.01)


def copy_in(directory: Path) -> Path:
    """The copy from which a directory is restored; there is one only while it must be."""
    return directory / "toyd.conf.before"


class ToyTestbed:
    """A directory on this machine; see Testbed and Recoverable."""

    clock = staticmethod(time.monotonic)

    def __init__(self, directory: Path, needs: Needs) -> None:
        self._directory = directory
        self._needs = needs
        self._part: Toyd | None = None

    def claim(self, campaign: str) -> bool:
        return False

    def unavailable(self) -> Unavailable | None:
        return None

    def recover(self, campaign: str) -> list[str]:
        if self._part is not None or not copy_in(self._directory).exists():
            return []
        copy_in(self._directory).replace(self._directory / "toyd.conf")
        return ["toyd restored"]

    def open(self, workload: Workload, say: Callable[[str], None]) -> ReadyTestbed:
        self.recover("")
        host, (directory, path) = LocalConnector(), self._paths()
        engine = ClientEngine.install(host, directory, path, workload)
        references = install_references(host, directory, path, self._needs.references, workload)
        self._part = Toyd(self._directory, self._needs.spaces["toyd"])
        parts: dict[str, Part] = {"toyd": self._part}
        return ReadyTestbed(Target(parts), engine, lambda: None, Watch(workload.spec), references)

    def close(self) -> str | None:
        if self._part is None:
            return None
        self._part.stop()
        self._part = None
        return "toyd stopped"

    def _paths(self) -> tuple[str, str]:
        """The directories for files of fstune, and for the workload."""
        paths = self._directory / "fstune", self._directory / "data"
        for path in paths:
            path.mkdir(exist_ok=True)
        return str(paths[0]), str(paths[1])


class ToySection(Section):
    """Where toyd is."""

    directory: Path


class ToyType(TestbedType[ToySection]):
    """``toy: {directory: DIR}``."""

    key = "toy"
    section = ToySection
    example = "toy: {directory: DIR}"
    workers = Workers.HOST

    def name(self, section: ToySection) -> str | None:
        return str(section.directory)

    def summary(self, section: ToySection) -> str:
        return f"toyd in {section.directory.name}"

    def describe(self, section: ToySection) -> str:
        return f"toyd in {section.directory}"

    def identity(self, section: ToySection, state_directory: Path) -> TestbedIdentity:
        name = str(section.directory)
        return TestbedIdentity(f"toyd in {name}", section.directory.name, {"directory": name})

    def testbed(
        self, section: ToySection, where: str, needs: Needs, state_directory: Path
    ) -> Testbed:
        return ToyTestbed(section.directory, needs)

    def resolve(self, section: ToySection, directory: Path) -> ToySection:
        return ToySection(directory=directory / section.directory)


PROGRAMS = {"toyd": Program("toyd.conf", "restart toyd", "toyd is a toy.", ToydConf.name)}
TOY = Kind(
    "toy",
    ("toyd",),
    frozenset({"toyd"}),
    (ToyType(),),
    programs=PROGRAMS,
    formats=(ToydConf(),),
)
