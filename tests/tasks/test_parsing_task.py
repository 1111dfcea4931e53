"""The parsing task: treebanks to ids and ids to trees, whatever a model outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.folders import DATA
from harness.generators import generator_of
from harness.parsing_trees import trees
from s2s.compose import compose
from s2s.config import Config, GenerateConfig
from s2s.config.score import ScoreConfig
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.errors import ConfigError, DataError, PluginError
from s2s.metrics import build_metrics
from s2s.plugin import load_plugins
from s2s.task import Example, Rejected, Vocab
from s2s_parsing import EvalbConfig, ParsingConfig
from s2s_parsing.evalb.metric import Evalb
from s2s_parsing.linear import FORMS, Action, Kind, repair
from s2s_parsing.punctuation import Punctuation
from s2s_parsing.source_encoder import SourceEncoder, words_of
from s2s_parsing.task import Parsing, read_tree
from s2s_parsing.tree import Tree, Word, leaves
from s2s_sentencepiece.subwords import Subwords
from s2s_sentencepiece.training import train_subwords
from s2s_testing import check_task
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.generation import Output
    from s2s_parsing.linear import Linear

every_form = pytest.mark.parametrize("linear", FORMS)
every_form_itself = pytest.mark.parametrize("form", [pytest.param(form(), id=name) for name, form in FORMS.items()])

GOLD = [
    "( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBZ seems) (S (NP (-NONE- *-1)) (VP (TO to) (VP (VB sleep))))) (. .)) )",
    "( (NP (NP (DT A) (NN dog)) (, ,) (PP (IN in) (NP (NP (DT the) (NN house)))) (. .)) )",
]


def config(**options: Any) -> ParsingConfig:
    return ParsingConfig(name="parsing", **{"src_vocab_size": 60, **options})


def built(tmp_path: Path, **options: Any) -> Parsing:
    """A task that has learnt from a few synthetic trees, or from its files."""
    task = Parsing(config(**{"trees": 100, "src_vocab_size": 120, **options}))
    task.learn(tmp_path)
    return task


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.mrg"
    path.write_text("\n".join(GOLD * 10) + "\n")
    return path


@pytest.mark.parametrize("given", ["task.treebank=wsj", "task.train=trees.mrg"], ids=["licensed", "own"])
def test_the_papers_experiment_takes_the_treebank_or_trees_of_ones_own(given: str) -> None:
    config: Any = compose(Config, ["experiment=wsj", given], load_plugins()).config.task
    assert (config.treebank, config.train) in {("wsj", None), ("", "trees.mrg")}
    assert config.has_files


def test_the_papers_experiment_is_not_run_on_synthetic_trees() -> None:
    with pytest.raises(ConfigError, match=r"no trees are given: task.treebank=FOLDER .*, or trees of your own"):
        compose(Config, ["experiment=wsj"], load_plugins())


def examples(task: Parsing, split: str = "train") -> list[Example]:
    found = [example for name, _ in task.corpora(split) for example in task.examples(split, name)]
    return [example for example in found if isinstance(example, Example)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subword": "unigram", "src_vocab_size": 28},
        {"word_ends": "mark"},
        {"word_ends": "number"},
        {"unary": "join"},
        {"unary": "same"},
    ],
    ids=["defaults", "unigram", "word ends", "numbers", "joined chains", "chains of one label"],
)
def test_it_keeps_the_contract_of_a_task(gold: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    check_task(load_plugins().registry.get("task", "parsing"), config(train=str(gold), **options), tmp_path)


@every_form
def test_every_form_gives_back_the_tree_up_to_the_tags_that_it_leaves_out(tmp_path: Path, linear: str) -> None:
    task = built(tmp_path, linear=linear)
    wanted = examples(task)
    found = [task.detokenize(ids.tgt, example.src) for ids, example in zip(task.encode(wanted), wanted, strict=True)]
    judged = Evalb(EvalbConfig(name="evalb"))(found, [[example.tgt for example in wanted]])
    assert (judged.value, judged.detail["errors"], judged.detail["skipped"]) == (100.0, 0, 0)
    assert (judged.detail["tagging_accuracy"] == 100.0) is task.form.tags


@every_form_itself
@given(tree=trees)
def test_mending_leaves_a_tree_as_it_is(form: Linear, tree: Tree) -> None:
    words = [leaf.word for leaf in leaves(tree)]
    tags = [leaf.tag for leaf in leaves(tree)]
    assert repair(form.actions(tree), words, tags) == tree


ends = st.builds(Action, st.sampled_from([Kind.WORD, Kind.CLOSE]), st.sampled_from(["S", "NP", None]))
beginnings = st.builds(Action, st.sampled_from([Kind.OPEN, Kind.PROJECT]), st.sampled_from(["S", "NP"]))
actions = st.lists(ends | beginnings, max_size=15)


@given(actions, st.integers(0, 5))
def test_whatever_comes_out_is_mended_to_a_tree_of_exactly_the_words(done: list[Action], n_words: int) -> None:
    words = [f"w{i}" for i in range(n_words)]
    tree = repair(done, words)
    assert [leaf.word for leaf in leaves(tree)] == words
    if words:
        assert read_tree(str(tree)) == tree, "it is written as trees are, and no bracket is empty"


@pytest.mark.parametrize(
    ("tokens", "mended"),
    [
        ("(S (NP XX XX )NP", "(TOP (S (NP (XX a) (XX b)) (XX c)))"),
        ("(S (NP XX )NP (VP )VP XX )S", "(TOP (S (NP (XX a)) (XX b)) (XX c))"),
        ("(S (NP XX )S XX XX XX XX", "(TOP (S (NP (XX a))) (XX b) (XX c))"),
        (")S XX )VP (NP XX )VP XX", "(TOP (XX a) (NP (XX b) (XX c)))"),
        ("", "(TOP (XX a) (XX b) (XX c))"),
    ],
)
def test_what_is_no_tree_is_mended_near_to_what_it_says(tokens: str, mended: str) -> None:
    assert str(repair(FORMS["vinyals"]().read(tokens.split()), ["a", "b", "c"])) == mended


def test_a_bracket_round_one_that_is_not_closed_is_left_out() -> None:
    mended = repair(FORMS["in_order"]().read(["SHIFT", "PJ-A", "PJ-B", "SHIFT", "REDUCE"]), ["a", "b"])
    assert str(mended) == "(TOP (A (XX a) (XX b)))"


def test_ids_of_no_tree_give_a_tree_over_the_words_and_say_so(tmp_path: Path) -> None:
    task = built(tmp_path)
    words = ["The", "cat", "sleeps"]
    ids = [task.target.ids["S"], 1, task.target.ids["NP"], task.target.ids["DT"]]
    tree, was_mended = task.target.decode(ids, words)
    assert was_mended
    assert task.detokenize(ids, "The cat  sleeps") == str(tree)
    assert [leaf.word for leaf in leaves(tree)] == words
    assert task.detokenize([], "") == "(TOP)"


def test_brackets_in_a_sentence_do_not_spoil_its_tree(tmp_path: Path) -> None:
    task = built(tmp_path, linear="vinyals")
    ids = [task.target.ids[token] for token in ["(NP", "XX", "XX", "XX", ")NP"]]
    assert task.detokenize(ids, "( a b)") == "(TOP (NP (XX -LRB-) (XX a) (XX b-RRB-)))"


PUNCTUATION = Punctuation.learn(
    {(".", "."): 9, ("''", "'"): 3, ("POS", "'"): 5, ("-LRB-", "-LRB-"): 2, ("NN", "cat"): 4, ("SYM", "-"): 1}
)


@pytest.mark.parametrize(
    ("word", "written", "tag"),
    [
        pytest.param(".", "NN", ".", id="punctuation gets its own tag"),
        pytest.param("'", "NN", "POS", id="or the commonest of several"),
        pytest.param("'", "''", "''", id="of which the model may choose"),
        pytest.param("-LRB-", "XX", "-LRB-", id="brackets are punctuation"),
        pytest.param("cat", ":", "XX", id="a word is none"),
        pytest.param("dog", ".", "XX", id="nor is a new one"),
        pytest.param("cat", "VB", "VB", id="whatever else it is taken for"),
        pytest.param("-", "SYM", "SYM", id="signs that never were punctuation stay"),
        pytest.param("…", ".", ".", id="a new sign may be any"),
    ],
)
def test_punctuation_is_a_matter_of_the_word(word: str, written: str, tag: str) -> None:
    assert PUNCTUATION.tag(word, written) == tag
    tree = Tree("TOP", (Tree("NP", (Word("DT", "the"), Word(written, word))),))
    assert leaves(PUNCTUATION.retag(tree)) == [Word("DT", "the"), Word(tag, word)]


def test_a_full_stop_that_is_taken_for_a_noun_costs_no_sentence(tmp_path: Path) -> None:
    task = built(tmp_path)
    gold = "(TOP (S (NP (PRP He)) (VP (VBZ sleeps)) (. .)))"
    ids = [task.target.ids[token] for token in ["S", "NP", "PRP", "/NP", "VP", "VBZ", "/VP", "NN", "/S"]]
    assert task.detokenize(ids, "He sleeps .") == gold


def test_references_keep_their_chains_and_training_trees_lose_those_of_one_label(gold: Path) -> None:
    task = Parsing(config(train=str(gold), valid=str(gold), unary="same"))
    assert "(NP (DT the) (NN house))" in examples(task)[1].tgt
    assert "(NP (NP (DT the) (NN house)))" not in examples(task)[1].tgt
    assert "(NP (NP (DT the) (NN house)))" in examples(task, "valid")[1].tgt


def test_joined_chains_are_one_symbol_and_are_taken_apart_again(gold: Path, tmp_path: Path) -> None:
    task = built(tmp_path, train=str(gold), src_vocab_size=60, unary="join")
    assert {"S+VP", "/S+VP", "NP+NP"} <= task.target.ids.keys()
    (ids,) = task.encode(examples(task)[:1])
    assert task.detokenize(ids.tgt, examples(task)[0].src) == examples(task)[0].tgt
    assert "+" not in task.detokenize([task.target.ids["S+VP"], task.target.ids["NN"]], "cat")


def test_what_was_taken_out_of_the_trees_is_told_now_and_after_loading(gold: Path, tmp_path: Path) -> None:
    task = built(tmp_path, train=str(gold), src_vocab_size=60)
    assert examples(task)[0].src == "The cat seems to sleep ."
    told = "train gold: 10 brackets emptied and removed, 10 function tags removed, 10 traces removed"
    assert told in list(task.describe())
    again = Parsing(task.config)
    again.load(tmp_path)
    assert told in list(again.describe())


def test_a_tree_that_cannot_be_used_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.mrg"
    path.write_text("(TOP (NP (NP a)))\n(TOP (NP (NN a))\n(TOP (NP (-NONE- *)))\n(TOP (NP (NN a)))\n")
    found = list(Parsing(config(train=str(path), invalid="drop")).examples("train", "bad"))
    reasons = ["labels that task.linear cannot tell apart", "malformed tree", "only traces"]
    assert found == [*map(Rejected, reasons), Example("a", "(TOP (NP (NN a)))")]
    found = list(Parsing(config(train=str(path), invalid="drop", linear="vinyals")).examples("train", "bad"))
    assert found[0] == Example("a", "(TOP (NP (NP a)))")
    plus = tmp_path / "plus.mrg"
    plus.write_text("(TOP (A+B (NN a) (NN b)))\n")
    assert next(Parsing(config(train=str(plus), unary="join")).examples("train", "plus")) == Rejected(reasons[0])


def test_one_symbol_may_not_mean_two_things_in_two_trees(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text("(TOP (NP (NN a)))\n(TOP (S (NP a)))\n" * 20)
    with pytest.raises(DataError, match=r"task\.linear=released: 'NP' .* task\.linear=brackets"):
        built(tmp_path, train=str(tmp_path / "a.mrg"), src_vocab_size=6)


def test_nothing_to_learn_from_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text("\n")
    with pytest.raises(DataError, match="there is no text to learn a vocabulary from"):
        built(tmp_path, train=str(tmp_path / "a.mrg"))


@pytest.mark.parametrize(
    ("option", "value"), [("linear", "vinyals"), ("unary", "join"), ("word_ends", "mark")], ids=lambda v: str(v)
)
def test_what_was_learnt_with_other_options_is_refused(tmp_path: Path, option: str, value: Any) -> None:
    task = built(tmp_path)
    other = Parsing(config(trees=100, **{option: value}))
    with pytest.raises(DataError, match=f"made with {option}={getattr(task.config, option)}, but {option}={value}"):
        other.load(tmp_path)


@pytest.mark.parametrize("name", ["source.model", "target.json", "task.json"])
def test_a_missing_or_damaged_file_is_told(tmp_path: Path, name: str) -> None:
    task = built(tmp_path)
    (tmp_path / name).write_text("[]")
    with pytest.raises(DataError, match=f"{name}: not "):
        Parsing(task.config).load(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match=f"{name}: no such file"):
        Parsing(task.config).load(tmp_path)


def test_target_tokens_are_those_of_the_trees_and_nothing_is_shared(tmp_path: Path) -> None:
    task = built(tmp_path)
    assert (task.vocab.src, task.vocab.tgt, task.vocab.joint) == (120, task.target.size, False)
    used = {token for example in examples(task) for token in task.form.tokens(read_tree(example.tgt))}
    assert set(task.target.tokens[4:]) == used
    assert json.loads((tmp_path / "target.json").read_text())["tokens"][0] in ("NP", "/NP")


def subwords(tmp_path: Path) -> Subwords:
    train_subwords(["the cat sleeps on the mat", "a well-known example"] * 20, tmp_path / "m", "bpe", 40)
    return Subwords(tmp_path / "m")


ODD = ["the", "a\u00a0b", "\u200b", "\u2581cat", "漢字", "x\u2581y", "\ufeff", "sleeps", "…", "½"]


@pytest.mark.parametrize("n_ends", [0, 1, 3])
def test_ids_tell_where_each_word_begins_however_it_is_spelt(tmp_path: Path, n_ends: int) -> None:
    source = SourceEncoder(subwords(tmp_path), n_ends)
    for words in (ODD, *([word] for word in ODD), ["the", "cat"] * 3):
        (ids,) = source.encode([" ".join(words)])
        assert words_of(" ".join(words)) == words
        assert sum(source.word_begins[i] for i in ids) == len(words)
        assert max(ids) < source.size == len(source.word_begins)
        ends = [i for i in ids if i in source.ends]
        assert ends == [source.ends[k % n_ends] for k in range(len(words))] if n_ends else not ends
        assert not n_ends or ids[-1] in source.ends
    assert source.encode(["", "  "]) == [[], []]


@pytest.mark.parametrize("divided", ["a\u00a0b", "x\u2581y", "the\u2009cat"])
@pytest.mark.parametrize("dropped", ["\u200b", "\ufeff", "\u2581", "\u0001"])
def test_a_divided_word_does_not_make_up_for_one_that_is_dropped(tmp_path: Path, divided: str, dropped: str) -> None:
    source = SourceEncoder(subwords(tmp_path))
    words = ["the", dropped, "cat", divided, "sleeps"]
    (ids,) = source.encode([" ".join(words)])
    assert ids == [i for alone in source.encode(words) for i in alone]


def test_word_ends_adds_nothing_but_a_token_after_each_word(tmp_path: Path) -> None:
    plain, encoder = (SourceEncoder(subwords(tmp_path), n_ends) for n_ends in (0, 1))
    (ids,), (with_ends,) = plain.encode(["the cat sleeps"]), encoder.encode(["the cat sleeps"])
    assert [i for i in with_ends if i not in encoder.ends] == ids
    pieces = [*plain.subwords.pieces, "|"]
    assert "".join(pieces[i] for i in with_ends) == "\u2581the|\u2581cat|\u2581sleeps|"


@every_form
def test_numbered_words_have_the_numbers_of_their_ends_in_the_source_and_any_is_read(
    tmp_path: Path, linear: str
) -> None:
    task = built(tmp_path, linear=linear, word_ends="number")
    (tree,) = (read_tree("(TOP (S" + " (NN a)" * 20 + "))"),)
    (pair,) = task.encode([Example(" ".join("a" * 20), str(tree))])
    ends = [i - task.source.ends[0] for i in pair.src if i in task.source.ends]
    numbers = [int(token.split()[1]) for token in task.form.tokens(tree) if " " in token]
    assert ends == numbers == [*range(16), *range(4)]
    off = [token.replace(" 1", " 2") for token in task.form.tokens(tree)]
    assert task.form.tree(off, ["a"] * 20, ["NN"] * 20) == tree


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        ("gold.mrg", {"gold": (["gold.mrg"], 1.0)}),
        (["gold.mrg", "b.mrg.gz"], {"gold": (["gold.mrg", "b.mrg.gz"], 1.0)}),
        ("folder", {"folder": (["folder/x.mrg", "folder/y.mrg"], 1.0)}),
        ({"files": "gold.mrg", "weight": 2}, {"gold": (["gold.mrg"], 2.0)}),
        (
            {"mine": "gold.mrg", "silver": {"files": ["b.mrg.gz", "folder"], "weight": 0.5}},
            {"mine": (["gold.mrg"], 1.0), "silver": (["b.mrg.gz", "folder/x.mrg", "folder/y.mrg"], 0.5)},
        ),
    ],
    ids=["file", "files", "folder", "options", "several"],
)
def test_treebanks_are_named_in_many_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: Any, expected: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("gold.mrg", "b.mrg.gz", "folder/x.mrg", "folder/y.mrg"):
        (tmp_path / name).touch()
    task = Parsing(config(train=train))
    assert dict(task.corpora("train")) == {name: weight for name, (_, weight) in expected.items()}
    assert list(map(str, task.dependencies().files)) == [file for files, _ in expected.values() for file in files]


@pytest.mark.parametrize(
    ("train", "what"),
    [
        (5, "task.train=5 does not name a corpus; give a file, a folder"),
        ({"files": []}, r"task\.train\.files=\[\] does not name a corpus"),
        ({"a": {"weight": 2}}, "task.train.a: 'files' is missing"),
        ({"files": "a", "wieght": 2}, "no option 'wieght'. Did you mean 'weight'"),
        ({"files": "gold.mrg", "weight": 0}, "task.train.weight=0 must be a number from 0.0001"),
    ],
)
def test_what_names_no_treebank_is_refused(gold: Path, monkeypatch: pytest.MonkeyPatch, train: Any, what: str) -> None:
    monkeypatch.chdir(gold.parent)
    with pytest.raises(ConfigError, match=what):
        Parsing(config(train=train)).corpora("train")


def test_the_wall_street_journal_has_its_splits_and_other_trees_may_join_it(tmp_path: Path, gold: Path) -> None:
    for section in range(25):
        folder = tmp_path / f"wsj/{section:02}"
        folder.mkdir(parents=True)
        (folder / "a.mrg").write_text(f"( (NP (NN s{section})) )\n")
    task = Parsing(config(treebank=str(tmp_path / "wsj"), train={"silver": {"files": str(gold), "weight": 0.5}}))
    assert task.corpora("train") == [("wsj", 1.0), ("silver", 0.5)]
    assert [example.src for example in task.examples("train", "wsj") if isinstance(example, Example)] == [
        f"s{section}" for section in range(2, 22)
    ]
    assert [example.src for example in examples(task, "test")] == ["s23"]
    assert len(task.dependencies().files) == 20 + 1 + 1
    with pytest.raises(ConfigError, match="of wsj, wsj, two have one name"):
        Parsing(config(treebank=str(tmp_path / "wsj"), train={"wsj": str(gold)})).corpora("train")


def test_the_synthetic_trees_are_three_sets_without_a_common_sentence() -> None:
    task = Parsing(config(trees=300))
    train, valid, test = ({example.src for example in examples(task, split)} for split in ("train", "valid", "test"))
    assert (len(train) > 250, len(valid) > 50, len(test) > 50) == (True, True, True)
    assert len(train | valid | test) == len(train) + len(valid) + len(test)
    assert "300 English trees of the synthetic corpus" in " ".join(task.describe())


def test_trees_to_judge_by_need_trees_to_learn_from() -> None:
    with pytest.raises(ConfigError, match=r"task\.valid or task\.test is given without task\.train"):
        config(valid="dev.mrg")
    with pytest.raises(ConfigError, match=r"task\.trees=0"):
        config(trees=0)


def test_the_preset_is_section_6_3_s() -> None:
    made = compose(Config, ["task=parsing", "task.treebank=wsj"], load_plugins()).config
    assert vars(made.search) | {"beam": 21, "alpha": 0.3, "max_len_a": 1.0, "max_len_b": 300} == vars(made.search)
    assert (made.arch.d_model, made.arch.n_encoder_layers, made.arch.share_embeddings) == (1024, 4, "none")  # type: ignore[attr-defined]
    assert made.task.size == 16_000  # type: ignore[attr-defined]


def test_parameters_of_evalb_are_the_task_s_to_choose() -> None:
    plugins = load_plugins()
    made = compose(ScoreConfig, ["task=parsing", "task.param=new"], plugins).config
    task = plugins.registry.get("task", "parsing").build(made.task)
    (metric,) = build_metrics(task, plugins.registry)
    assert isinstance(metric, Evalb)
    assert metric.parameters.name == "new"


PLUGIN = """
from s2s import hookimpl
from s2s_parsing.linear import Brackets, LinearConfig

class Starred(Brackets):
    word = "STAR"

@hookimpl
def s2s_register(registry):
    registry.add("linear", "starred", LinearConfig, Starred)
"""


def test_a_form_may_come_from_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "starred_plugin.py").write_text(PLUGIN)
    plugins = load_plugins(["starred_plugin.py"])
    task = plugins.registry.get("task", "parsing").build(config(linear="starred"))
    tree = Tree("TOP", (Tree("NP", (Word("NN", "cat"),)),))
    assert task.form.tokens(tree) == ["(NP", "STAR", ")"]
    with pytest.raises(PluginError, match=r"linear=stared: no such linear\. Did you mean 'starred'"):
        plugins.registry.get("task", "parsing").build(config(linear="stared"))


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no treebanks in {DATA}")
@pytest.mark.parametrize(
    "treebank",
    [
        "wsj_nltk_sample/dev.raw",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("craft/dev.raw", "genia/dev.clean", "gum/dev.clean")),
    ],
)
def test_every_tree_of_a_treebank_goes_to_ids_and_back(tmp_path: Path, treebank: str) -> None:
    path = DATA / f"treebanks/{treebank}.mrg"
    task = built(tmp_path, train=str(path), src_vocab_size=1000)
    wanted = examples(task)
    for example, ids in zip(wanted, task.encode(wanted), strict=True):
        assert task.detokenize(ids.tgt, example.src) == example.tgt
        assert sum(task.source.word_begins[i] for i in ids.src) == len(words_of(example.src))
    assert len(wanted) == sum(1 for line in path.read_bytes().split(b"\n") if line)


@pytest.mark.slow
def test_from_nothing_to_f1_in_three_commands(tmp_path: Path) -> None:
    def run(command: str, *arguments: str) -> str:
        called = [sys.executable, "-m", "s2s", command, *arguments]
        return subprocess.run(called, capture_output=True, text=True, check=True, cwd=tmp_path).stdout

    wanted = examples(Parsing(config(trees=20)))
    (tmp_path / "words").write_text("".join(f"{example.src}\n" for example in wanted))
    (tmp_path / "gold").write_text("".join(f"{example.tgt}\n" for example in wanted))
    steps = ["train.steps=2", "train.tokens=500", "valid.sentences=2", "search.beam=2"]
    run("train", "task=parsing_tiny", "arch=transformer_tiny", "arch.share_embeddings=none", "run=trees", *steps)
    run("generate", "run=trees", "input=words", "output=trees.mrg", "search.max_len_a=0", "search.max_len_b=20")
    (score,) = json.loads(run("score", "task=parsing", "hyp=trees.mrg", "ref=gold", "format=json"))["scores"]
    assert (score["name"], score["detail"]["sentences"], score["detail"]["errors"]) == ("evalb", 20, 0)


LINES = ["the cat sleeps .", "a", "( ) -LRB- x", "we know that the old dog sees a small house"]


@cache
def untrained(n_src: int, n_tgt: int) -> Transformer:
    """A model that is sure of its choices and knows nothing."""
    torch.manual_seed(5)
    size = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 32, "d_ff": 64, "n_heads": 4}
    model = Transformer(TransformerConfig(**size, share_embeddings="none"), Vocab(src=n_src, tgt=n_tgt)).eval()
    for parameter in model.parameters():
        parameter.data *= 1.5
    return model


def generated(task: Parsing, max_len_b: int = 30, **options: Any) -> list[Output]:
    model = untrained(task.vocab.src, task.vocab.tgt)
    search = BeamSearch(BeamConfig(beam=3, alpha=0.3, max_len_b=max_len_b, max_len_a=0.0))
    return list(generator_of(model, task, search, GenerateConfig(**options))(LINES))


@every_form
def test_with_the_constraint_nothing_needs_mending(tmp_path: Path, linear: str) -> None:
    task = built(tmp_path, linear=linear)
    for line, output in zip(LINES, generated(task, nbest=3), strict=True):
        trees = [candidate.hyp for candidate in output.nbest]  # distinct: a short sentence may have fewer than three
        assert len(set(trees)) == len(trees) >= 1
        assert all([leaf.word for leaf in leaves(read_tree(tree))] == words_of(line) for tree in trees)
    assert not +task.counts


def test_without_the_constraint_what_is_no_tree_is_mended_and_counted(tmp_path: Path) -> None:
    task = built(tmp_path)
    found = generated(task, constrained=False)
    assert [[leaf.word for leaf in leaves(read_tree(o.hyp))] for o in found] == [words_of(line) for line in LINES]
    assert task.counts == {"malformed and repaired": 4}


def test_a_sentence_too_long_for_a_parse_branches_to_the_right_and_is_counted(tmp_path: Path) -> None:
    task = built(tmp_path)
    hyps = [output.hyp for output in generated(task, max_len_b=4)]
    assert hyps[3].startswith("(TOP (S (XX we) (S (XX know) (S (XX that) (S (XX the)")
    assert +task.counts == {"without a parse, right-branching instead": 1}


@pytest.mark.parametrize("word_ends", ["none", "number"])
def test_one_word_of_a_training_sentence_may_be_unknown(tmp_path: Path, word_ends: str) -> None:
    """As many words as before, of which one has a symbol without a token; the tree stays."""
    task = built(tmp_path, unknown_symbols=0.5, word_ends=word_ends)
    vary, unk, changed = task.variation(), task.vocab.unk, 0
    assert vary
    for pair in task.encode(examples(task)[:8]):
        assert unk not in pair.src
        for seed in range(2**60, 2**63, 2**60):
            altered = vary(pair, seed)
            assert altered == vary(pair, seed)
            assert altered.tgt == pair.tgt
            words, before = (words_of(task.source_text(ids)) for ids in (altered.src, pair.src))
            assert sum(a != b for a, b in zip(words, before, strict=True)) == (unk in altered.src)
            changed += unk in altered.src
        assert vary(pair, 2**63) == pair
    assert changed > 40


def test_words_of_parts_are_unknown_by_their_frequency_instead(gold: Path, tmp_path: Path) -> None:
    task = built(tmp_path, train=str(gold), words="parts")
    assert task.variation() is None
    assert any(task.vocab.unknown)
