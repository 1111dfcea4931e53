"""Shards of samples in tar archives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.made_up_archives import tar_of
from s2s import DataError, Example, Rejected
from s2s_text_corpora import ParallelConfig
from s2s_text_corpora.parallel import ParallelCorpus

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [(f"one {i}", f"eins {i}") for i in range(3)]
IMAGE = b"\xff\xd8\xff\xe0"


def read(path: Path, **options: Any) -> list[Example | Rejected]:
    return list(ParallelCorpus(ParallelConfig(files=[str(path)], **options)).examples("train"))


def sides(examples: list[Example | Rejected]) -> list[tuple[str, str]]:
    return [(one.src, one.tgt) for one in examples if isinstance(one, Example)]


FORMS: dict[str, dict[str, bytes]] = {
    "texts": {
        f"a/{i}.{language}.txt": text.encode()
        for i, pair in enumerate(PAIRS)
        for language, text in zip(("de", "en"), pair[::-1], strict=True)
    },
    "endings": {
        f"{i}.{key}": f"{t}\n".encode() for i, p in enumerate(PAIRS) for key, t in zip(("en", "de"), p, strict=True)
    },
    "json": {f"{i:03}.json": json.dumps({"en": a, "de": b, "id": i}).encode() for i, (a, b) in enumerate(PAIRS)},
    "translations": {
        f"{i}.json": json.dumps({"translation": {"de": b, "en": a}}).encode() for i, (a, b) in enumerate(PAIRS)
    },
    "beside images": {
        name: data
        for i, (a, b) in enumerate(PAIRS)
        for name, data in ((f"{i}.jpg", IMAGE), (f"{i}.src.txt", a.encode()), (f"{i}.tgt.txt", b.encode()))
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz"])
def test_samples_are_pairs(form: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(tar_of(FORMS[form], "w" if name == "a.tar" else "w:gz"))
    assert sides(read(path, src_lang="en", tgt_lang="de")) == PAIRS


def test_other_keys_are_fields(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(FORMS["json"], "w"))
    assert read(tmp_path / "a.tar", src_lang="en", tgt_lang="de")[2] == Example("one 2", "eins 2", {"id": 2})


def test_a_folder_of_shards_is_one_corpus_by_split(tmp_path: Path) -> None:
    for split in ("train", "test"):
        for number in range(2):
            (tmp_path / f"{split}-{number}.tar").write_bytes(
                tar_of({f"{number}.json": b'{"src": "a", "tgt": "b"}'}, "w")
            )
    assert sides(read(tmp_path)) == [("a", "b")] * 2


def test_a_sample_without_a_side_is_an_error_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({**FORMS["endings"], "7.en": b"alone"}, "w"))
    with pytest.raises(DataError, match='sample 4: "de" is missing'):
        read(path, src_lang="en", tgt_lang="de")
    assert read(path, src_lang="en", tgt_lang="de", invalid="drop")[3] == Rejected("not a pair")


def test_text_that_is_not_utf8_is_an_error_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({"0.src.txt": b"\xff\xff", "0.tgt.txt": b"x", "1.src.txt": b"a", "1.tgt.txt": b"b"}, "w"))
    with pytest.raises(DataError, match=r"0\.src\.txt is not UTF-8"):
        read(path)
    assert read(path, invalid="drop") == [Rejected("invalid UTF-8"), Example("a", "b")]


def test_an_archive_of_whole_corpora_is_not_read_as_samples(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({"corpus.en": b"line\n" * 2_000_000, "corpus.de": b"Zeile\n"}, "w"))
    with pytest.raises(DataError, match="no archive of samples; unpack it: tar xf"):
        read(path)


@pytest.mark.parametrize(
    "data", [b"", b"no archive" * 100, tar_of(FORMS["json"], "w")[:700]], ids=["empty", "text", "cut"]
)
def test_what_is_no_archive_is_one_line(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(data)
    with pytest.raises(DataError) as error:
        read(path)
    assert "\n" not in str(error.value)
