"""Stories of people who move around and carry things, and questions about them, generated from a seed."""

from __future__ import annotations

__all__ = ["Generated", "Story", "story"]

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import Corpus, Example

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s_stories import GeneratedConfig

PEOPLE = ("Nadia", "Otto", "Wen", "Amara")
PLACES = ("kitchen", "garden", "cellar", "library", "workshop", "attic")
THINGS = ("lamp", "melon", "hammer")
GOES = ("walks to", "goes to", "hurries to")
TAKES = ("picks up", "takes")
LEAVES = ("puts down", "leaves")
SHARE_OF_WALKS = 0.6


class Story(NamedTuple):
    """A story with its question."""

    sentences: list[str]
    question: str
    answer: str
    support: tuple[int, ...]
    """The sentences that the answer depends on, in order, from 0"""

    @property
    def text(self) -> str:
        """All on one line, the question last."""
        return " ".join([*self.sentences, self.question])


class Fact(NamedTuple):
    """A fact, and the sentence that made it true."""

    what: str
    sentence: int


class Asked(NamedTuple):
    """A question, its answer, and the sentences that the answer depends on."""

    question: str
    answer: str
    support: tuple[int, ...]


@dataclass
class Thing:
    """Where a thing has been."""

    holder: str | None = None
    changed: int = -1
    """The sentence in which it was last taken or put down"""
    left: Fact | None = None
    """Where it was put down, which depends on where that person was"""
    takes: list[int] = field(default_factory=list)
    visits: list[Fact] = field(default_factory=list)
    """Places, each with the sentence in which its holder arrived there"""


class World:
    """What happened so far."""

    def __init__(self, draw: random.Random, n_facts: int) -> None:
        self.draw, self.n_facts = draw, n_facts
        self.sentences: list[str] = []
        self.people: dict[str, Fact] = {}
        self.things = {name: Thing() for name in THINGS}

    def go_on(self) -> None:
        """Add one more sentence."""
        choices = self._handlings() if self.n_facts > 1 else []
        if choices and self.draw.random() > SHARE_OF_WALKS:
            person, verbs, name = self.draw.choice(choices)
            self._handle(person, name, takes=verbs is TAKES)
            self._say(f"{person} {self.draw.choice(verbs)} the {name}.")
            return
        person = self.draw.choice(PEOPLE)
        here = self.people.get(person)
        place = self.draw.choice([place for place in PLACES if not here or place != here.what])
        self.people[person] = Fact(place, len(self.sentences))
        for thing in self.things.values():
            if thing.holder == person:
                thing.visits.append(self.people[person])
        self._say(f"{person} {self.draw.choice(GOES)} the {place}.")

    def questions(self) -> list[Asked]:
        """The questions that have an answer at this point of the story."""
        ask = (self._people, self._things, self._earlier_places)[self.n_facts - 1]
        return ask()

    def _say(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def _handlings(self) -> list[tuple[str, tuple[str, ...], str]]:
        """Who may take or leave what: things lie where they were left, or anywhere until someone takes them."""
        free: list[tuple[str, tuple[str, ...], str]] = [
            (person, TAKES, name)
            for person, here in self.people.items()
            for name, thing in self.things.items()
            if thing.holder is None and (not thing.visits or thing.visits[-1].what == here.what)
        ]
        return free + [(thing.holder, LEAVES, name) for name, thing in self.things.items() if thing.holder]

    def _handle(self, person: str, name: str, *, takes: bool) -> None:
        thing, here = self.things[name], self.people[person]
        thing.holder, thing.changed = person if takes else None, len(self.sentences)
        if takes:
            thing.takes.append(len(self.sentences))
            thing.visits = thing.visits or [here]
        else:
            thing.left = here

    def _people(self) -> list[Asked]:
        return [Asked(f"Where is {name}?", here.what, (here.sentence,)) for name, here in self.people.items()]

    def _things(self) -> list[Asked]:
        """Questions for the place of a thing, from who had it last and where that person was."""
        asked = []
        for name, thing in self.things.items():
            here = self.people[thing.holder] if thing.holder else thing.left
            if here:
                support = tuple(sorted((thing.changed, here.sentence)))
                asked.append(Asked(f"Where is the {name}?", here.what, support))
        return asked

    def _earlier_places(self) -> list[Asked]:
        """Questions for the place of a thing before it last arrived at another."""
        asked = []
        for name, thing in self.things.items():
            places = [visit.what for visit in thing.visits]
            for n in range(1, len(places)):
                if places[n] not in places[n + 1 :]:
                    before, later = thing.visits[n - 1], thing.visits[n]
                    take = max(sentence for sentence in thing.takes if sentence < later.sentence)
                    support = tuple(sorted((before.sentence, take, later.sentence)))
                    asked.append(Asked(f"Where was the {name} before the {later.what}?", before.what, support))
        return asked


def story(draw: random.Random, n_facts: int, n_sentences: int) -> Story:
    """A story of 2 to `n_sentences` sentences, or more until `n_facts` of them answer a question."""
    world, length = World(draw, n_facts), draw.randint(2, max(2, n_sentences))
    while len(world.sentences) < length or not world.questions():
        world.go_on()
    return Story(world.sentences, *draw.choice(world.questions()))


class Generated(Corpus):
    """Stories drawn for each split from its own random generator; training has none of the held-out ones."""

    def __init__(self, config: GeneratedConfig) -> None:
        self.config = config

    def examples(self, split: str) -> Iterator[Example]:
        """Texts and answers."""
        if split != "train":
            for one in self._drawn(split, self.config.held_out):
                yield Example(one.text, one.answer)
            return
        held_out = {one.text for other in ("valid", "test") for one in self._drawn(other, self.config.held_out)}
        for one in self._drawn(split, self.config.stories):
            if one.text not in held_out:
                yield Example(one.text, one.answer)

    def settings(self) -> dict[str, Any]:
        """All options."""
        return {key: value for key, value in vars(self.config).items() if key != "name"}

    def _drawn(self, split: str, n: int) -> Iterator[Story]:
        draw = random.Random(f"{self.config.seed} {self.config.facts} {split}")
        for _ in range(n):
            yield story(draw, self.config.facts, self.config.sentences)
