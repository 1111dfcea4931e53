"""Reports: what they say is true, in one file that needs nothing else; attention can be displayed."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.capital_tasks import Capitals
from harness.pictures import pictures
from harness.tiny_runs import train_tiny
from s2s import AttentionMap, Encoded, Example
from s2s.cli import generate
from s2s.data.ledger import CorpusReport, Drops, Sample, ledger_record
from s2s.metrics import Comparison, Score
from s2s.training.validation import ValidationResult
from s2s_report import command
from s2s_report.attention import PairAttention
from s2s_report.attention_lines import farthest, sharpest
from s2s_report.brackets import Bracket, brackets_of, compare_brackets, draw_svg, read
from s2s_report.curves import Series, chart
from s2s_report.detail_section import detail_section
from s2s_report.document import Details, Differences, Picture, Section, Table, Text, as_html, as_markdown
from s2s_report.flags import flags_of
from s2s_report.ledger_section import ledger_section
from s2s_report.outcome import DataStatistics, buckets, read_statistics
from s2s_report.outcome_sections import data_section
from s2s_report.run_log import CURVES, RunLog, read_log, titles
from s2s_report.sentence_sections import word_diff
from s2s_report.training_sections import cost, curves, training_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ODD: list[Any] = [None, "x", [], {}, True, 10**400]
GOLD = "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))"
WRONG = "(S (NP (DT the) (NN dog)) (VP (VBZ sees)) (NP (DT a) (NN cat)) (. .))"


@pytest.fixture(scope="module", autouse=True)
def with_pictures() -> Iterator[None]:
    with pictures():
        yield


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run "x" that was validated."""
    folder = tmp_path_factory.mktemp("reported")
    train_tiny(folder, "task.valid=[a.en,a.de]", "valid.every=2", "valid.sentences=5")
    return folder


def test_a_run_ends_with_a_report_of_its_training(here: Path) -> None:
    page = (here / "runs" / "x" / "report.html").read_text()
    for said in ("Training loss", "<h2>Cost</h2>", "<h2>Configuration</h2>"):
        assert said in page
    assert "s2s-report run=x" in page


def test_a_run_that_ends_again_keeps_a_fuller_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own it replaces; what a user has put there is kept as well."""
    arguments = ["task.valid=[a.en,a.de]", "valid.every=2"]
    train_tiny(tmp_path, *arguments)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "x"
    first = (run / "report.html").read_bytes()
    train_tiny(tmp_path, *arguments, "train.steps=6")
    own = (run / "report.html").read_bytes()
    assert own != first
    assert not list(run.glob("training_report.*"))
    assert command.main(["run=x", "sentences=3", "samples=10", "pairs=20", "attention=0", "--quiet"]) == 0
    fuller = {file.name: file.read_bytes() for file in run.glob("report.*")}
    assert {*fuller} == {"report.html", "report.md"}
    for steps in (6, 8):  # nothing is left to be done; more is
        train_tiny(tmp_path, *arguments, f"train.steps={steps}")
        assert {file.name: file.read_bytes() for file in run.glob("report.*")} == fuller
    assert b"s2s-report run=x" in (run / "training_report.html").read_bytes()
    assert "stays as it is; of this training: " in (run / "train.log").read_text()
    (run / "report.md").unlink()
    (run / "report.html").write_bytes(b"\xff")
    train_tiny(tmp_path, *arguments, "train.steps=10")
    assert (run / "report.html").read_bytes() == b"\xff"


def test_a_report_needs_nothing_else_and_is_the_same_each_time(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    arguments = ["run=x", "sentences=6", "samples=20", "pairs=50", "attention=2", "--quiet"]
    files = []
    for name in ("one", "two"):
        assert command.main([*arguments, f"output={name}/report"]) == 0
        files.append([(here / name / f"report.{end}").read_bytes() for end in ("html", "md")])
    assert files[0] == files[1]
    assert b"s2s-report run=x sentences=6 samples=20 pairs=50 attention=2<" in files[0][0]
    page, text = (content.decode() for content in files[0])
    links = set(re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\')\s>]+)', page))
    assert {link for link in links if not link.startswith("#")} == set(), "nothing is fetched"
    for title in (
        "Verdict",
        "Scores",
        "Curves",
        "Worst sentences",
        "Training data",
        "What the corpora lost",
        "Cost",
        "Configuration",
    ):
        assert f"<h2>{title}</h2>" in page
        assert f"## {title}" in text
    explored = re.findall(r'<section class="attention"><script type="application/json">(.*?)</script>', page)
    assert len(explored) == text.count("### Attention of x") == 2, "as many as asked for, of the six sentences"
    assert {each["name"] for each in json.loads(explored[0])} == {"encoder 1", "decoder 1", "cross 1"}
    (trained,) = re.findall(r"^model +([\d,]+) parameters", (here / "runs/x/train.log").read_text(), re.MULTILINE)
    assert text.count(f"| {trained} |") == 1, "as they were trained, whatever their layout for decoding"
    score = json.loads((here / "runs/x/log.jsonl").read_text().splitlines()[-1])
    assert score["kind"] == "summary"
    assert f"{score['steps']:,}" in text


def test_a_test_set_that_a_run_lacks_is_not_passed_over(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    assert command.main(["run=x", "split=test", "output=no/report"]) == 2
    assert "split=test: the first run has no test set" in capsys.readouterr().err
    assert not (here / "no").exists()


def test_a_run_of_a_stranger_quotes_no_file_of_its_reader(
    here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the password is sesame\n" * 5)
    shutil.copytree(here / "runs" / "x", tmp_path / "mine" / "runs" / "x")
    resolved = tmp_path / "mine" / "runs" / "x" / "resolved.yaml"
    changed = resolved.read_text().replace("valid: [a.en, a.de]", f"valid: [{secret}, {secret}]")
    assert changed != resolved.read_text()
    resolved.write_text(changed)
    monkeypatch.chdir(tmp_path / "mine")
    arguments = ["run=x", "sentences=3", "samples=20", "pairs=0", "attention=0"]
    assert command.main([*arguments, "output=one"]) == 0
    left_out = f"Left out: outputs, scores and statistics of the data, since x names {secret}"
    assert f"warning: {left_out}" in capsys.readouterr().err
    text, page = Path("one.md").read_text(), Path("one.html").read_text()
    assert left_out in text
    assert "sesame" not in text + page
    assert "Configuration" in text
    assert command.main([*arguments, "outside=true", "output=two"]) == 0
    assert "sesame" in Path("two.md").read_text(), "at the user's word"


@pytest.mark.parametrize("content", [None, "", '{"device": "cpu', "[1]", "[" * 100_000])
def test_a_report_says_that_it_does_not_know_the_device(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "env.json").write_text(content)
    said = as_markdown("x", [cost([read_log(tmp_path)], {tmp_path.name: 1})])
    assert "its env.json is missing or damaged" in said
    assert "| not known |" in said
    (tmp_path / "env.json").write_text('{"device": "cpu (Z80)", "ranks": 2}')
    said = as_markdown("x", [cost([read_log(tmp_path)], {tmp_path.name: 1})])
    assert "env.json" not in said
    assert "| cpu (Z80) |" in said
    assert "| 2 × 0.00 |" in said


def test_the_ledger_of_a_run_is_a_table_with_samples(tmp_path: Path) -> None:
    drops = Drops({"empty": 2, "in a|b": 30}, {"empty": [Sample(3), Sample(4)], "in a|b": [Sample(7, "<s>", "t")]})
    reports = [CorpusReport("train", "news", 1000, 968, drops), CorpusReport("valid", "dev", 5, 5, n_overlap=5)]
    (tmp_path / "ledger.json").write_text(json.dumps(ledger_record(reports)))
    section = ledger_section([read_log(tmp_path)])
    table, details = section.blocks
    assert isinstance(table, Table)
    assert table.rows == [
        ["train news", "1,000", "read", "100.00%"],
        ["train news", "968", "kept", "96.80%"],
        ["train news", "30", "dropped: in a|b", "3.00%"],
        ["train news", "2", "dropped: empty", "0.20%"],
        ["valid dev", "5", "read", "100.00%"],
        ["valid dev", "5", "kept", "100.00%"],
        ["valid dev", "5", "kept, although in development or test sets", "100.00%"],
    ]
    assert isinstance(details, Details)
    assert "| train news | in a\\|b | 7 | <s> | t |" in as_markdown("x", [section])
    assert "<td>&lt;s&gt;</td>" in as_html("x", [section])


@pytest.mark.parametrize(
    "content",
    [
        *(None, "", "[]", '{"corpora": {"a": 1}}', '{"corpora": [{"split": "train"}]}'),
        '{"corpora": [{"split": "", "name": "", "read": 1, "kept": "2", "overlap": 0, "dropped": []}]}',
        f'{{"corpora": [{{"split": "", "name": "", "read": 1, "kept": 1{"0" * 400}, "overlap": 0, "dropped": []}}]}}',
    ],
    ids=["missing", "empty", "list", "mapping", "incomplete", "text", "huge"],
)
def test_a_ledger_in_another_form_is_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "ledger.json").write_text(content)
    assert "its ledger.json is missing, damaged" in as_markdown("x", [ledger_section([read_log(tmp_path)])])


def test_lines_of_a_log_that_are_no_records_are_skipped_and_values_that_are_none(tmp_path: Path) -> None:
    sound = {"kind": "update", "step": 1, "loss": 2.5, "seconds": 1.5, "tokens": 3, "pairs": 2, "flops": 4.0}
    odd = [{**sound, "step": 2, key: value} for key in sound if key not in ("kind", "step") for value in ODD]
    steps = [{**sound, "step": value} for value in (*ODD, -1, 10**30)]
    valid = [
        {"kind": "valid", "step": 1, "nll": 1.0, "best": True, "signatures": {"bleu": "x"}, "bleu": v} for v in ODD
    ]
    bad = [{**valid[0], "nll": v, "best": v, "signatures": v} for v in ODD]
    summaries = [{"kind": "summary", "step": 2, "seconds": value, "steps": value} for value in ODD]
    lines = [json.dumps(record) for record in (sound, *odd, *steps, *valid, *bad, *summaries)]
    nested = '{"kind":"update","step":' + "[" * 100_000
    (tmp_path / "log.jsonl").write_text("\n".join([*lines, nested, "[1]", "1", '{"kind": "upd']))
    log = read_log(tmp_path)
    assert log.updates[0] == sound
    assert len(log.updates) == 1 + len(odd)
    cost([log], {log.name: 1})
    curves([log])
    training_verdict(log, "nll")


@pytest.mark.slow
def test_two_runs_that_are_one_do_not_differ(here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(here)
    (here / "runs" / "y").symlink_to(here / "runs" / "x")
    arguments = ["run=[x,y]", "sentences=6", "samples=20", "pairs=0", f"output={tmp_path}/report", "--quiet"]
    assert command.main(arguments) == 0
    text = (tmp_path / "report.md").read_text()
    assert "y is not shown to differ from x: bleu +0.00" in text
    assert "The configurations do not differ" in text
    assert "Largest losses of y" in text


@pytest.mark.parametrize("form", ["attention", "figures"])
def test_attention_is_a_format_of_s2s_generate(here: Path, form: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the old dog\n\na cat\n")
    arguments = [f"run={here}/runs/x", f"input={tmp_path}/in.txt", f"output={tmp_path}/out.html", f"format={form}"]
    assert generate.main([*arguments, "search.min_len=2", "--quiet"]) == 0
    page = (tmp_path / "out.html").read_text()
    assert page.count("<!doctype html>") == 1
    if form == "figures":
        assert [f"As Figure {n}" in page for n in (3, 4, 5)] == [True] * 3
        folder = [f"figures_folder={tmp_path}/figures", "overwrite=true", "search.min_len=2", "--quiet"]
        assert generate.main([*arguments, *folder]) == 0
        names = {path.name for path in (tmp_path / "figures").glob("*.svg")}
        assert len(names) == page.count("<figure "), "a file for each figure of the page"
        assert generate.main([*arguments[:-1], "figures_folder=x"]) == 2, "which only format=figures has"
        return
    shown = re.findall(r'<script type="application/json">(.*?)</script>', page)
    maps = json.loads(shown[0])
    assert [each["name"] for each in maps] == ["encoder 1", "decoder 1", "cross 1"]
    for each in maps:
        assert len(each["weights"]) == 2, "every head"
        for head in each["weights"]:
            assert [len(row) for row in head] == [len(each["keys"])] * len(each["queries"])
            assert all(abs(sum(row) - 1000) <= len(row) for row in head), "a row is a distribution, in thousandths"


def compared(system: str, **detail: Any) -> Comparison:
    return Comparison(system, Score("f1", 50.0, "sig", detail=detail))


def test_the_parts_of_a_score_stand_side_by_side_and_its_labels_by_frequency() -> None:
    labels = {"PP": {"n_gold": 3, "f1": 50.0}, "NP": {"n_gold": 2560, "f1": None}}
    one = compared("a", precision=61.256, counts=[2, 1.5], to_40={"recall": 7.0}, labels=labels)
    section = detail_section([one, compared("b", precision=1.0)])
    assert section is not None
    parts, of_labels, _ = section.blocks
    assert isinstance(parts, Table)
    assert parts.rows == [["precision", "61.26", "1.00"], ["counts", "2/1.50", ""], ["to 40: recall", "7.00", ""]]
    assert isinstance(of_labels, Details)
    assert of_labels.title == "labels of a"
    (table,) = of_labels.blocks
    assert isinstance(table, Table)
    assert table.rows == [["NP", "2,560", ""], ["PP", "3", "50.00"]]
    assert detail_section([compared("c")]) is None


def test_brackets_that_only_one_tree_has_are_found() -> None:
    hyp, gold = read(WRONG), read(GOLD)
    assert hyp is not None
    assert gold is not None
    extra, missing = compare_brackets(hyp, gold)
    assert extra == Counter([Bracket("VP", 2, 3)])
    assert missing == Counter([Bracket("VP", 2, 5)])
    assert sorted(brackets_of(gold)) == [("NP", 0, 2), ("NP", 3, 5), ("S", 0, 6), ("VP", 2, 5)]
    picture = draw_svg(hyp, extra, "+")
    assert picture.count("+VP") == 1
    assert picture.count("stroke-dasharray") == 1
    assert "stroke-dasharray" not in draw_svg(gold, Counter(), "+")


@pytest.mark.parametrize("line", ["", "the dog", "(S", "S)", "(S (NP the)) (S x)", ") ("])
def test_what_is_no_tree_is_none(line: str) -> None:
    assert read(line) is None


FLAGGED = {
    "fine": ("the old dog sleeps here", "der alte Hund schläft hier", "der alte Hund schläft hier", []),
    "copy": ("the old dog sleeps here", "the old dog sleeps here", "der alte Hund schläft hier", ["copy"]),
    "a name is copied rightly": ("Anna Maria von Berg", "Anna Maria von Berg", "Anna Maria von Berg", []),
    "repetition": ("a b", "x y x y x y", "x y z a b c", ["repetition"]),
    "length": ("a", "x y z u v", "x y", ["length"]),
    "number": ("in 1984 he left", "er ging", "1984 ging er", ["numbers"]),
    "number as a word": ("in 12 days", "in zwölf Tagen", "in zwölf Tagen", []),
    "empty": ("a", "", "x", ["empty"]),
}


@pytest.mark.parametrize("case", FLAGGED)
def test_signs_of_hallucination(case: str) -> None:
    src, hyp, ref, expected = FLAGGED[case]
    assert flags_of(src, hyp, ref) == expected


def test_a_difference_is_struck_through_and_underlined() -> None:
    parts = word_diff("a b c", "a x <c> d")
    assert parts == [("", "a"), ("del", "b c"), ("ins", "x <c> d")]
    page = as_html("t", [Section("s", [Differences([("run", parts)], "")])])
    assert "<dt>run</dt><dd>a <del>b c</del> <ins>x &lt;c&gt; d</ins></dd>" in page


def test_every_value_is_in_one_bucket() -> None:
    values = [0, 1, 4, 5, 19, 20, 5000]
    found = buckets(values, (0, 1, 5, 20))
    assert [(bucket.name, [values[i] for i in bucket.indices]) for bucket in found] == [
        ("0", [0]),
        ("1–4", [1, 4]),
        ("5–19", [5, 19]),
        ("20 and more", [20, 5000]),
    ]
    assert buckets([3], (0, 1, 5)) == [("1–4", [0])]


def test_words_and_tokens_are_counted_by_how_often_they_occur() -> None:
    counts = Counter({"a": 1, "b": 4, "c": 30})
    found = DataStatistics(
        n_pairs=2, words={"src": Counter("x"), "tgt": counts}, pieces=Counter({4: 2, 5: 30}), n_vocab=6
    )
    for side in ("src", "tgt"):
        found.lengths[side] = [3, 5]
    section = data_section(found, 10)
    table = next(block for block in section.blocks if isinstance(block, Table) and block.head[0] == "occurrences")
    assert table.rows == [["0", "0", "4"], ["1–4", "2", "1"], ["20–99", "1", "1"]], "4 of 6 tokens never occur"
    assert found.rarest("b c", "tgt") == 4
    assert found.rarest("b c", "src") == 0


def test_of_tokens_only_those_of_text_are_counted() -> None:
    """Not pad, bos, eos and unk, even where an unknown word occurs."""

    class Words(Capitals):
        def corpora(self, split: str) -> list[tuple[str, float]]:
            return [("some", 1.0)]

        def examples(self, split: str, corpus: str) -> Iterator[Example]:
            return iter([Example("x", "ab"), Example("x", "a?")])

        def encode(self, examples: Sequence[Example]) -> list[Encoded]:
            ids = {"a": 4, "b": 5, "?": self.vocab.unk}
            return [Encoded([4], [ids[letter] for letter in example.tgt]) for example in examples]

    found = read_statistics(Words(), 10)
    assert (found.pieces, found.n_vocab) == ({4: 2, 5: 1}, 26)


def test_what_the_attention_says_in_words() -> None:
    """The heads' mean, of the last layer from the output to the source."""
    cross = torch.tensor([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]])
    maps = [AttentionMap("cross", 1, "tgt", "src", cross), AttentionMap("decoder", 1, "tgt", "tgt", torch.eye(2)[None])]
    assert PairAttention(["▁old", "</s>"], ["▁alt", "</s>"], maps).words == "alt ← old 80%, </s> ← </s> 70%"


def test_hours_are_those_of_all_devices(tmp_path: Path) -> None:
    of_update = {"kind": "update", "tokens": 7, "pairs": 2, "seconds": 1800.0, "flops": 9e12}
    (tmp_path / "log.jsonl").write_text("".join(json.dumps({**of_update, "step": i}) + "\n" for i in (1, 2)))
    (tmp_path / "env.json").write_text('{"ranks": 4, "device": "cuda"}')
    log = read_log(tmp_path)
    (table, note) = cost([log], {log.name: 12_345}).blocks
    assert isinstance(table, Table)
    assert isinstance(note, Text)
    assert "of updates alone: without validation" in note.text
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["parameters"] == "12,345"
    assert row["hours"] == "4 × 1.00"
    assert row["operations"] == "1.80e+13"
    assert row["GFLOP/s"] == "1.2", "18 TFLOP in 4 device hours"
    assert row["device"] == "cuda"


@pytest.mark.parametrize(
    ("summarised", "seconds"), [([2], 5.0), ([2, 4], 40.0), ([], 10.0)], ids=["continued", "finished", "first"]
)
def test_hours_of_a_run_that_goes_on_are_not_those_of_its_summary(
    tmp_path: Path, summarised: list[int], seconds: float
) -> None:
    """As it is while a continued run is trained, and when its report is written, which is before its summary."""
    steps = (1, 2, 3, 4) if summarised else (1, 2)
    records: list[dict[str, Any]] = []
    for step in steps:
        records.append({"kind": "update", "step": step, "seconds": seconds / len(steps), "flops": 1e9})
        records += [{"kind": "summary", "step": step, "steps": step, "seconds": 10.0 * step}] * (step in summarised)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert read_log(tmp_path).seconds == seconds


def logs(*series: list[tuple[int, float]]) -> list[RunLog]:
    """Runs a, b, … that logged these losses."""
    records = [[{"step": step, "loss": loss} for step, loss in points] for points in series]
    return [RunLog(name, Path(name), updates=updates) for name, updates in zip("abc", records, strict=False)]


def test_curves_are_pictures_that_say_their_ends() -> None:
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    section = curves(logs([(i, 1000.0 - i) for i in range(1000)], [(1, math.nan), (2, 5.0)], []))
    (picture,) = section.blocks
    assert isinstance(picture, Picture)
    assert picture.text == "Training loss. a: 1000 at 0, 1 at 999; b: 5 at 2, 5 at 2"
    ElementTree.fromstring(picture.svg)
    assert picture.svg.count("var(--c0)") >= 1
    assert picture.svg.count("var(--c1)") >= 1
    assert "#0000" not in picture.svg, "all colours are the page's"
    assert len(picture.svg) < 30_000, "1,000 points are thinned"
    assert picture == curves(logs([(i, 1000.0 - i) for i in range(1000)], [(1, math.nan), (2, 5.0)], [])).blocks[0]


def test_without_matplotlib_curves_are_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    note, table = curves(logs([(1, 4.0), (2, 3.0)], [])).blocks
    assert isinstance(note, Text)
    assert note.text.startswith("There are no pictures, since matplotlib is not installed")
    assert table == Table(["curve", "run", "first", "last"], [["Training loss", "a", "4 at 1", "3 at 2"]])
    assert curves(logs([])).blocks == [Text("Nothing was logged.")]


@pytest.mark.parametrize("value", [0.0, -3.0, 1e30, -1e300])
def test_a_value_that_never_changes_is_drawn(value: float) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    picture = chart("Rate", [Series("a", [(1.0, value), (2.0, value)])])
    (heights,) = re.findall(r'd="M [\d.]+ ([\d.]+) \nL [\d.]+ ([\d.]+) \n" clip-path', picture)
    assert heights[0] == heights[1]


def test_names_are_drawn_as_they_are() -> None:
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    names = ["_hidden", "$x", "<b>&"]
    picture = chart("$a <b>", [Series(name, [(1.0, 2.0), (2.0, 3.0)]) for name in names])
    texts = [element.text.strip() for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("text")]
    assert {"$a <b>", *names} <= set(texts)


def test_the_word_and_the_heads_of_the_figures() -> None:
    weights = torch.full((3, 4, 4), 0.25)
    weights[1] = torch.eye(4)
    weights[2, 0] = weights[2, 2] = torch.tensor([1.0, 0, 0, 0])
    assert sharpest(weights) == [1, 2], "least entropy first, given in their order"
    assert farthest(weights, ["a", "b", "c", "."]) == 2
    assert farthest(weights, ["a", "b", ".", "c"]) == 3, "marks are no words"


def test_counts_of_a_validation_are_no_curves(tmp_path: Path) -> None:
    found = ValidationResult({"nll": 1.0, "bleu": 20.0}, {}, -1.0, "beam 4", 200, 1000)
    record = {"kind": "valid", "step": 4, "best": True, "seconds": 1.5, **found.record()}
    (tmp_path / "log.jsonl").write_text(json.dumps(record))
    assert titles([read_log(tmp_path)]).keys() - CURVES.keys() == {"Development bleu"}


def test_the_verdict_says_whether_training_had_stopped_improving(tmp_path: Path) -> None:
    def verdict(criterion: str, *values: tuple[float, float]) -> str:
        best = min(range(len(values)), key=lambda i: values[i][0] if criterion == "nll" else -values[i][1])
        records: list[dict[str, Any]] = [
            {"kind": "valid", "step": 10 * (i + 1), "nll": nll, "balance": 7.0, "bleu": bleu, "best": i <= best}
            | {"signatures": {"bleu": "nrefs:1"}}
            for i, (nll, bleu) in enumerate(values)
        ]
        (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records) + '{"kind": "val')
        return training_verdict(read_log(tmp_path), criterion)

    assert "bleu 9.00 on the development set at update 20, the last one" in verdict("bleu", (1, 5), (1, 9))
    assert "at update 20; it was 8.00 at the last, update 30" in verdict("bleu", (1, 5), (1, 9), (1, 8))
    assert (
        "nll 1.00 (bleu 5.00) on the development set at update 10; it was 1.50 (bleu 9.00) at the last, update 20: "
        "nll has stopped improving"
    ) in verdict("nll", (1.0, 5), (1.5, 9)), "bleu has not"
    assert "none was validated" in training_verdict(read_log(tmp_path / "nowhere"), "nll")


def test_markdown_and_html_escape_what_texts_bring_along() -> None:
    sections = [Section("A", [Text("<script>x"), Table(["h"], [["a|b\nc"]], (0,))])]
    assert "<script>x" not in as_html("t", sections)
    assert "| a\\|b c |" in as_markdown("t", sections)
