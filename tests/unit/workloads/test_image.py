"""The image of a file compared with a plain array of one generation per byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.image import Image

CHANGE = st.one_of(
    st.tuples(st.just("whole"), st.integers(0, 40), st.just(0)),
    st.tuples(st.just("write"), st.integers(0, 40), st.integers(0, 20)),
    st.tuples(st.just("cut"), st.integers(0, 40), st.just(0)),
)


@pytest.mark.slow
@given(st.lists(CHANGE, max_size=12), st.integers(0, 60), st.integers(0, 60))
def test_an_image_knows_who_wrote_each_byte(
    changes: list[tuple[str, int, int]], one: int, other: int
) -> None:
    image, bytewise = Image(), list[int]()
    for generation, (kind, at, length) in enumerate(changes, 1):
        if kind == "whole":
            image, bytewise = image.whole(at, generation), [generation] * at
        elif kind == "write":
            start = min(at, len(bytewise))
            image = image.write(start, start + length, generation)
            bytewise[start : start + length] = [generation] * length
        else:
            image, bytewise = image.cut(at), bytewise[:at]
    assert image.size_bytes == len(bytewise)
    assert image.generation == max(bytewise, default=0)
    start, end = min(one, other), max(one, other)
    extents = image.between(start, end)
    flat = [part.generation for part in extents for _ in range(part.start, part.end)]
    assert flat == bytewise[start:end]
    assert image.part(start, end).extents == extents


def test_a_gap_is_refused() -> None:
    with pytest.raises(ValueError, match="gap"):
        Image().write(1, 2, 1)
