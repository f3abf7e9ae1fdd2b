"""What a running fileserver shows of its settings: its counters, threads and socket."""

from __future__ import annotations

from tuner.hosts.connector import Connector, check
from tuner.hosts.parallel import on_all
from tuner.model import Value
from tuner.services.openafs import parse

_ANSWER_TIMEOUT_S = 20.0


def server_values(host: Connector, address: str) -> dict[str, Value]:
    """Return what the fileserver at this address shows, by read-back key.

    Raises ValueError when an answer is not complete, TransportError and TestbedError.
    """
    xstat = ["xstat_fs_test", address, "-onceonly", "-collID"]
    asking = ([*xstat, "2"], [*xstat, "3"], ["ss", "-uamnH"])

    def ask(argv: list[str]) -> str:
        return check(host, argv, timeout_s=_ANSWER_TIMEOUT_S)

    server, calls_served, sockets = on_all(asking, ask)
    # Not in parallel with the others, since each of them keeps a thread busy.
    calls = ask(["rxdebug", address, str(parse.FILESERVER_PORT), "-noconns"])
    counters = parse.xstat(server) | parse.xstat(calls_served)
    values: dict[str, Value] = {f"xstat_fs.{name}": value for name, value in counters.items()}
    values["rxdebug.idle_threads"] = parse.idle_threads(calls)
    values["ss.rb"] = parse.udp_receive_buffer(sockets)
    return values
