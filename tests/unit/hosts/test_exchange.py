"""The answer is found whatever precedes it and however it is split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.hosts.connector import OUTPUT_LIMIT_BYTES
from tuner.hosts.exchange import AnswerReader

HEADER = b'{"ended": "exit", "status": -9, "dead": true, "stdout_bytes": %d, "stderr_bytes": %d}\n'


@pytest.mark.slow
@given(st.binary(max_size=200), st.binary(max_size=40), st.binary(max_size=40), st.data())
def test_any_noise_and_any_pieces(
    noise: bytes, out: bytes, err: bytes, data: st.DataObject
) -> None:
    reader = AnswerReader()
    whole = noise + reader.mark.encode() + HEADER % (len(out), len(err)) + out + err
    cuts = sorted(data.draw(st.lists(st.integers(1, len(whole) - 1), max_size=8, unique=True)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    *early, answer = [reader.feed(piece) for piece in pieces]
    assert early == [None] * len(early)
    assert answer is not None
    assert (answer.ended, answer.status, answer.stdout, answer.stderr) == ("exit", -9, out, err)


def test_a_cut_off_answer_is_none() -> None:
    reader = AnswerReader()
    assert reader.feed(reader.mark.encode() + HEADER % (5, 0) + b"1234") is None


@pytest.mark.parametrize(
    "sizes", [(OUTPUT_LIMIT_BYTES + 1, 0), (0, OUTPUT_LIMIT_BYTES + 1), (-1, 0)]
)
def test_sizes_beyond_the_limit_are_refused(sizes: tuple[int, int]) -> None:
    reader = AnswerReader()
    with pytest.raises(ValueError, match=r"(stdout|stderr)_bytes: Input should be"):
        reader.feed(reader.mark.encode() + HEADER % sizes)


def test_a_header_without_an_end_is_refused() -> None:
    reader = AnswerReader()
    with pytest.raises(ValueError, match="does not end"):
        reader.feed(reader.mark.encode() + b"x" * 5000)


def test_noise_is_not_buffered() -> None:
    reader = AnswerReader()
    for _ in range(200):
        reader.feed(b"\n" * 10_000)
    assert len(reader._buffer) < 100
