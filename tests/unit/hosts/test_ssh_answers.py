"""Waiting for the answer of a host over SSH."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, cast

import paramiko
import pytest

from tuner.errors import TransportError
from tuner.hosts.exchange import AnswerReader
from tuner.hosts.log_in import SshHost
from tuner.hosts.ssh import SshConnector


class SilentChannel:
    """A channel that is open, and on which nothing arrives."""

    eof_received = closed = False

    def __init__(self) -> None:
        self._end, self._other = os.pipe()

    def fileno(self) -> int:
        return self._end

    def recv_ready(self) -> bool:
        return False

    recv_stderr_ready = recv_ready

    def close(self) -> None:
        os.close(self._end)
        os.close(self._other)


@pytest.fixture
def channel() -> Iterator[SilentChannel]:
    silent = SilentChannel()
    yield silent
    silent.close()


def test_an_answer_that_is_late_does_not_cost_the_connection(
    channel: SilentChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other commands wait on it, and the silence was shorter than that of a dead host."""
    dropped: list[Any] = []
    connector = SshConnector(SshHost("h1", "root"))
    monkeypatch.setattr(connector._link, "drop", dropped.append)
    deadline = time.monotonic() + 0.05
    with pytest.raises(TransportError, match="no answer in time, although the host is alive"):
        connector._listen(cast(paramiko.Channel, channel), AnswerReader(), "true", deadline)
    assert dropped == []
