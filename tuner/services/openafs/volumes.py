"""What a fileserver says of the volumes of a testbed when runs of the workload fail."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.errors import TestbedError
from tuner.hosts.connector import Connector
from tuner.services.openafs import parse
from tuner.services.openafs.facts import patiently

#: A partition with less free space than this is called full.
_LEAST_FREE_KIB = 16 << 10


def why_unusable(server: Connector, address: str, names: Sequence[str]) -> str:
    """Why the workload cannot use one of these volumes, and what to do; "" if the server
    knows of nothing, or if its volume server does not answer. ``address``: of the fileserver.
    """
    try:
        listing = _ask(server, "listvol", address)
        volumes, off_line = parse.volumes(listing), parse.offline_volumes(listing)
        free_kib = parse.partitions_free_kib(_ask(server, "partinfo", address))
    except (TestbedError, ValueError):
        return ""
    places = parse.volume_partitions(listing)
    nameless = sorted(volume for volume in volumes if volume.isdigit())
    missing = "was it renamed, moved or deleted?"
    if nameless:
        missing = f"is it {' or '.join(nameless[:5])}, busy or damaged?"
    sentences = []
    for name in names:
        place = places.get(name, "")
        if name not in volumes:
            sentences.append(f"it does not serve volume {name}: {missing}")
        elif name in off_line:
            command = f"vos online {address} {place} {name} -localauth"
            sentences.append(off_line_text(name, command))
        elif free_kib.get(place, _LEAST_FREE_KIB) < _LEAST_FREE_KIB:
            sentences.append(
                f"its partition {place}, which has volume {name}, is full "
                f"({free_kib[place] >> 10} MiB free): make room there"
            )
    return "; ".join(f"{server.host}: {sentence}" for sentence in sentences)


def off_line_text(volume: str, command: str) -> str:
    """Say that a volume is off-line, and which command on its fileserver brings it back."""
    return (
        f"its volume {volume} is off-line: '{command}' there brings it back, if it needs no salvage"
    )


def _ask(server: Connector, what: str, address: str) -> str:
    return patiently(server, ["vos", what, address, "-localauth"])
