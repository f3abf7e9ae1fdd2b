"""Count packets to and from a fileserver's port that contain a marker, until a stop file exists.

``capture.py PORT MARKER-IN-HEXADECIMAL READY-FILE STOP-FILE`` prints the numbers of packets, bytes
and packets with the marker. It runs as a standalone script in the fileserver's network namespace,
needs root, and uses only the standard library.
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

_ALL_PROTOCOLS = 3
_IPV4, _UDP = 0x0800, 17
_LONGEST_S = 300.0
_LARGEST = 65536


def payload(frame: bytes, port: int) -> bytes | None:
    """The UDP payload of a frame to or from the port; None for any other frame."""
    if int.from_bytes(frame[12:14], "big") != _IPV4 or frame[23] != _UDP:
        return None
    datagram = frame[14 + 4 * (frame[14] & 0x0F) :]
    ports = int.from_bytes(datagram[0:2], "big"), int.from_bytes(datagram[2:4], "big")
    return datagram[8:] if port in ports else None


def main(port: int, marker: bytes, ready: Path, stop: Path) -> None:
    """Count until ``stop`` exists; create ``ready`` when counting has started."""
    packets = size = marked = 0
    deadline = time.monotonic() + _LONGEST_S
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)
        wire.settimeout(0.2)
        ready.touch()
        while not stop.exists() and time.monotonic() < deadline:
            try:
                data = payload(wire.recv(_LARGEST), port)
            except TimeoutError:
                continue
            if data is not None:
                packets, size, marked = packets + 1, size + len(data), marked + (marker in data)
    print(packets, size, marked)


if __name__ == "__main__":
    main(int(sys.argv[1]), bytes.fromhex(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
