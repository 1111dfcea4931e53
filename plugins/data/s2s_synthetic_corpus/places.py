"""Locations and directions: prepositions with their cases, chosen by the noun, and contractions."""

from __future__ import annotations

__all__ = ["direction", "furniture", "place", "preposed"]

from typing import TYPE_CHECKING

from s2s_synthetic_corpus.determiners import PLACED
from s2s_synthetic_corpus.german import ACC, DAT, contract
from s2s_synthetic_corpus.lexicon import NOUNS_OF, PLACES, WILD_PLACES, Verb
from s2s_synthetic_corpus.nouns import CITIES
from s2s_synthetic_corpus.phrases import Phrase, noun_phrase

if TYPE_CHECKING:
    from s2s_synthetic_corpus.rng import HashRng


def preposed(preposition: str, tree: str) -> str:
    """An English prepositional phrase, with a space before it."""
    tag = "TO" if preposition == "to" else "IN"
    return f" (PP ({tag} {preposition}) {tree})" if preposition else f" {tree}"


BESIDE = (("behind", "hinter"), ("next", "neben"), ("front", "vor"))
UNDER = ("under", "unter")


def beside(english: str, german: str, phrase: Phrase) -> tuple[str, str]:
    """Behind, next to or in front of something, or under it."""
    if english == "next":
        return f" (ADVP (JJ next) (PP (TO to) {phrase.tree}))", f" {german} {phrase.de}"
    if english == "front":
        return f" (PP (IN in) (NP (NP (NN front)) (PP (IN of) {phrase.tree})))", f" {german} {phrase.de}"
    return f" (PP (IN {english}) {phrase.tree})", f" {german} {phrase.de}"


def place(rng: HashRng, kind: str = "P") -> tuple[str, str]:
    """Where something of a kind may be: in Vienna, in the old garden, at the station, behind the house."""
    dice = rng.below(100)
    if dice < 10 and kind == "P":
        en, de = rng.pick(CITIES)
        return f" (PP (IN in) (NP (NNP {en})))", f" in {de}"
    noun = rng.pick(WILD_PLACES if kind == "A" else PLACES)
    if dice < 25 and "H" in noun.kinds:
        return beside(*rng.pick(BESIDE), noun_phrase(rng, noun, DAT, PLACED))
    phrase = noun_phrase(rng, noun, DAT, PLACED)
    return preposed(noun.place[0], phrase.tree), f" {contract(noun.place[1], phrase.de)}"


def furniture(rng: HashRng, case: int) -> tuple[str, str]:
    """On, under, next to a piece of furniture: the dative for a location, the accusative for a direction."""
    noun = rng.pick(NOUNS_OF["K"])
    phrase = noun_phrase(rng, noun, case, PLACED)
    if rng.chance(55):
        en, de = noun.place
        return preposed(en, phrase.tree), f" {contract(de, phrase.de)}"
    return beside(*rng.pick((*BESIDE, UNDER)), phrase)


def direction(rng: HashRng, verb: Verb, kind: str) -> tuple[str, str]:
    """Home, to Rome, into the garden, to the station; from Rome, from the station."""
    dice, away = rng.below(100), "k" in verb.marks and rng.chance(40)
    if dice < 30 and kind == "P":
        en, de = rng.pick(CITIES)
        return preposed("from" if away else "to", f"(NP (NNP {en}))"), f" aus {de}" if away else f" nach {de}"
    if away:
        noun = rng.pick(TOWARDS[kind])
        phrase = noun_phrase(rng, noun, DAT, PLACED)
        return preposed("from", phrase.tree), f" {contract('aus' if noun.place[1] == 'in' else 'von', phrase.de)}"
    if dice < 45:
        return " (ADVP (NN home))", " nach Hause"
    if dice < 70 and "v" not in verb.marks:
        phrase = noun_phrase(rng, rng.pick(INSIDE[kind]), ACC, PLACED)
        return preposed("into", phrase.tree), f" {contract('in', phrase.de)}"
    phrase = noun_phrase(rng, rng.pick(TOWARDS[kind]), DAT, PLACED)
    return preposed("to", phrase.tree), f" {contract('zu', phrase.de)}"


WHERE = {"P": PLACES, "A": WILD_PLACES}
INSIDE = {kind: tuple(noun for noun in places if noun.place[0] == "in") for kind, places in WHERE.items()}
NO_GOAL = ("Stadt", "Zimmer", "Küche", "Wald", "Straße")
TOWARDS = {kind: tuple(noun for noun in places if noun.forms[0][0] not in NO_GOAL) for kind, places in WHERE.items()}
