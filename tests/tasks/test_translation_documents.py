"""Translation in documents: what is read before each sentence, in training and in every way to generate."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import s2s
from harness.tiny_runs import SMALL, WORDS, call
from s2s.cli import train
from s2s.config.data import DataConfig
from s2s.data.preparation import prepare
from s2s.errors import ConfigError, DataError
from s2s.generation import Input
from s2s.task import Example
from s2s_translation import TranslationConfig
from s2s_translation.task import Translation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DOCUMENTS = [
    ["a dog", "the cat", "old dog eats", "the dog sees"],
    ["a cat sees"],
    ["old cat", "the old cat eats", "a dog"],
]
N = 2


def german(text: str) -> str:
    return " ".join(WORDS[word] for word in text.split())


def expected() -> list[tuple[str, list[str]]]:
    """Each sentence with the two before it, counted by hand."""
    return [(line, lines[max(0, i - N) : i]) for lines in DOCUMENTS for i, line in enumerate(lines)]


def blank_lines(folder: Path) -> list[str]:
    (folder / "d.en").write_text("\n".join(f"{line}\n" for lines in DOCUMENTS for line in ["\n".join(lines)]))
    (folder / "d.de").write_text("\n".join("".join(f"{german(line)}\n" for line in lines) for lines in DOCUMENTS))
    return [str(folder / "d.en"), str(folder / "d.de")]


def json_lines(folder: Path, key: str = "doc", **others: Any) -> str:
    rows = [
        {"src": line, "tgt": german(line), key: f"d{n}", **others}
        for n, lines in enumerate(DOCUMENTS)
        for line in lines
    ]
    return write(folder / "d.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def columns(folder: Path) -> str:
    rows = [(line, german(line), f"d{n}") for n, lines in enumerate(DOCUMENTS) for line in lines]
    return write(folder / "d.tsv", "".join("\t".join(row) + "\n" for row in rows))


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def translation(files: Any, **options: Any) -> Translation:
    options = {"context": N, "subword": "whitespace", "vocab_size": None, **options}
    return Translation(TranslationConfig(name="translation", train=files, **options))


def contexts(task: Translation) -> list[tuple[str, list[str]]]:
    return [(one.src, one.fields["context"]) for one in task.usable()]


@pytest.mark.parametrize(
    "corpus",
    [blank_lines, json_lines, lambda folder: json_lines(folder, "document"), columns],
    ids=["blank lines", "doc", "document", "column"],
)
def test_a_corpus_tells_its_documents_apart(corpus: Any, tmp_path: Path) -> None:
    assert contexts(translation(corpus(tmp_path))) == expected()


def test_a_corpus_of_single_sentences_has_no_context(tmp_path: Path) -> None:
    task = translation(
        {"one": {"files": blank_lines(tmp_path), "documents": False}, "two": {"files": json_lines(tmp_path)}}
    )
    assert contexts(task) == [(line, []) for line, _ in expected()] + expected()


def test_one_empty_side_ends_no_document(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a.en", "a dog\nthe\nthe cat\n\nold dog\n"),
        write(tmp_path / "a.de", "ein\n\nder\n\nhund\n"),
    ]
    assert contexts(translation(files)) == [("a dog", []), ("the cat", ["a dog"]), ("old dog", [])]


def numbered(folder: Path, positions: Sequence[int]) -> str:
    rows = [{"src": f"the {p}", "tgt": "der", "document": "d", "position": p} for p in positions]
    return write(folder / "p.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def test_sentences_before_a_gap_are_no_context(tmp_path: Path) -> None:
    assert [len(context) for _, context in contexts(translation(numbered(tmp_path, [0, 1, 2, 5, 6])))] == [
        0,
        1,
        2,
        0,
        1,
    ]


@pytest.mark.parametrize("positions", [[0, 2, 1], [0, 0]])
def test_sentences_out_of_order_are_refused(positions: list[int], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train corpus p, example \d: document d: position \d follows \d; sort"):
        contexts(translation(numbered(tmp_path, positions)))


def test_the_synthetic_corpus_has_no_documents() -> None:
    with pytest.raises(ConfigError, match=r"needs task\.train"):
        TranslationConfig(name="translation", context=1)


def learnt(folder: Path, **options: Any) -> Translation:
    task = translation(blank_lines(folder), **options)
    (folder / "tokenizer").mkdir()
    task.learn(folder / "tokenizer")
    return task


def test_the_source_stands_behind_its_context_and_the_target_alone(tmp_path: Path) -> None:
    task = learnt(tmp_path)
    for one, (src, context) in zip(task.usable(), expected(), strict=True):
        (pair,) = task.encode([one])
        assert [task.src.pieces[i] for i in pair.src] == " <sep> ".join([*context, src]).split()
        assert task.detokenize(pair.tgt, src) == german(src)
        assert task.source_text(pair.src) == src


def test_context_is_cut_from_the_left_by_whole_sentences(tmp_path: Path) -> None:
    task = learnt(tmp_path)
    (ids,) = task.encode_inputs([Example("a dog", fields={"context": ["the old cat eats", "the old", "the cat"]})])
    lengths = {most: len(task.cut_context(ids, most)) for most in range(12)}
    assert len(ids) == 3 + 3 + 2  # the last two of the context, each with its separator
    assert lengths == {most: 8 if most >= 8 else 5 if most >= 5 else 2 for most in range(12)}
    assert all(ids[len(ids) - n :] == task.cut_context(ids, n) for n in (2, 5, 8))


def test_a_text_that_spells_the_separator_is_read_without_it(tmp_path: Path) -> None:
    task = learnt(tmp_path)
    assert task.encode_inputs([Example("a <sep> dog")]) == task.encode_inputs([Example("a dog")])


def test_preparation_cuts_the_context_of_what_would_be_too_long(tmp_path: Path) -> None:
    """Limits of lengths and their ratio are for the sentence; its context only fills what is left."""
    task = translation(blank_lines(tmp_path))
    limits = DataConfig(prepared=str(tmp_path / "prepared"), max_len=8, max_ratio=1.0, workers=1)
    ((corpus, _),) = prepare(task, limits).train
    assert len(corpus) == len(expected())
    for (src, _), one in zip((corpus[i] for i in range(len(corpus))), task.usable(), strict=True):
        assert list(src) == task.cut_context(task.encode([one])[0].src, 7)
    shorter = DataConfig(prepared=str(tmp_path / "prepared"), max_len=4, max_ratio=1.0, workers=1)
    assert len(prepare(task, shorter).train[0][0]) == sum(len(line.split()) < 4 for line, _ in expected())


def test_without_context_everything_is_as_before(tmp_path: Path) -> None:
    files = blank_lines(tmp_path)
    assert "context" not in translation(files, context=0).settings()
    assert [one.fields for one in translation(files, context=0).usable()] == [{}] * len(expected())
    assert translation(files, context=0).dependencies().settings != translation(files).dependencies().settings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that reads two sentences of context, and the documents in several forms."""
    folder = tmp_path_factory.mktemp("documents")
    draw = random.Random(0)
    documents = [
        [" ".join(draw.choices(list(WORDS), k=draw.randint(1, 5))) for _ in range(draw.randint(1, 4))]
        for _ in range(40)
    ]
    rows = [{"src": line, "tgt": german(line), "doc": n} for n, lines in enumerate(documents) for line in lines]
    write(folder / "train.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    blank_lines(folder), json_lines(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        small = [one for one in SMALL if not one.startswith("task.train")]
        arguments = [*small, "task.train=train.jsonl", "task.context=2", "train.steps=12", "run=x", "--quiet"]
        assert train.main(arguments) == 0
    return folder


COMMON = ["run=x", "threads=1", "matmul=exact", "search.max_len_b=4", "--quiet"]


def scored(capture: Any, *arguments: str) -> list[tuple[str, float]]:
    """Input and score of every line of the output that is not empty."""
    code, out, err = call("s2s-generate", [*COMMON, "format=tsv", *arguments], capture)
    assert code == 0, err
    return [(line.split("\t")[0], float(line.split("\t")[2])) for line in out.splitlines() if line.split("\t")[1]]


def alone(model: Any) -> list[tuple[str, float]]:
    """The second truth: every sentence with its context, by itself."""
    return [(src, next(model.generate([{"src": src, "context": context}])).score) for src, context in expected()]


def same(rows: list[tuple[str, float]], others: list[tuple[str, float]]) -> None:
    assert [src for src, _ in rows] == [src for src, _ in others]
    assert [score for _, score in rows] == pytest.approx([score for _, score in others], abs=1e-4)


def test_all_ways_to_name_documents_give_the_same(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    model = s2s.load("x", "search.max_len_b=4", "matmul=exact")
    truth = alone(model)
    by_itself = [(src, next(model.generate([src])).score) for src, _ in truth]
    assert max(abs(a - b) for (_, a), (_, b) in zip(truth, by_itself, strict=True)) > 1e-3
    same(scored(capsys, "input=d.en"), truth)
    same(scored(capsys, "input=d.jsonl", "input_format=jsonl"), truth)
    same(scored(capsys, "input=d.en", "documents=false"), by_itself)
    fields = [{"src": line, "document": n} for n, lines in enumerate(DOCUMENTS) for line in lines]
    same([(one.src, one.score) for one in model.generate(fields)], truth)
    same([(one.src, one.score) for lines in DOCUMENTS for one in model.generate(lines)], truth)


def test_lines_stay_in_their_places(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    _, out, _ = call("s2s-generate", [*COMMON, "input=d.en"], capsys)
    lines = (folder / "d.en").read_text().splitlines()
    assert [bool(line) for line in out.splitlines()] == [bool(line) for line in lines]


def test_shards_read_what_is_before_them(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    shared = [*COMMON, "input=d.en", "format=tsv", "buffer_size=1"]
    assert call("s2s-generate", [*shared, "output=whole"], capsys)[0] == 0
    for number in (3, 1, 2):
        assert call("s2s-generate", [*shared, "output=out", f"shard={number}/3"], capsys)[0] == 0
    assert (folder / "out").read_bytes() == (folder / "whole").read_bytes()


def test_sentences_of_one_text_are_a_document(folder: Path, monkeypatch: Any) -> None:
    """Those before an input of several sentences are split as it is."""
    monkeypatch.chdir(folder)
    generator = s2s.load("x", "keep=[]").generator()
    inputs = list(map(generator.follower(), [Input("The dog. The cat. Old dog."), Input("The cat.")]))
    segments, error = generator.read(inputs)
    texts = ["The dog.", "The cat.", "Old dog.", "The cat."]
    pairs = [Example(text, fields={"context": texts[max(0, i - N) : i]}) for i, text in enumerate(texts)]
    assert error is None
    assert [one.ids for some in segments for one in some] == generator.task.encode_inputs(pairs)


def test_words_are_aligned_with_the_sentence_and_not_with_its_context(
    folder: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(folder)
    _, out, _ = call("s2s-generate", [*COMMON, "input=d.en", "format=aligned"], capsys)
    lines = (folder / "d.en").read_text().splitlines()
    for line, output in zip(lines, out.splitlines(), strict=True):
        hyp, _, pairs = output.partition(" ||| ")
        linked = defaultdict(list)
        for source, target in (pair.split("-") for pair in pairs.split()):
            linked[int(target)].append(int(source))
        assert sorted(linked) == list(range(len(hyp.split())))
        assert max((source for some in linked.values() for source in some), default=-1) < len(line.split())
