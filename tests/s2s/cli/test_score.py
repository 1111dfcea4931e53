"""s2s-score as a user runs it; the task needs no training files for it."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import sys
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from harness.folders import ROOT
from s2s.cli.score import main
from s2s.cli.scoring.report import as_json, as_text
from s2s.metrics import Comparison, Score

if TYPE_CHECKING:
    from pathlib import Path

REF = ["The well-known house was sold.", "She sees 3,000 birds today!", "A man rides a red bicycle."]
HYP = ["The well-known house is sold.", "She sees 3,000 birds!", "A man rides the red bicycle."]
BAD = ["house", "She birds", "A red man"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in {"ref": REF, "ref2": HYP, "hyp": HYP, "bad": BAD}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def score(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of the command."""
    code = main(["task=translation", "samples=50", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


SHOWN = re.compile(r"^\d+ sentences, 1 reference$.*?(?=^\n?\$ |^```)", re.MULTILINE | re.DOTALL)
"""What a page shows of a command's output"""
FIGURE = re.compile(r"\d[\d.,]*")


@pytest.mark.parametrize(
    ("page", "command"),
    [
        ("README.md", "s2s-score task=translation hyp=test.hyp ref=test.de metrics=bleu"),
        ("docs/first_hour.md", "s2s-score hyp=test.hyp ref=test.de"),
    ],
)
def test_pages_show_what_the_command_prints(
    page: str, command: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With other figures; a line is cut at …, which by itself stands for more lines."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert f"{command}\n" in text
    (shown,) = SHOWN.findall(text)
    (here / "hyp").rename("test.hyp")
    (here / "ref").rename("test.de")
    assert main(command.split()[1:]) == 0
    printed = FIGURE.sub("0", capsys.readouterr().out).split("\n")
    for line in FIGURE.sub("0", shown).rstrip().split("\n"):
        begin, cut, _ = line.partition("…")
        if line == "…":
            return
        ours = printed.pop(0)
        assert ours.startswith(begin) if cut else ours == begin
    assert not "".join(printed)


def test_indented_trees_are_refused_with_the_command_that_joins_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "lines").write_text("(S (NP a) (VP b))\n")
    (here / "indented").write_text("(S\n  (NP a)\n  (VP b))\n")
    converter = "python -m s2s_parsing.treebank FILE"
    for files in (("hyp=lines", "ref=indented"), ("hyp=indented", "ref=lines")):
        assert main(["task=parsing", *files]) == 2
        err = capsys.readouterr().err
        assert err.startswith("s2s-score: error: indented:1: expected one tree in brackets on a line, not '(S'")
        assert converter in err
    (here / "again").write_text((here / "indented").read_text())
    assert main(["task=parsing", "hyp=again", "ref=indented"]) == 0


def test_scores_are_sacrebleus(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = score(capsys, "hyp=hyp", "ref=ref", "format=json")
    report = json.loads(out)
    assert (code, report["sentences"], report["references"]) == (0, 3, 1)
    assert [(s["system"], s["name"]) for s in report["scores"]] == [("hyp", "bleu"), ("hyp", "chrf")]
    for ours, theirs in zip(report["scores"], (BLEU(), CHRF()), strict=True):
        assert ours["value"] == pytest.approx(theirs.corpus_score(HYP, [REF], 50).score)
        assert ours["signature"] == theirs.get_signature().format()
        assert ours["low"] <= ours["high"]
    assert report["scores"][0]["detail"].keys() == {"precisions", "brevity_penalty", "hyp_len", "ref_len"}


def test_the_table_is_for_a_reader(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = score(capsys, "hyp=[bad,hyp]", "ref=ref", "metrics=[chrf,ter]")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "3 sentences, 1 reference"
    assert lines[2].startswith("chrf  nrefs:1|bs:50|seed:12345|")
    assert lines[3].startswith("  bad ")
    assert "  +" in lines[4]
    assert "  p 0.0196 *" in lines[4]
    assert "ter (lower is better)" in out
    assert lines[-1] == "difference to bad; p by paired bootstrap, * below 0.05"
    assert max(map(len, lines)) <= 120


def test_a_score_that_is_no_number_is_null_in_json() -> None:
    nowhere = Comparison("hyp", Score("mine", math.nan, "mine"), sentences=[{"score": math.nan}])
    (found,) = json.loads(as_json([[nowhere]], 1, 1), parse_constant=pytest.fail)["scores"]
    assert (found["value"], found["sentences"]) == (None, [{"score": None}])


def test_the_first_system_is_the_baseline(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = score(capsys, "hyp=[bad,hyp,ref]", "ref=ref2", "metrics=bleu", "format=json")
    bad, hyp, ref = json.loads(out)["scores"]
    assert (bad["difference"], bad["p_value"]) == (None, None)
    assert hyp["difference"] == pytest.approx(hyp["value"] - bad["value"])
    assert 0 < ref["p_value"] <= 1
    assert hyp["value"] == pytest.approx(100)


def test_several_references_and_options(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = score(
        capsys,
        "hyp=hyp",
        "ref=[ref,ref2]",
        "format=json",
        "metrics=[{name: bleu, tokenize: intl}, {name: bleu_moses, lang: de}]",
    )
    intl, moses = json.loads(out)["scores"]
    assert (intl["value"], moses["value"]) == (pytest.approx(100), pytest.approx(100))
    assert "nrefs:2|" in intl["signature"]
    assert "tok:intl|" in intl["signature"]
    assert "tok:moses.de|smooth:none|hyphen:split|" in moses["signature"]


def test_the_language_comes_from_the_task(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = score(capsys, "hyp=hyp", "ref=ref", "metrics=[bleu_moses]", "task.tgt_lang=fr")
    assert "tok:moses.fr" in out


def test_without_a_task_outputs_are_texts(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, with_task, _ = score(capsys, "hyp=hyp", "ref=ref")
    assert main(["samples=50", "hyp=hyp", "ref=ref"]) == 0
    assert capsys.readouterr().out == with_task
    assert main(["samples=0", "hyp=hyp", "ref=ref", "metrics=bleu", "lowercase=true"]) == 0
    assert "case:lc" in capsys.readouterr().out


def test_a_lower_casing_task_is_judged_without_case(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "lower").write_text("\n".join(REF).lower() + "\n")
    _, out, _ = score(capsys, "hyp=lower", "ref=ref", "task.lowercase=true", "format=json")
    assert [s["value"] for s in json.loads(out)["scores"]] == pytest.approx([100, 100])
    _, out, _ = score(capsys, "hyp=lower", "ref=ref", "format=json")
    assert json.loads(out)["scores"][0]["value"] < 100


def test_an_option_goes_to_every_metric_that_has_it_and_is_not_told_otherwise(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = "metrics=[bleu, {name: bleu, lowercase: false}, {name: bleu_moses, lang: de}, chrf]"
    _, out, _ = score(capsys, "hyp=hyp", "ref=ref", wanted, "lowercase=true", "char_order=4", "format=json")
    signatures = [s["signature"] for s in json.loads(out)["scores"]]
    assert ["case:lc|" in signature for signature in signatures] == [True, False, True, True]
    assert ["|nc:4|" in signature for signature in signatures] == [False, False, False, True]
    (here / "own.yaml").write_text("lowercase: true\n")
    _, out, _ = score(capsys, "own.yaml", "hyp=hyp", "ref=ref", "metrics=bleu")
    assert "case:lc|" in out


def test_each_sentence_has_the_score_that_it_has_by_itself(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "short").write_text("The house\nShe sees\nA\n")
    _, out, _ = score(capsys, "hyp=[hyp,short]", "ref=[ref,ref2]", "--per-sentence", "format=json")
    found = {(s["system"], s["name"]): [row["score"] for row in s["sentences"]] for s in json.loads(out)["scores"]}
    for name, truth in (("bleu", BLEU(effective_order=True)), ("chrf", CHRF())):
        for system, hyps in (("hyp", HYP), ("short", ["The house", "She sees", "A"])):
            refs = zip(REF, HYP, strict=True)
            expected = [truth.sentence_score(hyp, of).score for hyp, of in zip(hyps, refs, strict=True)]
            assert found[system, name] == pytest.approx(expected)
            assert min(expected) > 0


def test_the_rows_of_sentences_stand_before_the_scores(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = score(capsys, "hyp=[bad,hyp]", "ref=ref", "metrics=chrf", "per_sentence=true", "samples=0")
    lines = out.splitlines()
    assert lines[4:6] == ["  bad", "  sentence  score"]
    assert lines[9:11] == ["", "  hyp"]
    assert [line.split()[0] for line in lines[12:15]] == ["1", "2", "3"]
    assert lines[15] == ""
    assert lines[16].startswith("  bad  ")


@pytest.mark.parametrize("zipped", [False, True])
def test_standard_input_and_gzip(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, zipped: bool
) -> None:
    pack = gzip.compress if zipped else bytes
    (here / "ref.gz").write_bytes(gzip.compress((here / "ref").read_bytes()))
    stdin = io.TextIOWrapper(io.BytesIO(pack((here / "hyp").read_bytes())))
    monkeypatch.setattr(sys, "stdin", stdin)
    code, out, _ = score(capsys, "hyp=-", "ref=ref.gz", "format=json")
    first = json.loads(out)["scores"][0]
    assert (code, first["system"]) == (0, "standard input")
    assert first["value"] == pytest.approx(BLEU().corpus_score(HYP, [REF]).score)


def test_lines_end_at_newlines_only(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """U+2028, U+0085, form feeds and lone carriage returns are text; a byte order mark and \\r\\n are not."""
    text = "a\u2028b\u0085c\x0cd\re f\ng\n"
    (here / "odd").write_bytes(text.encode())
    (here / "windows").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    code, out, _ = score(capsys, "hyp=odd", "ref=windows", "metrics=chrf", "format=json")
    report = json.loads(out)
    assert (code, report["sentences"], report["scores"][0]["value"]) == (0, 2, pytest.approx(100))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["hyp=short", "ref=ref"], "short has 2 lines and ref has 3"),
        (["hyp=hyp", "ref=[ref,short]"], "short has 2 lines and ref has 3"),
        (["hyp=none", "ref=ref"], "none: is empty"),
        (["hyp=hyp", "ref=none"], "none: is empty"),
        (["hyp=hyp", "ref=no_such"], "no_such: no such file"),
        (["hyp=.", "ref=ref"], ".: is a folder"),
        (["hyp=latin", "ref=ref"], "latin:2: invalid UTF-8 byte 0xfc at column 2; repair the file"),
        (["hyp=hyp", "ref=ref", "lowercas=true"], "lowercas: no such option of the command or of its metrics"),
        (["hyp=hyp", "ref=ref", "lowercas=true"], "Did you mean 'lowercase'?"),
        (["hyp=hyp", "ref=ref", "sample=3"], "Did you mean 'samples'?"),
        (["hyp=hyp", "ref=ref", "char_order=no"], "metrics.chrf.char_order='no': expected int"),
        (["hyp=hyp", "ref=ref", "train.steps=3"], "train.steps: s2s-score does not use it"),
        (["hyp=hyp", "ref=ref", "--per-sentense"], "no flag --per-sentense. Did you mean '--per-sentence'?"),
        (["ref=ref"], "hyp=: give a file"),
        (["hyp=hyp"], "ref=: give a file"),
        (["hyp=[hyp,3]", "ref=ref"], "hyp=['hyp', 3]: give a file"),
        (["hyp=[hyp,hyp]", "ref=ref"], "twice"),
        (["hyp=hyp", "ref=-"], "ref=-"),
        (["hyp=hyp", "ref=ref", "metrics=[]"], "metrics=[bleu,chrf]"),
        (["hyp=hyp", "ref=ref", "metrics=[bleuu]"], "Did you mean 'bleu'"),
        (["hyp=hyp", "ref=ref", "metrics=[bleu_moses]"], "task.tgt_lang=de"),
        (["hyp=hyp", "ref=ref", "samples=-1"], "samples=-1"),
        (["hyp=hyp", "ref=ref", "seed=0"], "seed=0"),
        (["hyp=hyp", "ref=ref", "format=xml"], "format=xml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_exit_code_2(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    (here / "short").write_text("a\nb\n")
    (here / "none").write_text("")
    (here / "latin").write_bytes(b"a\nf\xfcr\nb\n")
    code, out, err = score(capsys, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.startswith("s2s-score: error: ")
    assert err.count("\n") == 1


def test_bad_bytes_on_standard_input_are_said_to_be_there(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff\nb\n")))
    code, _, err = score(capsys, "hyp=-", "ref=ref")
    assert code == 2
    assert "standard input:2: invalid UTF-8" in err


def test_a_dry_run_reads_and_does_not_score(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = score(capsys, "hyp=[hyp,bad]", "ref=ref", "--dry-run")
    assert (code, out) == (0, "3 sentences, 2 systems, 2 metrics: ready\n")


def test_no_samples_give_no_interval(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = score(capsys, "hyp=[hyp,bad]", "ref=ref", "samples=0")
    assert "[" not in out
    assert "bs:" not in out
    assert "  -" in out  # the difference remains


TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["", " ", "\ufeff", "\r", "\u2028"])
FILE = st.one_of(
    st.lists(TEXT, max_size=4).map(lambda lines: "\n".join(lines).encode()),
    st.binary(max_size=40),
    st.binary(max_size=20).map(gzip.compress),
    st.binary(max_size=20).map(lambda data: gzip.compress(data)[:-4]),
)


def lines_in(data: bytes) -> int | None:
    """How many lines of text a file holds; None if it holds something else."""
    try:
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (UnicodeDecodeError, OSError, EOFError, zlib.error):
        return None
    return (
        None if "\0" in text or text.startswith("PK\3\4") else len(text.removesuffix("\n").split("\n")) if text else 0
    )


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hyp=FILE, ref=FILE, same=st.booleans(), style=st.sampled_from(["text", "json"]))
def test_no_pair_of_files_makes_a_traceback(
    here: Path, capsys: pytest.CaptureFixture[str], hyp: bytes, ref: bytes, *, same: bool, style: str
) -> None:
    ref = hyp if same else ref
    (here / "h").write_bytes(hyp)
    (here / "r").write_bytes(ref)
    code, out, err = score(capsys, "hyp=[h,r]", "ref=[ref]" if same else "ref=r", "samples=2", f"format={style}")
    fits = lines_in(hyp) == (3 if same else lines_in(ref)) != 0 and None not in (lines_in(hyp), lines_in(ref))
    assert (code, bool(out), err.count("\n")) == ((0, True, 0) if fits else (2, False, 1)), err


def test_a_report_without_detail_or_interval_is_short() -> None:
    from s2s.metrics import Comparison, Score

    lone = Comparison("a", Score("accuracy", 50.0, "accuracy"))
    assert as_text([[lone]], 1200, 2).splitlines() == [
        "1,200 sentences, 2 references",
        "",
        "accuracy  accuracy",
        "  a   50.00",
    ]
