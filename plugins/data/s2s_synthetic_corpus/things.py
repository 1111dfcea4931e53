"""Predicates without an action: properties, locations, owners, ages and prices."""

from __future__ import annotations

__all__ = ["aged", "being", "belonging", "compared", "existing", "lying", "of_thing", "priced", "professional"]

from typing import TYPE_CHECKING

from s2s_synthetic_corpus import english, german
from s2s_synthetic_corpus.determiners import FIXED, INDEFINITE, A, Style
from s2s_synthetic_corpus.german import ACC, DAT, NOM
from s2s_synthetic_corpus.lexicon import BE, BELONG, COST, LIE, NOUNS_OF, PROFESSIONS, STAND, THERE, Adjective, Noun
from s2s_synthetic_corpus.phrases import Phrase, called, noun_phrase
from s2s_synthetic_corpus.places import furniture, place
from s2s_synthetic_corpus.predicates import Predicate

if TYPE_CHECKING:
    from s2s_synthetic_corpus.rng import HashRng


def unsaid(rng: HashRng, phrase: Phrase) -> Adjective:
    """An adjective that the phrase does not already have."""
    assert phrase.noun
    return rng.pick([word for word in phrase.noun.adjectives if word.tree not in phrase.tree])


def being(rng: HashRng, phrase: Phrase) -> Predicate:
    """Is old, is very old, is old and heavy."""
    word, dice = unsaid(rng, phrase), rng.below(100)
    if dice < 18:
        return Predicate(BE, f" (ADJP (RB very) {word.tree})", after=f" sehr {word.base}")
    if dice < 30 and (other := unsaid(rng, phrase)) is not word:
        return Predicate(BE, f" (ADJP {word.tree} (CC and) {other.tree})", after=f" {word.base} und {other.base}")
    return Predicate(BE, f" (ADJP {word.tree})", after=f" {word.base}")


def compared(rng: HashRng, noun: Noun) -> Predicate:
    """Is bigger than, is as big as another of its kind."""
    word = rng.pick([word for word in noun.adjectives if word.more])
    other = noun_phrase(rng, rng.pick(NOUNS_OF[noun.kinds[0]]), NOM, FIXED)
    if other.noun is noun:
        other = noun_phrase(rng, rng.pick(NOUNS_OF[noun.kinds[0]]), NOM, THIS_ONE)
    if rng.chance(70):
        en = f" (ADJP {word.more} (PP (IN than) {other.tree}))"
        return Predicate(BE, en, after=f" {word.mehr} als {other.de}")
    en = f" (ADJP (RB as) {word.tree} (PP (IN as) {other.tree}))"
    return Predicate(BE, en, after=f" so {word.base} wie {other.de}")


THIS_ONE = Style(tuple(choice for choice in FIXED.counted if "this" in choice[0].english[0]), FIXED.mass)


def aged(rng: HashRng) -> Predicate:
    """Is twenty-one years old; numbers up to 99, in words or digits."""
    n = 2 + rng.below(98)
    word, wort = (str(n), str(n)) if rng.chance(30) else (english.cardinal(n), german.cardinal(n))
    return Predicate(BE, f" (ADJP (NP (CD {word}) (NNS years)) (JJ old))", after=f" {wort} Jahre alt")


def priced(rng: HashRng, noun: Noun) -> Predicate:
    """Costs 1,250 euros; the thousands separator is a comma in English and a point in German."""
    n = 50 * (1 + rng.below(90)) if set(noun.kinds) & set("VEK") else 5 * (1 + rng.below(19))
    return Predicate(COST, f" (NP (CD {n:,}) (NNS euros))", after=f" {german.thousands(n)} Euro")


def lying(rng: HashRng, noun: Noun) -> Predicate:
    """Lies on the table, stands behind the chair, is in the garden."""
    if "L" in noun.kinds or "S" in noun.kinds:
        en, de = furniture(rng, DAT)
        return Predicate(LIE if "L" in noun.kinds else STAND, en, after=de)
    en, de = place(rng)
    return Predicate(BE, en, after=de)


def belonging(rng: HashRng) -> Predicate:
    """Belongs to somebody: a dative in German."""
    owner = called(rng) if rng.chance(35) else noun_phrase(rng, rng.pick(NOUNS_OF["P"]), DAT, FIXED)
    return Predicate(BELONG, f" (PP (TO to) {owner.tree})", before=f" {owner.de}")


def of_thing(rng: HashRng, phrase: Phrase, tense: str) -> Predicate:
    """A predicate that fits a thing in this tense."""
    noun, dice = phrase.noun, rng.below(100)
    assert noun
    if dice < 25 and tense in ("present", "future") and set(noun.kinds) & set("SLCVKE"):
        return priced(rng, noun)
    if dice < 40 and set(noun.kinds) & set("BSLCVGAI"):
        return belonging(rng)
    if dice < 60 and set(noun.kinds) & set("SLGCV"):
        return lying(rng, noun)
    return being(rng, phrase)


def professional(rng: HashRng) -> Predicate:
    """Is a teacher: German has no article, except with an adjective."""
    noun = rng.pick(PROFESSIONS)
    if rng.chance(50):
        return Predicate(BE, f" (NP (DT a) {noun.trees[0]})", after=f" {noun.forms[0][NOM]}")
    word = rng.pick(noun.adjectives)
    article = "an" if word.vowel else "a"
    de = f" {A.forms[0][NOM]}{word.stem}{A.endings[0][NOM]} {noun.forms[0][NOM]}"
    return Predicate(BE, f" (NP (DT {article}) {word.tree} {noun.trees[0]})", after=de)


def existing(rng: HashRng) -> tuple[Predicate, int]:
    """What exists and where, and the person with which the English verb agrees."""
    what = noun_phrase(rng, rng.pick(NOUNS_OF[rng.pick("PPASLKMB")]), ACC, INDEFINITE)
    en, de = place(rng, what.noun.kinds if what.noun else "P")
    return Predicate(THERE, f" {what.tree}{en}", after=f"{de} {what.de}"), what.person
