"""Applications on a kernel client: which settings stay, and that no journal is left open.

The fake host is that of the client's own tests.
"""

from __future__ import annotations

import pytest

import search_spaces
from tests.unit.services.openafs.applications import open_lasting
from tests.unit.services.openafs.conftest import machine
from tests.unit.services.openafs.kernel_client import SERVER, Machine
from tuner.apply.open_testbed import OpenTestbed
from tuner.errors import TestbedError
from tuner.model import Configuration, Value
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.client_runtime import ClientRuntime
from tuner.services.openafs.live import LiveSettings
from tuner.services.target import Target

__all__ = ["machine"]

RUNTIME = search_spaces.load("openafs-client-runtime")
CACHE = search_spaces.load("openafs-cache-manager-linux-1.8")
NAME = "a1"
BEFORE = Configuration.of({"client_runtime.crypt": "on"})


def open_client(machine: Machine, *, putting_back: bool = False) -> OpenTestbed:
    """Open the client for an application of a campaign with both search spaces."""
    client = machine.client(token=True)
    place = (client.place.directory, SERVER, "/afs/bench")
    client.live = LiveSettings.attach(
        client.host, RUNTIME, client.tokens, place, silent=putting_back
    )
    runtime = ClientRuntime.attach([client.live], RUNTIME, alike=not putting_back)
    cache = CacheManager([client], CACHE, "afsd", {}, {}, [client.options])
    target = Target({"cache_manager": cache, "client_runtime": runtime})
    return open_lasting(NAME, target)


def apply(machine: Machine, *parts: str, **values: Value) -> OpenTestbed:
    testbed = open_client(machine)
    after = {"client_runtime.crypt": "on"} | {k.replace("__", "."): v for k, v in values.items()}
    testbed.change(Configuration.of(after), frozenset(parts))
    testbed.keep(frozenset(parts))
    return testbed


@pytest.mark.slow
def test_encryption_alone_leaves_neither_token_nor_open_journal(machine: Machine) -> None:
    apply(machine, "client_runtime", client_runtime__crypt="off")
    assert machine.journals() == []
    assert not (machine.here / "token").exists()
    assert machine.text("crypt") == "clear"
    assert (machine.here / "applied" / NAME / "client_runtime").exists()
    assert "stop" not in machine.calls()


@pytest.mark.slow
def test_options_alone_leave_no_open_journal_of_runtime_settings(machine: Machine) -> None:
    (machine.here / "storebehind").write_text("64")
    apply(machine, "cache_manager", client_runtime__store_behind=64, cache_manager__daemons=5)
    assert machine.journals() == []
    assert not (machine.here / "token").exists()
    assert machine.options()[-2:] == ("-daemons", "5")
    assert machine.text("storebehind") == "64"
    assert machine.calls().count("stop") == 1
    assert (machine.here / "applied" / NAME / "cache_manager").exists()


@pytest.mark.slow
def test_a_client_that_does_not_run_can_be_rolled_back(machine: Machine) -> None:
    values: dict[str, Value] = {"cache_manager__daemons": 5, "client_runtime__crypt": "off"}
    apply(machine, "cache_manager", "client_runtime", **values)
    (machine.here / "mounted").unlink()
    (machine.here / "loaded").unlink()
    with pytest.raises(TestbedError, match="fs storebehind: exit status 1"):
        open_client(machine)
    testbed = open_client(machine, putting_back=True)
    assert testbed.restore(BEFORE) == ""
    assert machine.journals() == []
    assert machine.options() == ("-chunksize", "18", "-afsdb")
    assert machine.text("crypt").startswith("crypt")


@pytest.mark.slow
def test_a_failure_while_closing_journals_is_rolled_back_with_one_restart(machine: Machine) -> None:
    machine.set("stays")
    testbed = open_client(machine)
    parts = frozenset({"cache_manager"})
    testbed.change(Configuration.of({"cache_manager.daemons": 5, **BEFORE.as_dict()}), parts)
    with pytest.raises(TestbedError, match="the token cannot be destroyed"):
        testbed.keep(parts)
    (machine.here / "stays").unlink()
    testbed.restore(BEFORE)
    assert machine.journals() == []
    assert machine.options() == ("-chunksize", "18", "-afsdb")
    assert machine.calls().count("stop") == 2
