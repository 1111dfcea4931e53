"""The part of a vocabulary that a model uses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from s2s.vocab import Vocab


def test_special_tokens_come_first_and_everything_else_is_left_out() -> None:
    vocab = Vocab(src=9, tgt=8)
    assert (vocab.src, vocab.tgt) == (9, 8)
    assert (vocab.pad, vocab.unk, vocab.bos, vocab.eos) == (0, 1, 2, 3)
    assert (vocab.joint, vocab.tags, vocab.guide) == (False, 0, None)
    assert (len(vocab.word_begins), len(vocab.unknown), len(vocab.labels)) == (0, 0, 0)


@pytest.mark.parametrize(("tags", "eos", "ids"), [(0, 3, []), (2, 3, [4, 5]), (2, 6, [7, 8])])
def test_tags_are_the_first_ids_behind_the_special_ones(tags: int, eos: int, ids: list[int]) -> None:
    assert list(Vocab(src=9, tgt=9, tags=tags, eos=eos).tag_ids) == ids


def test_a_guide_of_the_search_makes_no_other_vocabulary() -> None:
    guide: Any = SimpleNamespace(n_places=2)
    assert Vocab(src=9, tgt=8, guide=guide) == Vocab(src=9, tgt=8) != Vocab(src=9, tgt=9)
    assert repr(Vocab(src=9, tgt=8, guide=guide)) == repr(Vocab(src=9, tgt=8))
