"""Probes for the counters of OpenAFS programs, on fileserver hosts and on client hosts.

Defines the commands that query the programs, and the names under which their numbers are recorded.
"""

from __future__ import annotations

from pathlib import Path

from tuner.hosts.connector import Connector
from tuner.measure.diagnostics.probe import COMMON, GLANCE, REST, Probe, Source
from tuner.services.openafs import ask_cache_manager
from tuner.services.openafs.rx import rx_counters, rx_gauges
from tuner.services.openafs.xstat import cache_manager_counters, fileserver_counters

#: $2: the fileserver's address. What takes longest runs while the rest is being read.
_SERVER = (
    GLANCE
    + """
timeout 5 xstat_fs_test "$2" -collID 2 3 -onceonly | {
"""
    + REST
    + """
echo "=== rxdebug"; timeout 5 rxdebug "$2" 7000 -rxstats -noconns
echo "=== xstat"; exec cat
}
"""
)
_CLIENT = (
    COMMON
    + """
echo "=== process"; echo "$pid"
"""
)
#: So written, it is run by the interpreter of the host's supervisor, which starts at once.
_PYTHON = ("python3", "-I", "-S")
_RX = Source("rxdebug", "rx", rx_counters, rx_gauges)
_SERVER_SOURCES = (_RX, Source("xstat", "fs", fileserver_counters))
_CLIENT_SOURCES = (_RX, Source("xstat", "cm", cache_manager_counters))


def server_probe(host: Connector, where: str, program: str, address: str) -> Probe:
    """Create a probe of a fileserver's host. ``address``: as its clients see it."""
    return Probe(host, where, _SERVER, (program, address), _SERVER_SOURCES, "fs", "host")


def client_probe(host: Connector, where: str, program: str, directory: str) -> Probe:
    """Create a probe of a client's host; installs what asks it in ``directory`` there."""
    path = f"{directory}/ask_cache_manager.py"
    host.put(path, Path(ask_cache_manager.__file__).read_bytes())
    machine, misses = f"{where}.host", "cm.dcache_misses"
    sources, wrapper = _CLIENT_SOURCES, (*_PYTHON, path)
    return Probe(host, where, _CLIENT, (program,), sources, "cm", machine, misses, wrapper)
