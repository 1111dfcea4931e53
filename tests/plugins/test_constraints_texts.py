"""Prefixes and phrases as texts, whatever tokens spell them, against a list of all outputs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch

import s2s
from harness.search_calls import find_queued
from harness.table_model import Table
from harness.tiny_runs import train_tiny
from s2s.decoding import BeamConfig, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.task import Vocab
from s2s_constraints.alternatives import Alternatives
from s2s_constraints.automaton import StateTable
from s2s_constraints.lexical import LexicalConstraint
from s2s_constraints.phrases import Phrase
from s2s_constraints.spelling import Spelling
from s2s_constraints.symbols import joins, symbols_of
from s2s_constraints.text_state import FREE
from s2s_sentencepiece.subwords import Subwords
from s2s_sentencepiece.training import train_subwords
from s2s_tokenizers import HuggingFaceConfig, ListedConfig
from s2s_tokenizers.hugging_face import HuggingFaceKind
from s2s_tokenizers.listed import CharacterKind, WhitespaceKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from s2s.decoding import Hypothesis

PIECES: list[bytes] = [b"", b"", b"", b"", b" T", b"a", b" Ta", b"nte", b" ", b"g", b",", b"\xc3", b"\xa4"]
"""A word in several tokens, and a letter in two bytes"""
TEXTS = [symbols_of(piece) for piece in PIECES]
EOS, UNK, LIMIT, EVERY = 3, 1, 3, 1000
VOCAB = Vocab(src=9, tgt=len(PIECES))
SPELLING = Spelling(TEXTS)


def text_of(tokens: Sequence[int]) -> str:
    """Without the blank before the first word, as sentencepiece shows it."""
    return b"".join(PIECES[i] for i in tokens).decode(errors="replace").removeprefix(" ")


def search(constraints: Sequence[LexicalConstraint | None], limit: int = LIMIT) -> list[list[Hypothesis]]:
    """All outputs of the same source, or the best of them."""
    sources = [SourceSentence(i, [4, 5, EOS], one) for i, one in enumerate(constraints)]
    config = BeamConfig(beam=EVERY, max_len_a=0.0, max_len_b=limit, alpha=0.0, ban_unk=True)
    table = Table(VOCAB.tgt, seed=4, spread=1.0)
    return find_queued(BeamSearch(config), table, FixedQueue(sources, 1000), VOCAB, nbest=EVERY)


def prefix(text: str) -> LexicalConstraint:
    symbols = symbols_of(f" {text}".encode())
    return LexicalConstraint(SPELLING, (symbols, symbols[1:]))


def begins(text: str, start: str) -> bool:
    """A blank at the end of a prefix closes its word; the output may also end there."""
    return text.startswith(start) or (start.endswith(" ") and text == start.rstrip())


def test_the_best_output_that_begins_with_the_prefix_is_found() -> None:
    """And all others: whatever tokens spell it, against all outputs without a prefix."""
    prefixes = ["T", "Ta", "Tan", "Tante", "Tante T", "Tä", "Tag,", "Ta ", ",", "a"]
    free, *bound = search([None, *map(prefix, prefixes)])
    assert len(free) == sum(9**n for n in range(LIMIT + 1))
    for start, hypotheses in zip(prefixes, bound, strict=True):
        expected = [h for h in free if begins(text_of(h.tokens), start)]
        assert expected
        assert {tuple(h.tokens) for h in hypotheses} == {tuple(h.tokens) for h in expected}
        assert hypotheses[0].score == pytest.approx(expected[0].score)


def test_a_text_that_no_tokens_spell_to_its_end_has_no_token_at_its_beginning() -> None:
    assert SPELLING.continuing(" Tax") == []
    assert [TEXTS[i] for i in SPELLING.continuing(" Ta")] == [" T", " Ta"]
    assert SPELLING.continuing(symbols_of(b"\xc3\xa4")) == [11]


def contains(text: str, word: str, *, whole: bool) -> bool:
    """By looking at every place."""
    places = [i for i in range(len(text)) if text.startswith(word, i)]
    return any(
        not whole or not (joins(text[i - 1 : i], word[0]) or joins(word[-1], text[i + len(word) :][:1])) for i in places
    )


@pytest.mark.parametrize("whole", [True, False], ids=["words", "letters"])
@pytest.mark.parametrize(
    ("word", "tokens"), [("Ta", (6,)), ("a", (5,)), ("g", (9,)), ("Ta,", (6, 10)), ("Tante", (6, 7))]
)
def test_the_outputs_with_a_phrase_are_those_that_contain_its_text(
    word: str, tokens: tuple[int, ...], whole: bool
) -> None:
    """None that does not; and the best, where the room allows more than the phrase alone."""
    spaced = tokens if TEXTS[tokens[0]][0] == " " else (8, *tokens)
    free, bound = search([None, LexicalConstraint(SPELLING, (), (Phrase(word, tokens, spaced, whole),))])
    expected = {tuple(h.tokens) for h in free if contains(text_of(h.tokens), word, whole=whole)}
    obtained = {tuple(h.tokens) for h in bound}
    assert obtained
    assert obtained <= expected
    best = next(h for h in free if tuple(h.tokens) in expected)
    if len(spaced) < LIMIT - 1:
        assert bound[0].tokens == best.tokens
    if len(spaced) == 1:
        assert len(obtained) > len(expected) / 2


@pytest.mark.parametrize("words", [["Ta", "g,"], ["Tante", "a"], ["aa", "Ta", ","]], ids=str)
def test_the_outputs_with_any_of_several_phrases_are_those_that_contain_one(words: list[str]) -> None:
    """And the best of them is found."""
    ids = {"Ta": (6,), "g,": (9, 10), "Tante": (6, 7), "a": (5,), "aa": (5, 5), ",": (10,)}
    phrases = tuple(Phrase(word, ids[word], ids[word] if word[0] == "T" else (8, *ids[word]), True) for word in words)
    free, bound = search([None, LexicalConstraint(SPELLING, (), (Alternatives(phrases),))])
    expected = [h for h in free if any(contains(text_of(h.tokens), word, whole=True) for word in words)]
    assert {tuple(h.tokens) for h in bound} <= {tuple(h.tokens) for h in expected}
    assert bound[0].tokens == expected[0].tokens


def random_tokens(draw: random.Random, n: int) -> Iterator[int]:
    """Those of valid UTF-8, up to its last character."""
    for _ in range(n):
        yield (token := draw.randrange(4, len(PIECES) - 1))
        if PIECES[token] == b"\xc3":
            yield len(PIECES) - 1


@pytest.mark.parametrize("whole", [True, False], ids=["words", "letters"])
@pytest.mark.parametrize(
    ("word", "tokens"), [("Ta", (6,)), ("aa", (5, 5)), ("g,", (9, 10)), ("Tä", (4, 11, 12)), ("ä", (11, 12))]
)
def test_states_know_of_long_outputs_whether_they_contain_a_phrase(
    word: str, tokens: tuple[int, ...], whole: bool
) -> None:
    """Though they keep only the end of an output, so that there are few: against its whole text."""
    draw, states = random.Random(1), set()
    spaced = tokens if TEXTS[tokens[0]][0] == " " else (8, *tokens)
    phrase = Phrase(symbols_of(word.encode()), tokens, spaced, whole)
    for _ in range(600):
        state, output = LexicalConstraint(SPELLING, (), (phrase,)).start(), b""
        for token in random_tokens(draw, 14):
            state, output = state if state is FREE else state.after(token), output + PIECES[token]
            text = output.decode(errors="ignore")
            assert contains(text, word, whole=whole) is not bool(state.phrases), text
            states.add(state)
    assert len(states) < 30


def test_tokens_of_one_kind_lead_to_the_same_state() -> None:
    """So that only one of them is computed: all that continue a phrase, or complete it, are of a kind of their own."""
    draw, words = random.Random(2), [("Ta", (6,)), ("aa", (5, 5)), ("Tä", (4, 11, 12))]
    phrases = tuple(Phrase(symbols_of(w.encode()), ids, ids if w[0] == "T" else (8, *ids), True) for w, ids in words)
    table = StateTable()
    for _ in range(300):
        number, state = table.add(first := LexicalConstraint(SPELLING, (), phrases).start()), first
        for token in random_tokens(draw, 20):
            number = int(table.after(torch.tensor(number), torch.tensor(token)))
            state = state if state is FREE else state.after(token)
            assert table[number] == state


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("a", "b", True),
        ("a", " ", False),
        ("", "b", False),
        ("и", "1", True),
        ("猫", "犬", False),
        ("a", "\u0301", True),
    ],
)
def test_words_end_where_no_letter_follows_and_everywhere_in_scripts_without_blanks(
    before: str, after: str, joined: bool
) -> None:
    assert joins(before, after) is joined


LINES = ["the cat sees the dog", "a dog sees a cat", "die Tänzerin, über 30 Köche"] * 20


def learnt(name: str, folder: Path) -> Any:
    path = folder / "model"
    if name == "bytes":
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        one = Tokenizer(models.BPE(unk_token="<unk>"))
        one.pre_tokenizer, one.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        special = ["<pad>", "<unk>", "<s>", "</s>"]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        one.train_from_iterator(
            LINES, trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
        )
        one.save(str(folder / "t.json"))
        kind = HuggingFaceKind(HuggingFaceConfig(name="hf", file=str(folder / "t.json")))
        kind.learn([], path, 0, option="")
        return kind.load(path)
    if name in ("characters", "whitespace"):
        kinds: Any = {"characters": CharacterKind, "whitespace": WhitespaceKind}
        kinds[name](ListedConfig()).learn(LINES, path, 100, option="task.vocab_size")
        return kinds[name](ListedConfig()).load(path)
    fallback = name == "byte_fallback"
    algorithm: Any = "bpe" if fallback else name
    train_subwords(LINES, path, algorithm, 300 if fallback else 33, byte_fallback=fallback)
    return Subwords(path, algorithm)


@pytest.mark.parametrize("name", ["bpe", "unigram", "char", "byte_fallback", "characters", "whitespace", "bytes"])
def test_the_spellings_of_a_texts_tokens_spell_the_text(name: str, tmp_path: Path) -> None:
    one = learnt(name, tmp_path)
    lines = ["the cat sees a dog", *(["die Köche ä漢"] if name in ("byte_fallback", "bytes") else [])]
    for line in lines:
        (ids,) = one.encode([line])
        spelt = b"".join(one.spellings[i] for i in ids)
        assert spelt == one.spell(line)
        assert spelt.decode().removeprefix(" ") == one.decode(ids) == line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    train_tiny(folder)
    return folder


def test_outputs_of_a_run_begin_with_every_prefix_and_contain_whole_words(folder: Path) -> None:
    model = s2s.load(str(folder / "runs/x"), search={"beam": 4})
    text = "der alter kater sieht"
    for n in range(1, len(text) + 1):
        assert model.translate({"src": "the old cat", "prefix": text[:n]}).startswith(text[:n].rstrip())
    words = {"src": "the old cat", "phrases": ["kater", "ein"]}
    assert {"kater", "ein"} <= set(model.translate(words, search={"beam": 8}).split())
    letters = model.translate({"src": "the old cat", "phrases": ["ate"]}, phrases_match="letters")
    assert "ate" in letters
    for prefix in ("漢", "漢 ", "der ★", "★ der ka", " ", "der\nalter"):
        assert model.translate({"src": "the old ★ cat ★", "prefix": prefix}).startswith(prefix)
