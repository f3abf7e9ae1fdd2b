"""File contents distinguish runs, files, generations and positions in a file."""

from __future__ import annotations

import pytest

from workloads.content import HEADER, POOL_BYTES, Content
from workloads.files import derive
from workloads.image import Image

CONTENT = Content(7, "run")


def _whole(
    content: Content, size: int, record: int, file_id: int = 1, generation: int = 1
) -> bytes:
    image = Image(file_id).whole(size, generation)
    records = content.records(image, 0, size, record)
    return b"".join(bytes(part) for parts in records for part in parts)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096, 10_000, POOL_BYTES + 70])
@pytest.mark.parametrize("record", [1000, 4096, 1 << 20])
def test_a_file_is_the_same_whatever_the_record_size(size: int, record: int) -> None:
    records = CONTENT.records(Image(1).whole(size, 1), 0, size, record)
    lengths = [sum(len(part) for part in parts) for parts in records]
    assert lengths == [record] * (size // record) + ([size % record] if size % record else [])
    assert _whole(CONTENT, size, record) == _whole(CONTENT, size, 64)


def test_the_header_names_run_file_generation_and_size() -> None:
    header = _whole(CONTENT, 100, 4096, file_id=5, generation=3)[: HEADER.size]
    magic, _, file_id, generation, _, size = HEADER.unpack(header)
    assert (magic, file_id, generation, size) == (b"fstune1\n", 5, 3, 100)


def test_another_run_seed_file_or_generation_is_another_content() -> None:
    own = _whole(CONTENT, 4096, 4096)
    assert _whole(Content(7, "other"), 4096, 4096)[:64] != own[:64]
    others = [
        _whole(Content(8, "run"), 4096, 4096),
        _whole(CONTENT, 4096, 4096, file_id=2),
        _whole(CONTENT, 4096, 4096, generation=2),
    ]
    for other in others:
        assert other[64:] != own[64:]


@pytest.mark.parametrize("block", [4096, 16_384, 65_536, 1 << 20])
def test_no_two_aligned_blocks_of_a_file_are_alike(block: int) -> None:
    data = _whole(CONTENT, 24 << 20, 1 << 20)
    blocks = [data[at : at + 256] for at in range(0, len(data), block)]
    assert len(set(blocks)) == len(blocks)


def test_derivation_does_not_confuse_labels() -> None:
    assert derive(1, "a", "b") != derive(1, "ab")
    assert derive(1, "a") != derive(11, "a")
