"""Tokenisers that are lists of characters or words, and those of a tokenizer.json against the package itself."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from s2s.data import tokenizer_kind
from s2s.errors import ConfigError, DataError
from s2s.plugin import load_plugins
from s2s_testing import check_task
from s2s_tokenizers import HuggingFaceConfig, ListedConfig
from s2s_tokenizers.hugging_face import HuggingFaceKind
from s2s_tokenizers.listed import CharacterKind, WhitespaceKind
from s2s_translation import TranslationConfig

if TYPE_CHECKING:
    from pathlib import Path

LINES = ["the cat sees the dog", "a dog sees <2de> a cat", "the  old\tdog"]


def learnt(kind: Any, path: Path, size: int = 40, symbols: tuple[str, ...] = ()) -> Any:
    kind.learn(LINES, path, size, symbols=symbols, option="task.vocab_size")
    return kind.load(path)


def test_characters_are_listed_by_frequency(tmp_path: Path) -> None:
    one = learnt(CharacterKind(ListedConfig()), tmp_path / "a", 9)
    assert one.pieces == ["<pad>", "<unk>", "<s>", "</s>", *(c for c, _ in Counter("".join(LINES)).most_common(5))]
    (ids,) = one.encode(["tZt"])
    assert ids == [one.id_of("t"), 1, one.id_of("t")]
    assert one.decode([2, *ids, 3, 0]) == "t⁇t"
    assert one.decode(one.encode(["the d"])[0]) == "t⁇e d"
    assert [one.covers(text) for text in ("t d", "tZt")] == [True, False]


def test_words_are_what_blanks_separate(tmp_path: Path) -> None:
    one = learnt(WhitespaceKind(ListedConfig()), tmp_path / "a")
    assert set(one.pieces[4:]) == set(" ".join(LINES).split())
    assert one.decode(one.encode(["the  old zebra"])[0]) == "the old ⁇"
    assert one.offsets("the  old dog") == [(0, 3), (5, 8), (9, 12)]
    assert one.decoded_offsets(one.encode(["the old dog"])[0]) == [(0, 3), (3, 7), (7, 11)]
    assert one.covers("zebra"), "unk stands for words that are not listed"


@pytest.mark.parametrize("kind", [CharacterKind, WhitespaceKind])
def test_a_symbol_is_one_token_and_the_longest_wins(kind: Any, tmp_path: Path) -> None:
    one = learnt(kind(ListedConfig(symbols=["<2de>", "<2"])), tmp_path / "a", symbols=("<2de>",))
    assert one.pieces[4:6] == ["<2de>", "<2"]
    assert one.encode(["<2de>the<2<2de>"])[0].count(4) == 2
    assert one.encode(["<2de>"]) == [[4]]
    assert "<2de>" not in one.pieces[6:]


@pytest.mark.parametrize("name", ["bpe", "char", "characters", "whitespace"])
@pytest.mark.parametrize("symbol", ["", " ", "a b", "<s>", "<unk>"])
def test_what_cannot_be_a_symbol_is_refused_before_a_line_is_read(name: str, symbol: str, tmp_path: Path) -> None:
    kind = tokenizer_kind({"name": name, "symbols": ["<BT>", symbol]}, load_plugins().registry)
    lines = iter(LINES)
    with pytest.raises(ConfigError, match=r"^task\.subword\.symbols: .*(white space|special token)"):
        kind.learn(lines, tmp_path / "a", 40, option="task.vocab_size")
    assert list(lines) == LINES


@pytest.mark.parametrize("kind", [CharacterKind, WhitespaceKind])
def test_a_text_cannot_spell_a_special_token(kind: Any, tmp_path: Path) -> None:
    one = learnt(kind(ListedConfig()), tmp_path / "a")
    assert not {0, 2, 3} & {i for line in one.encode(["<pad> </s> <s>"]) for i in line}


def test_a_list_is_refused_where_it_is_damaged_or_has_no_room(tmp_path: Path) -> None:
    kind = CharacterKind(ListedConfig())
    with pytest.raises(ConfigError, match=r"task.vocab_size=5 has no room for tokens: 5 are special or symbols"):
        learnt(kind, tmp_path / "a", 5, ("<2de>",))
    with pytest.raises(DataError, match=r"there is no text to learn a vocabulary from"):
        kind.learn([], tmp_path / "a", 9, option="task.vocab_size")
    with pytest.raises(DataError, match=r"no such file"):
        kind.load(tmp_path / "a")
    for content in ("[]", "{", '{"symbols": [], "pieces": ["a"]}'):
        (tmp_path / "a").write_text(content)
        with pytest.raises(DataError, match=r"list of tokens"):
            kind.load(tmp_path / "a")


@pytest.mark.parametrize(
    "subword",
    ["characters", "whitespace", "char", "word", {"name": "bpe", "byte_fallback": True, "symbols": ["<BT>"]}],
    ids=str,
)
def test_each_is_a_tokeniser_of_translation(subword: Any, tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("the cat sees\na dog sees the cat\nthe old dog\n" * 20)
    sizes = {"word": 10, "char": 17, "bpe": 300}
    config = TranslationConfig(
        name="translation",
        train=[str(tmp_path / "a.en"), str(tmp_path / "a.de")],
        subword=subword,
        vocab_size=sizes.get(subword if isinstance(subword, str) else "bpe", 40),
    )
    check_task(load_plugins().registry.get("task", "translation"), config, tmp_path / "tokens")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A tokenizer.json whose special ids are not those of s2s."""
    tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    built = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    built.pre_tokenizer, built.decoder = tokenizers.pre_tokenizers.Metaspace(), tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=60, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False
    )
    built.train_from_iterator(LINES, trainer)
    built.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_a_tokenizer_json_keeps_its_ids(file: Path, tmp_path: Path) -> None:
    import tokenizers

    one = learnt(HuggingFaceKind(HuggingFaceConfig(file=str(file))), tmp_path / "copy", symbols=("<2de>", "the"))
    reference = tokenizers.Tokenizer.from_file(str(file))
    assert one.special == (1, 3, 0, 2)
    assert one.pieces[: reference.get_vocab_size()] == [
        reference.id_to_token(i) for i in range(reference.get_vocab_size())
    ]
    assert one.encode(["a dog"]) == [reference.encode("a dog", add_special_tokens=False).ids]
    assert one.id_of("<2de>") == reference.get_vocab_size()
    assert one.encode(["<2de> the dog"])[0][0] == one.id_of("<2de>")
    assert one.decode([0, *one.encode(["a dogZ sees"])[0], 2, 1]) == "a dog⁇ sees"
    assert one.encode(["dog</s><pad>"]) == one.encode(["dog"])


def test_the_run_holds_the_file(file: Path, tmp_path: Path) -> None:
    kind = HuggingFaceKind(HuggingFaceConfig(file=str(file)))
    one = learnt(kind, tmp_path / "copy")
    assert kind.files() == [file]
    file.unlink()
    again = kind.load(tmp_path / "copy")
    assert (again.pieces, again.identity) == (one.pieces, one.identity)


def test_without_an_unknown_token_no_text_is_unknown(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    built = tokenizers.Tokenizer(tokenizers.models.BPE())
    built.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>", "[PAD]"], initial_alphabet=alphabet, show_progress=False
    )
    built.train_from_iterator(LINES, trainer)
    built.save(str(tmp_path / "t.json"))
    said = rf"^{tmp_path / 't.json'}: no token <s> or <bos> .* name its bos with task.subword.bos=TOKEN"
    with pytest.raises(ConfigError, match=said):
        learnt(HuggingFaceKind(HuggingFaceConfig(file=str(tmp_path / "t.json"))), tmp_path / "a")
    one = learnt(HuggingFaceKind(HuggingFaceConfig(file=str(tmp_path / "t.json"), bos="[PAD]")), tmp_path / "b")
    assert one.special == (1, 1, 1, 0)
    assert one.decode(one.encode(["Ω the\udc80 dog"])[0]) == "Ω the\ufffd dog"


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    with pytest.raises(ConfigError, match=r"task.subword=hf: which file\? Give task.subword={name: hf, file:"):
        learnt(HuggingFaceKind(HuggingFaceConfig()), tmp_path / "a")
    with pytest.raises(DataError, match=r"no such file"):
        learnt(HuggingFaceKind(HuggingFaceConfig(file=str(tmp_path / "none.json"))), tmp_path / "a")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(DataError, match=r"bad.json: no tokenizer.json: "):
        learnt(HuggingFaceKind(HuggingFaceConfig(file=str(tmp_path / "bad.json"))), tmp_path / "a")


def changed(file: Path, **changes: Any) -> HuggingFaceKind:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return HuggingFaceKind(HuggingFaceConfig(file=str(file)))


def test_a_huge_id_is_refused(file: Path, tmp_path: Path) -> None:
    model = json.loads(file.read_text())["model"]
    last = max(model["vocab"], key=model["vocab"].get)
    model["vocab"][last], model["merges"] = 2**32 - 1, []
    with pytest.raises(DataError, match="has the id 4,294,967,295; at most 4,194,304 tokens"):
        learnt(changed(file, model=model), tmp_path / "copy")


def test_two_tokens_with_one_id_are_refused(file: Path, tmp_path: Path) -> None:
    """Of a copy of such a file the package would end in a panic."""
    model = json.loads(file.read_text())["model"]
    model["vocab"]["x" * 3000] = 5
    with pytest.raises(DataError, match="two tokens have the same id"):
        learnt(changed(file, model=model), tmp_path / "copy")


def test_a_pattern_that_takes_too_long_is_an_error_of_the_file(file: Path, tmp_path: Path) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    one = learnt(changed(file, pre_tokenizer=split), tmp_path / "copy")
    with pytest.raises(DataError, match="a text cannot be encoded"):
        one.encode(["a" * 60 + "b"])


def test_translation_uses_the_special_ids_of_the_file(file: Path, tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("the cat sees\na dog sees the cat\nthe old dog\n" * 20)
    config = TranslationConfig(
        name="translation",
        train=[str(tmp_path / "a.en"), str(tmp_path / "a.de")],
        subword={"name": "hf", "file": str(file)},
    )
    entry = load_plugins().registry.get("task", "translation")
    check_task(entry, config, tmp_path / "tokens")
    task = entry.build(config)
    task.load(tmp_path / "tokens")
    assert (task.vocab.pad, task.vocab.unk, task.vocab.bos, task.vocab.eos) == (1, 3, 0, 2)
    assert file in task.dependencies().files
    assert task.vocab.starting_tokens == (0,)
    config.subword = {"name": "hf", "file": str(file), "start": ["</s>", "the"]}
    task = entry.build(config)
    (tmp_path / "other").mkdir()
    task.learn(tmp_path / "other")
    assert task.vocab.starting_tokens == (2, task.src.id_of("the"))
    with pytest.raises(ConfigError, match=r"task.subword.start: .* has no token x"):
        HuggingFaceKind(HuggingFaceConfig(file=str(file), start=["x"])).load(tmp_path / "other" / "joint.model")


@pytest.mark.parametrize("kind", [CharacterKind, WhitespaceKind])
def test_invisible_characters_are_left_out_unless_they_are_to_be_kept(kind: Any, tmp_path: Path) -> None:
    dropping, keeping = (learnt(kind(ListedConfig(invisible=how)), tmp_path / how) for how in ("drop", "keep"))
    for one, same in ((dropping, True), (keeping, False)):
        assert (one.encode(["the d\u00adog"]) == one.encode(["the dog"])) is same
        assert (one.spell("d\u200dog") == one.spell("dog")) is same


def test_a_list_of_an_earlier_version_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"symbols": [], "pieces": ["<pad>", "<unk>", "<s>", "</s>", "a"]}')
    assert CharacterKind(ListedConfig()).load(tmp_path / "a").encode(["a\u00ad"]) == [[4, 1]]
