"""What a task need not write itself, with a task whose tokens are letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.capital_tasks import WithoutFiles
from harness.word_numbers import word_numbers
from s2s.registry import Choice
from s2s.task import Encoded, Example, Vocab

if TYPE_CHECKING:
    from collections.abc import Sequence


class Letters(WithoutFiles):
    """A token is a letter with the spaces before it; id 1 writes nothing, 2 a space."""

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return []

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [[ord(letter) for letter in line if letter != " "] for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join({1: "", 2: " "}.get(i, chr(i)) for i in ids)


TASK = Letters(Choice())


def test_a_source_token_belongs_to_the_word_in_which_its_beginning_ends() -> None:
    assert TASK.source_offsets("ab c  def") == [(0, 2), (0, 2), (3, 4), (6, 9), (6, 9), (6, 9)]
    assert TASK.source_offsets("a") == [(0, 1)]


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ([], []),
        ([97], [0]),
        ([97, 98, 2, 99], [0, 0, 1, 1]),
        ([1, 97, 2, 1, 98, 99], [0, 0, 1, 1, 1, 1]),
        ([2, 97], [0, 0]),
        ([97, 1], [0, 0]),
        ([97, 2], [0, 0]),
        ([1, 1], [0, 0]),
    ],
)
def test_a_target_token_belongs_to_its_word_and_one_that_writes_nothing_to_the_next(
    output: list[int], words: list[int]
) -> None:
    assert word_numbers(TASK.detokenize(output, ""), TASK.target_offsets(output, "")) == words


def test_the_rest_leaves_things_as_they_are() -> None:
    assert TASK.pieces([97, 2, 98], "") == ["a", " ", "b"]
    assert TASK.source_text([97]) == ""
    assert TASK.vocabulary("src") is None
    assert TASK.read_raw("a b") == TASK.as_object("a b") == "a b"
    assert not TASK.running_text


def test_tags_are_the_first_ids_after_the_special_ones() -> None:
    assert Vocab(src=9, tgt=9, tags=2).tag_ids == range(4, 6)
    assert Vocab(src=9, tgt=9, tags=1, pad=5, unk=2, bos=0, eos=1).tag_ids == range(6, 7)


def test_a_vocabulary_has_four_special_ids_and_no_more_than_it_is_given() -> None:
    vocab = Vocab(src=9, tgt=8)
    assert (vocab.pad, vocab.unk, vocab.bos, vocab.eos) == (0, 1, 2, 3)
    assert (vocab.joint, vocab.tags, list(vocab.labels), list(vocab.tag_ids)) == (False, 0, [], [])


def test_vocabularies_are_equal_whatever_guides_them() -> None:
    guide: Any = object()
    assert Vocab(src=9, tgt=8, guide=guide) == Vocab(src=9, tgt=8) != Vocab(src=9, tgt=9)
    assert "guide" not in repr(Vocab(src=9, tgt=8, guide=guide))
