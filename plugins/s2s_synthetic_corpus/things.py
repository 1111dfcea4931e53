"""What is said without an action: how something is, where it lies, whose it is, how old it is, what it costs."""

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
    from s2s_synthetic_corpus.draws import Draws


def unsaid(draws: Draws, phrase: Phrase) -> Adjective:
    """An adjective that the phrase does not have already."""
    assert phrase.noun
    return draws.pick([word for word in phrase.noun.adjectives if word.tree not in phrase.tree])


def being(draws: Draws, phrase: Phrase) -> Predicate:
    """Is old, is very old, is old and heavy."""
    word, dice = unsaid(draws, phrase), draws.below(100)
    if dice < 18:
        return Predicate(BE, f" (ADJP (RB very) {word.tree})", after=f" sehr {word.base}")
    if dice < 30 and (other := unsaid(draws, phrase)) is not word:
        return Predicate(BE, f" (ADJP {word.tree} (CC and) {other.tree})", after=f" {word.base} und {other.base}")
    return Predicate(BE, f" (ADJP {word.tree})", after=f" {word.base}")


def compared(draws: Draws, noun: Noun) -> Predicate:
    """Is bigger than, is as big as another of its kind."""
    word = draws.pick([word for word in noun.adjectives if word.more])
    other = noun_phrase(draws, draws.pick(NOUNS_OF[noun.kinds[0]]), NOM, FIXED)
    if other.noun is noun:
        other = noun_phrase(draws, draws.pick(NOUNS_OF[noun.kinds[0]]), NOM, THIS_ONE)
    if draws.chance(70):
        en = f" (ADJP {word.more} (PP (IN than) {other.tree}))"
        return Predicate(BE, en, after=f" {word.mehr} als {other.de}")
    en = f" (ADJP (RB as) {word.tree} (PP (IN as) {other.tree}))"
    return Predicate(BE, en, after=f" so {word.base} wie {other.de}")


THIS_ONE = Style(tuple(choice for choice in FIXED.counted if "this" in choice[0].english[0]), FIXED.mass)


def aged(draws: Draws) -> Predicate:
    """Is twenty-one years old; numbers up to 99, as words or digits."""
    n = 2 + draws.below(98)
    word, wort = (str(n), str(n)) if draws.chance(30) else (english.cardinal(n), german.cardinal(n))
    return Predicate(BE, f" (ADJP (NP (CD {word}) (NNS years)) (JJ old))", after=f" {wort} Jahre alt")


def priced(draws: Draws, noun: Noun) -> Predicate:
    """Costs 1,250 euros; thousands are parted by a comma in English and a point in German."""
    n = 50 * (1 + draws.below(90)) if set(noun.kinds) & set("VEK") else 5 * (1 + draws.below(19))
    return Predicate(COST, f" (NP (CD {n:,}) (NNS euros))", after=f" {german.thousands(n)} Euro")


def lying(draws: Draws, noun: Noun) -> Predicate:
    """Lies on the table, stands behind the chair, is in the garden."""
    if "L" in noun.kinds or "S" in noun.kinds:
        en, de = furniture(draws, DAT)
        return Predicate(LIE if "L" in noun.kinds else STAND, en, after=de)
    en, de = place(draws)
    return Predicate(BE, en, after=de)


def belonging(draws: Draws) -> Predicate:
    """Belongs to somebody: a dative in German."""
    owner = called(draws) if draws.chance(35) else noun_phrase(draws, draws.pick(NOUNS_OF["P"]), DAT, FIXED)
    return Predicate(BELONG, f" (PP (TO to) {owner.tree})", before=f" {owner.de}")


def of_thing(draws: Draws, phrase: Phrase, tense: str) -> Predicate:
    """Something that is said of a thing in this tense."""
    noun, dice = phrase.noun, draws.below(100)
    assert noun
    if dice < 25 and tense in ("present", "future") and set(noun.kinds) & set("SLCVKE"):
        return priced(draws, noun)
    if dice < 40 and set(noun.kinds) & set("BSLCVGAI"):
        return belonging(draws)
    if dice < 60 and set(noun.kinds) & set("SLGCV"):
        return lying(draws, noun)
    return being(draws, phrase)


def professional(draws: Draws) -> Predicate:
    """Is a teacher, which German says without an article, unless it is an old one."""
    noun = draws.pick(PROFESSIONS)
    if draws.chance(50):
        return Predicate(BE, f" (NP (DT a) {noun.trees[0]})", after=f" {noun.forms[0][NOM]}")
    word = draws.pick(noun.adjectives)
    article = "an" if word.vowel else "a"
    de = f" {A.forms[0][NOM]}{word.stem}{A.endings[0][NOM]} {noun.forms[0][NOM]}"
    return Predicate(BE, f" (NP (DT {article}) {word.tree} {noun.trees[0]})", after=de)


def existing(draws: Draws) -> tuple[Predicate, int]:
    """What there is, and where; and the person that the English verb agrees with."""
    what = noun_phrase(draws, draws.pick(NOUNS_OF[draws.pick("PPASLKMB")]), ACC, INDEFINITE)
    en, de = place(draws, what.noun.kinds if what.noun else "P")
    return Predicate(THERE, f" {what.tree}{en}", after=f"{de} {what.de}"), what.person
