"""Noun phrases in both languages: articles, adjectives, numbers, pronouns, names, possession, coordination.

The English is a bracketing, the German is text in the given case.
"""

from __future__ import annotations

__all__ = ["Phrase", "both", "called", "described", "each_one", "noun_phrase", "pronoun"]

from typing import TYPE_CHECKING, NamedTuple

from s2s_synthetic_corpus import english, german
from s2s_synthetic_corpus.determiners import BARE, FIXED, NUMBER, A, Style
from s2s_synthetic_corpus.lexicon import NOUNS_OF, Noun
from s2s_synthetic_corpus.nouns import NAMES

if TYPE_CHECKING:
    from s2s_synthetic_corpus.rng import HashRng

THIRD, THEY, WE = 2, 5, 3


class Phrase(NamedTuple):
    """A noun phrase."""

    tree: str
    de: str
    person: int = THIRD
    """I, you, he, we, (unused), they."""
    light: bool = False
    """A pronoun, which comes early in a German clause."""
    definite: bool = True
    """It precedes the adverbs and nicht."""
    kein: bool = False
    """It carries the negation."""
    heavy: bool = False
    """It ends in a clause, so that nothing that could be read as part of it may follow."""
    noun: Noun | None = None
    """Its noun, to which a relative clause or a pronoun can refer."""
    gender: int = 0


PRONOUNS = tuple(
    tuple(Phrase(f"(NP (PRP {en}))", de, person, light=True) for en, de, person in row)
    for row in (
        [("I", "ich", 0), ("you", "du", 1), ("he", "er", 2), ("she", "sie", 2), ("we", "wir", 3), ("they", "sie", 5)],
        [
            ("me", "mich", 0),
            ("you", "dich", 1),
            ("him", "ihn", 2),
            ("her", "sie", 2),
            ("us", "uns", 3),
            ("them", "sie", 5),
        ],
        [
            ("me", "mir", 0),
            ("you", "dir", 1),
            ("him", "ihm", 2),
            ("her", "ihr", 2),
            ("us", "uns", 3),
            ("them", "ihnen", 5),
        ],
    )
)
SPEAKER = (0, WE)


def pronoun(rng: HashRng, case: int, who: int = THIRD) -> Phrase:
    """A pronoun that does not refer to the subject `who`: reflexives are verbs of their own."""
    found = rng.pick(PRONOUNS[case])
    again = (found.person == who and who != THIRD) or (found.person in SPEAKER and who in SPEAKER)
    return PRONOUNS[case][2] if again and case else found


def called(rng: HashRng) -> Phrase:
    """A name."""
    name = rng.pick(NAMES)
    return Phrase(f"(NP (NNP {name}))", name)


def described(rng: HashRng, noun: Noun) -> tuple[str, bool, tuple[str, ...]]:
    """Adjectives: their leaves, whether the article is “an”, and their German stems; often none."""
    dice = rng.below(100)
    if dice >= 36 or not noun.adjectives:
        return "", noun.vowel, ()
    first = rng.pick(noun.adjectives)
    if dice >= 9 or not noun.colours:
        if dice < 5:
            return f"(ADJP (RB very) {first.tree}) ", False, (f"sehr {first.stem}",)
        return f"{first.tree} ", first.vowel, (first.stem,)
    second = rng.pick(noun.colours)
    if dice < 4:
        return f"{second.tree} ", False, (second.stem,)
    return f"{first.tree} {second.tree} ", first.vowel, (first.stem, second.stem)


def counted(rng: HashRng) -> tuple[str, str]:
    """A number, in words or digits: most are small."""
    n = 2 + rng.below(11 if rng.chance(60) else 98)
    if n > 12 and rng.chance(40):
        return str(n), str(n)
    return english.cardinal(n), german.cardinal(n)


def noun_phrase(rng: HashRng, noun: Noun, case: int, style: Style) -> Phrase:
    """A determiner, adjectives that agree with it, and the noun."""
    determiner, plural = rng.pick(style.mass if noun.mass else style.counted)
    gender = german.PLURAL if plural else noun.gender
    leaves, vowel, stems = described(rng, noun)
    article, artikel = determiner.english[plural], determiner.forms[gender][case]
    if determiner is NUMBER:
        article, artikel = counted(rng)
        article, artikel = f"(CD {article}) ", f"{artikel} "
    elif vowel and determiner.indefinite and article:
        article = "(DT an) "
    ending = determiner.endings[gender][case]
    words = "".join([f"{stem}{ending} " for stem in stems])
    return Phrase(
        f"(NP {article}{leaves}{noun.trees[plural]})",
        f"{artikel}{words}{noun.forms[plural][case]}",
        THEY if plural else THIRD,
        False,
        determiner.definite,
        determiner.kein,
        False,
        noun,
        gender,
    )


def with_possessor(rng: HashRng, noun: Noun, case: int) -> Phrase:
    """The king's old dog, with des Königs after it; Anna's old dog, with Annas before it."""
    leaves, _, stems = described(rng, noun)
    plural = rng.chance(20) and not noun.mass
    gender = german.PLURAL if plural else noun.gender
    ending = BARE.endings[gender][case]
    if rng.chance(50):
        name = rng.pick(NAMES)
        owner, before, after = f"(NNP {name})", f"{name}s ", ""
    else:
        possessor = noun_phrase(rng, rng.pick(NOUNS_OF["P"]), german.GEN, FIXED_ONE)
        owner, after = possessor.tree[4:-1], f" {possessor.de}"
        before = f"{german.DEFINITE[gender][case]} "
        ending = german.WEAK[gender][case]
    words = "".join([f"{stem}{ending} " for stem in stems])
    tree = f"(NP (NP {owner} (POS 's)) {leaves}{noun.trees[plural]})"
    de = f"{before}{words}{noun.forms[plural][case]}{after}"
    return Phrase(tree, de, THEY if plural else THIRD)


FIXED_ONE = Style(tuple(choice for choice in FIXED.counted if not choice[1]), FIXED.mass)


def with_part(rng: HashRng, noun: Noun, case: int) -> Phrase:
    """The door of the old house: a part and what it is a part of."""
    part = noun_phrase(rng, noun, case, THE_ONE)
    whole = noun_phrase(rng, rng.pick(BUILDINGS), german.GEN, FIXED)
    tree = f"(NP {part.tree} (PP (IN of) {whole.tree}))"
    return Phrase(tree, f"{part.de} {whole.de}")


THE_ONE = Style(FIXED.counted[:1], FIXED.mass)
BUILDINGS = tuple(noun for noun in NOUNS_OF["H"] if noun.place and noun.place[0] == "in")


def with_clothes(rng: HashRng, noun: Noun, case: int, style: Style) -> Phrase:
    """The man with the red hat: clothes modify the person, not the action."""
    wearer = noun_phrase(rng, noun, case, style)
    clothes = noun_phrase(rng, rng.pick(NOUNS_OF["C"]), german.DAT, WORN)
    tree = f"(NP {wearer.tree} (PP (IN with) {clothes.tree}))"
    return wearer._replace(tree=tree, de=f"{wearer.de} mit {clothes.de}", noun=None)


WORN = Style(((A, False), (THE_ONE.counted[0])), FIXED.mass)


def each_one(rng: HashRng, noun: Noun, case: int, style: Style) -> Phrase:
    """A noun phrase, sometimes with a possessor, a part, or clothes."""
    dice = rng.below(100)
    if dice < 5 and style.free and "R" not in noun.kinds:
        return with_possessor(rng, noun, case)
    if dice < 11 and style.free and "X" in noun.kinds:
        return with_part(rng, noun, case)
    if 5 <= dice < 11 and noun.kinds == "P":
        return with_clothes(rng, noun, case, style)
    return noun_phrase(rng, noun, case, style)


def both(first: Phrase, second: Phrase) -> Phrase:
    """Two coordinated phrases: a plural, first person if one of them is I."""
    person = WE if 0 in (first.person, second.person) else THEY
    tree = f"(NP {first.tree} (CC and) {second.tree})"
    definite = first.definite and second.definite
    return Phrase(tree, f"{first.de} und {second.de}", person, definite=definite)
