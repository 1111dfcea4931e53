"""The stack guide against trees themselves, words from their parts, and tags that are predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings

from harness.parsing_trees import trees
from harness.tree_texts import Written
from s2s.data import Tokenizer
from s2s.errors import ConfigError, DataError
from s2s.nn import SourceWords
from s2s.plugin import load_plugins
from s2s.task import Example
from s2s_parsing import ParsingConfig
from s2s_parsing.linear import FORMS, Kind, Tagged
from s2s_parsing.stack_guide import StackGuide
from s2s_parsing.task import Parsing, read_tree
from s2s_parsing.tree import Tree, leaves
from s2s_parsing.word_parts import count_words, load_words, parts, save_words, shape
from s2s_testing import check_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from s2s_parsing.linear import Action, Linear

FORM = {name: form() for name, form in FORMS.items()}
Item = tuple[int, str]
"""Left edge and label"""


def stands(actions: Sequence[Action]) -> Iterator[tuple[list[int], list[str], bool]]:
    """After each action the guide's places, labels and whether an item was finished, from a list of open brackets."""
    n_words, finished = 0, False
    opened: list[tuple[Item, list[Item]]] = [((-1, ""), [])]  # brackets with their children so far
    for kind, label in actions:
        finished = kind in (Kind.WORD, Kind.CLOSE)
        if kind is Kind.WORD:
            opened[-1][1].append((n_words, "a word"))
            n_words += 1
        elif kind is Kind.CLOSE:
            item, _ = opened.pop()
            opened[-1][1].append(item)
        else:
            first = [opened[-1][1].pop()] if kind is Kind.PROJECT else []
            opened.append(((first[0][0] if first else n_words, label or ""), first))
        children = opened[-1][1]
        items = [children[-1] if children else (-1, ""), *(item for item, _ in opened[:0:-1][:2])]
        items += [(-1, "")] * (3 - len(items))
        yield [n_words, n_words - 1, *(left for left, _ in items)], [name for _, name in items], finished


@pytest.mark.parametrize("form", FORM.values(), ids=FORM)
@given(tree=trees)
@settings(max_examples=8, deadline=None)
def test_the_guide_is_where_the_stack_of_open_brackets_is(form: Linear, tree: Tree) -> None:
    written = Written.of(form, [tree])
    guide = StackGuide(written.actions, depth=40)
    ids = torch.tensor([written.encode(tree)])
    state = guide.start(ids, ids == -1)
    names: dict[int, str] = {0: ""}
    for token, expected in zip(ids.T, stands(list(form.actions(tree))), strict=True):
        state = guide.advance(state, token[None])
        places, kinds = guide.read(state)
        *labels, finished = kinds[0, 0].tolist()
        assert places[0, 0].tolist() == expected[0]
        assert [names.setdefault(n, name) for n, name in zip(labels, expected[1], strict=True)] == expected[1]
        assert bool(finished) is expected[2]
    assert len(set(names.values())) == len(names), "different labels have different numbers"


def test_any_token_at_all_leaves_a_state_that_can_be_read() -> None:
    written = Written.of(FORM["in_order"], [read_tree("(TOP (S (NP (NN a)) (VP (VB b))))")])
    guide = StackGuide(written.actions, depth=2)
    tokens = torch.randint(len(written.actions), (3, 50), generator=torch.Generator().manual_seed(1))
    state = guide.start(tokens, tokens < 0)
    for token in tokens.T:
        state = guide.advance(state, token[:, None])
        places, kinds = guide.read(state)
        assert (places >= -1).all()
        assert (kinds < torch.tensor(guide.kinds)).all()


def test_a_step_is_compiled_once() -> None:
    written = Written.of(FORM["in_order"], [read_tree("(TOP (S (NP (NN a)) (VP (VB b))))")])
    guide, graphs = StackGuide(written.actions, depth=2), []

    def keep(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    step = torch.compile(guide.advance, backend=keep, fullgraph=True)
    token = torch.tensor([[4]])
    state = guide.start(token, token < 0)
    for _ in range(3):
        assert step(state, token).equal(guide.advance(state, token))
    assert len(graphs) == 1


def test_tags_that_are_predicted_are_given_back() -> None:
    tree = read_tree("(TOP (S (NP (DT The) (NN cat)) (VP (VBZ sleeps))))")
    form = Tagged(FORM["in_order"])
    assert " ".join(form.tokens(tree)) == "SHIFT DT PJ-NP SHIFT NN REDUCE PJ-S SHIFT VBZ PJ-VP REDUCE REDUCE"
    assert form.tree(form.tokens(tree), [leaf.word for leaf in leaves(tree)]) == tree


def test_parts_of_a_word() -> None:
    assert parts("Cat") == ["pc", "pca", "pcat", "st", "sat", "scat", "t<ca", "tcat", "tat>", "hXx"]
    assert [shape(word) for word in ("Rome", "3.5", "U.S.", "-LRB-", "x")] == ["Xx", "d.d", "X.X.", "-X-", "x"]


def test_rare_words_are_known_by_their_parts_alone(tmp_path: Path) -> None:
    save_words(count_words(["the cat sleeps", "the dog sleeps", "the end"]), tmp_path / "words.json")
    words = load_words(tmp_path / "words.json")
    (the, cat), (dog,) = (words.encode(["the"])[0], words.encode(["cat"])[0]), words.encode(["dog"])
    assert words.pieces[the[0]] == "the"
    assert cat[0] == dog[0] == Tokenizer.unk
    assert cat[1:] != dog[1:]
    assert words.decode(words.encode(["the cat sleeps"])[0]) == "the <unk> sleeps"
    assert [sum(words.word_begins[i] for i in ids) for ids in words.encode(["the cat", "", "a b c"])] == [2, 0, 3]
    assert words.unknown[the[0]] == pytest.approx(0.25 / 3.25)
    assert not any(words.unknown[i] for i in cat)
    with pytest.raises(DataError, match="prepare again"):
        (tmp_path / "words.json").write_text("[]") and load_words(tmp_path / "words.json")


def test_with_parts_and_tags_it_is_a_task(tmp_path: Path) -> None:
    options: dict[str, Any] = {"words": "parts", "tags": "predict", "linear": "in_order", "trees": 60}
    options["word_labels"] = "tags"
    config = ParsingConfig(name="parsing", **options)
    check_task(load_plugins().registry.get("task", "parsing"), config, tmp_path)
    task = Parsing(config)
    (tmp_path / "learnt").mkdir()
    task.learn(tmp_path / "learnt")
    gold = next(iter(task.examples("train", "synthetic")))
    assert isinstance(gold, Example)
    (encoded,) = task.encode([gold])
    assert task.detokenize(encoded.tgt, gold.src) == gold.tgt, "with the tags"


def test_training_trees_label_their_words_and_new_sentences_do_not(tmp_path: Path) -> None:
    options: dict[str, Any] = {"words": "parts", "word_labels": "tags", "linear": "in_order", "trees": 60}
    task = load_plugins().registry.get("task", "parsing").build(ParsingConfig(name="parsing", **options))
    task.learn(tmp_path)
    gold = next(iter(task.examples("train", "synthetic")))
    tree = read_tree(gold.tgt)
    (encoded,), vocab, pieces = task.encode([gold]), task.vocab, task.vocabulary("src")
    tags = [f"<is {tag}>" for tag, _ in leaves(tree)]
    assert [pieces[i] for i in encoded.src if i in vocab.labels] == tags
    words = SourceWords(vocab)
    src = torch.tensor([[*encoded.src, vocab.eos]])
    labels = words.labels(src, src == vocab.pad)
    assert [pieces[vocab.labels[i]] for i in labels[0, :-1]] == tags
    assert labels[0, -1] == -1, "the end of the sentence has none"
    assert task.encode_source([gold.src])[0] == [i for i in encoded.src if i not in vocab.labels]


def test_words_that_are_tagged_as_unknown_have_no_label(tmp_path: Path) -> None:
    save_words(count_words(["a b"]), tmp_path / "words.json", labels=["DT", "NN"])
    words = load_words(tmp_path / "words.json")
    ids = words.encode_labelled([("DT", "a"), ("XX", "b")])
    assert [i for i in ids if i in words.label_ids] == [words.labels["DT"]]
    assert [i for i in ids if i not in words.label_ids] == words.encode(["a b"])[0]
    assert words.identity != load_words(unlabelled(tmp_path)).identity


def unlabelled(folder: Path) -> Path:
    save_words(count_words(["a b"]), folder / "unlabelled.json")
    return folder / "unlabelled.json"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"word_labels": "tags"}, "needs task.words=parts"),
        ({"words": "parts", "word_ends": "mark"}, "is for task.words=subwords"),
        ({"tags": "predict", "linear": "brackets", "word_ends": "number"}, "exclude each other"),
        ({"tags": "predict"}, "has parts of speech already"),
    ],
    ids=["labels", "word ends", "numbers", "released"],
)
def test_options_that_exclude_each_other(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ParsingConfig(name="parsing", **options)
