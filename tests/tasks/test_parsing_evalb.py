"""EVALB: its own output on every reference case, figures by hand, and a plain count over any trees."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from harness.folders import DATA
from harness.parsing_trees import trees
from s2s.cli.score import main
from s2s.cli.scoring.report import as_json, as_text
from s2s.errors import ConfigError, DataError
from s2s.metrics import PairedTest, build_metrics, compare
from s2s.metrics.resampling import paired_p_value
from s2s.plugin import load_plugins
from s2s_parsing import EvalbConfig
from s2s_parsing.evalb.metric import Evalb
from s2s_parsing.evalb.parameters import COLLINS, NEW, find_parameters
from s2s_parsing.evalb.report import TooManyErrors, label_table, report
from s2s_parsing.evalb.scoring import ERROR, SKIPPED, VALID, Figures, Scorer
from s2s_parsing.evalb.totals import label_totals
from s2s_parsing.tree import Node, Tree, Word

if TYPE_CHECKING:
    from pathlib import Path

CASES = DATA / "evalb/cases"
ORIGINAL = DATA / "evalb/original"

GOLD = "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps) (PP (IN on) (NP (PRP me)))) (. .)))"


def runs() -> list[Any]:
    """Every run of EVALB that is kept there: its files, and its arguments."""
    if not CASES.is_dir():
        return [pytest.param("", {}, marks=pytest.mark.skip(reason=f"no EVALB cases in {CASES}"))]
    suites = json.loads((CASES / "manifest.json").read_text())["suites"]
    return [pytest.param(name, run, id=run["rsl"]) for name, suite in suites.items() for run in suite["runs"]]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def evalb(gold: list[str], test: list[str], param: str, arguments: list[str]) -> tuple[str, str, int]:
    """What our report prints, what goes to the error stream, and the exit status."""
    parameters = find_parameters(param)
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    cutoff, max_error = (
        int(given.get(key, value)) for key, value in {"-c": parameters.cutoff, "-e": parameters.max_error}.items()
    )
    printed: list[str] = []
    complaints: list[str] = []
    try:
        for part in report(map(Scorer(parameters), gold, test), cutoff, max_error, complaints.append):
            printed.append(part)
    except TooManyErrors:
        return "".join(printed), "".join(complaints), 1
    return "".join(printed), "".join(complaints), 0


def same(printed: str) -> str:
    """C prints the nan of 0/0 with a minus or without."""
    return printed.replace("-nan", " nan")


@pytest.mark.parametrize(("suite", "run"), runs())
def test_every_letter_of_evalb_s_output_is_the_same(suite: str, run: dict[str, Any]) -> None:
    gold, test = lines(CASES / f"{suite}.gld"), lines(CASES / f"{suite}.tst")
    printed, complaints, status = evalb(gold, test, str(CASES / run["prm"]), run["args"])
    assert printed == same((CASES / run["rsl"]).read_text())
    assert complaints == (CASES / run["stderr"]).read_text()
    assert status == run["exit"]


@pytest.mark.skipif(not CASES.is_dir(), reason=f"no EVALB cases in {CASES}")
@pytest.mark.parametrize("name", [run["rsl"] for _, run in (param.values for param in runs()) if run])
def test_rows_of_sentences_are_evalb_s(name: str) -> None:
    """As it prints them, as far as it goes: at too many errors it stops."""
    ((suite, run),) = (param.values for param in runs() if param.values[1]["rsl"] == name)
    gold, test = lines(CASES / f"{suite}.gld"), lines(CASES / f"{suite}.tst")
    rows = metric(param=str(CASES / run["prm"])).per_sentence(test, [gold])
    printed = [line.split() for line in (CASES / name).read_text().split("=" * 76)[1].splitlines()[1:]]
    keys = (
        "length",
        "status",
        "recall",
        "precision",
        "matched",
        "gold",
        "test",
        "crossing",
        "words",
        "tags",
        "tagging",
    )
    status = {"0": "valid", "1": "error", "2": "skipped"}
    for number, (row, (index, *figures)) in enumerate(zip(rows, printed, strict=False), 1):
        figures[1] = status[figures[1]]
        assert int(index) == number
        assert [f"{row[k]:.2f}" if isinstance(row[k], float) else str(row[k]) for k in keys] == figures
    assert len(printed) == len(rows) or run["exit"] == 1


def test_the_command_takes_parameters_by_name_and_says_each_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hyp, ref = tmp_path / "hyp", tmp_path / "ref"
    hyp.write_text("\n".join(BAD) + "\n")
    ref.write_text("\n".join(REFS) + "\n")
    files = ["task=parsing", f"hyp={hyp}", f"ref={ref}", "samples=0"]
    assert main([*files, "param=collins", "format=json", "--per-sentence"]) == 0
    (score,) = json.loads(capsys.readouterr().out)["scores"]
    assert "|param:COLLINS|" in score["signature"]
    matched, in_all = (sum(row[key] for row in score["sentences"]) for key in ("matched", "gold"))
    assert 100 * matched / in_all == pytest.approx(score["detail"]["recall"])
    assert main([*files, "param=new.prm"]) == 0
    assert "|param:new|" in capsys.readouterr().out
    assert main([*files, "param=colins"]) == 2
    assert "Did you mean 'collins'?" in capsys.readouterr().err


@pytest.mark.skipif(not ORIGINAL.is_dir(), reason=f"no EVALB samples in {ORIGINAL}")
@pytest.mark.parametrize(
    ("sample", "param", "expected"),
    [
        ("sample", str(ORIGINAL / "sample.prm"), "sample"),
        ("bug", "COLLINS", "bug.COLLINS"),
        ("bug", "new.prm", "bug.new"),
    ],
)
def test_evalb_s_own_samples_come_out_the_same(sample: str, param: str, expected: str) -> None:
    gold, test = lines(ORIGINAL / f"{sample}.gld"), lines(ORIGINAL / f"{sample}.tst")
    printed, complaints, _ = evalb(gold, test, param, [])
    assert printed == same((ORIGINAL / f"{expected}.current.rsl").read_text())
    assert complaints == (ORIGINAL / f"{expected}.current.err").read_text()


@pytest.mark.skipif(not ORIGINAL.is_dir(), reason=f"no EVALB samples in {ORIGINAL}")
def test_the_known_sets_say_what_their_files_say() -> None:
    assert find_parameters(str(ORIGINAL / "COLLINS.prm")) is COLLINS
    assert find_parameters(str(ORIGINAL / "new.prm")) is NEW


def figures(test: str, gold: str = GOLD, param: str = "COLLINS") -> Figures:
    return Scorer(find_parameters(param))(gold, test)


def counts(found: Figures) -> tuple[int, int, int, int]:
    """Matched, reference's, predicted and crossing brackets."""
    return len(found.matches), len(found.gold), len(found.test), found.n_crossing


@pytest.mark.parametrize(
    ("test", "expected", "tags"),
    [
        # S over 5 words, NP 0-2, VP 2-5, PP 3-5, NP 4-5; the full stop and TOP do not count
        pytest.param(GOLD, (5, 5, 5, 0), 5, id="the same"),
        pytest.param(
            "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sleeps) (IN on) (NP (PRP me))) (. .)))", (4, 5, 4, 0), 5, id="less"
        ),
        pytest.param(
            "(S1 (S (NP (DT the) (NN cat)) (VP (VBZ sleeps) (PP (IN on) (NP (PRP me)))) (. .)))",
            (5, 5, 6, 0),
            5,
            id="S1 counts under COLLINS",
        ),
        pytest.param(
            "(TOP (S (DT the) (VP (NN cat) (VBZ sleeps) (IN on)) (NP (PRP me)) (. .)))",
            (2, 5, 3, 1),  # S and the last NP; VP 1-4 crosses NP 0-2, VP 2-5 and PP 3-5, and counts once
            5,
            id="crossing",
        ),
        pytest.param(
            "(TOP (S (NP-SBJ (DT the) (VB cat)) (VP=2 (VBZ sleeps) (PP (RP on) (X (PRP me)))) (. .)))",
            (4, 5, 5, 0),
            3,
            id="function tags do not count, labels and parts of speech do",
        ),
        pytest.param(
            "(TOP (S (S (NP (DT the) (NN cat)) (VP (VBZ sleeps) (PP (IN on) (NP (PRP me))))) (. .)))",
            (5, 5, 6, 0),
            5,
            id="a bracket matches once",
        ),
    ],
)
def test_figures_by_hand(test: str, expected: tuple[int, int, int, int], tags: int) -> None:
    found = figures(test)
    assert (found.status, counts(found), found.n_words, found.n_tags) == (VALID, expected, 5, tags)


@pytest.mark.parametrize(
    ("test", "status", "fault"),
    [
        ("(TOP (S (NN the)))", ERROR, "Length unmatch (5|1)"),
        (GOLD.replace("cat", "dog"), ERROR, "Words unmatch (cat|dog)"),
        (GOLD[:-1], ERROR, "Bracketing is unbalanced (too many open bracket)"),
        (GOLD + ")", ERROR, "Bracketing unbalance (too many close bracket)"),
        ("S NP DT NN /NP", ERROR, "Reading sentence: 'S' is no bracket and no only word of one"),
        ("(TOP (S the cat))", ERROR, "Reading sentence: 'the' is no bracket and no only word of one"),
        ("", SKIPPED, None),
        ("(TOP (S (. .)))", SKIPPED, None),
    ],
)
def test_what_cannot_be_compared_is_told(test: str, status: int, fault: str | None) -> None:
    found = figures(test)
    assert (found.status, found.faults) == (status, [fault] if fault else [])


def test_a_bracket_that_is_not_closed_still_lets_the_others_be_seen() -> None:
    assert counts(figures(GOLD[:-2])) == (4, 5, 5, 0)


def test_a_quotation_mark_is_mended_under_new_only() -> None:
    gold = "(TOP (NP (NP (NNS cats) (POS ')) (NN food)))"
    test = "(TOP (NP (NP (NNS cats)) ('' ') (NN food)))"
    assert figures(test, gold).faults == ["Length unmatch (3|2)"]
    assert counts(figures(test, gold, "new")) == (1, 2, 2, 0)


def test_two_labels_may_be_equal_and_a_table_has_both() -> None:
    gold, test = "(TOP (VP (VB go) (PRT (RP up))))", "(TOP (VP (VB go) (ADVP (RP up))))"
    found = figures(test, gold)
    assert counts(found) == (2, 2, 2, 0)
    table = label_totals([found])
    assert list(table) == ["VP", "PRT", "ADVP"]
    assert (table["PRT"].n_gold, table["PRT"].n_found, table["PRT"].recall) == (1, 1, 100.0)
    assert (table["ADVP"].n_test, table["ADVP"].n_right, table["ADVP"].precision) == (1, 1, 100.0)
    assert label_table(table).splitlines()[1].split() == ["VP", "1", "1", "1", "100.00", "100.00", "100.00"]


def test_there_is_no_limit_to_words_brackets_and_depth() -> None:
    words = [f"(NN {'w' * 200}{i})" for i in range(3_000)]
    flat = f"(TOP (S {' '.join(words)}))"
    deep = "(TOP " + "".join(f"(S {word} " for word in words) + ")" * 3_001
    found = figures(deep, flat)
    assert (counts(found), found.n_words, found.length) == ((1, 1, 3_000, 0), 3_000, 3_000)


def spans(tree: Node, start: int, found: list[tuple[str, int, int]]) -> int:
    """The tree's brackets with their spans, recursively; the end of its words."""
    if isinstance(tree, Word):
        return start + 1
    end = start
    for child in tree.children:
        end = spans(child, end, found)
    found.append((tree.label.split("-")[0], start, end))
    return end


def with_words(tree: Node, words: list[str]) -> Node:
    """The same tree over words of our own, none of which is left out."""
    if isinstance(tree, Word):
        return Word("NN", words.pop(0) if words else "more")
    return Tree(tree.label, tuple(with_words(child, words) for child in tree.children))


@given(trees, trees)
def test_any_two_trees_are_compared_as_a_plain_count_has_it(gold: Tree, test: Tree) -> None:
    gold_spans: list[tuple[str, int, int]] = []
    test_spans: list[tuple[str, int, int]] = []
    ours, theirs = with_words(gold, [*"abcdefgh"]), with_words(test, [*"abcdefgh"])
    lengths = spans(ours, 0, gold_spans), spans(theirs, 0, test_spans)
    found = figures(str(theirs), str(ours))
    if lengths[0] != lengths[1]:
        assert found.status == ERROR
        return
    gold_spans, test_spans = ([s for s in side if s[0] != "TOP"] for side in (gold_spans, test_spans))
    crossing = [any(a < c < b < d or c < a < d < b for _, a, b in gold_spans) for _, c, d in test_spans]
    matched = (Counter(gold_spans) & Counter(test_spans)).total()
    assert counts(found) == (matched, len(gold_spans), len(test_spans), sum(crossing))


def test_a_parameter_file_of_one_s_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.prm"
    path.write_text("# mine\n\nLABELED 0  \nCUTOFF_LEN\t10\nDELETE_LABEL X\nEQ_WORD This this\nDEBUG 0\n")
    mine = find_parameters(str(path))
    assert (mine.labelled, mine.cutoff, mine.max_error, mine.deleted) == (False, 10, 10, {"X"})
    assert ("this", "This") in mine.equal_words
    path.write_text("DEBUG 1\nCUTOFF_LEN 10\nEQ_WORD this This\nLABELED 0\nDELETE_LABEL X\n")
    assert find_parameters(str(path)) == mine, "the name follows what is said, not how"
    path.write_text("CUTOFF_LEN 11\n")
    assert find_parameters(str(path)).name != mine.name


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("DELETE_LABLE X\n", r"mine\.prm:1: DELETE_LABLE: no such parameter. Did you mean 'DELETE_LABEL'\?"),
        ("\nEQ_LABEL A\n", r"mine\.prm:2: EQ_LABEL A: expected two labels"),
        ("DELETE_LABEL\n", r"mine\.prm:1: DELETE_LABEL : expected one label"),
        ("MAX_ERROR many\n", r"mine\.prm:1: MAX_ERROR many: expected a number from 0 up"),
    ],
)
def test_a_parameter_file_with_a_mistake_is_refused(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "mine.prm").write_text(text)
    with pytest.raises(DataError, match=what):
        find_parameters(str(tmp_path / "mine.prm"))


def test_parameters_are_found_by_name() -> None:
    assert [find_parameters(name) for name in ("collins", "COLLINS.prm", "new")] == [COLLINS, COLLINS, NEW]
    with pytest.raises(DataError, match=r"newer: neither a parameter file nor .* Did you mean 'new'\?"):
        find_parameters("newer")


REFS = [GOLD, "(TOP (S (NP (PRP I)) (VP (VBP go))))", "(TOP (NP (NN a) (PP (IN b) (NP (NN c)))))"] * 4
GOOD = [GOLD, "(TOP (S (NP (PRP I)) (VP (VBP go))))", "(TOP (NP (NN a) (IN b) (NP (NN c))))"] * 4
BAD = [GOLD.replace("PP", "NP"), "(TOP (S (PRP I) (VBP go)))", "(TOP (NP (NN a) (IN b) (NN c)))"] * 4


def metric(**options: Any) -> Evalb:
    return Evalb(EvalbConfig(name="evalb", **options))


def test_the_metric_has_f1_its_interval_and_all_else() -> None:
    score = metric()(GOOD, [REFS], samples=200)
    # 5 + 3 + 2 of 5 + 3 + 3 brackets are found, and none is wrong
    assert score.value == pytest.approx(100 * 2 * 10 / (11 + 10))
    assert score.low is not None
    assert score.high is not None
    assert score.low < score.value < score.high
    assert score.detail["recall"] == pytest.approx(100 * 10 / 11)
    assert score.detail["precision"] == 100.0
    assert score.detail["complete_match"] == pytest.approx(200 / 3)
    assert score.detail["labels"]["PP"] == {
        "n_gold": 8,
        "n_test": 4,
        "n_found": 4,
        "n_right": 4,
        "precision": 100.0,
        "recall": 50.0,
        "f1": pytest.approx(200 / 3),
    }
    assert json.loads(json.dumps(score.detail, allow_nan=False)) == score.detail


def test_the_second_summary_takes_sentences_up_to_the_cutoff() -> None:
    score = metric(cutoff=3)(BAD, [REFS])
    assert (score.detail["sentences"], score.detail["to_3"]["sentences"]) == (12, 8)
    assert score.detail["f1_to_3"] == pytest.approx(100 * 2 * 2 / (6 + 2))


def test_the_signature_says_what_must_be_equal() -> None:
    assert metric(param="new", cutoff=10)(GOOD, [REFS], 10, 7).signature.startswith(
        "nrefs:1|param:new|cutoff:10|errors:leave_out|bs:10|seed:7|version:s2s-"
    )
    assert "|bs:" not in metric()(GOOD, [REFS]).signature


def test_sentences_with_other_words_are_left_out_or_counted_as_missed() -> None:
    hyps = [REFS[0], "", "nonsense )"]
    left_out, counted = (metric(errors=errors)(hyps, [REFS[:3]]) for errors in ("leave_out", "count"))
    assert left_out.value == 100.0
    assert (left_out.detail["errors"], left_out.detail["skipped"]) == (1, 1)
    assert counted.detail["recall"] == pytest.approx(100 * 5 / 11)
    assert counted.value == pytest.approx(100 * 2 * 5 / (11 + 5))


@pytest.mark.parametrize("errors", ["leave_out", "count"])
def test_the_second_summary_of_short_sentences_alone_is_the_first(errors: str) -> None:
    hyps = [REFS[0], "", "nonsense )", *BAD[3:]]
    found = metric(errors=errors)(hyps, [REFS])
    assert found.detail["f1_to_40"] == found.detail["to_40"]["f1"] == found.value
    assert all(found.detail[name] == value for name, value in found.detail["to_40"].items() if name != "f1")


@pytest.mark.parametrize("label", ["ROOT", "", "S1", "VROOT"])
@pytest.mark.parametrize("gold_has_it", [True, False], ids=["gold", "test"])
def test_a_wrapper_of_one_side_alone_is_warned_of(
    label: str, gold_has_it: bool, caplog: pytest.LogCaptureFixture
) -> None:
    wrapped, plain = GOLD.replace("TOP", label, 1), GOLD
    gold, test = (wrapped, plain) if gold_has_it else (plain, wrapped)
    assert metric()([test, plain], [[gold, plain]]).value < 100.0
    (warning,) = caplog.messages
    assert warning.startswith(f"evalb: 1 trees are in a bracket ({label} …) that the other side's do not have")


@pytest.mark.parametrize(
    ("gold", "test", "param"),
    [
        (GOLD, GOLD, "COLLINS"),
        (GOLD.replace("TOP", "ROOT", 1), GOLD.replace("TOP", "ROOT", 1), "COLLINS"),
        (GOLD.replace("TOP", "S1", 1), GOLD, "new"),
        (GOLD[5:-1], GOLD, "COLLINS"),
        (GOLD.replace("TOP", "ROOT", 1), "", "COLLINS"),
    ],
    ids=["TOP", "both sides", "not counted", "none", "no output"],
)
def test_a_wrapper_that_costs_nothing_is_not(
    gold: str, test: str, param: str, caplog: pytest.LogCaptureFixture
) -> None:
    metric(param=param)([test], [[gold]])
    assert not caplog.messages


def test_nothing_to_count_is_0_and_not_nan() -> None:
    score = metric()([""], [[""]], samples=5)
    assert (score.value, score.low, score.high) == (0.0, 0.0, 0.0)
    assert not any(isinstance(value, float) and math.isnan(value) for value in score.detail.values())


@pytest.mark.parametrize("kind", ["bootstrap", "randomization"])
def test_two_parsers_are_compared_as_by_the_slow_test_that_any_metric_has(kind: Any) -> None:
    test = PairedTest(100, 3, kind)
    fast = metric().p_values(GOOD, [BAD, GOOD], [REFS], test)
    slow = [paired_p_value(metric(), GOOD, other, [REFS], test) for other in (BAD, GOOD)]
    assert fast == slow
    first, second = compare(metric(), {"good": GOOD, "bad": BAD}, [REFS], samples=100)
    assert second.difference == pytest.approx(second.score.value - first.score.value)
    assert second.p_value is not None


def test_the_interval_is_that_of_scoring_every_resample() -> None:
    score = metric()(BAD, [REFS], samples=100, seed=5)
    rng = np.random.default_rng(5)
    values = []
    for _ in range(100):
        rows = rng.choice(len(BAD), size=len(BAD), replace=True)
        values.append(metric()([BAD[i] for i in rows], [[REFS[i] for i in rows]]).value)
    assert (score.low, score.high) == pytest.approx((sorted(values)[2], sorted(values)[-3]))


def test_what_is_no_pair_of_trees_is_refused() -> None:
    with pytest.raises(ConfigError, match="2 references are given, expected one"):
        metric()(GOOD, [REFS, REFS])
    with pytest.raises(DataError, match="11 trees to score, but 12 in the reference"):
        metric()(GOOD[1:], [REFS])
    with pytest.raises(ConfigError, match=r"metrics\.evalb\.cutoff=-1"):
        metric(cutoff=-1)


def test_tables_are_for_json_and_do_not_fill_the_screen() -> None:
    results = [compare(metric(), {"good": GOOD}, [REFS], samples=0)]
    assert "labels" in json.loads(as_json(results, 12, 1))["scores"][0]["detail"]
    shown = as_text(results, 12, 1)
    assert "f1 to 40 95.2" in shown
    assert "labels" not in shown


def test_it_is_registered_under_its_name() -> None:
    registry = load_plugins().registry
    task: Any = type("task", (), {"metrics": (), "metric_options": {}})
    (built,) = build_metrics(task, registry, [{"name": "evalb", "param": "new"}])
    assert isinstance(built, Evalb)
    assert built.parameters is NEW


def run_module(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "s2s_parsing.evalb", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_module_is_a_command_with_evalb_s_options(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("\n".join(REFS) + "\n")
    (tmp_path / "test").write_text("\n".join(BAD) + "\n")
    ran = run_module("-p", "new", "-c", 3, "--labels", tmp_path / "gold", tmp_path / "test")
    assert (ran.returncode, ran.stderr) == (0, "")
    expected, _, _ = evalb(REFS, BAD, "new", ["-c", "3"])
    assert ran.stdout.startswith(expected)
    assert ran.stdout.count("\n") == expected.count("\n") + 3 + len(("NP", "S", "VP", "PP"))
    (tmp_path / "test").write_text("\n".join(BAD[1:]) + "\n")
    ran = run_module(tmp_path / "gold", tmp_path / "test")
    assert ran.returncode == 2
    assert "gold has 12 lines" in ran.stderr


def test_equal_words_count_as_the_same() -> None:
    same_words = replace(COLLINS, equal_words=frozenset((("cat", "Cat"), ("Cat", "cat"))))
    assert Scorer(same_words)(GOLD, GOLD.replace("cat", "Cat")).status == VALID


DOG = "(S1 (S (NP (DT the) (NN dog)) {} (VP (VBZ barks))))"
WITHIN = "(S1 (S (NP (DT the) {} (NN dog)) (VP (VBZ barks) {})))"


@pytest.mark.parametrize(
    ("gold", "test", "n_matches", "n_tags", "n_words"),
    [
        # the mark is a word of the NP on one side alone: S and VP match, and all tags but the mark's
        (DOG.format("('' ')"), "(S1 (S (NP (DT the) (NN dog) (POS ')) (VP (VBZ barks))))", 2, 3, 4),
        ("(S1 (S (NP (DT the) (NN dog) (POS ')) (VP (VBZ barks))))", DOG.format("('' ')"), 2, 3, 4),
        # it stands at the same place: what is round it grows, what is behind it moves, and every span agrees
        (WITHIN.format("('' ')", ""), WITHIN.format("(POS ')", ""), 3, 3, 4),
        # the second mark has its place behind the first, once that is back
        (WITHIN.format("('' ')", "('' ')"), WITHIN.format("(POS ')", "(POS ')"), 3, 3, 5),
        # both sides leave it out, or keep it: nothing is mended
        (DOG.format("('' ')"), DOG.format("('' ')"), 3, 3, 3),
        (DOG.format("(POS ')"), DOG.format("(POS ')"), 3, 4, 4),
    ],
)
def test_quotation_marks_that_one_side_left_out_are_put_back(
    gold: str, test: str, n_matches: int, n_tags: int, n_words: int
) -> None:
    """Counted by hand: brackets S, NP and VP, and the words the, dog, barks with their marks."""
    figures = Scorer(NEW)(gold, test)
    assert figures.status == VALID, figures.faults
    assert (len(figures.gold), len(figures.test)) == (3, 3)
    assert (len(figures.matches), figures.n_tags, figures.n_words) == (n_matches, n_tags, n_words)
