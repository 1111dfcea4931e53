"""Reading pairs, against a second reader that is written as plainly as can be."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.folders import DATA
from s2s.data import text as text_module
from s2s.data.compression import COMPRESSIONS
from s2s.data.corpus_options import parse_corpora
from s2s.data.pair_files import PAIR_FILES
from s2s.data.text import MAX_LINE, TOO_LONG, numbered_lines, read_lines
from s2s.errors import ConfigError, DataError
from s2s.task import Example, Rejected
from s2s_text_corpora.parallel import read_pairs

FUZZ = settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])


def plain_lines(data: bytes) -> list[str | Rejected]:
    """The second reader: one line at a time, nothing clever."""
    raw_lines = data.split(b"\n")
    if raw_lines[-1] == b"":
        raw_lines.pop()
    lines: list[str | Rejected] = []
    for number, raw in enumerate(raw_lines):
        try:
            line = raw.decode("utf-8", "strict")
        except UnicodeDecodeError:
            lines.append(Rejected("invalid UTF-8"))
            continue
        if line.endswith("\r"):
            line = line[:-1]
        if "\0" in line:
            lines.append(Rejected("NUL character"))
            continue
        lines.append(line[1:] if number == 0 and line.startswith("\ufeff") else line)
    return lines


def plain_pair(src: str | Rejected, tgt: str | Rejected) -> Example | Rejected:
    for side in (src, tgt):
        if isinstance(side, Rejected):
            return side
    return Example(src, tgt) if src.strip() and tgt.strip() else Rejected("empty")


def plain_tsv(line: str | Rejected) -> Example | Rejected:
    if isinstance(line, Rejected) or not line.strip():
        return line if isinstance(line, Rejected) else Rejected("empty")
    columns = line.split("\t")
    return plain_pair(*columns) if len(columns) == 2 else Rejected("not a pair")


def usual_columns(data: bytes) -> int:
    """The most frequent number of columns, of two or more."""
    counts = Counter(line.count("\t") + 1 for line in plain_lines(data) if isinstance(line, str) and line.strip())
    counts.pop(1, None)
    return min(counts, key=lambda n: (-counts[n], n), default=2)


def plain_jsonl(line: str | Rejected) -> Example | Rejected:
    if isinstance(line, Rejected) or not line.strip():
        return line if isinstance(line, Rejected) else Rejected("empty")
    try:
        record = json.loads(line)
        src, tgt = record["src"], record["tgt"]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return Rejected("not a pair")
    if not isinstance(src, str) or not isinstance(tgt, str):
        return Rejected("not a pair")
    return plain_pair(spelt(src), spelt(tgt))


def spelt(text: str) -> str | Rejected:
    if "\0" in text:
        return Rejected("NUL character")
    return Rejected("invalid UTF-8") if any(0xD800 <= ord(c) <= 0xDFFF for c in text) else text


NASTY = [
    b"",
    b" ",
    b"\t",
    b"a",
    b"\r",
    b"a\r",
    b"a\r\r",
    b"\ra",
    b"\xe2\x80\xa8",
    b"\xe2\x80\xa9b",
    b"x\xc2\x85y",
    b"\x0b\x0c",
    b"\xef\xbb\xbf",
    b"\xef\xbb\xbfa",
    b"\xff\xfe",
    b"\x80",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\xaf",
    b"a\0b",
    b"\0",
    "é".encode(),
    "日本語".encode(),
    "😀".encode(),
    "e\u0301".encode(),
    "\u200f\u202e".encode(),
    b"\x1c\x1d\x1e\x1f",
    b"a\tb",
    b"a\tb\tc",
    b"\t\t",
    b'{"src": "a", "tgt": "b"}',
    b'{"src": 1, "tgt": "b"}',
    b'{"src": "\\ud800", "tgt": "b"}',
    b'{"src": "\\u0000", "tgt": "b"}',
    b'["src", "tgt"]',
    b'{"src": "a"}',
    b"null",
    b"NaN",
    b'"src"',
    b"[" * 3000,
    b"1" * 5000,
    b'{"src": "a\\nb", "tgt": "c"}',
    b"\x1f\x8b",
]
nasty_line = st.one_of(
    st.sampled_from(NASTY), st.binary(max_size=12), st.text(max_size=8).map(lambda t: t.encode("utf-8", "replace"))
)
nasty_file = st.builds(
    lambda parts, end: b"\n".join(parts) + end, st.lists(nasty_line, max_size=9), st.sampled_from([b"", b"\n", b"\r\n"])
)


@pytest.fixture(params=[3, 1 << 20], ids=["blocks of 3 bytes", "one block"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines cut by the end of a block are the hardest."""
    monkeypatch.setattr(text_module, "BLOCK", request.param)


def written(path: Path, data: bytes, zipped: bool) -> Path:
    path.write_bytes(gzip.compress(data, 1, mtime=0) if zipped else data)
    return path


def agrees(files: list[Path], expected: list[Example | Rejected]) -> None:
    """Dropping gives what the second reader gives; stopping gives a clear error, or the same if all is well."""
    assert list(read_pairs(files, "drop")) == expected
    bad = {r for r in expected if isinstance(r, Rejected)} - {Rejected("empty")}
    if not bad:
        assert list(read_pairs(files, "error")) == expected
        return
    with pytest.raises(DataError, match=rf"(?s)^{files[0].parent}.*:\d+: .*(drop|convert|so (is|are) \d)"):
        list(read_pairs(files, "error"))


def is_other_format(data: bytes, *, zipped: bool = False) -> bool:
    """Compressed, unless it is that once more, an archive, or UTF-16."""
    kinds = () if zipped else COMPRESSIONS
    marks = [*text_module.OTHER_FORMATS, *(kind.first_bytes for kind in kinds if kind.name != "bzip2")]
    is_bzip2 = bool(kinds) and re.match(rb"BZh\d(1AY&SY|\x17\x72\x45\x38\x50\x90)", data) is not None
    return is_bzip2 or data.startswith(tuple(marks))  # text may begin with BZh


@FUZZ
@given(src=nasty_file, tgt=nasty_file, zipped=st.booleans())
@example(src=b"", tgt=b"BZh", zipped=False)
def test_two_files_of_anything_are_never_misaligned(
    tmp_path: Path, block: None, src: bytes, tgt: bytes, zipped: bool
) -> None:
    files = [written(tmp_path / "a.en", src, zipped), written(tmp_path / "a.de", tgt, False)]
    src_lines, tgt_lines = plain_lines(src), plain_lines(tgt)
    if is_other_format(tgt) or is_other_format(src, zipped=zipped):
        with pytest.raises(DataError, match=r"file is (damaged|cut off)|is (UTF-16|a zip archive|a 7-Zip archive)"):
            list(read_pairs(files, "drop"))
    elif len(src_lines) != len(tgt_lines):
        with pytest.raises(DataError, match=f"has {len(src_lines)} lines and .* has {len(tgt_lines)};"):
            list(read_pairs(files, "drop"))
    else:
        agrees(files, [plain_pair(s, t) for s, t in zip(src_lines, tgt_lines, strict=True)])


@FUZZ
@given(lines=st.lists(st.tuples(nasty_line, nasty_line), max_size=9))
def test_two_files_of_as_many_lines_keep_every_pair_in_its_place(
    tmp_path: Path, block: None, lines: list[tuple[bytes, bytes]]
) -> None:
    sides = [b"".join(side.replace(b"\n", b"") + b"\n" for side in sides) for sides in zip(*lines, strict=True)] or [
        b"",
        b"",
    ]
    if any(map(is_other_format, sides)):
        return
    files = [written(tmp_path / name, side, False) for name, side in zip(("a.en", "a.de"), sides, strict=True)]
    expected = [plain_pair(s, t) for s, t in zip(*map(plain_lines, sides), strict=True)]
    assert len(expected) == len(lines)
    agrees(files, expected)


@FUZZ
@given(data=nasty_file, zipped=st.booleans(), kind=st.sampled_from(["tsv", "jsonl"]))
def test_one_file_of_anything_gives_a_pair_or_a_reason_a_line(
    tmp_path: Path, block: None, data: bytes, zipped: bool, kind: str
) -> None:
    if is_other_format(data) or usual_columns(data) != 2:
        return
    parse = plain_tsv if kind == "tsv" else plain_jsonl
    file = written(tmp_path / f"a.{kind}{'.gz' if zipped else ''}", data, zipped)
    agrees([file], [parse(line) for line in plain_lines(data)])


json_value = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["src", "tgt", "files", "weight", "name", "corpus", "x"]), inner, max_size=3)
        | st.lists(st.sampled_from(["a.en", "a.de", "b.tsv", "c.jsonl.gz", "d"]), max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300)
@given(json_value)
def test_any_value_names_corpora_or_is_refused(value: object) -> None:
    try:
        corpora = parse_corpora(value, "task.train", PAIR_FILES)
    except ConfigError as error:
        assert str(error).startswith("task.train")  # noqa: PT017
        return
    assert len({corpus.name for corpus in corpora}) == len(corpora)
    assert all(corpus.corpus != "parallel" or len(corpus.options["files"]) in (1, 2) for corpus in corpora)
    assert all(corpus.weight > 0 for corpus in corpora)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["a.en", "a.de"], [("a", ["a.en", "a.de"], 1)]),
        ("d/pairs.tsv", [("pairs", ["d/pairs.tsv"], 1)]),
        (["a.tsv", "b.jsonl.gz"], [("a", ["a.tsv"], 1), ("b", ["b.jsonl.gz"], 1)]),
        (["a.tsv"], [("a", ["a.tsv"], 1)]),
        ([["a.en", "a.de"], ["b.en.gz", "b.de"]], [("a", ["a.en", "a.de"], 1), ("b", ["b.en.gz", "b.de"], 1)]),
        (
            [["x/a.en", "x/a.de"], ["y/a.en", "y/a.de"]],
            [("a", ["x/a.en", "x/a.de"], 1), ("a-2", ["y/a.en", "y/a.de"], 1)],
        ),
        ([{"files": ["a.en", "a.de"], "weight": 2}, "b.tsv"], [("a", ["a.en", "a.de"], 2), ("b", ["b.tsv"], 1)]),
        ({"files": "b.tsv", "weight": 0.5, "name": "news"}, [("news", ["b.tsv"], 0.5)]),
        (
            {"old": ["a.en", "a.de"], "new": {"files": "b.tsv", "weight": 3}},
            [("old", ["a.en", "a.de"], 1), ("new", ["b.tsv"], 3)],
        ),
        (["en", "de"], [("en", ["en", "de"], 1)]),
        (None, []),
        ([], []),
        ("", []),
    ],
    ids=str,
)
def test_every_way_to_name_corpora(value: object, expected: list[tuple[str, list[str], float]]) -> None:
    found = parse_corpora(value, "task.train", PAIR_FILES)
    assert [(c.name, c.corpus, c.options["files"], c.weight) for c in found] == [
        (name, "parallel", files, weight) for name, files, weight in expected
    ]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("a.xls", r"^task.train='a.xls': .xls is not read; convert it: soffice --headless --convert-to xlsx a.xls"),
        (["a.ods.gz"], ".ods is not read"),
        (["de.sgm", "en.sgm"], r"convert it: sed -n '.*' de.sgm > de.txt"),
        (["a.en", "a.de", "a.fr"], "does not name a corpus"),
        (["a.en", "b.tsv", "c.tsv"], "does not name a corpus"),
        ([["a.en", "a.de"], 3], r"^task.train\[1\]=3 does not name"),
        (7, "does not name a corpus"),
        ([{"weight": 2}], r"^task.train\[0\]: 'files' is missing"),
        ({"news": {"weight": 2}}, r"^task.train.news: 'files' is missing"),
        ({"files": "a.tsv", "weight": 0}, "weight=0 must be a number from 0.0001 to a million"),
        ({"files": "a.tsv", "weight": True}, "weight=True must be a number from 0.0001 to a million"),
        ({"files": "a.tsv", "weight": float("nan")}, "weight=nan must be a number from 0.0001 to a million"),
        ({"files": "a.tsv", "weight": 1e-300}, "weight=1e-300 must be a number from 0.0001 to a million"),
        ({"files": "a.tsv", "weight": 1e300}, r"weight=1e\+300 must be a number from 0.0001 to a million"),
        ("~no-such-user/a.tsv", "no such user"),
        ("a\0.tsv", "NUL"),
    ],
    ids=repr,
)  # fmt: skip
def test_what_names_no_corpus_is_refused_with_an_example(value: object, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_corpora(value, "task.train", PAIR_FILES)


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    file = written(tmp_path / "x", "a\u2028b\nc\u0085d\ne\x0bf\x0cg\nh\ri\r\n\x1c\x1d\x1e\nj".encode(), False)
    assert list(read_lines(file)) == ["a\u2028b", "c\u0085d", "e\x0bf\x0cg", "h\ri", "\x1c\x1d\x1e", "j"]


def test_an_error_names_file_line_and_column(tmp_path: Path) -> None:
    src = written(tmp_path / "a.en", "eins\nzwei\nüber\nx".encode() + b"y\xff", False)
    tgt = written(tmp_path / "a.de", b"one\ntwo\nthree\nfour", False)
    with pytest.raises(DataError) as error:
        list(read_pairs([src, tgt]))
    assert str(error.value).startswith(f"{src}:4: invalid UTF-8 byte 0xff at column 3; repair the file")


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("a.tsv", b"a\tb\na\tb\tc\n", "a.tsv:2: 3 columns, expected 2"),
        ("a.tsv", b"alone\n", "a.tsv:1: 1 column, expected 2"),
        ("a.tsv", b"a\tb\na\0\tb\n", "a.tsv:2: NUL character at column 2"),
        ("a.jsonl", b'{"src": "a", "tgt": "b"}\n{"src": "a"\n', r"a.jsonl:2: not JSON \(Expecting"),
        ("a.jsonl", b"[1]\n", "a.jsonl:1: not a JSON object"),
        ("a.jsonl", b'{"src": "a"}\n', 'a.jsonl:1: "tgt" is missing'),
        ("a.jsonl", b'{"src": "a", "tgt": 5}\n', 'a.jsonl:1: "tgt" is not text'),
        ("a.jsonl", b"[" * 100_000 + b"\n", "a.jsonl:1: not JSON"),
        ("a.txt", b"a b\n", "its first line has no tab; give the files of both sides"),
        ("a.tsv", b"a,b\nc,d\n", "a.tsv:1: 1 column, .*; so are 2 of the first 2: is this the right file"),
        ("a.tsv.gz", b"a\tb\n", "is not compressed with gzip"),
        ("a.tsv.gz", b"", "is cut off"),
        ("a.tsv.gz", gzip.compress(b"a\tb\n" * 9999)[:-20], "gzip file is cut off"),
        ("a.tsv.gz", gzip.compress(b"a\tb\n" * 9999)[:12], "gzip file is (cut off|damaged)"),
        ("a.tsv.gz", gzip.compress(b"a\tb\n")[:-8] + b"12345678", "gzip file is damaged"),
        ("a.tsv", gzip.compress(b"a\tb\n") + b"rest", "gzip file is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_bad_file_gets_one_clear_line(tmp_path: Path, name: str, data: bytes, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint) as error:
        list(read_pairs([written(tmp_path / name, data, False)]))
    assert "\n" not in str(error.value)


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "corpus.en").touch()
    with pytest.raises(DataError, match=rf"no such file. Did you mean {tmp_path}/corpus.en\?"):
        list(read_lines(tmp_path / "corpsu.en"))
    with pytest.raises(DataError, match="there is no folder"):
        list(read_lines(tmp_path / "nowhere" / "corpus.en"))
    with pytest.raises(DataError, match="is a folder, expected a file"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize(
    ("raised", "complaint"),
    [
        (PermissionError(13, "Permission denied"), "may not be read"),
        (OSError(5, "Input/output error"), "Input/output error"),
    ],
    ids=["permission", "disk"],
)
def test_a_file_that_cannot_be_read_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: OSError, complaint: str
) -> None:
    def refuse(self: Path, mode: str) -> None:
        raise raised

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=complaint):
        list(read_lines(tmp_path / "x"))


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared corpora")
@pytest.mark.parametrize("side", ["src", "tgt"])
@pytest.mark.parametrize("lost", [1, 3])
def test_files_that_part_are_told_where(tmp_path: Path, side: str, lost: int) -> None:
    """Real sentences, a few lines of one side taken out in the middle."""
    folder = DATA / "multi30k"
    sides = {"src": (folder / "val.en").read_bytes().split(b"\n"), "tgt": (folder / "val.de").read_bytes().split(b"\n")}
    del sides[side][600 : 600 + lost]
    files = [written(tmp_path / name, b"\n".join(sides[name]), False) for name in ("src", "tgt")]
    with pytest.raises(DataError, match=r"part near line (\d+): look there") as error:
        list(read_pairs(files))
    assert abs(int(str(error.value).split("near line ")[1].split(":")[0]) - 601) <= 10


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared corpora")
def test_a_file_that_ends_early_is_told_so(tmp_path: Path) -> None:
    folder = DATA / "multi30k"
    cut = written(tmp_path / "cut.de", b"\n".join((folder / "val.de").read_bytes().split(b"\n")[:900]), False)
    with pytest.raises(DataError, match=r"has 1,014 lines and .*cut.de has 900;.*cut off at its end"):
        list(read_pairs([folder / "val.en", cut]))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    draw = random.Random(1)
    lines = [f"{draw.random()} " * draw.randint(1, 9) for _ in range(1000)]
    sizes = []
    for copies in (16, 64):
        file = written(tmp_path / "a.tsv", "".join(f"{line}\t{line}\n" for line in lines * copies).encode(), False)
        tracemalloc.start()
        assert sum(1 for _ in read_pairs([file])) == 1000 * copies
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert sizes[1] < 1.2 * sizes[0]


@pytest.mark.parametrize("n", [MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 3 * MAX_LINE + 7])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line_has_a_limit_and_its_neighbours_are_read(tmp_path: Path, n: int, end: str) -> None:
    path = tmp_path / "long"
    path.write_text(f"a\nb\n{'x' * n}\nc\n{'y' * 10}{end}")
    if n <= MAX_LINE:
        assert [len(line) for line in read_lines(path)] == [1, 1, n, 1, 10]
        return
    with pytest.raises(DataError, match=r"long:3: a line of more than 1,048,576 bytes; is this file text"):
        list(read_lines(path))
    found = dict(numbered_lines(path, "drop"))
    assert found == {1: "a", 2: "b", 3: TOO_LONG, 4: "c", 5: "y" * 10}


def test_a_pipe_or_a_device_is_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("zero", "pipe"):
        with pytest.raises(DataError, match="is a pipe or a device, expected a file"):
            list(read_lines(tmp_path / name))
