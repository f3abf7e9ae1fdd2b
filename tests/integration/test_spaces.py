"""Search spaces against the real programs: every option; sampled and published configurations."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.cell import Cell
from deploy.cell.network import SERVER_ADDRESS
from search_spaces import Chance, Preset, Space, Takes, draw, load
from tests.integration.conftest import process_in
from tests.waiting import wait_for
from tuner.model import Configuration, Value
from tuner.services import part
from tuner.services.openafs import cache_manager as cache_manager_module
from tuner.services.openafs import fileserver as fileserver_module
from tuner.services.openafs import parse
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.target import Target

pytestmark = pytest.mark.cell

#: Number of configurations sampled from the default search, and again from all parameters.
EACH = 12
#: The largest configurations are limited to half of this.
MEMORY_BYTES = 1 << 30
RISKS = ("durability", "security", "availability")

_OPTION = re.compile(r"\[(-[\w-]+)(?: (<.*?>|\[<.*?>\])(\+?))?\](?= |$)")


def everything(space: Space) -> Space:
    return space.narrow(only=[p.name for p in space.parameters], allow_risk=RISKS)


def options_of(help_text: str) -> list[tuple[str, Takes]]:
    """The options in a program's own usage text, in its order."""
    usage = " ".join(help_text.partition("Where:")[0].split())
    options = []
    for flag, value, more in _OPTION.findall(usage):
        takes = Takes.VALUE if value.startswith("<") else Takes.OPTIONAL
        options.append((flag, Takes.NOTHING if not value else Takes.VALUES if more else takes))
    return options


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("openafs-fileserver-1.8", "/usr/lib/openafs/dafileserver"),
        ("openafs-volserver-1.8", "/usr/lib/openafs/davolserver"),
        ("openafs-cache-manager-fuse-1.8", "afsd.fuse"),
        ("openafs-cache-manager-linux-1.8", "afsd"),
    ],
)
def test_the_options_are_those_of_the_real_program(cell: Cell, name: str, program: str) -> None:
    """Each option in -help belongs to a parameter or is left out with a reason, and vice versa."""
    space = load(name)
    done = cell.clients[0].run([program, "-help"])
    real = options_of((done.stdout + done.stderr).decode())
    assert len(real) > 20
    assert [(option.flag, option.takes) for option in space.options] == real
    searchable = {flag for parameter in space.parameters for flag in parameter.flags}
    assert all((o.flag in searchable) != bool(o.left_out) for o in space.options)


def test_the_commands_are_those_of_the_real_program(cell: Cell) -> None:
    space, client = load("openafs-client-runtime"), cell.clients[0]
    done = client.run(["fs", "help"])
    real = re.findall(r"^(\w+) +\S", (done.stdout + done.stderr).decode(), re.MULTILINE)
    assert len(real) > 40
    assert [option.flag.split()[0] for option in space.options] == sorted(real)
    for parameter in space.parameters:
        command, option = parameter.flag.split()
        done = client.run(["fs", command, "-help"])
        usage = " ".join((done.stdout + done.stderr).decode().split())
        assert re.search(rf"{command} (?:.* )?\[?{option} <", usage), usage


@dataclasses.dataclass
class Readings:
    """The values that programs reported, in the order of the configurations."""

    answers: list[Mapping[str, Value]]

    def check(self, space: Space, values: Mapping[str, Value], facts: Mapping[str, int]) -> int:
        """Check that everything readable has its expected value; return the number of clamps."""
        expected = space.effective(values, facts)
        reading = self.answers[-1]
        for name, one in expected.items():
            assert reading[one.key] == one.reading, f"{name} of {values}"
            assert one.clamped == (one.value != one.requested)
        readable = {p.name for p in space.parameters if p.read_back is not None}
        assert values.keys() & readable <= expected.keys()
        return sum(one.clamped for one in expected.values())


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Readings:
    """Record the values read back wherever they are compared with the expected ones."""
    readings = Readings([])

    def listen(
        space: Space,
        values: Mapping[str, Value],
        facts: Mapping[str, int],
        reading: Mapping[str, Value],
    ) -> dict[str, Value]:
        readings.answers.append(reading)
        return part.verify_effective(space, values, facts, reading)

    for module in (fileserver_module, cache_manager_module):
        monkeypatch.setattr(module, "verify_effective", listen)
    return readings


def apply(target: part.Part, values: Mapping[str, Value]) -> Configuration:
    part = target.space.part
    configuration = Configuration.of({f"{part}.{n}": v for n, v in values.items()})
    return Target({part: target}).apply(configuration, lambda _: None).effective


def sampled(space: Space, facts: Mapping[str, int]) -> list[dict[str, Value]]:
    """Return distinct configurations of the default search and of all parameters."""
    small = {**facts, "memory_bytes": min(facts["memory_bytes"], MEMORY_BYTES)}
    results: list[dict[str, Value]] = []
    for source, seed in ((space, 1), (everything(space), 2)):
        ask, target_count = Chance(seed, 0.6), len(results) + EACH
        while len(results) < target_count:
            values = draw(source, ask, small)
            if values and values not in results:
                results.append(values)
    return results


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sampled_configurations_are_in_effect_on_the_fileserver(
    cell: Cell, fileserver: Fileserver, readings: Readings
) -> None:
    space, facts = fileserver.space, fileserver.facts
    configurations = sampled(space, facts)
    assert len(configurations) == 2 * EACH
    for values in configurations:
        assert space.violations(values, facts) == []
        effective = apply(fileserver, values)
        assert readings.check(space, values, facts) == 0
        assert effective.part("fileserver") == values
        assert running(cell, "dafileserver")[1:] == [*fileserver.rest, *space.render(values)]
    proposed = {name for values in configurations for name in values}
    assert proposed == space.by_name.keys()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sampled_configurations_are_in_effect_on_the_cache_manager(
    cell: Cell, cache_manager: CacheManager, readings: Readings
) -> None:
    space, facts = cache_manager.space, cache_manager.facts
    configurations = sampled(space, facts)
    assert len(configurations) == 2 * EACH
    for values in configurations:
        assert space.violations(values, facts) == []
        apply(cache_manager, values)
        readings.check(space, values, facts)
        options = [*cache_manager.rests[0], *space.render(values)]
        assert running(cell, "afsd.fuse")[1:] == options
    proposed = {name for values in configurations for name in values}
    assert proposed == space.by_name.keys()


def test_clamps_are_distinguished_from_failures(fileserver: Fileserver, readings: Readings) -> None:
    space, facts = fileserver.space, fileserver.facts
    values: dict[str, Value] = {
        "threads": 100,
        "large_vnodes": 150,
        "small_vnodes": 150,
        "volume_cache": 50,
        "udp_buffer": 2 * facts["net_core_rmem_max"],
    }
    effective = apply(fileserver, values).part("fileserver")
    assert readings.check(space, values, facts) == 4
    assert effective == {
        "threads": 100,
        "large_vnodes": 201,
        "small_vnodes": 201,
        "volume_cache": 200,
        "udp_buffer": facts["net_core_rmem_max"],
    }


@pytest.mark.parametrize(
    "preset", load("openafs-fileserver-1.8").presets, ids=lambda preset: str(preset.name)
)
def test_published_options_run_on_the_fileserver(
    cell: Cell, fileserver: Fileserver, readings: Readings, preset: Preset
) -> None:
    """As published, except that the log stays in its usual place."""
    rest = tuple(word for word in preset.rest if word != "-syslog")
    server = dataclasses.replace(fileserver, rest=(*fileserver.rest, *rest))
    apply(server, preset.values)
    fileserver.running = server.running
    readings.check(server.space, preset.values, server.facts)
    argv = running(cell, "dafileserver")
    assert server.space.parse(argv).values == preset.values
    published = server.space.parse(shlex.split(preset.options))
    assert (published.values, published.rest) == (preset.values, preset.rest)


@pytest.mark.parametrize(
    "preset", load("openafs-cache-manager-fuse-1.8").presets, ids=lambda preset: str(preset.name)
)
def test_published_options_run_on_the_cache_manager(
    cell: Cell, cache_manager: CacheManager, readings: Readings, preset: Preset
) -> None:
    """As published, if the cache is large enough."""
    rest = [word for word in preset.rest if word not in cache_manager.rests[0]]
    manager = dataclasses.replace(cache_manager, rests=[(*cache_manager.rests[0], *rest)])
    values = manager.space.fit(preset.values, manager.facts)
    if preset.name != "container":
        assert values == preset.values
    apply(manager, values)
    cache_manager.options_in_effect = manager.options_in_effect
    readings.check(manager.space, values, manager.facts)
    assert manager.space.parse(running(cell, "afsd.fuse")).values == values


def test_volume_server_settings_are_in_effect(cell: Cell, fileserver: Fileserver) -> None:
    space = everything(load("openafs-volserver-1.8"))
    ask = Chance(3, 0.8)
    apply(fileserver, {"threads": 20})  # from here on the host has a journal to restore
    for _ in range(5):
        values = draw(space, ask, fileserver.facts)
        program = fileserver.original[1].split()[0]
        command = " ".join([program, *space.render(values)])
        others = (fileserver.original[0], command, *fileserver.original[2:])
        changed = dataclasses.replace(fileserver, original=others)
        changed.apply(fileserver.initial)
        fileserver.last_commands = changed.last_commands
        assert running(cell, "davolserver")[1:] == space.render(values)
        wait_for(lambda: _serves_volumes(cell), "the volume server")
        sockets = cell.server.check(["ss", "-uamnH"])
        for expected in space.effective(values, fileserver.facts).values():
            assert expected.key == "ss.rb"
            assert parse.udp_receive_buffer(sockets, 7005) == expected.reading


def _serves_volumes(cell: Cell) -> bool:
    return cell.server.run(["vos", "partinfo", SERVER_ADDRESS, "-localauth"]).status == 0


def running(cell: Cell, program: str) -> list[str]:
    """The command line of a program of the cell, according to the kernel."""
    node = cell.clients[0] if program == "afsd.fuse" else cell.server
    process = process_in(node, program)
    assert process is not None
    return Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[:-1]
