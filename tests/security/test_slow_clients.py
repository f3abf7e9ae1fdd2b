"""Attack: clients without a token that send half of a request, and then nothing."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.integration.serving import Service
from tests.integration.test_api_deployment import certificate
from tests.ports import free_port

#: They wait for the limits of the service, and so come early: see ``tests/conftest.py``.
pytestmark = pytest.mark.timeout(400)

HALF_HEAD = b"GET /v1/campaigns HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_BODY = (
    b"POST /v1/campaigns HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 100\r\n\r\n{"
)
HALF_LOGIN = (
    b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ntoken="
)
KINDS = (b"", HALF_HEAD, HALF_BODY, HALF_LOGIN)
MANY = 1000
#: Proper requests come from another host, as each host has its own rate limit.
ELSEWHERE = ("127.0.0.2", 0)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, free_port(), ("--auth",))
    service.start()
    yield service
    service.stop(signal.SIGKILL)


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[Service]:
    chain, secret = certificate(tmp_path)
    tls = ("--tls-cert", str(chain), "--tls-key", str(secret))
    service = Service(tmp_path, free_port(), ("--auth", *tls))
    service.start()
    yield service
    service.stop(signal.SIGKILL)


def connect(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), 30.0)


def attack(service: Service, stack: ExitStack, number: int = MANY) -> list[socket.socket]:
    connections = []
    for count in range(number):
        one = stack.enter_context(closing(connect(service)))
        if half := KINDS[count % len(KINDS)]:
            one.sendall(half)
        connections.append(one)
    return connections


def ask(service: Service, token: str, context: ssl.SSLContext | None = None) -> float:
    """Make an authorised request and return its time in seconds."""
    began = time.monotonic()
    if context is None:
        client = http.client.HTTPConnection(
            "127.0.0.1", service.port, timeout=60.0, source_address=ELSEWHERE
        )
    else:
        client = http.client.HTTPSConnection(
            "127.0.0.1", service.port, timeout=60.0, context=context, source_address=ELSEWHERE
        )
    with closing(client):
        client.request("GET", "/v1/campaigns", headers={"Authorization": f"Bearer {token}"})
        answer = client.getresponse()
        assert answer.status == 200
        assert json.load(answer) == {"items": [], "next": None}
    return time.monotonic() - began


def cut_off(one: socket.socket) -> bool:
    """Whether the service closes a connection; a response may come before that."""
    one.settimeout(60.0)
    try:
        while one.recv(65536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def test_a_thousand_slow_clients_delay_nobody_and_are_cut_off(service: Service) -> None:
    token = service.fstune("token", "create", "one").strip()
    ask(service, token)
    with ExitStack() as stack:
        slow = attack(service, stack)
        # The fastest of several, as this machine may be busy.
        assert min(ask(service, token) for _ in range(5)) < 1.0
        assert all(cut_off(one) for one in slow)
    assert min(ask(service, token) for _ in range(5)) < 1.0


def test_one_that_trickles_is_cut_off_too(service: Service) -> None:
    with closing(connect(service)) as one:
        one.sendall(HALF_HEAD)
        deadline = time.monotonic() + 60.0
        try:
            while time.monotonic() < deadline:
                one.sendall(b"x")
                time.sleep(0.3)
        except ConnectionError:
            return
    raise AssertionError("it could go on for ever")


def test_slow_clients_do_not_delay_others_with_tls(encrypted: Service) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    token = encrypted.fstune("token", "create", "one").strip()
    with ExitStack() as stack:
        slow = []
        for count in range(300):
            one = stack.enter_context(closing(connect(encrypted)))
            if count % 3 == 0:  # otherwise the handshake is never completed
                one = stack.enter_context(closing(context.wrap_socket(one)))
                one.sendall(HALF_BODY)
            slow.append(one)
        assert min(ask(encrypted, token, context) for _ in range(5)) < 1.0
        assert all(cut_off(one) for one in slow)


def test_a_body_in_tiny_pieces_is_cut_off(service: Service) -> None:
    """Each piece takes as long as a large one, and only then is the request counted."""
    head = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece, end = b"1\r\na\r\n", b"0\r\n\r\n"
    with closing(connect(service)) as one:
        one.sendall(head + 1000 * piece + end)
        assert b" 403 " in one.recv(65536).partition(b"\r\n")[0]
    with closing(connect(service)) as one, suppress(ConnectionError):
        one.sendall(head)
        for _ in range(10):
            one.sendall(1000 * piece)
        one.sendall(end)
        assert one.recv(1) == b""
