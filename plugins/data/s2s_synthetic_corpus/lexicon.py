"""The words as the grammar uses them: all forms precomputed, and pools to draw from."""

from __future__ import annotations

__all__ = [
    "AGENTLESS", "BE", "BELONG", "COST", "INFINITIVE_VERBS", "LIE", "NOUNS", "NOUNS_OF", "OBJECT_VERBS", "PLACES",
    "PROFESSIONS", "RAIN", "SNOW", "STAND", "THAT_VERBS", "THERE", "VERBS_OF", "WHETHER_VERBS", "WILD_PLACES",
    "Adjective", "Noun", "Verb", "said_in",
]  # fmt: skip

from typing import NamedTuple

from s2s_synthetic_corpus import english, german, nouns, verbs
from s2s_synthetic_corpus.times import Adverbial, manners

KINDS = "PAFMDQBbNnWOSLCVEGIHUYZJKRTXu"


class Adjective(NamedTuple):
    """An adjective in both languages."""

    tree: str
    vowel: bool
    """Whether its article is “an”."""
    base: str
    """German, after sein."""
    stem: str
    """German, before an ending."""
    more: str
    """English comparative, one or two leaves."""
    mehr: str
    """German comparative; empty if there is none."""
    kinds: str


class Noun(NamedTuple):
    """A noun in both languages."""

    trees: tuple[str, str]
    """English leaf, singular and plural."""
    vowel: bool
    forms: tuple[tuple[str, ...], tuple[str, ...]]
    """German by number and case."""
    gender: int
    mass: bool
    """Not counted: no a, no plural."""
    kinds: str
    adjectives: tuple[Adjective, ...]
    colours: tuple[Adjective, ...]
    place: tuple[str, str]
    """English and German preposition for being there; empty if it is not a place."""


class Verb(NamedTuple):
    """A verb in both languages."""

    english: english.VerbForms
    frames: dict[str, tuple[english.Frame, ...]]
    german: dict[str, tuple[german.Complex, ...]]
    zu: str
    imperative: tuple[str, str]
    reflexive: bool
    frame: str
    objects: str
    """Kinds of its objects."""
    prepositions: tuple[str, str, int]
    """English, German (either may be empty) and the case of the object."""
    marks: str
    manners: tuple[Adverbial, ...]
    """Adverbials of manner."""
    barred: frozenset[str]
    """Tenses in which it is not used, or in which its English form would be ambiguous."""
    particle: bool


def adjective(row: str) -> Adjective:
    """From a line of ADJECTIVES or COLOURS."""
    words = row.split()
    if len(words) == 3:
        en, de, kinds = words
        return Adjective(f"(JJ {en})", False, de, de, "", "", kinds)
    en, more, de, stem, mehr, kinds = words
    comparative = f"(RBR more) (JJ {en})" if more == "more" else f"(JJR {more})"
    return Adjective(f"(JJ {en})", en[0] in "aeiou", de, stem, comparative, mehr, kinds)


def fitting(words: tuple[Adjective, ...], kinds: str) -> tuple[Adjective, ...]:
    """The adjectives that fit any of these kinds."""
    return tuple(word for word in words if set(word.kinds) & set(kinds))


ADJECTIVES = tuple(map(adjective, nouns.ADJECTIVES.strip().splitlines()))
COLOURS = tuple(map(adjective, nouns.COLOURS.strip().splitlines()))


def noun(row: str) -> Noun:
    """From a line of NOUNS."""
    en, en_plural, de, de_plural, genitive, gender, kinds, *place = row.split()
    number = "mfn".index(gender)
    at, _, dort = (place[0] if place else "").partition(":")
    return Noun(
        trees=(f"(NN {en})", f"(NNS {en_plural})"),
        vowel=en[0] in "aeiou",
        forms=german.decline_noun(de, de_plural, genitive, number),
        gender=number,
        mass=en_plural == nouns.NUMBERLESS,
        kinds=kinds,
        adjectives=fitting(ADJECTIVES, kinds),
        colours=fitting(COLOURS, kinds),
        place=(at, dort),
    )


NOUNS = tuple(map(noun, nouns.NOUNS.strip().splitlines()))
NOUNS_OF = {kind: tuple(noun for noun in NOUNS if kind in noun.kinds) for kind in KINDS}
PLACES = tuple(noun for noun in NOUNS_OF["R"] if noun.place[0])
PEOPLES = ("Schule", "Hotel", "Museum", "Kirche", "Büro", "Markt", "Bahnhof", "Stadt")
WILD_PLACES = tuple(noun for noun in PLACES if noun.forms[0][0] not in PEOPLES)
"""Places for animals."""
PROFESSIONS = tuple(noun for noun in NOUNS if noun.forms[0][0] in ("Lehrer", "Arzt", "Student", "Bauer"))


def barred(forms: list[str], marks: str) -> frozenset[str]:
    """Tenses in which a verb is not used; “I read” and “I put” can be present or past."""
    stative = {"progressive", "imperative"} if "s" in marks else set()
    lasting = {"perfect", "future", *english.MODALS, "want", "wanted"} if "t" in marks else set()
    return frozenset(stative | lasting | ({"past"} if forms[0] == forms[2] else set()))


def said_in(tense: str, verb: Verb) -> str:
    """The tense, or the present if the verb is not used in it."""
    return "present" if tense in verb.barred else tense


CASES = {"acc": german.ACC, "dat": german.DAT}
FRAMES, BE_FRAMES = english.frames(), english.frames(copula=True)


def verb(row: str, *, copula: bool = False) -> Verb:
    """From a line of VERBS."""
    en, de, _, frame, marks = (part.strip() for part in row.split(";"))
    principal, words = german.parse_principal(de), en.replace("+", "").split()
    name, objects, to, zu, case = (*frame.split(), "", "", "", "")[:5]
    return Verb(
        english=("(VB be)", "", "", "", "(VBN been)", "", "") if copula else english.verb_forms(*words),
        frames=BE_FRAMES if copula else FRAMES,
        german=german.conjugate(principal, copula=copula),
        zu=german.zu_infinitive(principal),
        imperative=german.imperative(principal),
        reflexive=principal.reflexive,
        frame=name,
        objects=objects,
        prepositions=(to, zu, CASES[case] if case else german.DAT if name == "d" else german.ACC),
        marks=marks,
        manners=manners(marks),
        barred=barred(words, marks),
        particle=len(words) > 5,
    )


ROWS = verbs.VERBS.strip().splitlines()
CLAUSE_ROWS = verbs.CLAUSE_VERBS.strip().splitlines()
BE = verb("be is was been being; sein sei war ist gewesen; PA; be; s", copula=True)


def subjects(row: str) -> str:
    """The kinds of subject that a line of VERBS names."""
    return row.split(";")[2]


ALL_VERBS = tuple((subjects(row), verb(row)) for row in ROWS)
VERBS_OF = {kind: tuple(verb for kinds, verb in ALL_VERBS if kind in kinds) for kind in "PA"}
OBJECT_VERBS = {
    kind: tuple(verb for kinds, verb in ALL_VERBS if "P" in kinds and verb.frame in "ad" and kind in verb.objects)
    for kind in KINDS
}
"""Kind -> verbs that take an object of this kind, with a person as subject."""
AGENTLESS = tuple(
    v for kinds, v in ALL_VERBS if v.frame == "a" and "P" in kinds and "s" not in v.marks and not v.prepositions[0]
)
"""Verbs that are used in the passive."""


def clause_verbs(frame: str) -> tuple[Verb, ...]:
    """The verbs that take one type of clause."""
    return tuple(word for word in map(verb, CLAUSE_ROWS) if word.frame == frame)


THAT_VERBS, WHETHER_VERBS, INFINITIVE_VERBS = map(clause_verbs, ("that", "whether", "inf"))
GIVE = german.conjugate(german.parse_principal("geben gibt gab gegeben"))
THERE = BE._replace(german={tense: (forms[2],) * 6 for tense, forms in GIVE.items()})
"""There is, there are: es gibt, which is never plural."""
LIE = verb("lie lies lay lain lying; liegen liegt lag gelegen; S; i; s")
STAND = verb("stand stands stood stood standing; stehen steht stand gestanden; S; i; s")
BELONG = verb("belong belongs belonged belonged belonging; gehören; S; d P to; s")
COST = verb("cost costs cost cost costing; kosten; S; i; s")
RAIN = verb("rain rains rained rained raining; regnen; I; i;")
SNOW = verb("snow snows snowed snowed snowing; schneien; I; i;")
