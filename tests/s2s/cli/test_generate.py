"""The command on a model that repeats its input: formats, order, streaming, errors, and being killed."""

from __future__ import annotations

import functools
import gzip
import json
import operator
import os
import re
import sys
import threading
import time
import zlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from harness.capital_tasks import Capitals
from harness.generators import generator_of
from s2s.cli.generate import main
from s2s.data.text import MAX_LINE
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.generation.build import LoadedGenerator
from s2s.generation.files.input_lines import lines_of, piped
from s2s.generation.files.pipeline import buffers
from s2s.generation.files.resumable_file import ENTRY
from s2s.generation.options import provenance
from s2s.io.atomic import sha256
from s2s.io.json_files import dump_record, read_record
from s2s.io.outputs import write_output
from s2s.model import Memory, Seq2Seq
from s2s.task import Encoded, Example

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.compose import ComposedConfig
    from s2s.config import GenerateConfig


class TornCapitals(Capitals):
    """z comes out as a line end, to see that it cannot tear the output."""

    views = MappingProxyType({"column": "\n".join})

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(*self.encode_source([pair.src, pair.tgt])) for pair in examples]

    def looks_raw(self, line: str) -> bool:
        return line.endswith("?")

    def read_raw(self, line: str) -> str:
        return line.lower().removesuffix("?")

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join("\n\t" if i == 29 else chr(i - 4 + ord("A")) for i in ids)


class Copy(Seq2Seq):
    """Most probable is the source, then its letters' neighbours in the alphabet."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(1))

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(hidden=src, pad=pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        src = torch.cat([memory.hidden, torch.full((len(tgt), 64), 3)], dim=1)[:, : tgt.size(1)]
        far = (torch.arange(30) - torch.where(src == 0, 3, src)[..., None]).abs()
        return -6.0 * far - 3.0 * (src[..., None] != 3) * (torch.arange(30) == 3)


@pytest.fixture(autouse=True)
def _run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run that need not be trained; its checkpoint is a manifest that tests can change."""
    (tmp_path / "MANIFEST.json").write_text("{}")
    monkeypatch.chdir(tmp_path)

    def load(composed: ComposedConfig[GenerateConfig], plugins: Any) -> LoadedGenerator:
        config = composed.config
        chosen = BeamConfig(name="beam", **composed.explicit.get("search", {}))
        generator = generator_of(Copy(), TornCapitals(), BeamSearch(chosen), config, plugins)
        weights = {"checkpoint": sha256(tmp_path / "MANIFEST.json")}
        return LoadedGenerator(generator, provenance(config, weights, chosen, "cpu"), "a CPU")

    monkeypatch.setattr("s2s.generation.build.load", load)
    monkeypatch.setattr("s2s.cli.generate._checked_models", lambda *_: ())


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def run(*arguments: str) -> int:
    return main(["run=x", *arguments])


RECORD = ".out.made-of.json"
LINES = ["abc", "", "a", "hello world", "   ", "bcdefg", "zzz"]
TEXT = ["ABC", "", "A", "HELLOWORLD", "", "BCDEFG", " \t \t \t"]


@pytest.mark.parametrize("window", [1, 3, 2000])
def test_text_is_one_line_out_for_each_line_in(tmp_path: Path, capsysbinary: Any, window: int) -> None:
    write(tmp_path / "in.txt", *LINES)
    assert run("input=in.txt", f"buffer_size={window}") == 0
    out, err = capsysbinary.readouterr()
    assert out.decode().split("\n") == [*TEXT, ""]
    assert b"7 inputs, 2 empty" in err
    assert b"sentences/s" in err


def test_a_view_of_the_task_has_any_number_of_lines(tmp_path: Path, capsysbinary: Any) -> None:
    write(tmp_path / "in.txt", "abc", "", "de")
    assert run("input=in.txt", "format=column", "--quiet") == 0
    assert capsysbinary.readouterr().out == b"A\nB\nC\n\nD\nE\n"
    assert run("input=in.txt", "format=column", "output=out", "--quiet") == 0
    assert (tmp_path / "out").read_bytes() == b"A\nB\nC\n\nD\nE\n"


OWN_FORMAT = """
import s2s
from s2s.generation import OutputFormat


class Own(OutputFormat):
    def __init__(self, config, generator):
        pass

    def render(self, record, output, nbest):
        return {rendered}


@s2s.hookimpl
def s2s_register(registry):
    registry.add("output_format", "own", s2s.Choice, Own)
"""


@pytest.mark.parametrize(
    ("rendered", "error"),
    [
        ("output.hyp", "expected a list of lines without line ends (s2s.generation.one_line), got 'ABC'"),
        (
            "[output.hyp + chr(10)]",
            r"expected a list of lines without line ends (s2s.generation.one_line), got ['ABC\n']",
        ),
        ("[output.hyp, '']", "expected 1 lines, as its n_lines says, got 2"),
        ("[]", "expected 1 lines, as its n_lines says, got 0"),
    ],
    ids=["text", "line end", "more", "none"],
)
def test_lines_of_a_format_that_are_not_those_of_one_output_are_refused(
    tmp_path: Path, capsys: Any, rendered: str, error: str
) -> None:
    write(tmp_path / "in.txt", "abc", "de")
    (tmp_path / "own.py").write_text(OWN_FORMAT.format(rendered=rendered))
    assert run("input=in.txt", "format=own", "plugins=[./own.py]", "--quiet") == 2
    assert capsys.readouterr().err == f"s2s-generate: error: Own.render: {error}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["format=colum"], "format=colum: no such format of s2s-generate or of task=. Did you mean 'column'?"),
        (["format=column", "nbest=2"], "nbest=2 needs format=tsv or jsonl: column has the best alone"),
        (["format=column", "resume=true"], "resume=true counts lines, of which format=column has any number"),
    ],
)
def test_a_view_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: Any, arguments: list[str], message: str
) -> None:
    write(tmp_path / "in", "a")
    before = set(tmp_path.iterdir())
    assert run("input=in", "output=out", *arguments) == 2
    assert message in capsys.readouterr().err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("more", [[], ["resume=true"], ["shard=1/2"]], ids=["file", "resume", "shard"])
def test_an_output_named_as_gzip_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: Any, more: list[str]
) -> None:
    write(tmp_path / "in", "a")
    before = set(tmp_path.iterdir())
    assert run("input=in", "output=out.txt.gz", *more) == 2
    assert "output=out.txt.gz: outputs are written as plain text" in capsys.readouterr().err
    assert set(tmp_path.iterdir()) == before


def test_raw_text_is_read_by_the_task(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path / "in", "Abc", "DEF")
    assert run("input=in", "--raw", "--quiet", "format=tsv") == 0
    assert [row.split("\t")[:2] for row in capsys.readouterr().out.splitlines()] == [["Abc", "ABC"], ["DEF", "DEF"]]
    write(tmp_path / "in", "Abc?", "d")
    for options, outputs in (([], ["ABC", "D"]), (["raw=true"], ["ABC", "D"])):
        assert run("input=in", "--quiet", *options) == 0
        assert capsys.readouterr().out.split() == outputs
    assert run("input=in", "--quiet", "max_source=3", "too_long=error", "raw=true") == 2
    assert "in:1: an input of 4 tokens" in capsys.readouterr().err


def test_quiet_says_nothing(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path / "in.txt", "a")
    assert run("input=in.txt", "output=out.txt", "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "out.txt").read_text() == "A\n"


def test_gzip_and_windows_line_ends_and_a_bom_are_read(tmp_path: Path, capsysbinary: Any) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress("\ufeffab\r\ncd\u2028e".encode()))
    assert run("input=in.gz", "format=tsv") == 0
    rows = capsysbinary.readouterr().out.decode().split("\n")
    assert [row.split("\t")[:2] for row in rows] == [["ab", "AB"], ["cd\u2028e", "CDE"]]


@pytest.mark.parametrize("text", ["ab\r\n\r\nc\n", "ab\r\ncd", "ab\ncd\r", "a\u2028b\r\n", "ab\r\r\nc\n", "", "\r\n"])
@pytest.mark.parametrize(
    "options", [[], ["format=tsv"], ["format=jsonl", "input_format=text"], ["buffer_size=1"]], ids=str
)
def test_lines_end_as_those_of_the_input(text: str, options: list[str], tmp_path: Path, capsysbinary: Any) -> None:
    """CRLF comes back, line by line, and no end where the file has none; what the model reads has none of it."""
    (tmp_path / "in").write_bytes(text.encode())
    assert run("input=in", "--quiet", *options) == 0
    out = capsysbinary.readouterr().out
    assert re.findall(r"\r*\n|\r*$", out.decode()) == re.findall(r"\r*\n|\r*$", text)
    assert b"\\r" not in out
    assert run("input=in", "--quiet", *options, "output=out") == 0
    assert (tmp_path / "out").read_bytes() == out
    plain = re.sub(r"\r*(\n|$)", r"\1", text)
    (tmp_path / "in").write_bytes(plain.encode())
    assert run("input=in", "--quiet", *options) == 0
    assert capsysbinary.readouterr().out == re.sub(rb"\r*(\n|$)", rb"\1", out)


@pytest.mark.parametrize("kept", [0, 3, 4, 6, 8, 10])
def test_an_output_without_a_last_line_end_is_continued(kept: int, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"ab\r\ncd\r\nef")
    assert run("input=in", "--quiet", "output=out", "resume=true") == 0
    whole = (tmp_path / "out").read_bytes()
    assert whole == b"AB\r\nCD\r\nEF"
    (tmp_path / "out").unlink()
    (tmp_path / "out.partial").write_bytes(whole[:kept])
    made_of = read_record(tmp_path / RECORD)
    (tmp_path / "out.partial.json").write_bytes(dump_record({"output": "out", "made_of": made_of["made_of"]}))
    entries = b"".join(ENTRY.pack(len(part), zlib.crc32(part)) for part in (b"AB\r\n", b"CD\r\n", b"EF"))
    (tmp_path / "out.partial.crc").write_bytes(entries)
    assert run("input=in", "--quiet", "output=out", "resume=true") == 0
    assert (tmp_path / "out").read_bytes() == whole


def test_tsv_adds_output_and_score_to_the_columns(tmp_path: Path, capsysbinary: Any) -> None:
    write(tmp_path / "in.tsv", "ab\tkept", "c", "", "az")
    assert run("input=in.tsv", "format=tsv") == 0
    rows = [line.split("\t") for line in capsysbinary.readouterr().out.decode().splitlines()]
    assert [row[:-1] for row in rows] == [["ab", "kept", "AB"], ["c", "C"], ["", ""], ["az", "A  "]]
    assert all(-1 < float(row[-1]) <= 0 for row in rows)


def test_a_text_with_tabs_is_one_column_of_tsv(tmp_path: Path, capsysbinary: Any) -> None:
    write(tmp_path / "in.txt", "a\tb")
    assert run("input=in.txt", "input_format=text", "format=tsv") == 0
    (row,) = capsysbinary.readouterr().out.decode().splitlines()
    assert row.split("\t")[:2] == ["a b", "AB"]


def test_tsv_has_as_many_lines_for_every_input(tmp_path: Path, capsysbinary: Any) -> None:
    write(tmp_path / "in.tsv", "ab", "", "c")
    assert run("input=in.tsv", "format=tsv", "nbest=3") == 0
    rows = [line.split("\t") for line in capsysbinary.readouterr().out.decode().splitlines()]
    assert [row[0] for row in rows] == ["ab"] * 3 + [""] * 3 + ["c"] * 3
    assert [row[2] for row in rows[3:6]] == ["0.0000", "-inf", "-inf"]


def test_jsonl_keeps_fields_it_does_not_know(tmp_path: Path, capsysbinary: Any) -> None:
    write(tmp_path / "in.jsonl", '{"id": 7, "src": "ab", "ref": ["ä"]}', "", '{"src": "z"}')
    assert run("input=in.jsonl", "format=jsonl") == 0
    first, empty, last = capsysbinary.readouterr().out.decode().splitlines()
    found = json.loads(first)
    assert list(found) == ["id", "src", "ref", "hyp", "score"]
    assert (found["id"], found["ref"], found["hyp"]) == (7, ["ä"], "AB")
    assert "ä" in first
    assert empty == ""
    assert json.loads(last)["hyp"] == "\n\t"


def test_jsonl_leaves_out_what_describes_an_earlier_output(tmp_path: Path, capsysbinary: Any) -> None:
    earlier = {"src": "ab", "hyp": "x", "score": 1, "tokens": [9], "log_probs": [0], "nbest": [{"hyp": "x"}], "id": 7}
    write(tmp_path / "in.jsonl", json.dumps(earlier), '{"src": "ab", "tokens": 2}')
    assert run("input=in.jsonl", "format=jsonl") == 0
    again, own = map(json.loads, capsysbinary.readouterr().out.decode().splitlines())
    assert again == {"src": "ab", "hyp": "AB", "score": own["score"], "id": 7}
    assert own["tokens"] == 2, "without hyp it is a field of the input"


def test_jsonl_gives_the_n_best_with_their_scores(tmp_path: Path, capsysbinary: Any) -> None:
    write(tmp_path / "in.jsonl", '{"src": "abc"}', '{"src": " "}')
    assert run("input=in.jsonl", "format=jsonl", "nbest=3") == 0
    full, empty = map(json.loads, capsysbinary.readouterr().out.decode().splitlines())
    assert full["nbest"][0] == {"hyp": "ABC", "score": full["score"]}
    assert len({candidate["hyp"] for candidate in full["nbest"]}) == 3
    assert empty["nbest"] == [{"hyp": "", "score": 0.0}]
    assert all(candidate["score"] == round(candidate["score"], 4) for candidate in full["nbest"])


def test_options_of_the_search_reach_it(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path / "in.txt", "a")
    assert run("input=in.txt", "format=tsv", "nbest=5") == 2
    assert "nbest=5 must lie between 1 and the beam, which is 4" in capsys.readouterr().err
    assert run("input=in.txt", "format=tsv", "nbest=5", "search.beam=5") == 0


def test_a_text_that_is_null_is_missing_as_in_a_program(tmp_path: Path, capsysbinary: Any, caplog: Any) -> None:
    write(tmp_path / "in.jsonl", '{"src": "ab"}', '{"src": null, "id": 3}', '{"src": "ab"}')
    assert run("input=in.jsonl", "format=jsonl") == 0
    first, missing, last = map(json.loads, capsysbinary.readouterr().out.decode().splitlines())
    assert first == last
    assert (missing["src"], missing["hyp"], missing["id"]) == (None, "", 3)
    assert caplog.messages == ["in.jsonl:2: 'src' is null, so its output is empty"]


BAD = [
    ("text", b"\xff", "in:3: invalid UTF-8"),
    ("text", b"a\0b", "in:3: NUL character"),
    ("tsv", b"caf\xe9\tx", "in:3: invalid UTF-8"),
    ("jsonl", b"{", "in:3: bad JSON"),
    ("jsonl", b"[1]", "in:3: expected a JSON object with the text as 'src', not [1]"),
    ("jsonl", b'{"source": "a"}', "in:3: expected a JSON object with the text as 'src'"),
    ("jsonl", b'{"src": 5}', "in:3: expected a JSON object with the text as 'src'"),
    ("jsonl", b'{"src": "\\ud800"}', "in:3: half of a surrogate pair"),
    ("jsonl", b'{"src": "a", "x": NaN}', "in:3: bad JSON (NaN is not JSON)"),
    ("jsonl", b'{"src": "a", "src": "b"}', "in:3: bad JSON ('src' occurs twice in one object)"),
    ("jsonl", b'{"src": "a", "x": 1e999}', "in:3: bad JSON"),
    ("jsonl", b"[" * 100_000, "in:3: bad JSON"),
    ("jsonl", b'{"src": "a", "x": ' + b"9" * 5000 + b"}", "in:3: bad JSON"),
]


@pytest.mark.parametrize(("form", "line", "message"), BAD, ids=[m[:25] + str(i) for i, (_, _, m) in enumerate(BAD)])
def test_a_bad_line_is_named_and_what_comes_before_it_is_written(
    tmp_path: Path, capsysbinary: Any, form: str, line: bytes, message: str
) -> None:
    good = b'{"src": "ab"}' if form == "jsonl" else b"ab"
    (tmp_path / "in").write_bytes(b"\n".join([good, good, line, good]))
    assert run("input=in", f"format={form}") == 2
    out, err = capsysbinary.readouterr()
    assert out.count(b"AB") == 2
    assert err.decode().startswith(f"s2s-generate: error: {message}")
    assert err.count(b"\n") == 1


def test_what_comes_before_a_bad_line_is_found_in_the_partial_file(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\n\xff\n")
    assert run("input=in", "output=out") == 2
    assert "What comes before is in out.partial" in capsys.readouterr().err
    assert (tmp_path / "out.partial").read_text() == "A\nB\n"
    assert not (tmp_path / "out").exists()


def test_what_is_asked_of_an_output_stands_beside_its_source(tmp_path: Path) -> None:
    asked = [{"src": "abc", "prefix": "xy"}, {"src": "abc"}, {"src": "abc", "phrases": ["zz", "q"], "id": 7}]
    (tmp_path / "in").write_text("".join(json.dumps(fields) + "\n" for fields in asked))
    assert run("input=in", "output=out", "format=jsonl") == 0
    first, second, third = map(json.loads, (tmp_path / "out").read_text().splitlines())
    assert first["hyp"].startswith("XY")
    assert second["hyp"] == "ABC"
    assert "Q" in third["hyp"]
    assert third["id"] == 7


@pytest.mark.parametrize("fields", ['"prefix": 1', '"phrases": "a"', '"phrases": [1]', '"phrases": ["b", "1"]'])
def test_what_cannot_be_asked_is_an_error_with_its_place(tmp_path: Path, capsys: Any, fields: str) -> None:
    (tmp_path / "in").write_text(f'{{"src": "a"}}\n{{"src": "b", {fields}}}\n')
    assert run("input=in", "format=jsonl") == 2
    said = capsys.readouterr()
    assert len(said.out.splitlines()) <= 1
    assert "in:2: " in said.err


def test_too_long_can_be_an_error_with_its_place(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path / "in", "ab", "abcdefgh")
    assert run("input=in", "max_source=5", "too_long=error") == 2
    captured = capsys.readouterr()
    assert "in:2: an input of 9 tokens is longer than the 5 allowed" in captured.err
    assert run("input=in", "max_source=5") == 0
    captured = capsys.readouterr()
    assert "2 inputs, 1 cut" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["input=absent.txt"], "absent.txt: no such file"),
        (["input=in", "nbest=2"], "nbest=2 needs format=tsv or jsonl"),
        (["input=in", "output=in"], "input and output are one file, in"),
        (["input=in", "output=nowhere/out"], "there is no folder nowhere"),
        (["resume=true", "output=out"], "resume=true compares files: give input=FILE and output=FILE"),
        (["input=in", "format=xml"], "format=xml"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_2(
    tmp_path: Path, capsys: Any, arguments: list[str], message: str
) -> None:
    write(tmp_path / "in", "a")
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert (tmp_path / "in").read_text() == "a\n"


def test_dry_run_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "in", "a")
    before = sorted(tmp_path.iterdir())
    assert run("input=in", "output=out", "--dry-run") == 0
    assert sorted(tmp_path.iterdir()) == before


def test_a_reader_that_leaves_ends_it_without_a_word(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    """`| head -1`"""
    write(tmp_path / "in", *["abc"] * 50)
    read, written = os.pipe()
    os.close(read)
    with open(written, "w", closefd=True) as gone:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", gone)
        assert run("input=in", "--quiet") == 141
        monkeypatch.undo()
    assert capfd.readouterr().err == ""


def test_a_pipe_is_answered_when_the_sender_pauses() -> None:
    """Lines that come together are one window; nothing waits for a window to be full."""
    read, written = os.pipe()
    found: list[list[str]] = []

    def reading() -> None:
        found.extend(buffers(piped(read), 1000, lambda line, location: f"{location} {line!r}", "stdin"))

    reader = threading.Thread(target=reading)
    reader.start()
    os.write(written, b"a\nb\nha")
    deadline = time.monotonic() + 5
    while not found and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found == [[r"stdin:1 'a\n'", r"stdin:2 'b\n'"]]
    os.write(written, b"lf\r\nlast")
    os.close(written)
    reader.join(5)
    os.close(read)
    assert functools.reduce(operator.iadd, found, []) == [
        *(r"stdin:1 'a\n'", r"stdin:2 'b\n'", r"stdin:3 'half\r\n'", "stdin:4 'last'")
    ]


@pytest.mark.parametrize("raw", [b"", b"\n", b"a", b"\xef\xbb\xbfa\n\n", b"a\r\n\rb\n" * 9, b"x" * 200_000 + b"\ny"])
def test_a_pipe_holds_the_lines_that_a_file_holds(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "in").write_bytes(raw)
    with (tmp_path / "in").open("rb") as file:
        assert [x for x in piped(file.fileno()) if x is not None] == list(lines_of(str(tmp_path / "in")))


def test_a_terminal_is_asked_for_lines(monkeypatch: Any, capsysbinary: Any) -> None:
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"ab\nc\n\x04")  # Control-D
    with open(terminal, closefd=True) as typed:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", typed)
        assert run() == 0
    os.close(keyboard)
    said = capsysbinary.readouterr()
    assert said.out == b"AB\nC\n"
    assert said.err.startswith(b"type a line, and Enter; Control-D ends\n2 inputs")


def test_a_named_pipe_is_read_as_it_comes(tmp_path: Path, capsysbinary: Any) -> None:
    """Which is what a shell makes of input=<(command)."""
    os.mkfifo(tmp_path / "pipe")
    sender = threading.Thread(target=write, args=(tmp_path / "pipe", "ab", "c"))
    sender.start()
    assert run("input=pipe") == 0
    sender.join()
    assert capsysbinary.readouterr().out == b"AB\nC\n"


def test_standard_input_is_the_default(tmp_path: Path, monkeypatch: Any, capsysbinary: Any) -> None:
    write(tmp_path / "in", "abc", "", "b")
    with (tmp_path / "in").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert run() == 0
    assert capsysbinary.readouterr().out == b"ABC\n\nB\n"


class Killed(BaseException):
    """Stands for kill -9: nothing of the command may run after it."""


CALLS = ("write", "truncate", "replace", "fsync")


def kill_at(monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    """End the command at the k-th call by which it changes a file; a write leaves half of its bytes."""
    left = [k]

    def dying(name: str) -> Any:
        real = getattr(os, name)

        def call(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] > 0:
                return real(*arguments)
            if name == "write":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise Killed

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, dying(name))


@pytest.mark.parametrize("arguments", [["format=text"], ["format=tsv", "nbest=2"]], ids=["text", "tsv"])
def test_killed_anywhere_and_resumed_gives_the_same_bytes(tmp_path: Path, arguments: list[str]) -> None:
    """Every call that touches a file is the last one once."""
    write(tmp_path / "in", *LINES, *["äöü abc", "q"])
    arguments = ["input=in", "buffer_size=4", "--quiet", *arguments]
    assert run(*arguments, "output=whole") == 0
    for k in range(1, 200):
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, k)
            try:
                run(*arguments, "output=out", "resume=true")
                done = True
            except Killed:
                done = False
        assert run(*arguments, "output=out", "resume=true") == 0
        assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes(), k
        assert {p.name for p in tmp_path.iterdir() if p.suffix != ".tmp"} == {
            "MANIFEST.json", "in", "out", "whole", ".out.made-of.json", ".whole.made-of.json"
        }  # fmt: skip
        if done:
            assert k > 9
            return
        (tmp_path / "out").unlink()
    pytest.fail("never ran through")


def test_killed_again_and_again_it_still_ends_with_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "in", *LINES)
    arguments = ["input=in", "buffer_size=4", "--quiet", "resume=true"]
    assert run(*arguments, "output=whole") == 0
    for _ in range(40):
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, 12)  # some writes, or all that finishes the file
            try:
                run(*arguments, "output=out")
                break
            except Killed:
                continue
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def unfinished(tmp_path: Path) -> list[str]:
    """A command killed in the middle, and its arguments."""
    write(tmp_path / "in", *LINES)
    arguments = ["input=in", "output=out", "--quiet"]
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 8)
        with pytest.raises(Killed):
            run(*arguments)
    assert (tmp_path / "out.partial").exists()
    return [*arguments, "resume=true"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (["search.alpha=0.1"], "search.alpha was 0.6 and is 0.1"),
        (["format=tsv"], "format was 'text' and is 'tsv'"),
        (["raw=true"], "raw was None and is True"),
        (["buffer_size=3"], "buffer_size was 2000 and is 3"),
    ],
)
def test_other_options_are_refused_on_resume(tmp_path: Path, capsys: Any, change: list[str], what: str) -> None:
    arguments = unfinished(tmp_path)
    before = (tmp_path / "out.partial").read_bytes()
    assert run(*arguments, *change) == 2
    assert f"out.partial cannot be continued: {what}; give" in capsys.readouterr().err
    assert (tmp_path / "out.partial").read_bytes() == before
    assert run(*arguments) == 0


@pytest.mark.parametrize(("file", "key"), [("in", "input"), ("MANIFEST.json", "checkpoint")])
def test_another_input_or_model_is_refused_on_resume(tmp_path: Path, capsys: Any, file: str, key: str) -> None:
    arguments = unfinished(tmp_path)
    (tmp_path / file).write_text("other\n")
    assert run(*arguments) == 2
    assert f"out.partial cannot be continued: {key} was" in capsys.readouterr().err


@pytest.mark.parametrize("resume", ["true", "false"])
@pytest.mark.parametrize("damage", ["", "{}", "[" * 100_000, '{"content": {"output": "out"}, "sha256": ""}', None])
def test_a_partial_file_of_unknown_origin_is_left_alone(
    tmp_path: Path, capsys: Any, damage: str | None, resume: str
) -> None:
    arguments = unfinished(tmp_path)
    header, before = tmp_path / "out.partial.json", (tmp_path / "out.partial").read_bytes()
    header.unlink() if damage is None else header.write_text(damage)
    assert run(*arguments[:-1], f"resume={resume}") == 2
    assert "would write over out.partial" in capsys.readouterr().err
    assert (tmp_path / "out.partial").read_bytes() == before


@pytest.mark.parametrize(
    "name",
    [
        *["out", "out.partial", "out.partial.json", "out.partial.crc", ".out.made-of.json"],
        *[".out.partial.json.tmp", "..out.made-of.json.tmp"],
    ],
)
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "by a link"])
def test_an_input_is_never_written_over(tmp_path: Path, capsys: Any, name: str, linked: bool) -> None:
    write(tmp_path / name, *LINES)
    before = (tmp_path / name).read_bytes()
    if linked:
        (tmp_path / "link").symlink_to(name)
    for options in ([], ["resume=true"], ["shard=1/1"]):
        assert run(f"input={'link' if linked else name}", "output=out", *options) == 2
        assert "input and output" in capsys.readouterr().err
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("name", ["out.shard-00001-of-00001", "out.shard-00001-of-00001.partial"])
def test_the_input_of_a_shard_is_never_written_over(tmp_path: Path, capsys: Any, name: str) -> None:
    write(tmp_path / name, *LINES)
    before = (tmp_path / name).read_bytes()
    assert run(f"input={name}", "output=out", "shard=1/1") == 2
    assert "input and output" in capsys.readouterr().err
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("name", ["out.partial", "out.partial.json", "out.partial.crc", ".out.made-of.json"])
def test_a_stranger_s_file_is_never_written_over(tmp_path: Path, capsys: Any, name: str) -> None:
    write(tmp_path / "in", *LINES)
    write(tmp_path / name, "precious")
    for options in ([], ["resume=true"], ["shard=1/1"]):
        assert run("input=in", "output=out", *options) == 2
        assert f"would write over {name}, which is damaged, or was not written for this" in capsys.readouterr().err
        assert (tmp_path / name).read_text() == "precious\n"
        for shard in tmp_path.glob("*out.shard-*"):
            shard.unlink()


@pytest.mark.parametrize("option", ["resume=true", "shard=1/1"])
def test_a_finished_output_is_not_that_of_another_input_or_model(tmp_path: Path, capsys: Any, option: str) -> None:
    write(tmp_path / "in", *LINES)
    write(tmp_path / "other", "abc", "b")
    assert run("input=in", "output=out", option) == 0
    before = (tmp_path / "out").read_bytes()
    changes = [["input=other"], ["input=in", "search.alpha=0.1"], ["input=in"]]
    for number, change in enumerate(changes):
        if number == 2:
            (tmp_path / "MANIFEST.json").write_text("another model\n")
        capsys.readouterr()
        assert run(*change, "output=out", option) == 2
        assert "out is another output: " in capsys.readouterr().err
        assert (tmp_path / "out").read_bytes() == before


@pytest.mark.parametrize("change", [lambda out: out.write_text("old\n"), lambda out: (out.parent / RECORD).unlink()])
def test_a_finished_output_of_unknown_making_is_refused_by_resume(tmp_path: Path, capsys: Any, change: Any) -> None:
    write(tmp_path / "in", *LINES)
    assert run("input=in", "output=out") == 0
    change(tmp_path / "out")
    before = (tmp_path / "out").read_bytes()
    assert run("input=in", "output=out", "resume=true") == 2
    assert "overwrite=true" in capsys.readouterr().err
    for arguments in ([], ["shard=1/1"]):
        assert run("input=in", "output=out", *arguments) == 2
        assert "overwrite=true" in capsys.readouterr().err
    assert (tmp_path / "out").read_bytes() == before
    assert run("input=in", "output=out", "overwrite=true", "resume=true") == 0
    assert (tmp_path / "out").read_text().split("\n") == [*TEXT, ""]


def test_an_unfinished_file_with_more_outputs_than_inputs_is_refused(tmp_path: Path, capsys: Any) -> None:
    arguments = unfinished(tmp_path)
    outputs = (tmp_path / "out.partial").read_bytes() + b"more\n" * 99
    (tmp_path / "out.partial").write_bytes(outputs)
    (tmp_path / "out.partial.crc").write_bytes(ENTRY.pack(len(outputs), zlib.crc32(outputs)))
    assert run(*arguments) == 2
    assert f"outputs are there already for {len(LINES)} inputs" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_was_added_to_an_unfinished_file_is_cut_off(tmp_path: Path) -> None:
    arguments = unfinished(tmp_path)
    with (tmp_path / "out.partial").open("a") as file:
        file.write("more\n" * 99)
    assert run(*arguments) == 0
    assert (tmp_path / "out").read_text() == "".join(f"{line}\n" for line in TEXT)


def test_without_resume_it_starts_anew_and_the_old_output_stays_until_the_end(tmp_path: Path) -> None:
    arguments = unfinished(tmp_path)[:-1]
    write_output(tmp_path / "out", b"old\n")
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 6)
        with pytest.raises(Killed):
            run(*arguments)
    assert (tmp_path / "out").read_text() == "old\n"
    assert run(*arguments) == 0
    assert (tmp_path / "out").read_text().split("\n") == [*TEXT, ""]


def test_a_finished_output_is_left_alone_by_resume(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    write(tmp_path / "in", *LINES)
    assert run("input=in", "output=out") == 0
    identity = lambda: (tmp_path / "out").stat()[:7] + (tmp_path / "out").stat()[8:]  # noqa: E731  it may be read
    made = identity()
    capsys.readouterr()
    monkeypatch.setattr("s2s.generation.files.pipeline.generate_file", None)
    assert run("input=in", "output=out", "resume=true") == 0
    assert capsys.readouterr().err.startswith("out is finished")
    assert identity() == made


def test_two_commands_cannot_write_one_file(tmp_path: Path) -> None:
    from s2s.errors import UserError
    from s2s.generation.files.resumable_file import ResumableFile

    first, second = (ResumableFile(tmp_path / "out") for _ in range(2))
    first.begin({})
    with pytest.raises(UserError, match="is being written by another s2s-generate"):
        second.begin({})
    first.write(["a"])
    first.finish()
    assert (tmp_path / "out").read_text() == "a\n"


def test_help_needs_no_torch() -> None:
    import subprocess

    code = "import sys, s2s.cli.generate as g; g.main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_jsonl_says_the_symbols_and_their_log_probabilities_where_asked(tmp_path: Path) -> None:
    (tmp_path / "in").write_text('{"src": "ab"}\n{"src": ""}\n')
    arguments = ["run=x", "input=in", "output=out", "format=jsonl", "nbest=2", "search.alpha=0", "--quiet"]
    assert main([*arguments, "fields=[tokens,log_probs]"]) == 0
    filled, empty = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert filled["tokens"] == [4, 5]
    for output in (filled, *filled["nbest"]):
        assert len(output["log_probs"]) == len(output["tokens"]) + 1
        assert sum(output["log_probs"]) == pytest.approx(output["score"], abs=1e-3)
    assert (empty["tokens"], empty["log_probs"]) == ([], [])
    assert main(arguments) == 0
    assert set(json.loads((tmp_path / "out").read_text().splitlines()[0])) == {"src", "hyp", "score", "nbest"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["format=jsonl", "fields=[token]"], "'token' is none of them; choose of tokens, pieces, log_probs, align"),
        (["fields=[tokens]"], "needs format=jsonl"),
        (["search.no_repeat_ngram_size=513"], "search.no_repeat_ngram_size=513 must be at least 0 and at most 512"),
        (["search.min_len=-1"], "search.min_len=-1 must be at least 0"),
    ],
    ids=str,
)
def test_fields_and_bounds_without_meaning_are_refused(wrong: list[str], message: str, capsys: Any) -> None:
    assert main(["run=x", *wrong]) == 2
    assert message in capsys.readouterr().err


PLAIN, OBJECTS = ["ab", "", "abc"], ['{"src": "ab", "id": 1}', "", '{"src": "abc"}']


@pytest.mark.parametrize(
    ("name", "lines", "options", "fields"),
    [
        ("in.en", PLAIN, [], [{"src": "ab"}, {"src": ""}, {"src": "abc"}]),
        ("in.jsonl", OBJECTS, [], [{"src": "ab", "id": 1}, None, {"src": "abc"}]),
        ("in", ["", *OBJECTS], [], [None, {"src": "ab", "id": 1}, None, {"src": "abc"}]),
        ("in.en", ["{a} b"], ["input_format=text"], [{"src": "{a} b"}]),
        ("in.tsv", ["ab\tid"], ["input_format=tsv"], [{"src": "ab"}]),
    ],
    ids=["text", "jsonl by name", "jsonl by its first line", "text as told", "tsv as told"],
)
def test_jsonl_is_written_of_any_form_of_input(
    name: str, lines: list[str], options: list[str], fields: list[dict[str, Any] | None], tmp_path: Path
) -> None:
    write(tmp_path / name, *lines)
    assert run(f"input={name}", "output=out.jsonl", "format=jsonl", *options) == 0
    outputs = (tmp_path / "out.jsonl").read_text().splitlines()
    found = [json.loads(line) if line else None for line in outputs]
    assert [one and {k: v for k, v in one.items() if k not in ("hyp", "score")} for one in found] == fields
    assert all(one is None or "hyp" in one for one in found)


def test_text_and_tsv_are_written_of_json(tmp_path: Path, capsysbinary: Any) -> None:
    write(tmp_path / "in", '{"src": "a\\tb"}', "")
    assert run("input=in", "input_format=jsonl") == 0
    text = capsysbinary.readouterr().out.decode().splitlines()
    assert run("input=in", "input_format=jsonl", "format=tsv") == 0
    rows = [line.split("\t") for line in capsysbinary.readouterr().out.decode().splitlines()]
    assert [row[0] for row in rows] == ["a b", ""]
    assert [row[1] for row in rows] == text


def test_a_file_that_begins_like_json_but_is_none_says_what_to_do(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path / "in", "{a} b")
    assert run("input=in", "format=jsonl") == 2
    assert "or give input_format=text" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["file", "pipe", "endless"])
def test_a_line_that_is_too_long_is_one_line_of_error(tmp_path: Path, capfd: Any, source: str) -> None:
    long = tmp_path / "long"
    long.write_text(f"ab\n{'x' * (MAX_LINE + 1)}\n")
    name = str(long)
    if source == "pipe":
        ends = os.pipe()
        thread = threading.Thread(target=lambda: (os.write(ends[1], long.read_bytes()), os.close(ends[1])))
        thread.start()
        name = f"/dev/fd/{ends[0]}"
    if source == "endless":
        name = "/dev/zero"
    assert run(f"input={name}", "output=-") == 2
    if source == "pipe":
        thread.join()
    out, err = capfd.readouterr()
    number = 1 if source == "endless" else 2
    assert f"{name}:{number}: a line of more than 1,048,576 bytes; expected a line of UTF-8 text" in err
    assert out == ("" if source == "endless" else "AB\n")
