"""Predicates: a verb with its objects and adverbials, in both languages, before it meets a subject and a tense."""

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

    from s2s_synthetic_corpus.draws import Draws


class Predicate(NamedTuple):
    """A verb and what goes with it; all pieces begin with a space or are empty."""

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
    """German clauses behind the verb at the end."""
    kein: bool = False
    """The negation is said by kein."""
    heavy: bool = False
    """Nothing may follow that could belong to its last phrase."""
    noun: Noun | None = None
    """Object that a pronoun may take up."""
    gender: int = 0


class Scope(NamedTuple):
    """What a predicate must fit."""

    kind: str
    """Kind of the subject: P or A."""
    person: int
    tense: str
    negated: bool = False
    grow: Callable[[Draws, Phrase], Phrase] | None = None
    """Gives a noun phrase its relative clause, or leaves it."""
    bare: bool = False
    """No adverbials."""
    noun: Noun | None = None
    """Of the subject: it does nothing to its own kind."""


def predicate(draws: Draws, scope: Scope) -> Predicate:
    """What this kind of subject may do in this tense."""
    while scope.tense in (verb := draws.pick(VERBS_OF[scope.kind])).barred:
        pass
    return FRAMES[verb.frame](draws, verb, scope)


def grown(draws: Draws, phrase: Phrase, scope: Scope) -> Phrase:
    """The phrase, where the scope allows it with a relative clause."""
    return scope.grow(draws, phrase) if scope.grow and phrase.noun else phrase


def object_phrase(draws: Draws, verb: Verb, scope: Scope, *, style: Style = FREE) -> Phrase:
    """An object of one of the kinds that the verb names."""
    kind, case = draws.pick(verb.objects), verb.prepositions[2]
    if kind == "P":
        dice = draws.below(100)
        if dice < 22 and not verb.particle:
            return pronoun(draws, case, scope.person)
        if dice < 34:
            return called(draws)
    style = style if not scope.negated else FIXED if case == DAT or verb.frame == "p" else NEGATED
    while (noun := draws.pick(NOUNS_OF[kind])) is scope.noun:
        pass
    return grown(draws, each_one(draws, noun, case, style), scope)


def adverbials(
    draws: Draws, verb: Verb, scope: Scope, *, heavy: bool = False, of: Noun | None = None
) -> tuple[str, str]:
    """How and where, if the verb is said with it; `of`: the object."""
    if scope.bare or heavy or not verb.marks:
        return "", ""
    en = de = ""
    if verb.manners and draws.chance(22):
        en, de = draws.pick(verb.manners)
    if "p" in verb.marks and draws.chance(28):
        where = place(draws, scope.kind)
        return en + where[0], de + where[1]
    if "f" in verb.marks and of and of.kinds[0] in "LC" and draws.chance(60):
        where = furniture(draws, DAT)
        return en + where[0], de + where[1]
    return en, de


def settled(verb: Verb, phrase: Phrase, en: str, de: str) -> Predicate:
    """An object in its German place: pronouns early, definite before nicht, indefinite after the adverbials."""
    if phrase.light:
        return Predicate(verb, en, f" {phrase.de}", after=de)
    fixed, last = (f" {phrase.de}", de) if phrase.definite else ("", f"{de} {phrase.de}")
    return Predicate(verb, en, "", fixed, last, "", phrase.kein, phrase.heavy, phrase.noun, phrase.gender)


def alone(draws: Draws, verb: Verb, scope: Scope) -> Predicate:
    """No object."""
    en, de = adverbials(draws, verb, scope)
    return Predicate(verb, en, after=de)


def with_object(draws: Draws, verb: Verb, scope: Scope) -> Predicate:
    """An accusative or dative object."""
    phrase = object_phrase(draws, verb, scope)
    if verb.prepositions[2] == DAT:
        phrase = phrase._replace(definite=True)
    en, de = adverbials(draws, verb, scope, heavy=phrase.heavy, of=phrase.noun)
    return settled(verb, phrase, preposed(verb.prepositions[0], phrase.tree) + en, de)


def with_preposition(draws: Draws, verb: Verb, scope: Scope) -> Predicate:
    """An object with a preposition of its own in each language: waits for him, wartet auf ihn."""
    phrase = object_phrase(draws, verb, scope)
    en, de = adverbials(draws, verb, scope, heavy=phrase.heavy)
    tree = preposed(verb.prepositions[0], phrase.tree)
    return Predicate(verb, tree + en, after=f"{de} {contract(verb.prepositions[1], phrase.de)}", heavy=phrase.heavy)


def giving(draws: Draws, verb: Verb, scope: Scope) -> Predicate:
    """Somebody something: the dative first in German, also where English says to."""
    dice = draws.below(100)
    if dice < 30:
        whom = pronoun(draws, DAT, scope.person)
    elif dice < 45:
        whom = called(draws)
    else:
        whom = noun_phrase(draws, draws.pick(NOUNS_OF["P"]), DAT, FIXED if scope.negated else SAID)
    what = grown(
        draws,
        each_one(draws, draws.pick(NOUNS_OF[draws.pick(verb.objects)]), ACC, NEGATED if scope.negated else SAID),
        scope,
    )
    to = draws.chance(40) and not what.heavy
    en = f" {what.tree}{preposed('to', whom.tree)}" if to else f" {whom.tree} {what.tree}"
    found = settled(verb, what, en, "")
    if whom.light:
        return found._replace(light=f" {whom.de}")
    return found._replace(before=f" {whom.de}{found.before}")


def moving(draws: Draws, verb: Verb, scope: Scope) -> Predicate:
    """Where to, or where from."""
    how = draws.pick(verb.manners) if verb.manners and draws.chance(15) and not scope.bare else ("", "")
    where = direction(draws, verb, scope.kind)
    return Predicate(verb, where[0] + how[0], after=how[1] + where[1])


def staying(draws: Draws, verb: Verb, scope: Scope) -> Predicate:
    """A verb that must say where."""
    en, de = place(draws, scope.kind)
    return Predicate(verb, en, after=de)


def placing(draws: Draws, verb: Verb, scope: Scope) -> Predicate:
    """Something somewhere, in the accusative."""
    phrase = object_phrase(draws, verb, scope._replace(grow=None))
    en, de = furniture(draws, ACC)
    found = settled(verb, phrase, f" {phrase.tree}{en}", "")
    return found._replace(after=found.after + de, noun=None)


FRAMES: dict[str, Callable[[Draws, Verb, Scope], Predicate]] = {
    "i": alone, "a": with_object, "d": with_object, "p": with_preposition, "g": giving, "to": moving, "at": staying,
    "put": placing,
}  # fmt: skip
