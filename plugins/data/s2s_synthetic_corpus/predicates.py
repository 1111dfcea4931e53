"""Predicates: a verb with its objects and adverbials, in both languages, without a subject and a tense."""

from __future__ import annotations

__all__ = ["Predicate", "Scope", "grown", "predicate", "settled"]

from typing import TYPE_CHECKING, NamedTuple

from s2s_synthetic_corpus.determiners import FIXED, FREE, NEGATED, SAID, Style
from s2s_synthetic_corpus.german import ACC, DAT, contract
from s2s_synthetic_corpus.lexicon import NOUNS_OF, VERBS_OF, Noun, Verb
from s2s_synthetic_corpus.phrases import Phrase, called, each_one, noun_phrase, pronoun
from s2s_synthetic_corpus.places import direction, furniture, place, preposed

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s_synthetic_corpus.rng import HashRng


class Predicate(NamedTuple):
    """A verb and its complements; all pieces begin with a space or are empty."""

    verb: Verb
    en: str = ""
    """Bracketings after the English verb."""
    light: str = ""
    """German pronouns, early in the clause."""
    before: str = ""
    """German objects before nicht."""
    after: str = ""
    """German pieces after nicht."""
    tail: str = ""
    """German clauses after the final verb."""
    kein: bool = False
    """The negation is expressed by kein."""
    heavy: bool = False
    """Nothing that could be read as part of its last phrase may follow."""
    noun: Noun | None = None
    """Object to which a pronoun may refer."""
    gender: int = 0


class Scope(NamedTuple):
    """Constraints on a predicate."""

    kind: str
    """Kind of the subject: P or A."""
    person: int
    tense: str
    negated: bool = False
    grow: Callable[[HashRng, Phrase], Phrase] | None = None
    """Adds a relative clause to a noun phrase, or leaves it unchanged."""
    bare: bool = False
    """No adverbials."""
    noun: Noun | None = None
    """Noun of the subject, which is not used as an object."""


def predicate(rng: HashRng, scope: Scope) -> Predicate:
    """A random predicate that fits this kind of subject and this tense."""
    while scope.tense in (verb := rng.pick(VERBS_OF[scope.kind])).barred:
        pass
    return FRAMES[verb.frame](rng, verb, scope)


def grown(rng: HashRng, phrase: Phrase, scope: Scope) -> Phrase:
    """The phrase, possibly with a relative clause if the scope allows it."""
    return scope.grow(rng, phrase) if scope.grow and phrase.noun else phrase


def object_phrase(rng: HashRng, verb: Verb, scope: Scope, *, style: Style = FREE) -> Phrase:
    """An object of one of the kinds that the verb names."""
    kind, case = rng.pick(verb.objects), verb.prepositions[2]
    if kind == "P":
        dice = rng.below(100)
        if dice < 22 and not verb.particle:
            return pronoun(rng, case, scope.person)
        if dice < 34:
            return called(rng)
    style = style if not scope.negated else FIXED if case == DAT or verb.frame == "p" else NEGATED
    while (noun := rng.pick(NOUNS_OF[kind])) is scope.noun:
        pass
    return grown(rng, each_one(rng, noun, case, style), scope)


def adverbials(
    rng: HashRng, verb: Verb, scope: Scope, *, heavy: bool = False, of: Noun | None = None
) -> tuple[str, str]:
    """Adverbials of manner and place that fit the verb; `of`: the object."""
    if scope.bare or heavy or not verb.marks:
        return "", ""
    en = de = ""
    if verb.manners and rng.chance(22):
        en, de = rng.pick(verb.manners)
    if "p" in verb.marks and rng.chance(28):
        where = place(rng, scope.kind)
        return en + where[0], de + where[1]
    if "f" in verb.marks and of and of.kinds[0] in "LC" and rng.chance(60):
        where = furniture(rng, DAT)
        return en + where[0], de + where[1]
    return en, de


def settled(verb: Verb, phrase: Phrase, en: str, de: str) -> Predicate:
    """An object in its German position: pronouns early, definite before nicht, indefinite after the adverbials."""
    if phrase.light:
        return Predicate(verb, en, f" {phrase.de}", after=de)
    fixed, last = (f" {phrase.de}", de) if phrase.definite else ("", f"{de} {phrase.de}")
    return Predicate(verb, en, "", fixed, last, "", phrase.kein, phrase.heavy, phrase.noun, phrase.gender)


def alone(rng: HashRng, verb: Verb, scope: Scope) -> Predicate:
    """A verb without an object."""
    en, de = adverbials(rng, verb, scope)
    return Predicate(verb, en, after=de)


def with_object(rng: HashRng, verb: Verb, scope: Scope) -> Predicate:
    """An accusative or dative object."""
    phrase = object_phrase(rng, verb, scope)
    if verb.prepositions[2] == DAT:
        phrase = phrase._replace(definite=True)
    en, de = adverbials(rng, verb, scope, heavy=phrase.heavy, of=phrase.noun)
    return settled(verb, phrase, preposed(verb.prepositions[0], phrase.tree) + en, de)


def with_preposition(rng: HashRng, verb: Verb, scope: Scope) -> Predicate:
    """An object with a preposition of its own in each language: waits for him, wartet auf ihn."""
    phrase = object_phrase(rng, verb, scope)
    en, de = adverbials(rng, verb, scope, heavy=phrase.heavy)
    tree = preposed(verb.prepositions[0], phrase.tree)
    return Predicate(verb, tree + en, after=f"{de} {contract(verb.prepositions[1], phrase.de)}", heavy=phrase.heavy)


def giving(rng: HashRng, verb: Verb, scope: Scope) -> Predicate:
    """Gives somebody something: the dative comes first in German, even where English uses “to”."""
    dice = rng.below(100)
    if dice < 30:
        whom = pronoun(rng, DAT, scope.person)
    elif dice < 45:
        whom = called(rng)
    else:
        whom = noun_phrase(rng, rng.pick(NOUNS_OF["P"]), DAT, FIXED if scope.negated else SAID)
    what = grown(
        rng,
        each_one(rng, rng.pick(NOUNS_OF[rng.pick(verb.objects)]), ACC, NEGATED if scope.negated else SAID),
        scope,
    )
    to = rng.chance(40) and not what.heavy
    en = f" {what.tree}{preposed('to', whom.tree)}" if to else f" {whom.tree} {what.tree}"
    found = settled(verb, what, en, "")
    if whom.light:
        return found._replace(light=f" {whom.de}")
    return found._replace(before=f" {whom.de}{found.before}")


def moving(rng: HashRng, verb: Verb, scope: Scope) -> Predicate:
    """A verb with a direction: where to, or where from."""
    how = rng.pick(verb.manners) if verb.manners and rng.chance(15) and not scope.bare else ("", "")
    where = direction(rng, verb, scope.kind)
    return Predicate(verb, where[0] + how[0], after=how[1] + where[1])


def staying(rng: HashRng, verb: Verb, scope: Scope) -> Predicate:
    """A verb that requires a place."""
    en, de = place(rng, scope.kind)
    return Predicate(verb, en, after=de)


def placing(rng: HashRng, verb: Verb, scope: Scope) -> Predicate:
    """Puts something somewhere, in the accusative."""
    phrase = object_phrase(rng, verb, scope._replace(grow=None))
    en, de = furniture(rng, ACC)
    found = settled(verb, phrase, f" {phrase.tree}{en}", "")
    return found._replace(after=found.after + de, noun=None)


FRAMES: dict[str, Callable[[HashRng, Verb, Scope], Predicate]] = {
    "i": alone, "a": with_object, "d": with_object, "p": with_preposition, "g": giving, "to": moving, "at": staying,
    "put": placing,
}  # fmt: skip
