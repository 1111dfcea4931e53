"""Subwords against sentencepiece called one line at a time, and against what can go wrong."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from s2s.data import Tokenizer
from s2s.data.text import MAX_LINE
from s2s.errors import ConfigError, DataError
from s2s.plugin import load_plugins
from s2s_sentencepiece import SentencePieceConfig, training
from s2s_sentencepiece.byte_fallback import ByteFallback
from s2s_sentencepiece.kind import SentencePiece
from s2s_sentencepiece.model_file import fixed_pieces
from s2s_sentencepiece.subwords import Subwords
from s2s_sentencepiece.training import Trained, train_subwords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ONSETS, RIMES = ["b", "str", "gl", "m", "w", "ß", "é", "4"], ["an", "our", "ü", "igh", "ocks"]
SYMBOL = re.compile("<2de>|a,b|<BT>")
WORDS = [a + b + c for a in ONSETS for b in RIMES for c in ("", "ing", "s")]


def text(n: int = 400, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(n)]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def subwords(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    path = tmp_path_factory.mktemp("subwords") / "joint.model"
    assert train_subwords(text(), path, kind, 60) == Trained(400, 0, 400)  # type: ignore[arg-type]
    return Subwords(path)


def test_special_symbols_have_the_ids_of_every_model_here(subwords: Subwords) -> None:
    assert subwords.pieces[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert (subwords.pad, subwords.unk, subwords.bos, subwords.eos) == (0, 1, 2, 3)
    assert subwords.size == len(set(subwords.pieces)) == 60


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_list_is_encoded_as_its_lines_are(subwords: Subwords, threads: int) -> None:
    lines = [*text(50, seed=2), "", " ", "unseen Ω", "\u2028", "a\0b"]
    reference = sentencepiece.SentencePieceProcessor(model_file=str(subwords.path))
    assert subwords.encode(lines, threads) == [reference.encode(line) for line in lines]
    assert [subwords.encode([line], threads)[0] for line in lines] == subwords.encode(lines)


def test_few_lines_with_half_a_character_are_encoded_as_among_many(subwords: Subwords) -> None:
    lines = [*text(3, seed=2), "a\ud800b"]
    assert subwords.encode(lines) == subwords.encode([*lines, *text(50, seed=4)])[:4]


def test_a_text_that_would_end_the_process_is_refused(subwords: Subwords) -> None:
    with pytest.raises(DataError, match="a text of 1,048,577 characters is too long: at most 1,048,576"):
        subwords.encode(["a", "a" * (MAX_LINE + 1)])


def test_known_text_comes_back(subwords: Subwords) -> None:
    lines = text(50, seed=3)
    assert [subwords.decode(ids) for ids in subwords.encode(lines)] == lines
    assert subwords.decode([]) == ""
    assert subwords.decode([0, 2, 3]) == ""


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=()), max_size=20), max_size=5))
@settings(max_examples=200)
def test_no_text_whatsoever_crashes(any_subwords: Subwords, lines: list[str]) -> None:
    """Half surrogates, which no UTF-8 holds, count as U+FFFD."""
    encoded = any_subwords.encode(lines)
    assert encoded == any_subwords.encode(
        [line.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for line in lines]
    )
    assert all(isinstance(any_subwords.decode(ids), str) for ids in encoded)


@pytest.fixture(scope="module")
def any_subwords(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    path = tmp_path_factory.mktemp("any") / "m"
    train_subwords(text(), path, "bpe", 60)
    return Subwords(path)


def test_training_twice_gives_the_same_symbols(kind: str, subwords: Subwords, tmp_path: Path) -> None:
    train_subwords(iter(text()), tmp_path / "again.model", kind, 60)  # type: ignore[arg-type]
    again = Subwords(tmp_path / "again.model")
    assert again.pieces == subwords.pieces
    assert again.identity == subwords.identity
    train_subwords(text(seed=9), tmp_path / "other.model", kind, 61)  # type: ignore[arg-type]
    assert Subwords(tmp_path / "other.model").identity != subwords.identity


@pytest.mark.parametrize(("size", "what"), [(100_000, "too large"), (7, "too small")])
def test_a_size_out_of_range_is_told_the_nearest_that_works(kind: str, tmp_path: Path, size: int, what: str) -> None:
    with pytest.raises(ConfigError, match=rf"^task.src_vocab_size={size} is {what}: the 400 lines read") as error:
        train_subwords(text(), tmp_path / "m", kind, size, option="task.src_vocab_size")  # type: ignore[arg-type]
    assert not (tmp_path / "m").exists()
    advised = int(str(error.value).split("Give task.src_vocab_size=")[1].split(" ")[0])
    train_subwords(text(), tmp_path / "m", kind, advised)  # type: ignore[arg-type]
    assert Subwords(tmp_path / "m").size == advised


@pytest.mark.parametrize("lines", [[], [""], [" ", "\t"], ["x" * 5000]], ids=["nothing", "empty", "blank", "too long"])
def test_nothing_to_learn_from_is_said(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(DataError, match="there is no text to learn a vocabulary from"):
        train_subwords(lines, tmp_path / "m", "bpe", 100)


def test_options_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task.vocab_size=4 must be 5 or more"):
        train_subwords(text(), tmp_path / "m", "bpe", 4)
    with pytest.raises(ConfigError, match=r"task.character_coverage=1.5 must"):
        SentencePieceConfig(name="bpe", character_coverage=1.5)


def test_rare_characters_can_be_left_out_or_spelt_in_bytes(tmp_path: Path) -> None:
    train_subwords(["ab" * 50, "c"], tmp_path / "m", "bpe", 9, character_coverage=0.98)
    covered = Subwords(tmp_path / "m")
    assert covered.unk in covered.encode(["c"])[0]
    train_subwords(text(), tmp_path / "b", "bpe", 320, byte_fallback=True)
    spelt = Subwords(tmp_path / "b")
    assert spelt.decode(spelt.encode(["Ω"])[0]) == "Ω"


def lines_with_new_characters(n_lines: int, n_new: int) -> list[str]:
    """Of which this number have a character that no other has."""
    return [f"{line}{chr(0x4E00 + n) if n < n_new else ''}" for n, line in enumerate(text(n_lines))]


@pytest.mark.parametrize(
    ("n_lines", "n_new", "size", "requested", "is_on"),
    [
        (4000, 2, 2048, None, False),
        (4000, 3, 2048, None, True),
        (4000, 3, 2047, None, False),
        (4000, 3, 2048, False, False),
        (4000, 0, 300, True, True),
    ],
)
def test_bytes_are_used_where_new_lines_will_have_new_characters(
    n_lines: int, n_new: int, size: int, requested: bool | None, is_on: bool
) -> None:
    lines = lines_with_new_characters(n_lines, n_new)
    fallback = ByteFallback.decide(lines, size, requested, 1.0)
    assert fallback.is_on is is_on
    n_rare = n_new if is_on and requested is None else 0
    assert fallback.coverage == 1 - n_rare / sum(map(len, lines))
    assert ByteFallback.decide(lines, size, requested, 0.99).coverage == 0.99


def test_characters_that_occur_once_or_twice_are_then_bytes_in_training(tmp_path: Path) -> None:
    lines = [*lines_with_new_characters(1900, 9), *(f"{line} 😀" for line in text(100, seed=4))]
    lines = [
        line + "".join(map(chr, range(0x5000 + 50 * (n % 40), 0x5000 + 50 * (n % 40 + 1))))
        for n, line in enumerate(lines)
    ]
    train_subwords(lines, tmp_path / "m", "unigram", 2400, byte_fallback=None)
    subwords = Subwords(tmp_path / "m")
    once, often = (subwords.encode([character])[0] for character in ("\u4e00", "😀"))
    assert [subwords.pieces[i] for i in once[-3:]] == ["<0xE4>", "<0xB8>", "<0x80>"]
    assert len(often) <= 2
    assert subwords.unk not in subwords.encode(["Ω"])[0]


def test_words_are_not_spelt_in_bytes_unless_it_is_requested() -> None:
    kinds = [SentencePiece(SentencePieceConfig(name=name)) for name in ("bpe", "unigram", "char", "word")]
    assert [kind.byte_fallback for kind in kinds] == [None, None, None, False]
    assert SentencePiece(SentencePieceConfig(name="word", byte_fallback=True)).byte_fallback


def test_lines_that_are_too_long_are_counted(tmp_path: Path) -> None:
    lines = [*text(), "é" * 3000, "x" * 4192, "x" * 4193]
    assert train_subwords(lines, tmp_path / "m", "bpe", 60) == Trained(401, 2, 401)


def test_what_the_lines_raise_comes_through(tmp_path: Path) -> None:
    def lines() -> Iterator[str]:
        yield "a"
        raise DataError("corpus.en:2: broken")

    with pytest.raises(DataError, match=r"corpus.en:2: broken"):
        train_subwords(lines(), tmp_path / "m", "bpe", 60)


def test_half_surrogates_in_the_text_do_not_stop_training(tmp_path: Path) -> None:
    train_subwords([*text(), "\ud800 lone"], tmp_path / "m", "bpe", 60)
    assert Subwords(tmp_path / "m").size == 60


def test_of_very_many_lines_an_even_sample_is_used(tmp_path: Path) -> None:
    trained = train_subwords(text(1000), tmp_path / "m", "bpe", 60, max_lines=100)
    assert 50 <= trained.n_lines <= 100
    assert trained.n_usable == 1000
    sample = training._Sample([str(i) for i in range(1000)], 100)
    taken = [i for i in range(1000) if i * (1 + 5**0.5) / 2 % 1 < 1 / 16]
    assert sample.lines == [str(i) for i in taken]
    assert max(b - a for a, b in pairwise([*taken, 1000])) < 3 * 16
    for period in (2, 3, 4, 5):  # two sides of each pair, or more texts in turns
        counts = Counter(i % period for i in taken)
        assert max(counts.values()) - min(counts[i] for i in range(period)) <= 4


def test_a_vocabulary_of_a_sample_has_tokens_of_both_sides(tmp_path: Path) -> None:
    """They take turns, of which every second line would be one side alone."""
    lines = [line for i in range(1000) for line in (f"abc ab c{'ab' * (i % 3)}", f"xyz xy z{'xy' * (i % 3)}")]
    train_subwords(lines, tmp_path / "m", "bpe", 14, max_lines=100)
    assert set("abcxyz") <= {letter for piece in Subwords(tmp_path / "m").pieces for letter in str(piece)}


def test_the_first_screen_says_which_sample_a_vocabulary_was_learnt_from(tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / f"c.{side}").write_text("".join(f"{line}\n" for line in text(1000)))
    entry = load_plugins().registry.get("task", "translation")
    files = [str(tmp_path / f"c.{side}") for side in ("en", "de")]
    expected = ["joint vocabulary: learnt from 62 of 2,000 lines, evenly spread"]
    for max_lines, lines in ((100, expected), (2000, [])):
        subword = {"name": "bpe", "max_lines": max_lines}
        task = entry.build(entry.config(name="translation", train=files, subword=subword, vocab_size=60))
        folder = tmp_path / str(max_lines)
        folder.mkdir()
        task.learn(folder)
        assert list(task.describe()) == lines
        again = entry.build(entry.config(name="translation", train=files, subword=subword, vocab_size=60))
        again.load(folder)
        assert list(again.describe()) == lines


def test_training_and_encoding_say_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train_subwords([*text(), "\0"], tmp_path / "m", "bpe", 60)
    Subwords(tmp_path / "m").encode(["a\0", "\ud800"], 2)
    assert capfd.readouterr() == ("", "")


def test_a_damaged_model_is_refused_or_still_works(subwords: Subwords, tmp_path: Path) -> None:
    """A flipped bit in a score cannot be seen here (the manifest sees it); none may crash."""
    model, draw, refused = subwords.path.read_bytes(), random.Random(1), 0
    for trial in range(120):
        damaged = bytearray(model)
        damaged[draw.randrange(len(model))] ^= 1 << draw.randrange(8)
        (tmp_path / "m").write_bytes(damaged[: draw.randrange(len(model))] if trial % 2 else damaged)
        try:
            Subwords(tmp_path / "m").encode(["string mours"])
        except DataError as error:
            refused += 1
            assert "not a subword model, or damaged" in str(error)  # noqa: PT017
    assert refused > 60


def test_a_missing_model_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "joint.model").mkdir()
    with pytest.raises(DataError, match=r"no such file. Did you mean .*joint.model"):
        Subwords(tmp_path / "jiont.model")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        Subwords(tmp_path / "joint.model")


def test_a_model_with_other_special_ids_is_refused(tmp_path: Path) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text()), model_prefix=str(tmp_path / "m"), vocab_size=60, minloglevel=2
    )
    with pytest.raises(DataError, match="not a subword model"):
        Subwords(tmp_path / "m.model")


def test_an_unknown_symbol_stays_in_its_word(subwords: Subwords) -> None:
    for line in ("ban Ω strour", "Ω", "banΩour", "Ωban strΩ", "ban ΩΔ"):
        (ids,) = subwords.encode([line])
        assert subwords.decode(ids) == line.replace("ΩΔ", "⁇").replace("Ω", "⁇")


@settings(max_examples=200)
@given(data=st.data())
def test_output_tokens_are_where_the_texts_of_their_prefixes_end(data: st.DataObject, subwords: Subwords) -> None:
    ids = data.draw(st.lists(st.sampled_from([1, *range(4, subwords.size)]), max_size=12))
    slow = Tokenizer.decoded_offsets(subwords, ids)
    texts = zip(subwords.decoded_offsets(ids), slow, strict=True)
    text = subwords.decode(ids)
    for (begin, end), (slow_begin, slow_end) in texts:  # a blank belongs to the token before or behind
        assert text[begin:end].strip() == text[slow_begin:slow_end].strip()


def test_a_text_is_covered_if_pieces_spell_it(subwords: Subwords, with_bytes: Subwords) -> None:
    for one in (subwords, with_bytes):
        assert [one.covers(text) for text in ("ban stréans", "ban Ω", "😀", "")] == [True, False, False, True]
    assert Subwords(subwords.path, "word").covers("Ω")


@pytest.fixture(scope="module")
def with_bytes(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    path = tmp_path_factory.mktemp("bytes") / "joint.model"
    train_subwords(text(), path, "bpe", 400, byte_fallback=True)
    return Subwords(path)


@settings(max_examples=300)
@given(line=st.text(st.sampled_from("bant ousré  ½ﬁＡ…猫😀\u00ad\u0301\t"), max_size=14))
@pytest.mark.parametrize("fallback", [False, True], ids=["unk", "bytes"])
def test_source_tokens_are_where_their_characters_are(
    line: str, fallback: bool, subwords: Subwords, with_bytes: Subwords
) -> None:
    """In order, every character but blanks in some token, and each token normalised as its characters are alone."""
    one = with_bytes if fallback else subwords
    (ids,), offsets = one.encode([line]), one.offsets(line)
    assert len(offsets) == len(ids)
    assert list(offsets) == sorted(offsets)
    inside = {place for begin, end in offsets for place in range(begin, end)}
    normalised = one.spell(line).decode()
    assert all(place in inside or not one.spell(letter).strip() for place, letter in enumerate(line))
    for i, (begin, end) in zip(ids, offsets, strict=True):
        if i != one.unk and not one.pieces[i].startswith("<0x"):
            assert one.spellings[i].decode().strip() in normalised
            own = one.spell(line[begin:end]).decode()
            assert one.spellings[i].decode().strip() in own or "\u0301" in line


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_symbols_stay_whole_wherever_they_occur(kind: str, tmp_path: Path) -> None:
    built = SentencePiece(SentencePieceConfig(name=kind, symbols=["<BT>", "<2de>"]))
    built.learn(text(), tmp_path / "m", 40, symbols=["<2de>", "a,b"], option="task.vocab_size")
    subwords = built.load(tmp_path / "m")
    assert subwords.pieces[4:7] == ["<2de>", "a,b", "<BT>"]
    assert [subwords.id_of(symbol) for symbol in ("<2de>", "a,b", "<BT>")] == [4, 5, 6]
    for line in ("<2de> ban", "ban<2de>ban", "bana,b", "<BT><BT>"):
        (ids,) = subwords.encode([line])
        assert [subwords.pieces[i] for i in ids if 4 <= i < 7] == SYMBOL.findall(line)
        assert subwords.decode(ids) == line


def test_a_symbol_that_is_a_word_is_one_token_of_words(tmp_path: Path) -> None:
    built = SentencePiece(SentencePieceConfig(name="word"))
    built.learn(text(), tmp_path / "m", 120, symbols=["<2de>"], option="task.vocab_size")
    subwords = built.load(tmp_path / "m")
    assert subwords.encode([f"<2de> {subwords.pieces[-1][1:]}"]) == [[subwords.id_of("▁<2de>"), subwords.size - 1]]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sampling_keeps_symbols_and_bytes(kind: str, tmp_path: Path) -> None:
    built = SentencePiece(SentencePieceConfig(name=kind, symbols=["an", "gl"], byte_fallback=True))
    built.learn(text(), tmp_path / "m", 310, option="task.vocab_size")
    subwords = built.load(tmp_path / "m")
    lines = [f"{line} Ω" for line in text(40, seed=8)]
    sample = subwords.sampler(0.3)
    encoded = subwords.encode(lines)
    fixed = [[i for i in ids if 4 <= i < 6 + 256] for ids in encoded]
    drawn = [sample(ids, seed) for seed, ids in enumerate(encoded)]
    assert [[i for i in ids if 4 <= i < 6 + 256] for ids in drawn] == fixed
    assert drawn != encoded
    assert [subwords.decode(ids) for ids in drawn] == lines


@pytest.mark.parametrize("kind", ["char", "word"])
def test_what_has_one_segmentation_is_not_sampled(kind: str, tmp_path: Path) -> None:
    built = SentencePiece(SentencePieceConfig(name=kind))
    built.learn(text(), tmp_path / "m", 20, option="task.vocab_size")
    with pytest.raises(ConfigError, match=r"task.subword_sampling=0.1: this tokeniser has one way"):
        built.load(tmp_path / "m").sampler(0.1)


def test_fixed_pieces_are_those_that_sentencepiece_calls_so(tmp_path: Path) -> None:
    """Against the accessors of the library, which has none for symbols: these follow the special pieces."""
    train_subwords(text(), tmp_path / "m", "bpe", 320, byte_fallback=True, symbols=["<2de>"])
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m"))
    expected = [
        i == 4 or model.is_control(i) or model.is_unknown(i) or model.is_byte(i) for i in range(model.get_piece_size())
    ]
    assert fixed_pieces(model.serialized_model_proto()) == expected
    assert sum(expected) == 4 + 1 + 256


def test_an_error_of_the_library_has_no_source_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = "INTERNAL: src/trainer_interface.cc(94) [trainer_spec.x() >= 0.98] "
    for text, told in (("", "trainer_spec.x() >= 0.98 does not hold"), ("No\nroom.", "No room.")):
        train = Mock(side_effect=RuntimeError(place + text))
        monkeypatch.setattr("sentencepiece.SentencePieceTrainer.train", train)
        with pytest.raises(DataError) as caught:
            train_subwords(["a b"], tmp_path / "m", "bpe", 9)
        assert str(caught.value) == f"task.vocab_size=9: sentencepiece could not learn from the 1 lines read: {told}"
