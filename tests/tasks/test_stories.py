"""Stories: answers that follow from their supporting sentences, the task, files of bAbI, accuracy."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from s2s.errors import ConfigError, DataError
from s2s.plugin import load_plugins
from s2s.task import Example, Rejected
from s2s_metrics import WordsConfig
from s2s_metrics.words import Accuracy
from s2s_stories import BabiConfig, GeneratedConfig, StoriesConfig
from s2s_stories.babi import Babi
from s2s_stories.generator import PEOPLE, PLACES, THINGS, Generated, Story, story
from s2s_stories.task import Stories, tokens
from s2s_testing import check_task

if TYPE_CHECKING:
    from pathlib import Path


def places_of(one: Story, name: str) -> list[str]:
    """Where a person or a thing was, one place after the other, from the sentences alone."""
    people: dict[str, str] = {}
    holder: dict[str, str | None] = {}
    visited: list[str] = []
    for sentence in one.sentences:
        person, *_, last = sentence.rstrip(".").split()
        if last in PLACES:
            people[person] = last
            moved = name == person or holder.get(name) == person
        else:
            left = "puts down" in sentence or "leaves" in sentence
            holder[last] = None if left else person
            moved = name == last and not left and visited[-1:] != [people[person]]
        if moved:
            visited.append(people[person])
    return visited


@pytest.mark.parametrize("facts", [1, 2, 3])
def test_answers_are_what_happened(facts: int) -> None:
    draw = random.Random(facts)
    for one in (story(draw, facts, 9) for _ in range(200)):
        asked = re.findall(r"\w+", one.question)
        (name,) = [name for name in (*PEOPLE, *THINGS) if name in asked]
        visited = places_of(one, name)
        if facts == 3:
            last = len(visited) - 1 - visited[::-1].index(asked[-1])
            assert one.answer == visited[last - 1]
        else:
            assert one.answer == visited[-1]


@pytest.mark.parametrize("facts", [1, 2, 3])
def test_the_supporting_sentences_alone_give_the_answer(facts: int) -> None:
    draw = random.Random(facts)
    for one in (story(draw, facts, 9) for _ in range(100)):
        assert sorted(set(one.support)) == list(one.support)
        assert len(one.support) == facts
        named = [word.rstrip(".") for i in one.support for word in one.sentences[i].split()]
        assert one.answer in named
        if facts > 1:
            assert any(thing in named and thing in one.question for thing in THINGS)


def test_training_has_none_of_the_held_out_stories_and_depends_on_the_seed() -> None:
    config = GeneratedConfig(name="stories", stories=500, held_out=200, sentences=2)
    corpus = Generated(config)
    train, valid, test = (list(corpus.examples(split)) for split in ("train", "valid", "test"))
    assert len(valid) == len(test) == 200
    assert not {one.src for one in train} & {one.src for one in (*valid, *test)}
    assert train == list(corpus.examples("train"))
    assert train != list(Generated(GeneratedConfig(name="stories", stories=500, seed=2)).examples("train"))


def test_it_is_a_task(tmp_path: Path) -> None:
    entry = load_plugins().registry.get("task", "stories")
    check_task(entry, StoriesConfig(name="stories", stories=60, facts=3), tmp_path)


def test_sentences_are_the_units_of_a_source(tmp_path: Path) -> None:
    text = "Nadia walks to the well-kept garden. Otto's here! Where is Nadia?"
    assert [word for word, _ in tokens(text)] == [
        *("<sentence>", "Nadia", "walks", "to", "the", "well-kept", "garden"),
        *("<sentence>", "Otto's", "here", "<sentence>", "Where", "is", "Nadia"),
    ]
    task = Stories(StoriesConfig(name="stories", stories=60))
    task.learn(tmp_path)
    (ids,) = task.encode_source(["Nadia walks to the garden. Where is Nadia?"])
    assert [n for n, i in enumerate(ids) if task.vocab.word_begins[i]] == [0, 6]
    assert task.source_text(ids) == "Nadia walks to the garden. Where is Nadia."


BABI = """1 Mary went to the office.
2 John moved to the hallway.
3 Where is Mary? \toffice\t1
4 Mary journeyed to the garden.
5 Where is Mary? \tgarden\t4
1 John went to the kitchen.
2 Where is John?\tkitchen\t1
"""


def test_files_of_babi_are_read(tmp_path: Path) -> None:
    path = tmp_path / "qa1_train.txt"
    path.write_text(BABI, encoding="utf-8")
    first = "Mary went to the office. John moved to the hallway."
    assert list(Babi(BabiConfig(name="babi", files=[str(path)])).examples("train")) == [
        Example(f"{first} Where is Mary?", "office"),
        Example(f"{first} Mary journeyed to the garden. Where is Mary?", "garden"),
        Example("John went to the kitchen. Where is John?", "kitchen"),
    ]
    path.write_text(BABI + "no number\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 8: expected a number"):
        list(Babi(BabiConfig(name="babi", files=[str(path)])).examples("train"))
    *_, last = Babi(BabiConfig(name="babi", files=[str(path)], invalid="drop")).examples("train")
    assert isinstance(last, Rejected)


def test_accuracy_counts_answers_that_equal_a_reference() -> None:
    accuracy = Accuracy(WordsConfig(name="accuracy"))
    score = accuracy(["garden", "attic ", "lamp", "a b"], [["garden", "attic", "melon", "a  b"]], samples=100)
    assert score.value == 75
    assert score.signature == "accuracy|nrefs:1|bs:100|seed:12345"
    assert score.low is not None
    assert score.high is not None
    assert score.low <= 75 <= score.high
    assert accuracy(["x"], [["y"], ["x"]]).value == 100


def test_held_out_stories_need_training_stories() -> None:
    with pytest.raises(ConfigError, match=r"without task\.train"):
        StoriesConfig(name="stories", valid="dev.tsv")
