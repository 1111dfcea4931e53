"""Lines of text files: where they end, which number they have, and the error for one that is not text."""

from __future__ import annotations

import bz2
import codecs
import gzip
import importlib
import lzma
import os
from typing import TYPE_CHECKING

import pytest

from s2s.data import text
from s2s.data.text import (
    INVALID_UTF8,
    MAX_LINE,
    NUL,
    TOO_LONG,
    blocks,
    missing_file_error,
    numbered_lines,
    open_bytes,
    pair_format,
    read_lines,
)
from s2s.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.task import Rejected


def write(folder: Path, data: bytes, name: str = "a.txt") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000], ids=str)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("last", [True, False], ids=["ended", "not ended"])
def test_lines_end_at_line_feeds_alone_whatever_is_read_at_once(
    block: int, end: str, last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK", block)
    lines = ["one", "", "zwei\u2028\x85\x0b", "drei \rx", " vier ", "\ufefffünf", "", "x"]
    path = write(tmp_path, ("\ufeff" + end.join(lines) + (end if last else "")).encode())
    assert list(read_lines(path)) == lines
    assert list(numbered_lines(path, "error")) == list(enumerate(lines, 1))
    assert [line for some in blocks(path, "error") for line in some] == lines


@pytest.mark.parametrize(("data", "lines"), [(b"", []), (b"\n", [""]), (b"\n\n", ["", ""]), (b"\xef\xbb\xbf", [""])])
def test_a_file_may_have_no_line_or_empty_ones(data: bytes, lines: list[str], tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path, data))) == lines


@pytest.mark.parametrize("block", [1, 4, 1000], ids=str)
@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        (b"\xc3\xa4b\xffc", INVALID_UTF8, "a.txt:3: invalid UTF-8 byte 0xff at column 3; "),
        (b"\xff", INVALID_UTF8, "a.txt:3: invalid UTF-8 byte 0xff at column 1; "),
        ("äb\0c".encode(), NUL, "a.txt:3: NUL character at column 3; "),
        (b"\0", NUL, "a.txt:3: NUL character at column 1; "),
    ],
    ids=["utf-8", "utf-8 at once", "nul", "nul at once"],
)
def test_a_line_that_is_no_text_is_an_error_at_its_place_or_dropped(
    line: bytes, reason: Rejected, message: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK", block)
    path = write(tmp_path, b"one\ntwo\r\n" + line + b"\nfour\r\nfive\n")
    with pytest.raises(
        DataError, match=f"{message}(repair the file, or drop such lines with task.invalid=drop|convert it: iconv)"
    ):
        list(numbered_lines(path, "error"))
    assert list(numbered_lines(path, "drop")) == [(1, "one"), (2, "two"), (3, reason), (4, "four"), (5, "five")]
    assert list(read_lines(path, "drop")) == ["one", "two", "four", "five"]
    with pytest.raises(DataError, match=message):
        list(read_lines(path))


@pytest.mark.parametrize("block", [3, 10, 1000], ids=str)
def test_a_line_has_at_most_so_many_bytes(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", block)
    monkeypatch.setattr(text, "MAX_LINE", 20)
    assert list(read_lines(write(tmp_path, b"x" * 20 + b"\n" + b"y" * 20))) == ["x" * 20, "y" * 20]
    for n in (21, 100):
        path = write(tmp_path, b"one\n" + b"x" * n + b"\nthree\n")
        with pytest.raises(DataError, match=r"a.txt:2: a line of more than 1,048,576 bytes; is this file text\?"):
            list(read_lines(path))
        assert list(numbered_lines(path, "drop")) == [(1, "one"), (2, TOO_LONG), (3, "three")]
        path = write(tmp_path, b"one\n" + b"x" * n)
        assert list(numbered_lines(path, "drop")) == [(1, "one"), (2, TOO_LONG)]


def test_a_line_of_any_length_takes_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that is too long, no more than twice the limit and two blocks is kept, and enough to tell that it is."""
    monkeypatch.setattr(text, "BLOCK", 10)
    monkeypatch.setattr(text, "MAX_LINE", 20)
    for n in (*range(15, 80), 1000):
        path = write(tmp_path, b"x" * n + b"\nend\n" + b"y" * 20 + b"\n")
        first = "x" * n if n <= 20 else TOO_LONG
        assert list(numbered_lines(path, "drop")) == [(1, first), (2, "end"), (3, "y" * 20)]
        assert max(len(data) for data in text._whole_lines(path, "drop")) <= 2 * (20 + 10)
    monkeypatch.setattr(text, "BLOCK", 1000)
    path = write(tmp_path, b"y" * 20 + b"\n" + b"x" * 21 + b"\n")
    assert list(numbered_lines(path, "drop")) == [(1, "y" * 20), (2, TOO_LONG)]


def test_a_line_may_have_a_mebibyte() -> None:
    assert MAX_LINE == 1 << 20


def test_gzip_is_seen_by_its_first_bytes(tmp_path: Path) -> None:
    data = gzip.compress(b"one\ntwo\n")
    for name in ("a.gz", "a.txt"):
        assert list(read_lines(write(tmp_path, data, name))) == ["one", "two"]
    with open_bytes(write(tmp_path, b"plain")) as file:
        assert file.read() == b"plain"


ZSTD = bytes.fromhex("28b52ffd20042100006f6e650a")
"""A frame of Zstandard that holds "one", without a checksum"""
COMPRESSED = {
    "gzip": gzip.compress(b"one\n") + gzip.compress(b"two\n"),
    "bzip2": bz2.compress(b"one\n") + bz2.compress(b"two\n", 1),
    "xz": lzma.compress(b"one\n") + lzma.compress(b"two\n"),
    "Zstandard": ZSTD + ZSTD.replace(b"one", b"two"),
}
"""Two streams each, as parallel compressors write them"""


@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_files_are_read_whatever_their_name(kind: str, tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path, COMPRESSED[kind], "a.en"))) == ["one", "two"]
    for damaged in (COMPRESSED[kind][:-3], COMPRESSED[kind][:12]):
        with pytest.raises(DataError, match=f"a.en: the {kind} file is (cut off|damaged)"):
            list(read_lines(write(tmp_path, damaged, "a.en")))


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (b"gut\n" * 3 + "Tür\n".encode("latin-1"), "repair the file, or drop such lines with task.invalid=drop"),
        (b"gut\n" + "Tür\n".encode("latin-1") * 3, "convert it: iconv -f LATIN1 -t UTF-8, if that is its encoding"),
        ("gut\n".encode("utf-16-le"), "convert it: iconv -f UTF-16LE -t UTF-8, if that is its encoding"),
    ],
    ids=["one line", "most lines", "UTF-16 without a mark"],
)  # fmt: skip
def test_it_is_not_advised_to_drop_most_lines(data: bytes, advice: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        list(read_lines(write(tmp_path, data)))
    assert str(caught.value).endswith(f"; {advice}")


def test_an_empty_bzip2_file_has_no_line(tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path, bz2.compress(b""), "a.bz2"))) == []


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_a_file_named_as_compressed_that_is_not_is_an_error(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"is not compressed with .*, though its name ends in {suffix};"):
        list(read_lines(write(tmp_path, b"one\n", f"a{suffix}")))


@pytest.mark.parametrize("missing", [True, False], ids=["without the library", "with it"])
def test_zstandard_without_its_library_says_what_to_install(
    missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, ZSTD, "a.zst")
    if missing:
        monkeypatch.setattr("s2s.data.compression._zstd", lambda: importlib.import_module("no_such_module"))
        with pytest.raises(DataError, match=r"a library: pip install backports.zstd \(extra corpora\); or unpack it"):
            list(read_lines(path))
    else:
        assert list(read_lines(path)) == ["one"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"one\n", "is not compressed with gzip, though its name ends in .gz; copy it again, or rename it"),
        (b"ab", "is not compressed with gzip, though its name ends in .gz; copy it again, or rename it"),
        (b"\x1f", "is cut off; copy it again, or rename it"),
        (b"", "is cut off; copy it again, or rename it"),
        (gzip.compress(b"one\n" * 100)[:-9], "the gzip file is cut off; copy or download it again"),
        (b"\x1f\x8b" + b"x" * 50, r"the gzip file is damaged \(.+\); copy or download it again"),
    ],
    ids=["plain", "two bytes", "one byte", "empty", "cut", "damaged"],
)
def test_a_gzip_file_that_is_none_is_an_error(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"a.gz: {message}"):
        list(read_lines(write(tmp_path, data, "a.gz")))


@pytest.mark.parametrize(
    ("data", "what", "remedy"),
    [
        (gzip.compress(b"PK\3\4\x14\0\0\0"), "a zip archive", "unpack it with unzip"),
        (b"PK\3\4\x14\0\0\0", "a zip archive", "unpack it with unzip"),
        ("one\n".encode("utf-16-le"), None, None),
        (codecs.BOM_UTF16_LE + "one\n".encode("utf-16-le"), "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
        (codecs.BOM_UTF16_BE + "one\n".encode("utf-16-be"), "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
        (b"BZhang, PK and zstd\n", None, None),
    ],
    ids=["zip in gzip", "zip", "utf-16 without mark", "utf-16-le", "utf-16-be", "text"],
)
def test_a_file_of_another_format_is_named(data: bytes, what: str | None, remedy: str | None, tmp_path: Path) -> None:
    """Even where invalid lines are dropped: almost all would be, silently."""
    path = write(tmp_path, data)
    if what is None:
        with open_bytes(path) as file:
            assert file.read() == data
        return
    with pytest.raises(DataError) as caught:
        list(read_lines(path, "drop"))
    assert str(caught.value) == f"{path}: is {what}, expected UTF-8 text; {remedy}"


def test_what_is_no_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe: is a pipe or a device, expected a file; write its contents"):
        list(read_lines(tmp_path / "pipe"))
    with pytest.raises(DataError, match="is a folder, expected a file; name the file in it"):
        list(read_lines(tmp_path))


def no_rights(*_: object) -> None:
    raise PermissionError


def broken(*_: object) -> None:
    raise OSError(5, "Input/output error")


def test_a_file_that_cannot_be_read_is_an_error_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, b"one\n")
    monkeypatch.setattr("pathlib.Path.open", no_rights)
    with pytest.raises(DataError, match=r"a.txt: may not be read; give yourself permission \(chmod u\+r\)"):
        list(read_lines(path))
    monkeypatch.setattr("pathlib.Path.open", broken)
    with pytest.raises(DataError, match=r"a.txt: cannot be read: Input/output error"):
        list(read_lines(path))


def test_of_a_missing_file_one_with_a_like_name_is_offered(tmp_path: Path) -> None:
    write(tmp_path, b"", "train.en")
    write(tmp_path, b"", "other")
    assert str(missing_file_error(tmp_path / "trian.en")) == (
        f"{tmp_path}/trian.en: no such file. Did you mean {tmp_path}/train.en?"
    )
    assert str(missing_file_error(tmp_path / "xyz")) == f"{tmp_path}/xyz: no such file. Check the path"
    nowhere = tmp_path / "no" / "x"
    assert (
        str(missing_file_error(nowhere)) == f"{nowhere}: no such file; there is no folder {tmp_path}/no. Check the path"
    )
    with pytest.raises(DataError, match="no such file"):
        list(read_lines(nowhere))


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.tsv", "tsv"),
        ("a.tsv.gz", "tsv"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson.gz", "jsonl"),
        ("a.en", None),
        ("a.en.gz", None),
        ("tsv", None),
    ],
)
def test_files_of_pairs_are_known_by_their_names(name: str, form: str | None, tmp_path: Path) -> None:
    assert pair_format(tmp_path / name) == form


def test_a_link_to_nowhere_is_not_suggested_as_itself(tmp_path: Path) -> None:
    (tmp_path / "train.en").symlink_to("elsewhere.en")
    assert str(missing_file_error(tmp_path / "train.en")) == (
        f"{tmp_path}/train.en is a link to elsewhere.en, which does not exist. Check the link"
    )
    assert did_you_mean("bleu", ["bleu", "gleu"]) == " Did you mean 'gleu'?"
