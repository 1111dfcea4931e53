"""Sentences: their types and frequencies, and the final formatting: capitals, commas, the final punctuation mark."""

from __future__ import annotations

__all__ = ["Sentence", "sentence"]

from typing import TYPE_CHECKING, NamedTuple

from s2s_synthetic_corpus import english
from s2s_synthetic_corpus.clauses import (
    REFLEXIVE,
    Clause,
    clause,
    inverted,
    may_be_timed,
    statement,
    subject,
    when,
    with_time,
)
from s2s_synthetic_corpus.determiners import FIXED, SAID
from s2s_synthetic_corpus.embedding import adverbial_clause, joined, reason_about_it, reported, to_do, weather
from s2s_synthetic_corpus.german import DAT, NOM, contract
from s2s_synthetic_corpus.lexicon import AGENTLESS, NOUNS_OF, OBJECT_VERBS, said_in
from s2s_synthetic_corpus.phrases import PRONOUNS, THIRD, Phrase, called, each_one, noun_phrase
from s2s_synthetic_corpus.places import place
from s2s_synthetic_corpus.predicates import Predicate, Scope, predicate
from s2s_synthetic_corpus.questions import question
from s2s_synthetic_corpus.relatives import grow
from s2s_synthetic_corpus.things import aged, compared, existing, of_thing, professional

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s_synthetic_corpus.rng import HashRng


class Sentence(NamedTuple):
    """A sentence and its translation."""

    tree: str
    """Bracketing of the English."""
    de: str


Pair = tuple[str, str]
SHORTEST, LONGEST = 3, 25
"""Minimum and maximum number of words and punctuation marks of an English sentence."""


def sentence(rng: HashRng) -> Sentence:
    """The next sentence; one that is too short or too long is generated again."""
    while True:
        tree, de = rng.pick(SORTS)(rng)
        if SHORTEST <= tree.count(" ") - tree.count(" (") <= LONGEST:
            return Sentence(english.capitalised(tree), punctuated(de))


def punctuated(de: str) -> str:
    """German with a capital and without commas next to another punctuation mark."""
    if "," in de:
        de = de.replace(",,", ",").replace(",,", ",")
        if de[-2] == ",":
            de = de[:-2] + de[-1]
    return de[0].upper() + de[1:]


def declarative(sort: Callable[[HashRng], Pair]) -> Callable[[HashRng], Pair]:
    """A type of statement, as a whole sentence."""

    def whole(rng: HashRng) -> Pair:
        tree, de = sort(rng)
        return f"(S {tree} (. .))", f"{de}."

    return whole


TENSES: tuple[str, ...] = ("present",) * 8 + ("past",) * 9 + ("perfect",) * 4 + ("future",) * 3 + ("progressive",) * 3
TENSES += ("pluperfect", "can", "can", "could", "must", "must", "may", "should", "want", "want", "wanted")


def plain(rng: HashRng) -> Pair:
    """Somebody does something, possibly with the time or the place first: German keeps the verb second."""
    tense, dice = rng.pick(TENSES), rng.below(100)
    negated = tense != "must" and rng.chance(17)
    scope = Scope(rng.pick("PPPA"), THIRD, tense, negated, grow, bare=dice < 7)
    made = clause(rng, tense, scope)
    if dice < 7 and "p" in made.predicate.verb.marks:
        en, de = place(rng, scope.kind)
        return f"{en[1:]} (, ,) {statement(made)[0]}", inverted(made, f"{de[1:]} ")
    if dice < 24 and may_be_timed(made):
        time = when(rng, tense)
        return f"{time.en[1:]} {statement(made)[0]}", inverted(made, f"{time.de[1:]} ")
    if dice < 34 and tense in ("present", "past", "progressive") and not (negated or made.predicate.heavy):
        scope = scope._replace(person=made.subject.person, grow=None, bare=True)
        return statement(made._replace(second=predicate(rng, scope)))
    return statement(with_time(rng, made, 38))


def topic(rng: HashRng) -> Pair:
    """This book I know: the object first in both languages."""
    kind = rng.pick("BSLCVPI")
    verb, tense = rng.pick(OBJECT_VERBS[kind]), rng.pick(("present", "past", "perfect"))
    tense = said_in(tense, verb)
    _, _, case = verb.prepositions
    if verb.prepositions[0]:
        return plain(rng)
    what = noun_phrase(rng, rng.pick(NOUNS_OF[kind]), case, FIXED)
    who = rng.pick(PRONOUNS[NOM])
    negation = rng.pick(("n't", "not")) if rng.chance(25) else ""
    made = Clause(who, Predicate(verb), tense, negation)
    return f"{what.tree} {statement(made)[0]}", inverted(made, f"{what.de} ")


def of_things(rng: HashRng) -> Pair:
    """Properties, comparisons, locations and prices of things; ages and professions of people."""
    dice, tense = rng.below(100), rng.pick(("present", "present", "past", "past", "future"))
    if dice < 12:
        return statement(Clause(subject(rng, "P"), aged(rng), rng.pick(("present", "past", "future"))))
    if dice < 18:
        who = rng.pick((PRONOUNS[NOM][0], PRONOUNS[NOM][2], Phrase("(NP (NNP Peter))", "Peter")))
        return statement(Clause(who, professional(rng), rng.pick(("present", "past"))))
    noun = rng.pick(NOUNS_OF[rng.pick("PPAABSLCVEIRKFM")])
    who = noun_phrase(rng, noun, NOM, FIXED)
    negation = rng.pick(("n't", "not")) if rng.chance(15) else ""
    if dice < 40:
        return statement(Clause(grow(rng, who), compared(rng, noun), rng.pick(("present", "past")), negation))
    does = of_thing(rng, who, tense)
    return statement(Clause(grow(rng, who), does, said_in(tense, does.verb), negation))


def passive(rng: HashRng) -> Pair:
    """Something is done, possibly by somebody."""
    verb = rng.pick(AGENTLESS)
    tense = rng.pick(("was done",) * 4 + ("is done", "is done", "has been done", "will be done", "must be done"))
    kind, negated = rng.pick(verb.objects), tense != "must be done" and rng.chance(12)
    if kind == "P":
        what = subject(rng, "P", negated=negated)
    else:
        what = each_one(rng, rng.pick(NOUNS_OF[kind]), NOM, FIXED if negated else SAID)
    en = de = ""
    if rng.chance(45):
        by = called(rng) if rng.chance(35) else noun_phrase(rng, rng.pick(NOUNS_OF["P"]), DAT, FIXED)
        en, de = f" (PP (IN by) {by.tree})", f" {contract('von', by.de)}"
    negation = rng.pick(("n't", "not")) if negated else ""
    made = Clause(what, Predicate(verb, en, after=de), tense, negation)
    time = when(rng, tense)
    if rng.chance(15):
        return f"{time.en[1:]} {statement(made)[0]}", inverted(made, f"{time.de[1:]} ")
    return statement(with_time(rng, made, 30))


def imperative(rng: HashRng) -> Pair:
    """Open the door: mach die Tür auf; addressed to du."""
    does = predicate(rng, Scope("P", 1, "imperative", negated := rng.chance(20)))
    verb, prefix = does.verb.imperative
    please, bitte = ("(INTJ (UH please)) ", "bitte ") if rng.chance(25) else ("", "")
    early = (REFLEXIVE[1] if does.verb.reflexive else "") + does.light
    never = " nicht" if negated and not does.kein else ""
    de = f"{bitte}{verb}{early}{does.before}{never}{does.after}{prefix}!"
    vp = f"(VP {does.verb.english[0]}{does.en})"
    vp = f"(VP (VBP do) (RB n't) {vp})" if negated else vp
    return f"(S {please}{vp} (. !))", de


def impersonal(rng: HashRng) -> Pair:
    """It is raining, there is a dog in the garden."""
    tense = rng.pick(("present", "past"))
    if rng.chance(35):
        return statement(with_time(rng, weather(rng, rng.pick(("past", "future", "perfect", "present"))), 60))
    does, person = existing(rng)
    return statement(Clause(Phrase("(NP (EX there))", "es", person, light=True), does, tense))


SORTS: tuple[Callable[[HashRng], Pair], ...] = (
    (declarative(plain),) * 36
    + (declarative(adverbial_clause),) * 12
    + (declarative(reported),) * 8
    + (declarative(to_do),) * 8
    + (declarative(reason_about_it),) * 4
    + (question,) * 12
    + (declarative(joined),) * 4
    + (declarative(of_things),) * 10
    + (declarative(passive),) * 6
    + (imperative,) * 3
    + (declarative(impersonal),) * 2
    + (declarative(topic),) * 2
)
