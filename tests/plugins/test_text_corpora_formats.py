"""Files that hold both sides of pairs, in every format that people have them in."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import openpyxl
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from s2s import ConfigError, DataError, Example, Rejected
from s2s.cli.prepare import main as prepare
from s2s.cli.train import main as train
from s2s.data.compression import _zstd
from s2s_text_corpora import ParallelConfig
from s2s_text_corpora.pair_file import library
from s2s_text_corpora.parallel import ParallelCorpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Pairs = "Sequence[tuple[str, str]]"
PAIRS = [
    (f"The {n} old houses, and & <so>.", f'Die {n} "alten" Häuser; größer.') for n in ("one", "two", "three", "four")
]


def corpus(path: Path, **options: Any) -> ParallelCorpus:
    return ParallelCorpus(ParallelConfig(name="parallel", files=[str(path)], **options))


def read(path: Path, **options: Any) -> list[tuple[str, str]]:
    return [(one.src, one.tgt) for one in corpus(path, **options).examples("train") if isinstance(one, Example)]


def told(path: Path, **options: Any) -> str:
    return "; ".join(corpus(path, **options).describe())


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def tsv(pairs: Pairs, header: str = "", end: str = "") -> bytes:
    return (header + "".join(f"{src}\t{tgt}{end}\n" for src, tgt in pairs)).encode()


def csv_of(pairs: Pairs, delimiter: str = ",", header: Sequence[str] = ("source", "target")) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([*([header] if header else []), *pairs])
    return text.getvalue().encode()


def json_lines(records: Sequence[Any]) -> bytes:
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


def translations(pairs: Pairs) -> list[Any]:
    return [{"id": str(i), "translation": {"en": src, "de": tgt}} for i, (src, tgt) in enumerate(pairs)]


def xlsx(pairs: Pairs, header: Sequence[str] = ("English", "German")) -> bytes:
    book = openpyxl.Workbook()
    for row in [header, *pairs]:
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def parquet(pairs: Pairs) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(translations(pairs)), file)
    return file.getvalue()


def arrow(pairs: Pairs) -> bytes:
    table, file = pyarrow.Table.from_pylist(translations(pairs)), io.BytesIO()
    with pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def feather(pairs: Pairs) -> bytes:
    table, file = pyarrow.Table.from_pylist(translations(pairs)), io.BytesIO()
    with pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def tmx(pairs: Pairs, source: str = "en-US", doctype: str = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">') -> str:
    units = "".join(
        f'<tu><tuv xml:lang="de-DE"><seg>{escaped(tgt)}</seg></tuv>\n'
        f'<tuv xml:lang="en-US"><prop>x</prop><seg>{escaped(src)}</seg></tuv></tu>\n'
        for src, tgt in pairs
    )
    return f'{doctype}<tmx version="1.4"><header srclang="{source}"/><body>{units}</body></tmx>'


def xliff(pairs: Pairs) -> bytes:
    units = "".join(
        f'<trans-unit id="{i}"><source><g id="1">{escaped(src)}</g></source><seg-source>z</seg-source>'
        f"<target>{escaped(tgt)}<ph>{{}}</ph></target><alt-trans><target>w</target></alt-trans></trans-unit>"
        for i, (src, tgt) in enumerate(pairs)
    )
    around = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" '
    return f'{around}target-language="de"><body>{units}</body></file></xliff>'.encode()


def xliff2(pairs: Pairs) -> bytes:
    units = "".join(
        f'<x:unit id="{i}"><x:segment><x:source>{escaped(src)}</x:source>'
        f"<x:target>{escaped(tgt)}</x:target></x:segment>"
        "<x:ignorable><x:source> </x:source></x:ignorable></x:unit>"
        for i, (src, tgt) in enumerate(pairs)
    )
    around = '<x:xliff version="2.0" xmlns:x="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de">'
    return f'{around}<x:file id="f">{units}</x:file></x:xliff>'.encode()


def po(pairs: Pairs) -> bytes:
    def quoted(text: str) -> str:
        return text.replace('"', '\\"')

    units = "".join(f'msgid "{quoted(src)}"\nmsgstr "{quoted(tgt)}"\n\n' for src, tgt in pairs)
    return f'msgid ""\nmsgstr "Language: de\\nContent-Type: text/plain; charset=UTF-8\\n"\n\n{units}'.encode()


FORMATS: dict[str, Callable[[Pairs], bytes]] = {
    "a.tsv": tsv,
    "a.tab": lambda pairs: tsv(pairs, "Source\tTarget\n"),
    "licensed.tsv": lambda pairs: tsv(pairs, end="\tCC-BY 2.0"),
    "scored.tsv": lambda pairs: "".join(f"0.{i}\t{src}\t{tgt}\n" for i, (src, tgt) in enumerate(pairs)).encode(),
    "deu.txt": lambda pairs: tsv(pairs, end="\tCC-BY 2.0"),
    "bars.txt": lambda pairs: "".join(f"{src} ||| {tgt}\n" for src, tgt in pairs).encode(),
    "a.csv": csv_of,
    "semicolon.csv": lambda pairs: csv_of(pairs, ";", ("English", "German")),
    "bare.csv": lambda pairs: csv_of(pairs, header=()),
    "a.jsonl": lambda pairs: json_lines([{"src": src, "tgt": tgt} for src, tgt in pairs]),
    "named.ndjson": lambda pairs: json_lines([{"id": 1, "source": src, "target": tgt} for src, tgt in pairs]),
    "hub.jsonl": lambda pairs: json_lines(translations(pairs)),
    "a.json": lambda pairs: json.dumps([{"en": src, "de": tgt} for src, tgt in pairs], indent=1).encode(),
    "data.json": lambda pairs: json.dumps({"version": 1, "data": translations(pairs)}).encode(),
    "lines.json": lambda pairs: json_lines(translations(pairs)),
    "a.xlsx": xlsx,
    "a.parquet": parquet,
    "a.arrow": arrow,
    "a.feather": feather,
    "a.tmx": lambda pairs: tmx(pairs).encode(),
    "utf16.tmx": lambda pairs: ('<?xml version="1.0" encoding="UTF-16"?>' + tmx(pairs)).encode("utf-16"),
    "a.xlf": xliff,
    "a.xliff": xliff2,
    "a.sdlxliff": xliff,
    "a.po": po,
    "no_suffix": tsv,
    "parquet": parquet,
    "memory.xml": lambda pairs: tmx(pairs).encode(),
    "a.tsv.gz": lambda pairs: gzip.compress(tsv(pairs)),
    "a.csv.bz2": lambda pairs: bz2.compress(csv_of(pairs)),
    "a.jsonl.xz": lambda pairs: lzma.compress(json_lines(translations(pairs))),
    "a.tmx.zst": lambda pairs: _zstd().compress(tmx(pairs).encode()),
    "a.po.gz": lambda pairs: gzip.compress(po(pairs)),
}  # fmt: skip
each_format = pytest.mark.parametrize("name", FORMATS)


@each_format
def test_a_file_of_pairs_is_read_whole_and_in_its_direction(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMATS[name](PAIRS))
    assert read(tmp_path / name) == PAIRS


@each_format
def test_s2s_prepare_keeps_all_its_pairs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_bytes(FORMATS[name](PAIRS))
    where = [f"task.train={tmp_path / name}", f"task.valid={tmp_path / name}", f"data.prepared={tmp_path / 'prepared'}"]
    assert prepare(["task=translation", "task.subword=characters", "recipe=none", *where]) == 0
    out = capsys.readouterr().out
    assert out.count(": 4 pairs read, 4 kept;") == 2, out


def test_s2s_train_reads_them_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, data in FORMATS.items():
        (tmp_path / name).write_bytes(data(PAIRS))
    corpora = ", ".join(f"c{i}: {{files: {tmp_path / name}}}" for i, name in enumerate(FORMATS))
    small = ["arch=transformer_tiny", "arch.d_model=16", "arch.d_ff=16", "train.tokens=200", "train.threads=1"]
    where = [f"task.train={{{corpora}}}", f"data.prepared={tmp_path / 'prepared'}", f"run={tmp_path / 'run'}"]
    assert train(["task=translation", "task.subword=characters", *small, *where, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.count(": 4 pairs read, 4 kept;") == len(FORMATS), out
    assert "its first row is a header, and no pair: source 'English', target 'German'" in " ".join(out.split())


TWO_WAYS = ["hub.jsonl", "a.json", "a.xlsx", "a.parquet", "a.arrow", "a.tmx", "a.xlf", "a.xliff", "a.po"]


@pytest.mark.parametrize("name", TWO_WAYS)
def test_languages_turn_the_direction(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMATS[name](PAIRS))
    back = [(tgt, src) for src, tgt in PAIRS]
    assert read(tmp_path / name, src_lang="de", tgt_lang="en") == back
    assert read(tmp_path / name, src_lang="de-AT", tgt_lang="en_GB") == back
    assert read(tmp_path / name, src_lang="en", tgt_lang="de") == PAIRS


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("a.tsv", [2, 1]),
        ("a.tab", ["Target", "Source"]),
        ("licensed.tsv", [2, 1]),
        ("a.csv", ["target", "source"]),
        ("semicolon.csv", ["de", "en"]),
        ("named.ndjson", ["target", "source"]),
        ("hub.jsonl", ["translation.de", "translation.en"]),
        ("a.parquet", ["translation.de", "translation.en"]),
        ("a.xlsx", [2, 1]),
        ("a.tmx", ["de", "en"]),
        ("a.po", ["target", "source"]),
    ],
)
def test_columns_are_named_by_name_key_or_number(name: str, columns: list[Any], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMATS[name](PAIRS))
    assert read(tmp_path / name, columns=columns) == [(tgt, src) for src, tgt in PAIRS]


@pytest.mark.parametrize(
    ("name", "data", "options", "line"),
    [
        ("a.tsv", "a\tb\n", {}, ""),
        ("a.tsv", "source\ttarget\na\tb\n", {}, "its first row is a header, and no pair: source 'source'"),
        ("a.csv", "id,text en,text de\n1,a,b\n", {"columns": ["en", "de"]}, "source 'text en', target 'text de'"),
        ("a.csv", "Source,Ours,Target\na,b,c\n", {}, "a header, and no pair: source 'Source', target 'Target'"),
        ("a.csv", "first,second\na,b\n", {"columns": ["first", "second"]}, "its first row is a header"),
        ("a.tsv", "a\tb\tc\n", {}, "source is column 1, target column 2 of 3; task.columns=[…,…] says otherwise"),
        ("a.tsv", "7\tb\thttp://c.d/e\tf\n", {}, "source is column 2, target column 4 of 4"),
        ("a.jsonl", '{"src": "a", "tgt": "b"}\n', {}, ""),
        ("a.jsonl", '{"en": "a", "de": "b", "n": 1}\n', {}, "source 'en', target 'de'"),
        ("a.tsv", "en\tde\nEin Haus.\tA long house.\n", {}, "header"),
        ("a.tsv", "an\tam\nab\toff\n", {}, ""),
        ("a.tsv", "Englisch\tEnglish\nab\toff\n", {}, ""),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_chosen_is_told_in_one_line(
    name: str, data: str, options: dict[str, Any], line: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(data)
    said = told(tmp_path / name, **options)
    assert line in said
    assert bool(line) == bool(said)
    assert len(read(tmp_path / name, **options)) == data.count("\n") - ("header" in said)


@pytest.mark.parametrize(
    ("name", "data", "options", "complaint"),
    [
        ("a.csv", "id,english,german,french\n1,a,b,c\n", {}, "which of id, english, german, french are source"),
        ("a.csv", "source,target\na,b\n", {"columns": ["source", "c"]}, "task.columns names c, but there are source"),
        ("a.tsv", "a\tb\n", {"columns": [1, 3]}, "task.columns names 3, but there are 1, 2"),
        ("a.jsonl", '{"q": "a", "r": "b", "s": "c"}\n', {}, r"which of q, r, s .* Say task.columns=\[SOURCE,TARGET\]"),
        ("a.csv", 'source,target\na,"b\n' + "x" * 200_000, {}, "a.csv:2: field larger .* is a quote not closed there"),
        ("a.tmx", tmx(PAIRS), {"src_lang": "fr", "tgt_lang": "en"}, "fr to en is wanted, but it has en-US, de-DE"),
        ("a.po", po(PAIRS).decode(), {"src_lang": "en", "tgt_lang": "fr"}, "en to fr is wanted, but it has de"),
        ("a.xlf", xliff(PAIRS).decode(), {"src_lang": "en", "tgt_lang": "fr"}, "but it has en to de"),
        ("a.tmx", tmx(PAIRS)[:-9], {}, r"a.tmx:\d+: not well-formed"),
        ("a.json", "[1, 2", {}, "a.json: not JSON"),
        ("a.parquet", "PAR1", {}, "cannot be read as Parquet"),
        ("a.arrow", "a", {}, "cannot be read as Arrow"),
        ("a.xlsx", "PK", {}, "cannot be read as a spreadsheet of Excel"),
        ("a.en", "a b\n", {}, "its first line has no tab; give the files of both sides"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_read_is_one_clear_line(
    name: str, data: str, options: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(data)
    with pytest.raises(DataError, match=complaint) as caught:
        read(tmp_path / name, **options)
    assert "\n" not in str(caught.value)
    assert "invalid=drop" not in str(caught.value)


@pytest.mark.parametrize("options", [{"src_lang": "en", "tgt_lang": "ja"}, {"columns": ["en", "ja"]}], ids=str)
@pytest.mark.parametrize("lacking", ['"de": "c"', '"de": "c", "ja": null'])
def test_keys_that_the_first_record_lacks_are_found(options: dict[str, Any], lacking: str, tmp_path: Path) -> None:
    """A corpus of several languages, not all of which every line has."""
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"id": "b", "en": "a", {lacking}}}\n{{"id": "b", "en": "d", "de": "e", "ja": "f"}}\n')
    assert read(file, **options, invalid="drop") == [("d", "f")]
    with pytest.raises(DataError, match=r'a\.jsonl:1: "ja" is missing'):
        read(file, **options)


def test_languages_that_the_first_object_lacks_are_found_in_others(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"translation": {"en": "a", "de": "b"}}\n{"translation": {"en": "d", "de": "e", "ja": "f"}}\n')
    for options in ({"columns": ["en", "ja"]}, {"src_lang": "en", "tgt_lang": "ja"}):
        assert read(file, **options, invalid="drop") == [("d", "f")]


def test_the_only_two_texts_are_not_taken_for_other_languages(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"en": "a", "de": "b"}\n{"en": "d", "de": "e", "ja": "f"}\n')
    assert read(file, src_lang="en", tgt_lang="ja", invalid="drop") == [("d", "f")]
    file.write_text('{"en": "a", "de": "b"}\n')
    assert read(file, src_lang="en", tgt_lang="de") == read(file) == [("a", "b")]
    with pytest.raises(DataError, match="which of en, de are source and target"):
        read(file, src_lang="en", tgt_lang="ja")


def test_units_without_a_translation_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_bytes(
        po(PAIRS[:1]) + b'#, fuzzy\nmsgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr ""\n\n#~ msgid "d"\n#~ msgstr "e"\n'
    )
    (tmp_path / "a.xlf").write_bytes(
        xliff(PAIRS[:1]).replace(
            b"</body>",
            b'<trans-unit><source>a</source><target state="new">a</target></trans-unit>'
            b"<trans-unit><source>a</source></trans-unit></body>",
        )
    )
    for name in ("a.po", "a.xlf"):
        reasons = [one.reason for one in corpus(tmp_path / name).examples("train") if isinstance(one, Rejected)]
        assert reasons == ["not translated"] * 2


def test_a_plural_gives_its_singular_and_its_last_form(tmp_path: Path) -> None:
    plural = 'msgid "a file"\nmsgid_plural "%d files"\nmsgstr[0] "eine Datei"\nmsgstr[1] "%d Dateien"\n'
    (tmp_path / "a.po").write_bytes(po([]) + plural.encode())
    assert read(tmp_path / "a.po") == [("a file", "eine Datei"), ("%d files", "%d Dateien")]


def test_other_columns_are_fields(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("source,target,document,notes\na,b,7,\n")
    (tmp_path / "a.jsonl").write_bytes(json_lines(translations(PAIRS[:1])))
    for name, expected in (("a.csv", {"document": "7"}), ("a.jsonl", {"id": "0"})):
        (one,) = corpus(tmp_path / name).examples("train")
        assert isinstance(one, Example)
        assert one.fields == expected


def saved(folder: Path, split: str, data: bytes, *, name: str = "data-00000-of-00001.arrow") -> None:
    (folder / split).mkdir(parents=True)
    (folder / split / name).write_bytes(data)
    (folder / split / "cache-1.arrow").write_bytes(b"no table")
    (folder / split / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    (folder / split / "dataset_info.json").write_text("{}")


def test_a_saved_data_set_is_read_by_its_splits(tmp_path: Path) -> None:
    saved(tmp_path / "set", "train", arrow(PAIRS))
    saved(tmp_path / "set", "validation", arrow(PAIRS[:1]))
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    both = corpus(tmp_path / "set")
    assert [len(list(both.examples(split))) for split in ("train", "valid")] == [4, 1]
    assert [file.parent.name for file in both.files("valid")] == ["validation"]
    with pytest.raises(DataError, match="has no files of test, but of train, valid"):
        list(both.examples("test"))


def test_a_folder_of_parquet_is_read_by_the_names_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, pairs in (("train-00000-of-2", PAIRS[:3]), ("train-00001-of-2", PAIRS[3:]), ("dev-0", PAIRS[:1])):
        (tmp_path / "data" / f"{name}.parquet").write_bytes(parquet(pairs))
    assert read(tmp_path) == PAIRS
    assert len(list(corpus(tmp_path).examples("valid"))) == 1


def test_a_folder_without_pairs_says_what_is_expected(tmp_path: Path) -> None:
    (tmp_path / "readme.md").touch()
    with pytest.raises(DataError, match=r"no file in this folder holds pairs; expected .parquet"):
        read(tmp_path)
    saved(tmp_path, "train", b"")
    (tmp_path / "train" / "state.json").write_text('{"_data_files": [], "_indices_data_files": [1]}')
    with pytest.raises(DataError, match=r"save it after flatten_indices\(\)"):
        read(tmp_path)


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
BOMB = f'<!DOCTYPE x [<!ENTITY l0 "lol">{LAUGHS}]>'


@pytest.mark.parametrize("name", ["a.tmx", "a.xlf"])
def test_entities_are_refused(name: str, tmp_path: Path) -> None:
    data = tmx(PAIRS, doctype=BOMB) if name == "a.tmx" else BOMB + xliff(PAIRS).decode()
    (tmp_path / name).write_text(data.replace("old", "&l9;"))
    with pytest.raises(DataError, match="declares an entity"):
        read(tmp_path / name)


def test_entities_of_html_are_read_as_their_characters(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text(tmx(PAIRS[:1]).replace("houses", "h&ouml;uses"))
    assert read(tmp_path / "a.tmx")[0][0] == PAIRS[0][0].replace("houses", "höuses")


def test_deep_xml_and_long_units_are_refused(tmp_path: Path) -> None:
    for inside, complaint in (("<b>" * 300, "more than 200 elements"), ("x" * (9 << 20), "more than 8,388,608 char")):
        (tmp_path / "a.tmx").write_text(f'<tmx><body><tu><tuv xml:lang="en"><seg>{inside}')
        with pytest.raises(DataError, match=complaint):
            read(tmp_path / "a.tmx")


def test_spreadsheets_that_are_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(xlsx(PAIRS))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/evil.xml", BOMB)
    with pytest.raises(DataError, match="declares entities"):
        read(path)
    path.write_bytes(xlsx(PAIRS))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/evil.xml", bytes(1 << 20))
    monkeypatch.setattr("s2s_text_corpora.spreadsheet.MAX_BYTES", 1 << 20)
    with pytest.raises(DataError, match="more than 1,048,576 bytes unpacked"):
        read(path)


def test_a_spreadsheet_that_is_not_well_formed_is_refused(tmp_path: Path) -> None:
    """openpyxl reads it with lxml, if that is there, whose errors are of another kind."""
    with zipfile.ZipFile(io.BytesIO(xlsx(PAIRS))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for bad in members:
        with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data[:-5] + b"&" if name == bad else data)
        with suppress(DataError):  # whatever is not needed may be anything
            read(tmp_path / "a.xlsx")


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_offsets_of_arrow_that_lead_elsewhere_are_refused(kind: str, tmp_path: Path) -> None:
    """They would be read as texts of this process's memory, or end it."""
    rows = pyarrow.table({"src": ["the dog"] * 9, "tgt": ["der hund"] * 9})
    target = io.BytesIO()
    make = pyarrow.ipc.new_file if kind == "file" else pyarrow.ipc.new_stream
    with make(target, rows.schema) as writer:
        writer.write_table(rows)
    data, offsets = target.getvalue(), b"".join((7 * i).to_bytes(4, "little") for i in range(10))
    assert offsets in data
    for wrong in (10**6, -1, 2**31 - 1):
        changed = offsets[:16] + wrong.to_bytes(4, "little", signed=True) + offsets[20:]
        (tmp_path / "a.arrow").write_bytes(data.replace(offsets, changed))
        with pytest.raises(DataError, match=r"cannot be read as Arrow"):
            read(tmp_path / "a.arrow")


def test_a_row_number_of_a_spreadsheet_fills_no_time(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(xlsx(PAIRS))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    members[sheet] = members[sheet].replace(b'<row r="5"', b'<row r="5000000000"')
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(DataError, match="more than 1,048,576 rows"):
        read(tmp_path / "a.xlsx")


def test_a_missing_library_is_named_with_what_installs_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"this format needs openpyxl: pip install openpyxl \(extra corpora\)"):
        library("no_such_module", "openpyxl", "corpora", tmp_path / "a.xlsx")


def test_columns_are_two() -> None:
    with pytest.raises(ConfigError, match="give two"):
        ParallelConfig(name="parallel", columns=["a"])


def test_text_in_two_files_is_not_looked_at_for_columns(tmp_path: Path) -> None:
    """Prepared data of two files do not depend on options that say nothing about them."""
    plain, other = (
        ParallelCorpus(ParallelConfig(name="parallel", files=["a.en", "a.de"], **options))
        for options in ({}, {"columns": [1, 2], "src_lang": "en", "tgt_lang": "de"})
    )
    assert plain.settings() == other.settings()
    one, turned = (corpus(tmp_path / "a.tmx", src_lang=src, tgt_lang=tgt) for src, tgt in (("en", "de"), ("de", "en")))
    assert one.settings() != turned.settings()
