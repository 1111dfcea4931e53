"""A corpus on disk against the lists it was written from."""

from __future__ import annotations

import os
import pickle
import random
import resource
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from s2s.data.mapped_corpus import MappedCorpus, MappedCorpusWriter, RaggedIds
from s2s.errors import DataError
from s2s.io.checked_map import BLOCK

if TYPE_CHECKING:
    from pathlib import Path

ids = st.lists(st.integers(0, 99), max_size=6)
chunk = st.lists(st.tuples(ids, ids), max_size=5)


def write(directory: Path, chunks: list[list[tuple[list[int], list[int]]]], size: int = 100) -> MappedCorpus:
    with MappedCorpusWriter(directory, size, size) as writer:
        for pairs in chunks:
            writer.append(
                RaggedIds.from_lists([src for src, _ in pairs]), RaggedIds.from_lists([tgt for _, tgt in pairs])
            )
    return MappedCorpus(directory)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(chunk, max_size=4))
def test_what_is_written_is_read(tmp_path: Path, chunks: list[list[tuple[list[int], list[int]]]]) -> None:
    corpus = write(tmp_path / "c", chunks)
    pairs = [pair for pairs in chunks for pair in pairs]
    assert len(corpus) == len(pairs)
    assert [(src.tolist(), tgt.tolist()) for src, tgt in map(corpus.__getitem__, range(len(pairs)))] == pairs
    src, tgt = corpus.lengths(np.arange(len(pairs)))
    assert list(zip(src, tgt, strict=True)) == [(len(s), len(t)) for s, t in pairs]
    assert corpus.n_ids == (sum(len(s) for s, _ in pairs), sum(len(t) for _, t in pairs))


def test_the_first_ids_of_a_side_are_those_of_its_first_sentences(tmp_path: Path) -> None:
    for pairs in ([([9], [9])], [([1, 2], [5]), ([3], [6, 7, 8])]):
        corpus = write(tmp_path / "deep" / "c", [pairs])  # in the place of the one before
    for n in range(6):
        assert corpus.ids(0, n).tolist() == [1, 2, 3][:n]
        assert corpus.ids(1, n).tolist() == [5, 6, 7, 8][:n]


def test_lengths_come_in_any_order_and_number(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", [[([1] * i, [2] * (9 - i)) for i in range(10)]])
    src, tgt = corpus.lengths(np.array([7, 0, 7]))
    assert (src.tolist(), tgt.tolist()) == ([7, 0, 7], [2, 9, 2])


@pytest.mark.parametrize(("size", "dtype"), [(100, "uint16"), (65_536, "uint16"), (65_537, "uint32")])
def test_ids_take_no_more_room_than_the_vocabulary_needs(tmp_path: Path, size: int, dtype: str) -> None:
    corpus = write(tmp_path / "c", [[([0, size - 1], [5])]], size)
    assert corpus[0][0].dtype == dtype
    assert corpus[0][0].tolist() == [0, size - 1]


@pytest.mark.parametrize("stranger", [100, -1, 70_000])
def test_an_id_that_is_not_in_the_vocabulary_is_refused(tmp_path: Path, stranger: int) -> None:
    with pytest.raises(DataError, match=f"tgt id {stranger} is not in the vocabulary of 100 tokens"):
        write(tmp_path / "c", [[([1], [2, stranger, 3])]])


def test_a_corpus_is_mapped_and_read_only(tmp_path: Path) -> None:
    src, _ = write(tmp_path / "c", [[([1, 2], [3])]])[0]
    with pytest.raises(ValueError, match="read-only"):
        src[0] = 9


def test_another_process_gets_the_place_and_not_the_contents(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c", [[([7] * 5000, [8] * 5000)]])
    sent = pickle.dumps(corpus)
    assert len(sent) < 500
    assert pickle.loads(sent)[0][1].tolist() == [8] * 5000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    draw = random.Random(1)
    sentence = lambda: [draw.randrange(100) for _ in range(draw.randint(0, 9))]  # noqa: E731
    return write(tmp_path / "c", [[(sentence(), sentence()) for _ in range(50)]]).directory


@pytest.mark.parametrize("name", ["src.ids", "tgt.ids", "src.offsets", "tgt.offsets", "corpus.json"])
def test_a_cut_file_is_found_on_opening(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    for size in {0, 1, len(whole) // 2, len(whole) - 1}:
        (folder / name).write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"damaged.*prepare again"):
            MappedCorpus(folder)
    (folder / name).unlink()
    with pytest.raises(DataError, match=r"missing.*prepare again"):
        MappedCorpus(folder)


def contents(folder: Path) -> list[tuple[list[int], list[int]]]:
    corpus = MappedCorpus(folder)
    corpus.lengths(np.arange(len(corpus)))
    return [(src.tolist(), tgt.tolist()) for src, tgt in map(corpus.__getitem__, range(len(corpus)))]


def test_a_flipped_bit_is_an_error_or_changes_nothing(folder: Path) -> None:
    """Sizes and times stay, as of a file that the disk damages."""
    draw, written = random.Random(2), contents(folder)
    n_found = 0
    for path in sorted(folder.iterdir()):
        whole, time = path.read_bytes(), path.stat().st_mtime_ns
        for _ in range(20):
            flipped = bytearray(whole)
            flipped[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
            path.write_bytes(flipped)
            os.utime(path, ns=(time, time))
            try:
                assert contents(folder) == written
            except DataError as error:
                assert "damaged" in str(error)  # noqa: PT017
                n_found += 1
        path.write_bytes(whole)
    assert n_found >= 8 * 20  # all but some white space of the manifest


def test_the_error_names_the_file_and_the_bytes(tmp_path: Path) -> None:
    folder = write(tmp_path / "c", [[([7] * 5000, [8] * 5000)] * 4]).directory
    data = bytearray((folder / "tgt.ids").read_bytes())
    data[2 * BLOCK + 1] ^= 1
    (folder / "tgt.ids").write_bytes(data)
    corpus = MappedCorpus(folder)
    assert corpus[0][1].tolist() == [8] * 5000  # what is whole can be read
    with pytest.raises(DataError, match=r"tgt.ids is damaged.*bytes 32,768 to 40,000 are not as they were written"):
        corpus[3]


def test_blocks_are_checked_as_they_are_read(tmp_path: Path) -> None:
    """Opening a corpus of any size reads none of it."""
    corpus = write(tmp_path / "c", [[([7] * 50, [8] * 50)] * 1000])
    checked = lambda: [array.unread.count(0) for array in (*corpus._offsets, *corpus._ids)]  # noqa: E731
    assert checked() == [0, 0, 0, 0]
    corpus.lengths(np.array([0, 5]))
    assert checked() == [1, 1, 0, 0]
    assert corpus[999][0].tolist() == [7] * 50
    assert checked() == [1, 1, 1, 1]
    assert corpus[327][0].tolist() == [7] * 50  # across two blocks
    assert checked() == [1, 1, 3, 3]


def test_a_writer_that_fails_leaves_no_corpus(tmp_path: Path) -> None:
    def fail() -> None:
        with MappedCorpusWriter(tmp_path / "c", 9, 9) as writer:
            writer.append(RaggedIds.from_lists([[1]]), RaggedIds.from_lists([[2]]))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with pytest.raises(DataError, match="no prepared corpus here"):
        MappedCorpus(tmp_path / "c")


def test_a_later_format_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.data.mapped_corpus.FORMAT", 2)
    with pytest.raises(DataError, match="format 1, expected 2"):
        MappedCorpus(folder)


@pytest.mark.slow
def test_ten_million_pairs_open_at_once(tmp_path: Path) -> None:
    n, chunk = 10**7, 10**6
    with MappedCorpusWriter(tmp_path / "c", 100, 100) as writer:
        sentences = RaggedIds(np.full(2 * chunk, 7), np.full(chunk, 2))
        for _ in range(n // chunk):
            writer.append(sentences, sentences)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    corpus = MappedCorpus(tmp_path / "c")
    assert corpus[n - 1][1].tolist() == [7, 7]
    assert time.monotonic() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KB
    src, _ = corpus.lengths(np.arange(0, n, 97))
    assert (src == 2).all()
