"""A mapped file: which blocks are checked when, and the error for one that is damaged."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from s2s.errors import DataError
from s2s.io.checked_map import BLOCK, BlockChecksums, CheckedMap, checksum_file

if TYPE_CHECKING:
    from pathlib import Path

PER_BLOCK = BLOCK // 4
N = 3 * PER_BLOCK + 10
DTYPE = np.dtype("<u4")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three blocks of numbers and 40 bytes of a fourth."""
    path, checksums = tmp_path / "x.ids", BlockChecksums()
    data = np.arange(N, dtype=DTYPE).tobytes()
    path.write_bytes(data)
    checksums.append(data)
    checksum_file(path).write_bytes(checksums.dump())
    return path


def open_map(path: Path, n: int = N) -> CheckedMap:
    return CheckedMap(path, DTYPE, n, "make it again")


def damage(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("sizes", [[0], [1, BLOCK - 1], [BLOCK, BLOCK], [5, 3 * BLOCK, 7], [BLOCK + 1] * 3])
def test_checksums_are_those_of_16_kb_blocks_however_the_bytes_come(sizes: list[int]) -> None:
    """Corpora that were prepared are read again: the size of a block is part of their format."""
    data = np.random.default_rng(1).bytes(sum(sizes))
    checksums, begin = BlockChecksums(), 0
    for size in sizes:
        checksums.append(data[begin : begin + size])
        begin += size
    expected = [zlib.crc32(data[at : at + 16_384]) for at in range(0, len(data), 16_384)]
    assert np.frombuffer(checksums.dump(), DTYPE).tolist() == expected


@pytest.mark.parametrize(
    ("begin", "end", "blocks"),
    [
        (0, 0, []),
        (5, 5, []),
        (PER_BLOCK, PER_BLOCK, []),
        (0, 1, [0]),
        (0, PER_BLOCK, [0]),
        (0, PER_BLOCK + 1, [0, 1]),
        (PER_BLOCK - 1, 2 * PER_BLOCK + 1, [0, 1, 2]),
        (PER_BLOCK, 2 * PER_BLOCK, [1]),
        (3 * PER_BLOCK, N, [3]),
    ],
)
def test_a_slice_checks_the_blocks_that_it_touches(file: Path, begin: int, end: int, blocks: list[int]) -> None:
    values = open_map(file)
    assert len(values) == N
    assert values.slice(begin, end).tolist() == list(range(begin, end))
    assert [block for block in range(4) if not values.unread[block]] == blocks
    assert values.n_unread == 4 - len(blocks)


def test_values_at_indices_check_their_blocks(file: Path) -> None:
    values = open_map(file)
    indices = [N - 1, PER_BLOCK - 1, N - 1, PER_BLOCK]
    assert values.take(np.array(indices)).tolist() == indices
    assert list(values.unread) == [0, 0, 1, 0]
    assert values.take(np.arange(N)).tolist() == list(range(N))
    assert values.n_unread == 0


def test_a_block_is_checked_once(file: Path) -> None:
    values = open_map(file)
    values.slice(0, 1)
    damage(file, 5)
    assert values.slice(1, 2).tolist() == [257], "what was read already is not read once more"
    assert values.take(np.array([0])).tolist() == [0]


@pytest.mark.parametrize(
    ("at", "where"),
    [(2 * BLOCK, "32,768 to 49,152"), (3 * BLOCK - 1, "32,768 to 49,152"), (4 * N - 1, "49,152 to 49,192")],
)
def test_a_damaged_block_is_an_error_where_it_is_touched(file: Path, at: int, where: str) -> None:
    damage(file, at)
    values, index = open_map(file), at // 4
    assert values.slice(0, 2 * PER_BLOCK).tolist() == list(range(2 * PER_BLOCK))
    message = f"x.ids is damaged, by the disk or by memory: bytes {where} are not as they were written; make it again"
    with pytest.raises(DataError, match=message):
        values.slice(index, index + 1)
    with pytest.raises(DataError, match=message):
        values.take(np.array([index]))


@pytest.mark.parametrize(("n", "n_blocks"), [(N - 10, 3), (N + PER_BLOCK, 5)])
def test_a_file_of_checksums_has_one_for_each_block(file: Path, n: int, n_blocks: int) -> None:
    with pytest.raises(DataError, match=f"x.ids.crc has 4 checksums for {n_blocks} blocks; make it again"):
        open_map(file, n)


def test_an_empty_file_has_no_values(tmp_path: Path) -> None:
    (tmp_path / "x.ids").touch()
    checksum_file(tmp_path / "x.ids").write_bytes(BlockChecksums().dump())
    values = open_map(tmp_path / "x.ids", 0)
    assert len(values) == 0
    assert values.slice(0, 0).tolist() == []
