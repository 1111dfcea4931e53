"""Sentences: which sorts there are and how often, and the last touches: capitals, commas, the mark at the end."""

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

    from s2s_synthetic_corpus.draws import Draws


class Sentence(NamedTuple):
    """A sentence and its translation."""

    tree: str
    """Bracketing of the English."""
    de: str


Pair = tuple[str, str]
SHORTEST, LONGEST = 3, 25
"""Words and marks that a sentence may have in English."""


def sentence(draws: Draws) -> Sentence:
    """The next sentence of these draws; what is too long is drawn anew."""
    while True:
        tree, de = draws.pick(SORTS)(draws)
        if SHORTEST <= tree.count(" ") - tree.count(" (") <= LONGEST:
            return Sentence(english.capitalised(tree), punctuated(de))


def punctuated(de: str) -> str:
    """German with a capital and without the commas that meet another mark."""
    if "," in de:
        de = de.replace(",,", ",").replace(",,", ",")
        if de[-2] == ",":
            de = de[:-2] + de[-1]
    return de[0].upper() + de[1:]


def told(sort: Callable[[Draws], Pair]) -> Callable[[Draws], Pair]:
    """A sort of statement, as a whole sentence."""

    def whole(draws: Draws) -> Pair:
        tree, de = sort(draws)
        return f"(S {tree} (. .))", f"{de}."

    return whole


TENSES: tuple[str, ...] = ("present",) * 8 + ("past",) * 9 + ("perfect",) * 4 + ("future",) * 3 + ("progressive",) * 3
TENSES += ("pluperfect", "can", "can", "could", "must", "must", "may", "should", "want", "want", "wanted")


def plain(draws: Draws) -> Pair:
    """Somebody does something, perhaps with the time or the place first: German keeps the verb second."""
    tense, dice = draws.pick(TENSES), draws.below(100)
    negated = tense != "must" and draws.chance(17)
    scope = Scope(draws.pick("PPPA"), THIRD, tense, negated, grow, bare=dice < 7)
    made = clause(draws, tense, scope)
    if dice < 7 and "p" in made.predicate.verb.marks:
        en, de = place(draws, scope.kind)
        return f"{en[1:]} (, ,) {statement(made)[0]}", inverted(made, f"{de[1:]} ")
    if dice < 24 and may_be_timed(made):
        time = when(draws, tense)
        return f"{time.en[1:]} {statement(made)[0]}", inverted(made, f"{time.de[1:]} ")
    if dice < 34 and tense in ("present", "past", "progressive") and not (negated or made.predicate.heavy):
        scope = scope._replace(person=made.subject.person, grow=None, bare=True)
        return statement(made._replace(second=predicate(draws, scope)))
    return statement(with_time(draws, made, 38))


def topic(draws: Draws) -> Pair:
    """This book I know: the object first in both languages."""
    kind = draws.pick("BSLCVPI")
    verb, tense = draws.pick(OBJECT_VERBS[kind]), draws.pick(("present", "past", "perfect"))
    tense = said_in(tense, verb)
    _, _, case = verb.prepositions
    if verb.prepositions[0]:
        return plain(draws)
    what = noun_phrase(draws, draws.pick(NOUNS_OF[kind]), case, FIXED)
    who = draws.pick(PRONOUNS[NOM])
    negation = draws.pick(("n't", "not")) if draws.chance(25) else ""
    made = Clause(who, Predicate(verb), tense, negation)
    return f"{what.tree} {statement(made)[0]}", inverted(made, f"{what.de} ")


def of_things(draws: Draws) -> Pair:
    """How something is, compared with another, where it is, what it costs, how old somebody is, what he is."""
    dice, tense = draws.below(100), draws.pick(("present", "present", "past", "past", "future"))
    if dice < 12:
        return statement(Clause(subject(draws, "P"), aged(draws), draws.pick(("present", "past", "future"))))
    if dice < 18:
        who = draws.pick((PRONOUNS[NOM][0], PRONOUNS[NOM][2], Phrase("(NP (NNP Peter))", "Peter")))
        return statement(Clause(who, professional(draws), draws.pick(("present", "past"))))
    noun = draws.pick(NOUNS_OF[draws.pick("PPAABSLCVEIRKFM")])
    who = noun_phrase(draws, noun, NOM, FIXED)
    negation = draws.pick(("n't", "not")) if draws.chance(15) else ""
    if dice < 40:
        return statement(Clause(grow(draws, who), compared(draws, noun), draws.pick(("present", "past")), negation))
    does = of_thing(draws, who, tense)
    return statement(Clause(grow(draws, who), does, said_in(tense, does.verb), negation))


def passive(draws: Draws) -> Pair:
    """Something is done, perhaps by somebody."""
    verb = draws.pick(AGENTLESS)
    tense = draws.pick(("was done",) * 4 + ("is done", "is done", "has been done", "will be done", "must be done"))
    kind, negated = draws.pick(verb.objects), tense != "must be done" and draws.chance(12)
    if kind == "P":
        what = subject(draws, "P", negated=negated)
    else:
        what = each_one(draws, draws.pick(NOUNS_OF[kind]), NOM, FIXED if negated else SAID)
    en = de = ""
    if draws.chance(45):
        by = called(draws) if draws.chance(35) else noun_phrase(draws, draws.pick(NOUNS_OF["P"]), DAT, FIXED)
        en, de = f" (PP (IN by) {by.tree})", f" {contract('von', by.de)}"
    negation = draws.pick(("n't", "not")) if negated else ""
    made = Clause(what, Predicate(verb, en, after=de), tense, negation)
    time = when(draws, tense)
    if draws.chance(15):
        return f"{time.en[1:]} {statement(made)[0]}", inverted(made, f"{time.de[1:]} ")
    return statement(with_time(draws, made, 30))


def imperative(draws: Draws) -> Pair:
    """Open the door: mach die Tür auf; said to du."""
    does = predicate(draws, Scope("P", 1, "imperative", negated := draws.chance(20)))
    verb, prefix = does.verb.imperative
    please, bitte = ("(INTJ (UH please)) ", "bitte ") if draws.chance(25) else ("", "")
    early = (REFLEXIVE[1] if does.verb.reflexive else "") + does.light
    never = " nicht" if negated and not does.kein else ""
    de = f"{bitte}{verb}{early}{does.before}{never}{does.after}{prefix}!"
    vp = f"(VP {does.verb.english[0]}{does.en})"
    vp = f"(VP (VBP do) (RB n't) {vp})" if negated else vp
    return f"(S {please}{vp} (. !))", de


def impersonal(draws: Draws) -> Pair:
    """It is raining, there is a dog in the garden."""
    tense = draws.pick(("present", "past"))
    if draws.chance(35):
        return statement(with_time(draws, weather(draws, draws.pick(("past", "future", "perfect", "present"))), 60))
    does, person = existing(draws)
    return statement(Clause(Phrase("(NP (EX there))", "es", person, light=True), does, tense))


SORTS: tuple[Callable[[Draws], Pair], ...] = (
    (told(plain),) * 36
    + (told(adverbial_clause),) * 12
    + (told(reported),) * 8
    + (told(to_do),) * 8
    + (told(reason_about_it),) * 4
    + (question,) * 12
    + (told(joined),) * 4
    + (told(of_things),) * 10
    + (told(passive),) * 6
    + (imperative,) * 3
    + (told(impersonal),) * 2
    + (told(topic),) * 2
)
