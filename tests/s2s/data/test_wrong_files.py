"""Files in the wrong places are noticed before training, and right ones are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.tiny_runs import train_tiny
from s2s.data.wrong_files import wrong_file_signs
from s2s_synthetic_corpus.generate import pairs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

PAIRS = [(one.en, one.de) for one in pairs(1, 300)]
TRAIN, VALID = PAIRS[:240], PAIRS[240:]
SWAPPED = "the development sources look like training targets, and not like training sources: are the files swapped?"


def signs(train: Sequence[tuple[str, str]], *valid: Sequence[tuple[str, str]], shown: bool = True) -> list[str]:
    """Of corpora whose ids are the characters' numbers."""

    def text(ids: list[int], src: str = "") -> str:
        return "".join(map(chr, ids))

    def corpus(texts: Sequence[tuple[str, str]]) -> list[tuple[Any, ...]]:
        return [tuple(np.array(list(map(ord, side))) for side in pair) for pair in texts]

    task: Any = SimpleNamespace(source_text=text if shown else lambda ids: "", detokenize=text)
    data: Any = SimpleNamespace(train=[(corpus(train), 1.0)], valid=[corpus(each) for each in valid])
    return wrong_file_signs(task, data)


def test_right_files_have_no_signs() -> None:
    assert signs(TRAIN, VALID) == []
    assert signs(TRAIN) == []
    assert signs([(src, src.upper()) for src, _ in TRAIN], [(src, src.upper()) for src, _ in VALID]) == []


def test_swapped_development_files_are_noticed_once() -> None:
    swapped = [(tgt, src) for src, tgt in VALID]
    assert signs(TRAIN, VALID, swapped, swapped) == [SWAPPED]
    assert signs(TRAIN, [(tgt, src) for src, tgt in VALID[:10]]) == [], "too few to tell"
    assert signs(TRAIN, swapped, shown=False) == [], "sources that are not known as text"


def test_the_same_file_on_both_sides_is_noticed() -> None:
    same, valid = [(src, src) for src, _ in TRAIN], [(tgt, tgt) for _, tgt in VALID]
    assert signs(same, VALID) == ["source equals target in 240 of 240 training pairs that were looked at"]
    assert signs(TRAIN, valid) == ["source equals target in 60 of 60 development pairs that were looked at"]
    assert signs([*TRAIN[:200], *same[:40]], VALID) == []


def test_sides_in_one_language_cannot_be_told_apart() -> None:
    one_language = [(src, " ".join(src.split()[::-1])) for src, _ in PAIRS]
    assert signs(one_language[:240], [(tgt, src) for src, tgt in one_language[240:]]) == []


def test_a_header_line_is_noticed() -> None:
    said = "the first training pair is 'Source' and 'target': if that is a header line, remove it"
    assert signs([("Source", "target"), *TRAIN], VALID) == [said]
    assert signs([*TRAIN, ("Source", "target")], VALID) == [], "a word in the middle"
    assert signs([("source", "die Quelle"), *TRAIN], VALID) == []


def test_training_begins_with_the_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_tiny(tmp_path, "task.valid=[a.de,a.en]", "valid.score=false")
    assert capsys.readouterr().err.count(SWAPPED) == 1
