"""Parts of speech of outputs, from what the encoder has learnt of each word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.arch_checks import plugins
from harness.generators import generator_of
from harness.shipped_plugins import generate_config
from s2s import Seq2Seq, make_batch
from s2s.decoding import Hypothesis, SearchResult, SourceSentence
from s2s.generation.source_labels import with_labels
from s2s_parsing import ParsingConfig, s2s_finish_outputs
from s2s_parsing.tagging import TagStage
from s2s_parsing.task import read_tree
from s2s_parsing.tree import Word, leaves, map_words
from s2s_recurrent import RNNConfig

if TYPE_CHECKING:
    from s2s import Example, Memory
    from s2s_parsing.task import Parsing

LABELLED: dict[str, Any] = {"words": "parts", "word_labels": "tags", "linear": "in_order", "trees": 60}
SMALL: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 8, "dropout": 0.0, "words": "pooled"}


def learnt(folder: Any, **options: Any) -> Parsing:
    task: Parsing = plugins().registry.get("task", "parsing").build(ParsingConfig(name="parsing", **options))
    task.learn(folder)
    return task


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Parsing:
    return learnt(tmp_path_factory.mktemp("labelled"), **LABELLED)


@pytest.fixture(scope="module")
def gold(task: Parsing) -> list[Example]:
    return list(task.examples("valid", "synthetic"))[:12]  # type: ignore[arg-type]  # rejects none


def untagged(tree: str) -> str:
    return str(map_words(read_tree(tree), lambda _, word: Word("XX", word)))


def labels_of(task: Parsing, tree: str) -> list[int]:
    names = [task.source.pieces[i] for i in task.vocab.labels]
    return [names.index(f"<is {tag}>") for tag, _ in leaves(read_tree(tree))]


class Oracle(Seq2Seq):
    """Knows the labels of some sources."""

    def __init__(self, task: Parsing, gold: list[Example]) -> None:
        super().__init__()
        self.n_labels, self.calls = len(task.vocab.labels), 0
        sources = task.encode_source([example.src for example in gold])
        self.known = {tuple(ids): labels_of(task, example.tgt) for ids, example in zip(sources, gold, strict=True)}

    def encode(self, src: torch.Tensor, pad: torch.Tensor) -> Memory:
        raise NotImplementedError

    def decode(self, tgt: torch.Tensor, memory: Memory) -> torch.Tensor:
        raise NotImplementedError

    def label_logits(self, src: torch.Tensor, pad: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        rows = [self.known[tuple(row[~gap].tolist()[:-1])] for row, gap in zip(src, pad, strict=True)]
        logits = torch.zeros(len(rows), max(map(len, rows)) + 1, self.n_labels)
        for i, row in enumerate(rows):
            logits[i, torch.arange(len(row)), torch.tensor(row)] = 1
        return logits


def found(n: int) -> Hypothesis:
    return Hypothesis([5] * n, 0.0, 0.0, [0.0] * (n + 1))


def test_a_tree_has_the_tags_of_its_words_labels(task: Parsing, gold: list[Example]) -> None:
    for example in gold:
        assert task.with_tags(untagged(example.tgt), labels_of(task, example.tgt)) == example.tgt


def test_punctuation_stays_punctuation_and_no_other_word_becomes_it(task: Parsing, gold: list[Example]) -> None:
    names = [task.source.pieces[i] for i in task.vocab.labels]
    full_stop, noun = names.index("<is .>"), names.index("<is NN>")
    (tree,) = {example.tgt for example in gold if example.src == gold[0].src}
    words = leaves(read_tree(tree))
    assert words[-1].tag == "."
    tagged = leaves(read_tree(task.with_tags(tree, [full_stop] * (len(words) - 1) + [noun])))
    assert {tag for tag, _ in tagged[:-1] if tag != ","} == {"XX"}
    assert tagged[-1].tag == "."


@pytest.mark.parametrize("n_tokens", [1, 60, 10_000], ids=["one by one", "some at once", "all at once"])
def test_each_output_gets_the_labels_of_its_own_sentence(task: Parsing, gold: list[Example], n_tokens: int) -> None:
    model = Oracle(task, gold)
    stage = TagStage(task)
    encoded = enumerate(task.encode_source([e.src for e in gold]))
    sources = {i: SourceSentence(i, [*ids, task.vocab.eos]) for i, ids in encoded}
    results = [SearchResult(i, [found(i), found(i + 1)][: i % 3]) for i in reversed(range(len(gold)))]
    batches = [results[:5], [], results[5:]]
    given = list(with_labels(batches, sources, model, task.vocab, n_tokens))
    assert [[one.index for one in some] for some in given] == [[one.index for one in some] for some in batches]
    for one in (one for some in given for one in some):
        before = [found(one.index), found(one.index + 1)][: one.index % 3]
        assert [h.tokens for h in one.hypotheses] == [h.tokens for h in before]
        example = gold[one.index]
        for h in one.hypotheses:
            assert stage.text(example.src, h, untagged(example.tgt)) == example.tgt
    assert model.calls == {1: 8, 10_000: 2}.get(n_tokens, model.calls)


def test_without_labels_an_output_stays_as_it_is(task: Parsing, gold: list[Example]) -> None:
    model = plugins().registry.get("arch", "rnn").build(RNNConfig(**SMALL, attention="additive"), task.vocab)
    stage = TagStage(task)
    source = SourceSentence(0, [*task.encode_source([gold[0].src])[0], 3])
    ((one,),) = with_labels([[SearchResult(0, [found(1)])]], {0: source}, model, task.vocab, 100)
    assert one.hypotheses[0].source_labels is None
    assert stage.text(gold[0].src, one.hypotheses[0], untagged(gold[0].tgt)) == untagged(gold[0].tgt)


@pytest.mark.parametrize(
    "options",
    [{"words": "parts"}, {"words": "parts", "word_labels": "tags", "tags": "predict"}, {"linear": "released"}],
    ids=["no labels", "tags are predicted", "tags are in the form"],
)
def test_tags_of_the_output_itself_are_kept(options: dict[str, Any], tmp_path: Any) -> None:
    other = learnt(tmp_path, **{"linear": "in_order", "trees": 60, **options})
    assert s2s_finish_outputs(task=other) is None


def test_words_of_a_sentence_that_was_cut_off_keep_the_tags_of_the_form(task: Parsing, gold: list[Example]) -> None:
    model = (
        plugins()
        .registry.get("arch", "rnn")
        .build(RNNConfig(**SMALL, attention="none", readout="none", guide="stack", label_loss=0.5), task.vocab)
    )
    search = plugins().registry.build_default("search", "beam")
    longest = max(gold, key=lambda example: len(example.src))
    (ids,) = task.encode_source([longest.src])
    config = generate_config(max_source=len(ids) // 2)
    (output,) = generator_of(model.eval(), task, search, config, plugins())([longest.src])
    words = leaves(read_tree(output.hyp))
    assert [word for _, word in words] == longest.src.split()
    assert words[-2].tag == "XX"


def test_generation_writes_the_most_probable_tags(task: Parsing, gold: list[Example]) -> None:
    """A whole generator, whose model knows nothing yet, and each sentence's labels by themselves."""
    torch.manual_seed(1)
    config = RNNConfig(**SMALL, attention="none", readout="none", guide="stack", label_loss=0.5, init_range=0.4)
    model = plugins().registry.get("arch", "rnn").build(config, task.vocab).eval()
    search = plugins().registry.build_default("search", "beam")
    outputs = list(generator_of(model, task, search, generate_config(tokens=200), plugins())([e.src for e in gold]))
    names = [task.source.pieces[i] for i in task.vocab.labels]
    seen = set()
    for example, output in zip(gold, outputs, strict=True):
        batch = make_batch([(task.encode_source([example.src])[0], [])], task.vocab)
        with torch.no_grad():
            logits = model.label_logits(batch.src, batch.src_pad)
        words = leaves(read_tree(output.hyp))
        assert len(words) == logits.size(1) - 1
        for (tag, word), label in zip(words, logits[0].argmax(-1).tolist(), strict=False):
            assert tag == task.target.punctuation.tag(word, names[label].removeprefix("<is ").removesuffix(">"))
            seen.add(tag)
    assert len(seen - {"XX", ".", ","}) > 1, "else all words have the same"
