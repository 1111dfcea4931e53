"""Training text in development and test sets: every planted sentence is found, in any writing, and nothing else."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any
from unicodedata import category, normalize

import numpy as np
import pytest

from s2s.config.data import DataConfig
from s2s.data.batching import Batches
from s2s.data.held_out import HeldOutTexts, n_letters, normalized
from s2s.data.manifest import Manifest
from s2s.data.preparation import prepare
from s2s.data.preparation_spec import PreparationSpec
from s2s.errors import DataError
from s2s.plugin import load_plugins
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from s2s.data.prepared_data import PreparedData
    from s2s.task import Task

SENTENCES = [
    ("The council adopted it on Friday, didn't it?", "Der Rat hat es am Freitag beschlossen – nicht wahr?"),
    ("STRASSENBAHN lines 4 and 12 are closed.", "Die Straßenbahnlinien 4 und 12 sind gesperrt."),
    ("I will be in Istanbul until the evening.", "Işıl akşama kadar İstanbul’da, dışarıda kalacak."),
    ("«Where was the train?» she asked.", "«Куда ушёл поезд?» — спросила она."),
    ("The sea was calm; the boat was small.", "Ἡ θάλασσα ἦν γαληνή· τὸ πλοῖον μικρόν."),
    ("He bought three books yesterday.", "昨日、彼は本を三冊買いました。"),
    ("They met at the old fire station.", "それはﾌｧｲｱ・ステーションでした（古い）。"),
    ("The teacher reads the newspaper daily.", "शिक्षक रोज़ अख़बार पढ़ते हैं।"),
    ("We walked home along the river bank.", "우리는 강둑을 따라 집으로 걸어갔다."),
]
WRITINGS: dict[str, Callable[[str], str]] = {
    "exact": str,
    "upper": str.upper,
    "lower": str.lower,
    "title": str.title,
    "no punctuation": lambda text: "".join(c for c in text if not category(c).startswith("P")),
    "other punctuation": lambda text: text.translate(str.maketrans(".,?'’–—;:", "!;…’´-–·…")),
    "blanks": lambda text: "  " + text.replace(" ", " \u00a0\u3000") + "\t",
    "decomposed": lambda text: normalize("NFD", text),
    "compatible": lambda text: normalize("NFKC", text),
    "wide": lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
}


def plain(text: str) -> str:
    """What is compared, character by character."""
    folded = normalize("NFKC", text).casefold().replace("ı", "i")
    return "".join(c for c in normalize("NFKC", folded) if c.isalnum())


def test_a_text_is_compared_by_its_letters_and_digits() -> None:
    draw = random.Random(1)
    points = [*range(0x3100), *range(0xF900, 0x10000), *draw.sample(range(0x10000, 0x110000), 2000), 0xD800]
    for character in map(chr, points):
        for text in (character, f"A{character}b", f"é {character}_"):
            assert normalized(text) == plain(text), hex(ord(character))


def test_case_changes_nothing_but_in_three_letters_of_old_greek() -> None:
    characters = [chr(point) for point in range(0x10000) if not 0xD800 <= point < 0xE000]
    others = [c for c in characters if {normalized(c)} != {normalized(f(c)) for f in (str.upper, str.lower, str.title)}]
    assert others == ["ᾷ", "ῇ", "ῷ"]


@pytest.mark.parametrize("write", WRITINGS.values(), ids=WRITINGS.keys())
@pytest.mark.parametrize("sides", ["src", "tgt", "swapped", "both"])
def test_every_planted_sentence_is_found_and_nothing_else(write: Callable[[str], str], sides: str) -> None:
    rule = HeldOutTexts(12)
    rule.add("valid dev", [Example(*pair) for pair in SENTENCES[::2]])
    rule.add("test new", [Example(*pair) for pair in SENTENCES[1::2]])
    other = "This is another sentence which stands nowhere else."
    planted = [
        {
            "src": Example(write(src), other),
            "tgt": Example(other, write(tgt)),
            "swapped": Example(write(tgt), other),
            "both": Example(write(src), write(tgt)),
        }[sides]
        for src, tgt in SENTENCES
    ]
    unknown = [Example(f"{pair.src} Indeed.", f"{pair.tgt} Indeed.") for pair in planted]
    found = rule([one for pair in zip(planted, unknown, strict=True) for one in pair])
    assert found[::2] == [f"found in {'test new' if n % 2 else 'valid dev'}" for n in range(len(SENTENCES))]
    assert not any(found[1::2])


def test_a_short_text_counts_only_with_its_other_side() -> None:
    rule = HeldOutTexts(12)
    rule.add("valid a", [Example("Yes.", "Ja."), Example("", "No source."), Example("…", "—"), Rejected("empty")])
    rule.add("test b", [Example("Yes!", "ja"), Example("Who?", "Wer hat es denn getan?")])
    pairs = [
        ("yes", "JA!"), ("Ja", "Yes"), ("Yes.", "Jawohl."), ("Oh yes.", "Ja."), ("Who?", "Wer?"),
        ("Anyone?", "wer hat es denn getan"), ("", "No source."), ("", ""), ("?", "!"),
    ]  # fmt: skip
    found = rule([Example(*pair) for pair in pairs])
    assert found == ["found in valid a", "found in valid a", "", "", "", "found in test b", "", "", ""]
    assert [*rule.reasons] == ["found in valid a", "found in test b"]


def test_a_wide_character_counts_twice() -> None:
    assert [n_letters(normalized(text)) for text in ("I don't know.", "我不知道", "ｆｕｌｌ", "안녕")] == [9, 8, 4, 4]


def translation(**options: Any) -> Task:
    entry = load_plugins().registry.get("task", "translation")
    options = {"subword": "whitespace", **options}
    task: Task = entry.build(entry.config(name="translation", **options))
    return task


def pairs_of(seed: int, n: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [tuple(" ".join(draw.choices("abcdefgh", k=14)) for _ in range(2)) for _ in range(n)]  # type: ignore[misc]


def write(folder: Path, name: str, pairs: Sequence[tuple[str, str]]) -> list[str]:
    files = [folder / f"{name}.{side}" for side in ("en", "de")]
    for file, side in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return [str(file) for file in files]


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, Any]:
    """90 training pairs, of which every tenth stands in the development set, and every tenth in the test set."""
    train, valid, test = pairs_of(1, 90), pairs_of(2, 9), pairs_of(3, 9)
    for n in range(9):
        train[10 * n] = (valid[n][0].upper(), train[10 * n][1])
        train[10 * n + 5] = (train[10 * n + 5][0], f"«{test[n][1]}»!")
    named = {"train": train, "valid": valid, "test": test}
    return {split: write(tmp_path, split, pairs) for split, pairs in named.items()}


def prepared(tmp_path: Path, sets: dict[str, Any], **options: Any) -> PreparedData:
    return prepare(translation(**sets), DataConfig(prepared=str(tmp_path / "prepared"), workers=1, **options))


def test_preparation_drops_and_counts_them(tmp_path: Path, sets: dict[str, Any]) -> None:
    found = prepared(tmp_path, sets)
    report = found.ledger[0]
    assert report.drops.counts == {"found in valid valid": 9, "found in test test": 9}
    assert (report.n_read, report.n_kept, len(found.train[0][0])) == (90, 72, 72)
    assert "90 pairs read, 72 kept, 18 dropped (9 found in test test, 9 found in valid valid)" in found.report[1]
    numbers = {one.number for one in report.drops.samples["found in test test"]}
    assert numbers <= {10 * n + 6 for n in range(9)}
    assert found.overlap_warnings == []
    whole = prepared(tmp_path, sets, decontaminate=False)
    assert (whole.ledger[0].n_kept, len(whole.valid[0])) == (90, 9)
    assert whole.directory != found.directory


def test_more_letters_than_any_text_has_leave_whole_pairs(tmp_path: Path, sets: dict[str, Any]) -> None:
    assert prepared(tmp_path, sets, decontaminate_letters=100).ledger[0].n_kept == 90


def test_without_development_and_test_sets_nothing_changes(tmp_path: Path, sets: dict[str, Any]) -> None:
    task, config = translation(train=sets["train"]), DataConfig(prepared=str(tmp_path))
    spec, without = PreparationSpec(task, config), PreparationSpec(task, DataConfig(decontaminate=False))
    assert spec.settings == without.settings
    assert spec.read_held_out() is None


def test_prepared_data_depend_on_the_test_set(tmp_path: Path, sets: dict[str, Any]) -> None:
    before = prepared(tmp_path, sets)
    write(tmp_path, "test", pairs_of(9, 9))
    after = prepared(tmp_path, sets)
    assert (after.directory, after.ledger[0].n_kept) == (before.directory, 81)
    for file in sets["test"]:
        (tmp_path / file).unlink()
    assert prepared(tmp_path, sets).identity == after.identity, "what was prepared from it serves"
    with pytest.raises(DataError, match=r"test\.(en|de): no such file"):
        prepared(tmp_path, sets, max_len=99)


def test_a_set_that_is_most_of_the_training_text_drops_nothing(tmp_path: Path, sets: dict[str, Any]) -> None:
    """As where somebody looks whether a model can overfit."""
    same = {"train": sets["train"], "valid": sets["train"]}
    found, whole = prepared(tmp_path, same), prepared(tmp_path, same, decontaminate=False)
    assert found.identity == whole.identity
    assert (found.ledger[0].n_overlap, found.ledger[0].n_kept, found.ledger[1].n_overlap) == (90, 90, 0)
    assert [line.partition(" stand in")[0] for line in found.overlap_warnings] == ["90 of 90 training pairs"]
    assert whole.overlap_warnings == []
    assert prepared(tmp_path, same).overlap_warnings == found.overlap_warnings, "at every start"


def test_of_several_corpora_one_may_lose_everything(tmp_path: Path, sets: dict[str, Any]) -> None:
    """A test set among the training corpora, beside which there is other text."""
    both = {"wide": {"files": sets["train"]}, "old": {"files": sets["test"]}}
    found = prepared(tmp_path, {"train": both, "test": sets["test"]})
    assert [len(corpus) for corpus, _ in found.train] == [81, 0]
    assert [line.partition(",")[0] for line in found.overlap_warnings] == ["train corpus old: nothing is left of it"]
    rows = np.concatenate(list(Batches(found.train, 200, 1).epoch(0)))
    assert sorted(rows.tolist()) == list(range(81))


def test_every_direction_is_compared_with_every_set(tmp_path: Path) -> None:
    """A sentence of the development set from English into German may not be a target, from French, either."""
    entry = load_plugins().registry.get("task", "multilingual")
    train, valid = pairs_of(1, 30), pairs_of(2, 5)
    french = [(f"x {src}", tgt) for src, tgt in pairs_of(5, 30)]
    train[3] = (train[3][0], valid[0][1])
    french[4] = (french[4][0], valid[1][0].upper())
    options = {
        "train": {"a": {"files": write(tmp_path, "a", train), "languages": ["en", "de"]},
                  "b": {"files": write(tmp_path, "b", french), "languages": ["fr", "en"]}},
        "valid": {"v": {"files": write(tmp_path, "v", valid), "languages": ["en", "de"]}},
        "subword": "whitespace",
    }  # fmt: skip
    task = entry.build(entry.config(name="multilingual", **options))
    found = prepare(task, DataConfig(prepared=str(tmp_path / "p"), workers=1))
    lost = {one.name: one.drops.total for one in Manifest.read(found.directory).reports if one.split == "train"}
    assert lost == {"a/en-de": 1, "a/de-en": 1, "b/fr-en": 1, "b/en-fr": 1}
