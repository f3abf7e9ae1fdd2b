"""Detached runs on a fake, flaky host; tests/integration/ssh has a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tuner.errors import AccessError, SpecError, TransportError
from tuner.hosts import detached
from tuner.hosts.exchange import Answer, Request

Step = str | BaseException


def answer(outcome: str) -> Answer:
    return Answer(outcome, 0, True, b"out", b"", boot_id="boot")


class Host:
    """Answers or fails as scripted, and records the requests."""

    def __init__(self, *steps: Step) -> None:
        self._steps: Iterator[Step] = iter(steps)
        self.requests: list[Request] = []

    def exchange(self, request: Request, what: str, limit_s: float) -> Answer:
        self.requests.append(Request(request.do, request.beat_s, dict(request.fields)))
        if request.do == "forget":
            return answer("forgotten")
        step = next(self._steps)
        if isinstance(step, BaseException):
            raise step
        return answer(step)

    def run(self, reconnect_s: float = 60.0, run_id: str = "r1") -> Answer:
        waiting = detached.Waiting(timeout_s=60.0, reconnect_s=reconnect_s, look_s=1.0)
        return detached.run(self.exchange, "h", ["job", "-x", "secret"], run_id, waiting)

    def kinds(self) -> list[str]:
        return [request.do for request in self.requests]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "_PAUSE_S", 0.01)


def test_it_polls_until_there_is_an_answer_and_then_removes_the_run() -> None:
    host = Host("greeted", "running", TransportError("lost"), "running", "exit")
    assert host.run().stdout == b"out"
    assert host.kinds() == ["greet", *["attend"] * 4, "forget"]
    polls = host.requests[1:5]
    assert [request.fields["known"] for request in polls] == [False, True, True, True]
    assert {request.fields["boot_id"] for request in polls} == {"boot"}


def test_a_request_that_may_have_been_lost_is_repeated_in_full() -> None:
    host = Host("greeted", TransportError("lost"), "exit")
    host.run()
    first, second = host.requests[1:3]
    assert first == second


def test_a_host_that_stays_unreachable_is_given_up_but_its_run_is_not_ended() -> None:
    host = Host("greeted", "running", *[TransportError("no route")] * 1000)
    with pytest.raises(TransportError, match=r"h: job -x \(run r1\): unreachable .* no route"):
        host.run(reconnect_s=0.05)
    assert "forget" not in host.kinds()


@pytest.mark.parametrize(
    ("outcome", "message", "removed"),
    [
        ("rebooted", "restarted while it ran", True),
        ("lost", "no result is left", True),
        ("unknown", "no longer knows it", False),
        ("other", "belongs to another command", False),
    ],
)
def test_a_lost_run_is_not_started_again(outcome: str, message: str, removed: bool) -> None:
    host = Host("greeted", "running", outcome)
    with pytest.raises(TransportError, match=message) as caught:
        host.run()
    assert "secret" not in str(caught.value)
    assert ("forget" in host.kinds()) == removed


def test_a_refused_login_is_not_retried() -> None:
    host = Host("greeted", AccessError("host key"))
    with pytest.raises(AccessError):
        host.run()


def test_an_interruption_ends_the_run() -> None:
    host = Host("greeted", "running", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        host.run()
    assert host.kinds()[-1] == "forget"


@pytest.mark.parametrize("run_id", ["", "a/b", "..", "-x", "a b", "x" * 101])
def test_bad_run_identifiers(run_id: str) -> None:
    with pytest.raises(SpecError, match="run identifier"):
        Host().run(run_id=run_id)
