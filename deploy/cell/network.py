"""Private network of a cell: a bridge in the server node with a veth link to each client node.

No interface is ever created in the host's network namespace: both ends of each link are created
inside the nodes, so all cells can use the same addresses. OpenAFS never registers a loopback
address, so the server has a real one.
"""

from __future__ import annotations

import re
import subprocess

from deploy.cell.errors import CellError, CellSpecError
from deploy.cell.node import Node

SERVER_ADDRESS = "10.77.0.1"
PREFIX_LENGTH = 24
_FIRST_CLIENT = 11
MAX_CLIENTS = 200

_RATE = re.compile(r"[1-9][0-9]{0,5}(?:kbit|mbit|gbit)")


def client_address(number: int) -> str:
    """Address of client ``number`` (1, 2, ...)."""
    return f"10.77.0.{_FIRST_CLIENT - 1 + number}"


def check_rate(link: str) -> None:
    """Raise CellSpecError unless ``link`` is a rate that the traffic shaper accepts."""
    if not _RATE.fullmatch(link):
        raise CellSpecError(f"link {link!r}: write a rate such as 100mbit or 1gbit")


def prepare_server(server: Node) -> None:
    """Set up the bridge and address of the server node."""
    server.check(["ip", "link", "set", "lo", "up"])
    server.check(["ip", "link", "add", "br0", "type", "bridge"])
    server.check(["ip", "address", "add", f"{SERVER_ADDRESS}/{PREFIX_LENGTH}", "dev", "br0"])
    server.check(["ip", "link", "set", "br0", "up"])


def connect_client(server: Node, client: Node, number: int, link: str | None) -> None:
    """Link a client node to the server's bridge, shaped to rate ``link`` in both directions."""
    port = f"port{number}"
    command = ["ip", "link", "add", "name", port, "netns", str(server.init.pid), "type", "veth"]
    command += ["peer", "name", "eth0", "netns", str(client.init.pid)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CellError(f"no cable to {client.name}: {result.stderr.strip()}")
    address = f"{client_address(number)}/{PREFIX_LENGTH}"
    client.check(["ip", "link", "set", "lo", "up"])
    client.check(["ip", "address", "add", address, "dev", "eth0"])
    client.check(["ip", "link", "set", "eth0", "up"])
    server.check(["ip", "link", "set", port, "master", "br0", "up"])
    if link is not None:
        for node, interface in ((server, port), (client, "eth0")):
            shaper = ["rate", link, "burst", "256kb", "latency", "50ms"]
            node.check(["tc", "qdisc", "replace", "dev", interface, "root", "tbf", *shaper])
