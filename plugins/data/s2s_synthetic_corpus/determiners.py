"""Articles, possessives, demonstratives and quantifiers, and the sets of them allowed in each context."""

from __future__ import annotations

__all__ = [
    "ASKED",
    "BARE",
    "FIXED",
    "FREE",
    "INDEFINITE",
    "NEGATED",
    "NUMBER",
    "PLACED",
    "SAID",
    "A",
    "Determiner",
    "Style",
]

from typing import NamedTuple

from s2s_synthetic_corpus import german


class Determiner(NamedTuple):
    """A determiner in both languages."""

    english: tuple[str, str]
    """Its leaf and a space, before a singular and a plural; empty if there is none."""
    forms: german.Table
    """German, by gender and case, each followed by a space unless empty."""
    endings: german.Table
    """Endings of the adjectives after it."""
    definite: bool
    kein: bool = False
    indefinite: bool = False
    """In English it is “a” or absent."""


Choice = tuple[Determiner, bool]
"""A determiner, and whether the noun is plural."""


class Style(NamedTuple):
    """The determiners allowed in a context; repeated entries are more likely."""

    counted: tuple[Choice, ...]
    mass: tuple[Choice, ...]
    free: bool = False
    """A possessor may replace the determiner."""


def spaced(forms: german.Table) -> german.Table:
    """The forms, each followed by a space."""
    return tuple(tuple(f"{form} " for form in line) for line in forms)


def leaf(tag: str, word: str, plural: str = "") -> tuple[str, str]:
    """The English leaf before a singular and before a plural."""
    return f"({tag} {word}) ", f"({tag} {plural or word}) "


def der_word(
    english: tuple[str, str], stem: str, endings: german.Table = german.WEAK, *, definite: bool = True
) -> Determiner:
    """A determiner declined like der: dieser, jeder, viele."""
    return Determiner(english, spaced(german.decline_article(stem, german.DER_ENDINGS)), endings, definite)


def ein_word(english: tuple[str, str], stem: str, *, definite: bool = True, kein: bool = False) -> Determiner:
    """A determiner declined like ein: mein, kein."""
    forms = spaced(german.decline_article(stem, german.EIN_ENDINGS))
    return Determiner(english, forms, german.MIXED, definite, kein, not definite)


NOTHING = (("",) * 4,) * 4
THE = Determiner(leaf("DT", "the"), spaced(german.DEFINITE), german.WEAK, definite=True)
A = ein_word(leaf("DT", "a"), "ein", definite=False)
BARE = Determiner(("", ""), NOTHING, german.STRONG, definite=False, indefinite=True)
NOT_A = ein_word(leaf("DT", "a"), "kein", definite=False, kein=True)
NOT_ANY = ein_word(("", ""), "kein", definite=False, kein=True)
THIS = der_word(leaf("DT", "this", "these"), "dies")
EVERY = der_word(leaf("DT", "every"), "jed")
ALL = der_word(leaf("DT", "all"), "all")
SOME = der_word(leaf("DT", "some"), "einig", german.STRONG, definite=False)
MANY = der_word(leaf("JJ", "many"), "viel", german.STRONG, definite=False)
WHICH = der_word(leaf("WDT", "which"), "welch")
NUMBER = Determiner(("", ""), NOTHING, german.STRONG, definite=False)
POSSESSIVES = [
    ein_word(leaf("PRP$", en), de)
    for en, de in (
        ("my", "mein"),
        ("your", "dein"),
        ("his", "sein"),
        ("her", "ihr"),
        ("our", "unser"),
        ("their", "ihr"),
    )
]

ONE, MORE = False, True
OWN_ONE, OWN_MORE = [(own, ONE) for own in POSSESSIVES], [(own, MORE) for own in POSSESSIVES]
DEFINITE_ONES = [(THE, ONE)] * 12 + [(THE, MORE)] * 4 + OWN_ONE + [(THIS, ONE)] * 2 + [(THIS, MORE)]
QUANTIFIED = [(EVERY, ONE), (ALL, MORE), (SOME, MORE), (MANY, MORE), (NUMBER, MORE), (NUMBER, MORE), (NUMBER, MORE)]
MASS_DEFINITE = [(THE, ONE)] * 3 + [(THIS, ONE), *OWN_ONE[:4]]

FIXED = Style(tuple(DEFINITE_ONES + OWN_MORE[:2]), tuple(MASS_DEFINITE))
"""Definite, singular or plural, as needed in a negation, a genitive or a comparison."""
SAID = Style(tuple(DEFINITE_ONES * 2 + OWN_MORE + QUANTIFIED + [(A, ONE)] * 14), tuple(MASS_DEFINITE), free=True)
"""Anything that has a determiner."""
FREE = Style(SAID.counted + ((BARE, MORE),) * 7, SAID.mass + ((BARE, ONE),) * 8, free=True)
"""Anything."""
NEGATED = Style(FIXED.counted + ((NOT_A, ONE),) * 9 + ((NOT_ANY, MORE),) * 4, FIXED.mass + ((NOT_ANY, ONE),) * 6)
"""For the object of a negated verb: nicht, or kein before an indefinite noun."""
PLACED = Style(tuple([(THE, ONE)] * 24 + OWN_ONE + [(THIS, ONE)] * 2 + [(A, ONE)] * 3 + [(THE, MORE)]), FIXED.mass)
"""For places."""
INDEFINITE = Style(
    tuple([(A, ONE)] * 5 + [(BARE, MORE), (SOME, MORE), (MANY, MORE)] + [(NUMBER, MORE)] * 3), ((BARE, ONE),)
)
"""For “there is” and “there are”."""
ASKED = Style(((WHICH, ONE), (WHICH, ONE), (WHICH, MORE)), ((WHICH, ONE),))
"""For questions with “which”."""
