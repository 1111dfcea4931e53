"""The normalisation in the files of subword models: sentencepiece's own, but without what is invisible."""

from __future__ import annotations

import random
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
import sentencepiece

from s2s.data.invisible import IGNORABLE, KEPT, characters, visible
from s2s_sentencepiece.normalization import visible_normalizer
from s2s_sentencepiece.subwords import Subwords
from s2s_sentencepiece.training import train_subwords
from s2s_synthetic_corpus.generate import pairs

if TYPE_CHECKING:
    from pathlib import Path

ORDINARY = [chr(code) for code in (*range(32, 0x590), *range(0x3040, 0x30FF), *range(0x4E00, 0x4F00))]
SPECIAL = [c for ranges in (IGNORABLE, *(before for before, _ in KEPT)) for c in characters(ranges)]
KEPT_BEHIND = sorted({c for _, kept in KEPT for c in characters(kept)} - {"\u200b"})


@pytest.fixture(scope="module")
def normalizer() -> Any:
    return visible_normalizer()


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    path = tmp_path_factory.mktemp("subwords") / "m"
    train_subwords((side for pair in pairs(1, 500, "train") for side in (pair.en, pair.de)), path, "bpe", 300)
    return Subwords(path)


def texts(n: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    sets = (ORDINARY, SPECIAL, KEPT_BEHIND, ["\u00ad", "\u200b", " ", "a", "e\u0301"])
    return ["".join(draw.choice(draw.choice(sets)) for _ in range(draw.randint(1, 9))) for _ in range(n)]


def test_ordinary_text_is_normalised_as_by_the_library(normalizer: Any) -> None:
    theirs = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    draw = random.Random(1)
    for _ in range(2000):
        text = visible("".join(draw.choices([*ORDINARY, "\u0301", "\ufb01", "\u3000", "\t"], k=12)))
        assert normalizer.Normalize(text) == theirs.Normalize(text)


def test_the_rules_leave_out_what_is_not_visible(normalizer: Any) -> None:
    """But for NFC: a rule cannot compose two characters that are separated by one without meaning."""
    for text in texts(5000, seed=2):
        with_rules, before = (unicodedata.normalize("NFC", normalizer.Normalize(t)) for t in (text, visible(text)))
        assert with_rules == before, ascii(text)


def test_what_carries_meaning_comes_through(normalizer: Any) -> None:
    for text in ("می\u200cخواهم", "ශ\u0dca\u200dරී", "❤\ufe0f\u200d🔥", "ᠨᠢᠭᠡ\u180eᠠ"):
        assert normalizer.Normalize(text) == f"▁{text}"
    assert normalizer.Normalize("ស្ត្រី\u200bខ្មែរ") == "▁ស្ត្រី▁ខ្មែរ"


def test_soft_hyphens_and_joiners_change_no_id(subwords: Subwords) -> None:
    """Over 200 sentences that the model has not seen; in its file, so that the library by itself does the same."""
    library = sentencepiece.SentencePieceProcessor(model_file=str(subwords.path))
    draw = random.Random(3)
    for pair in pairs(1, 200, "test"):
        ids = subwords.encode([pair.en])[0]
        for character in "\u00ad\u200d\u200c\u200b\u2060\ufeff":
            at = draw.randrange(1, len(pair.en))
            text = pair.en[:at] + character + pair.en[at:]
            assert subwords.encode([text])[0] == library.encode(text) == ids
            assert subwords.spell(text) == subwords.spell(pair.en)


def test_they_can_be_kept_as_by_earlier_versions(tmp_path: Path) -> None:
    train_subwords(["a b"], tmp_path / "m", "char", 7, invisible="keep")
    reference = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    assert reference.serialized_normalizer_spec() in (tmp_path / "m").read_bytes()
    assert Subwords(tmp_path / "m").spell("a\u00adb") == " a\u00adb".encode()
