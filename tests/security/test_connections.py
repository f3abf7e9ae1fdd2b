"""Too many connections: which are closed, and which are admitted. No network is needed."""

from __future__ import annotations

from typing import cast

import pytest

from api.connections import Connections, Front, connections, is_proxy


class Connection:
    def __init__(self, address: str, counted: Connections, *, by_proxy: bool = False) -> None:
        self.address = address
        self.by_proxy = by_proxy
        self.open = True
        self._counted = counted

    def cut_off(self) -> None:
        self.open = False
        self._counted.leave(cast("Front", self))


def come(counted: Connections, address: str, *, by_proxy: bool = False) -> Connection | None:
    one = Connection(address, counted, by_proxy=by_proxy)
    if not counted.admit(cast("Front", one)):
        return None
    counted.waits(cast("Front", one), waited_for=True)
    return one


def test_the_connection_idle_for_longest_makes_room() -> None:
    counted = Connections(most=3, most_of_an_address=3)
    first, second, third = (come(counted, f"192.0.2.{n}") for n in range(3))
    assert first and second and third  # noqa: PT018
    counted.waits(cast("Front", first), waited_for=False)  # its request is being answered
    fourth = come(counted, "192.0.2.9")
    assert fourth is not None
    assert (first.open, second.open, third.open) == (True, False, True)
    for one in (third, fourth):
        counted.waits(cast("Front", one), waited_for=False)
    assert come(counted, "192.0.2.10") is None
    counted.leave(cast("Front", first))
    assert come(counted, "192.0.2.10") is not None


@pytest.mark.parametrize("most", [3, 100])
def test_an_address_displaces_only_its_own_connections(most: int) -> None:
    """Also when the service is full."""
    counted = Connections(most=most, most_of_an_address=2)
    other = come(counted, "192.0.2.1")
    mine = [come(counted, "192.0.2.2") for _ in range(3)]
    assert other is not None
    assert other.open
    assert [one is not None and one.open for one in mine] == [False, True, True]


def test_an_address_that_speaks_for_many_has_no_limit() -> None:
    counted = Connections(most=100, most_of_an_address=2)
    speaks_for_many = [come(counted, "192.0.2.3", by_proxy=True) for _ in range(5)]
    assert all(one is not None and one.open for one in speaks_for_many)


def test_a_service_that_may_not_raise_its_limit_takes_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As under the unit in deploy/, whose system calls are filtered."""

    def refuse(*arguments: object) -> None:
        raise PermissionError("not allowed")

    monkeypatch.setattr("api.connections.resource.getrlimit", lambda which: (1024, 4096))
    monkeypatch.setattr("api.connections.resource.setrlimit", refuse)
    connections.cache_clear()
    try:
        assert connections()._most == 1024 - 300
    finally:
        connections.cache_clear()


@pytest.mark.parametrize(
    ("address", "trusted", "whether"),
    [
        ("127.0.0.1", "127.0.0.0/8,::1", True),
        ("::1", "127.0.0.0/8,::1", True),
        ("10.0.0.7", "10.0.0.0/24", True),
        ("10.0.1.7", "10.0.0.0/24", False),
        ("10.0.0.7", "*", False),
        ("testclient", "127.0.0.1", False),
        ("", "127.0.0.1", False),
    ],
)
def test_who_is_a_proxy(address: str, trusted: str, whether: bool) -> None:
    assert is_proxy(address, trusted) is whether
