"""Annotation styles: several treebanks in one model, and one treebank that is divided."""

from __future__ import annotations

import gzip
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s2s import ConfigError, DataError, Example
from s2s_parsing import ParsingConfig
from s2s_parsing.find_styles import divide, main, posteriors, rules_of
from s2s_parsing.styles import Styles
from s2s_parsing.task import Parsing, read_tree
from s2s_parsing.word_parts import WordParts

if TYPE_CHECKING:
    from pathlib import Path

FLAT = "(TOP (S (NP (DT the) (JJ old) (NN cat)) (VP (VBD saw) (NP (DT a) (NN dog)))))"
DEEP = "(TOP (S (NP (DT the) (NP (JJ old) (NN cat))) (VP (VBD saw) (NP (DT a) (NP (NN dog))))))"
SENTENCE = "the old cat saw a dog"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    for name, tree in (("flat", FLAT), ("deep", DEEP)):
        (tmp_path / f"{name}.mrg").write_text(f"{tree}\n" * 4)
    return {
        "train": {name: str(tmp_path / f"{name}.mrg") for name in ("flat", "deep")},
        "valid": str(tmp_path / "flat.mrg"),
    }


def built(files: dict[str, Any], **options: Any) -> Parsing:
    given = {"words": "parts", "linear": "in_order", "style": "deep"} | options
    return Parsing(ParsingConfig(name="parsing", **files, **given))


def learnt(folder: Path, files: dict[str, Any], **options: Any) -> Parsing:
    task = built(files, **options)
    folder.mkdir()
    task.learn(folder)
    return task


def of_corpus(task: Parsing, split: str, corpus: str) -> Example:
    return next(one for one in task.examples(split, corpus) if isinstance(one, Example))


@pytest.mark.parametrize("labels", ["none", "tags"])
def test_every_word_of_a_sentence_has_its_style_as_one_more_part(
    tmp_path: Path, files: dict[str, Any], labels: str
) -> None:
    task = learnt(tmp_path / "with", files, word_labels=labels)
    plain = learnt(tmp_path / "without", files, word_labels=labels, style="")
    for corpus, tree in (("flat", FLAT), ("deep", DEEP)):
        (marked,) = task.encode([of_corpus(task, "train", corpus)])
        (unmarked,) = plain.encode([of_corpus(plain, "train", corpus)])
        style = task.source.pieces.index(f"<style {corpus}>")
        assert marked.src.count(style) == len(SENTENCE.split())
        names = [task.source.pieces[i] for i in marked.src if i != style]
        assert names == [plain.source.pieces[i] for i in unmarked.src]
        assert marked.tgt == unmarked.tgt
        assert tree.count("(") == of_corpus(task, "train", corpus).tgt.count("(")


def test_a_style_follows_the_parts_of_its_word() -> None:
    source = WordParts({"cat": 3}, n_buckets=16, labels=["NN"], styles=["a", "b"])
    (cat, dog), style = source.encode(["cat", "dog"]), source.pieces.index("<style b>")
    assert source.encode(["<b> cat dog"]) == [[*cat, style, *dog, style]]
    label = source.pieces.index("<is NN>")
    assert source.encode_labelled([("NN", "cat"), ("XX", "dog")], "<b>") == [*cat, style, label, *dog, style]
    assert source.decode([*cat, style]) == "cat"
    assert list(source.label_ids) == [label]


def test_new_sentences_and_those_of_other_corpora_follow_the_style_that_is_configured(
    tmp_path: Path, files: dict[str, Any]
) -> None:
    task = learnt(tmp_path / "task", files)
    assert of_corpus(task, "valid", "flat").src == f"<flat> {SENTENCE}", "a corpus that is also one of training"
    other = learnt(tmp_path / "other", files | {"valid": {"dev": files["valid"]}})
    assert of_corpus(other, "valid", "dev").src == f"<deep> {SENTENCE}"
    deep, flat, new, blank, mark = task.encode_source(
        [f"<deep> {SENTENCE}", f"<flat> {SENTENCE}", SENTENCE, "", "<flat>"]
    )
    assert new == deep != flat
    assert blank == mark == []
    assert task.encode([Example(SENTENCE, FLAT)])[0].src == deep


def test_a_mark_is_not_a_word_of_the_tree(tmp_path: Path, files: dict[str, Any]) -> None:
    task = learnt(tmp_path / "task", files)
    (pair,) = task.encode([Example("", DEEP)])
    for line in (SENTENCE, f"<flat> {SENTENCE}", f"  <deep>\t{SENTENCE}"):
        assert task.detokenize(pair.tgt, line) == task.detokenize(pair.tgt, SENTENCE)
        assert task.fallback(line) == task.fallback(SENTENCE)
    assert "<other>" in task.detokenize(pair.tgt, f"<other> {SENTENCE}")
    assert "<flat>" in task.detokenize(pair.tgt, f"{SENTENCE[:-3]} <flat>"), "only in front"


@pytest.mark.parametrize("labels", ["none", "tags"])
def test_the_first_word_of_a_tree_may_equal_a_mark(tmp_path: Path, files: dict[str, Any], labels: str) -> None:
    odd = FLAT.replace("the", "<deep>", 1)
    (tmp_path / "flat.mrg").write_text(f"{FLAT}\n{odd}\n")
    task = learnt(tmp_path / "task", files, word_labels=labels)
    plain = learnt(tmp_path / "without", files, word_labels=labels, style="")
    *_, example = task.examples("train", "flat")
    assert isinstance(example, Example)
    assert example.src == f"<flat> <deep> {SENTENCE.removeprefix('the ')}"
    (pair,), (unmarked,) = task.encode([example]), plain.encode([Example(example.src.removeprefix("<flat> "), odd)])
    style = task.source.pieces.index("<style flat>")
    names = [task.source.pieces[i] for i in pair.src if i != style]
    assert names == [plain.source.pieces[i] for i in unmarked.src]
    assert task.detokenize(pair.tgt, example.src) == plain.detokenize(unmarked.tgt, f"<deep>{SENTENCE[3:]}")


def test_a_mark_of_no_style_is_warned_of_once(
    tmp_path: Path, files: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    task = learnt(tmp_path / "task", files)
    task.encode_source([f"<flat> {SENTENCE}", f"{SENTENCE} <Deep>", "< 3", ""])
    assert not caplog.records
    task.encode_source([f"<Deep> {SENTENCE}"])
    task.encode_source([f"<Deep> {SENTENCE}"])
    (warned,) = caplog.messages
    assert warned.startswith("<Deep> at the beginning of a sentence is parsed as a word: styles are <flat>, <deep>.")
    assert "Did you mean '<deep>'" in warned
    task.read_raw("<raw> It's.")
    assert "<raw> at the beginning" in caplog.messages[1]
    plain = learnt(tmp_path / "plain", files, style="")
    plain.encode_source([f"<Other> {SENTENCE}"])
    assert len(caplog.messages) == 2, "without styles no mark is expected"


def test_words_are_counted_behind_the_mark(tmp_path: Path, files: dict[str, Any]) -> None:
    task = learnt(tmp_path / "task", files)
    line = f"<flat> {SENTENCE}"
    words = [line[begin:end] for begin, end in filter(None, task.source_offsets(line))]
    assert list(dict.fromkeys(words)) == SENTENCE.split()
    assert {SENTENCE[begin:end] for begin, end in filter(None, task.source_offsets(SENTENCE))} == set(SENTENCE.split())


def test_a_raw_sentence_keeps_its_mark(tmp_path: Path, files: dict[str, Any]) -> None:
    task = learnt(tmp_path / "task", files)
    assert task.read_raw("<flat> It's (here).") == "<flat> It 's -LRB- here -RRB- ."
    assert task.read_raw("It's.") == "It 's ."


def test_what_was_learnt_is_loaded_with_its_styles(tmp_path: Path, files: dict[str, Any]) -> None:
    task = learnt(tmp_path / "task", files)
    loaded = built(files)
    loaded.load(tmp_path / "task")
    assert loaded.source.pieces == task.source.pieces
    assert loaded.encode_source([SENTENCE]) == task.encode_source([SENTENCE])
    plain = learnt(tmp_path / "without", files, style="")
    with pytest.raises(DataError, match="prepare again"):
        plain.load(tmp_path / "task")
    with pytest.raises(DataError, match="prepare again"):
        task.load(tmp_path / "without")
    settings = [built(files, style=style).dependencies().settings for style in ("", "flat", "deep")]
    assert len({str(one) for one in settings}) == 3, "prepared anew for another style"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"style": "depe"}, "task.style=depe.*Did you mean 'deep'"),
        ({"style": "deep", "words": "subwords"}, "needs task.words=parts"),
    ],
)
def test_styles_that_cannot_be(files: dict[str, Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        built(files, **options)


@pytest.mark.parametrize("name", ["a b", "a(b", "a\tb"])
def test_the_name_of_a_style_is_one_word(name: str) -> None:
    with pytest.raises(ConfigError, match="without blanks"):
        Styles([name, "b"], "b")


@given(st.integers(1, 6), st.integers(1, 3), st.floats(0.05, 0.95), st.integers(0, 2**32 - 1))
def test_posteriors_are_sums_over_all_sequences_of_styles(n: int, k: int, persistence: float, seed: int) -> None:
    emissions = np.random.default_rng(seed).normal(scale=5, size=(n, k))
    change = (1 - persistence) / max(1, k - 1)
    weights, shares = [], np.zeros((n, k))
    for path in product(range(k), repeat=n):
        moves = [1.0 if k == 1 else persistence if a == b else change for a, b in pairwise(path)]
        weights.append(np.exp(sum(emissions[t, s] for t, s in enumerate(path))) * np.prod(moves) / k)
        shares[range(n), path] += weights[-1]
    found, likelihood = posteriors(emissions, persistence)
    np.testing.assert_allclose(found, shares / sum(weights), atol=1e-12)
    assert likelihood == pytest.approx(np.log(sum(weights)), abs=1e-9)


def test_posteriors_of_many_sentences_are_finite() -> None:
    emissions = np.random.default_rng(1).normal(scale=300, size=(5000, 2))
    found, likelihood = posteriors(emissions, 0.99)
    assert np.isfinite(likelihood)
    np.testing.assert_allclose(found.sum(1), 1)


def stretches() -> tuple[list[str], list[int]]:
    """Trees of two styles in turns of 30, 70, 50, …, and the style of each."""
    lengths = [30, 70, 50, 90, 40, 60, 80]
    styles = [i % 2 for i, length in enumerate(lengths) for _ in range(length)]
    return [(FLAT, DEEP)[style] for style in styles], styles


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_stretches_of_two_styles_are_found(seed: int) -> None:
    lines, planted = stretches()
    found = divide([read_tree(line) for line in lines], 2, length=50, seed=seed)
    agreeing = (found.styles == np.array(planted)).mean()
    assert max(agreeing, 1 - agreeing) == 1
    assert (found.styles == 0).sum() >= (found.styles == 1).sum(), "the most frequent first"
    rules = {rule for rule, _ in found.distinctive()[:4]}
    assert rules & {"NP -> DT NP", "NP -> JJ NN", "NP -> DT JJ NN", "NP -> NN", "NP -> DT NN"}
    assert found.gain > 1


def test_the_styles_of_other_trees_are_recognised() -> None:
    found = divide([read_tree(line) for line in stretches()[0]], 2, length=50)
    (flat, deep) = (found.model.posteriors([read_tree(line)] * 20)[0].mean(0) for line in (FLAT, DEEP))
    assert flat.argmax() != deep.argmax()
    assert flat.max() > 0.99 < deep.max()


def test_rules_leave_words_out() -> None:
    assert list(rules_of(read_tree(FLAT))) == [
        "TOP -> S",
        "S -> NP VP",
        "NP -> DT JJ NN",
        "VP -> VBD NP",
        "NP -> DT NN",
    ]


def test_rules_of_a_tree_deeper_than_the_recursion_limit() -> None:
    tree = read_tree(f"(TOP {'(NP ' * 3000}(NN a){')' * 3000})")
    assert list(rules_of(tree)) == ["TOP -> NP", *["NP -> NP"] * 2999, "NP -> NN"]


def test_the_command_divides_a_treebank_and_loses_no_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, _ = stretches()
    treebank, like, output = tmp_path / "train.mrg", tmp_path / "dev.mrg", tmp_path / "new" / "styles"
    treebank.write_text("".join(f"{line}\n" for line in lines))
    like.write_text(f"{DEEP}\n" * 5)
    assert main([str(treebank), "-o", str(output), "--length", "50", "--like", str(like)]) == 0
    parts = [gzip.decompress((output / f"style{i}.mrg.gz").read_bytes()).decode().splitlines() for i in (1, 2)]
    assert sorted(parts[0] + parts[1]) == sorted(lines)
    assert [set(part) for part in parts] in ([{FLAT}, {DEEP}], [{DEEP}, {FLAT}])
    shown = capsys.readouterr().err
    assert "NP -> DT NP" in shown
    assert f"dev.mrg: {'0% style1, 100% style2' if parts[1][0] == DEEP else '100% style1, 0% style2'}" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--styles", "1"], "--styles 1: give 2 to 20"),
        (["--styles", "500"], "--styles 500: give 2 to 20"),
        (["--length", "1"], "--length 1: give more than 1"),
        (["--length", "inf"], "--length inf: too many sentences"),
        (["--length", "1e18"], "--length 1e+18: too many sentences"),
        (["--seed", "-1"], "--seed -1: give 0 or more"),
        (["--like", "empty.mrg"], "empty.mrg: no trees in it"),
        ([], "no rule occurs 10 times"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.mrg").touch()
    treebank = tmp_path / "few.mrg"
    treebank.write_text(f"{FLAT}\n")
    assert main([str(treebank), "-o", str(tmp_path), *options]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(("like", "said"), [("empty", "no trees in it"), ("missing", "no such file")])
def test_a_treebank_to_compare_with_is_read_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], like: str, said: str
) -> None:
    (tmp_path / "train.mrg").write_text("\n".join(stretches()[0]))
    (tmp_path / "empty").touch()
    arguments = [str(tmp_path / "train.mrg"), "-o", str(tmp_path / "styles"), "--like", str(tmp_path / like)]
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert f"{like}: {said}" in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "styles").exists()


def test_the_treebank_is_not_overwritten_by_its_styles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    treebank = tmp_path / "style1.mrg.gz"
    treebank.write_bytes(gzip.compress("\n".join(stretches()[0]).encode()))
    before = treebank.read_bytes()
    assert main([str(treebank), "-o", str(tmp_path)]) == 2
    assert "both read and written" in capsys.readouterr().err
    assert treebank.read_bytes() == before


def test_a_style_without_trees_is_refused() -> None:
    with pytest.raises(DataError, match="of 9 styles have trees, of 20; give fewer"):
        divide([read_tree(FLAT)] * 20, 9, length=50)
