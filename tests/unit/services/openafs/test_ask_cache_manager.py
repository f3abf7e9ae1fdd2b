"""The program that asks a cache manager for its counters: which port it asks."""

from __future__ import annotations

import os
import socket

from tuner.services.openafs.ask_cache_manager import udp_port


def test_the_port_is_that_of_the_process() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        assert udp_port(str(os.getpid())) == own.getsockname()[1]


def test_without_a_process_or_a_socket_there_is_no_port() -> None:
    """The cache manager is in the kernel, and uses the usual port."""
    assert udp_port("") is None
    assert udp_port("0") is None
