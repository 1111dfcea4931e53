"""Questions: yes or no, and with a question word, which German declines and English may leave a preposition behind."""

from __future__ import annotations

__all__ = ["question", "wh_clause"]

from typing import TYPE_CHECKING

from s2s_synthetic_corpus.clauses import (
    NEITHER,
    Clause,
    asked,
    clause,
    inverted,
    statement,
    statement_vp,
    subject,
    with_time,
)
from s2s_synthetic_corpus.determiners import ASKED, FIXED
from s2s_synthetic_corpus.german import ACC, NOM
from s2s_synthetic_corpus.lexicon import NOUNS_OF, OBJECT_VERBS, VERBS_OF, said_in
from s2s_synthetic_corpus.phrases import THIRD, Phrase, noun_phrase
from s2s_synthetic_corpus.predicates import Predicate, Scope
from s2s_synthetic_corpus.things import of_thing

if TYPE_CHECKING:
    from s2s_synthetic_corpus.draws import Draws

Pair = tuple[str, str]
"""The whole tree, and all of the German."""
TENSES = (
    ("present",) * 6 + ("past",) * 5 + ("perfect",) * 2 + ("future", "future", "can", "progressive", "should", "want")
)
DONE_SOMEWHERE = tuple(
    verb for verb in VERBS_OF["P"] if verb.frame == "at" or (verb.frame == "i" and "p" in verb.marks)
)
GOING = tuple(verb for verb in VERBS_OF["P"] if verb.frame == "to" and "k" not in verb.marks)
TALKED = tuple(verb for verb in VERBS_OF["P"] if verb.frame == "p")
WHO, WHOM = Phrase("", "wer"), ("", "wen", "wem")
WHAT_FOR = {"auf": "worauf", "an": "woran", "über": "worüber", "von": "wovon"}


def question(draws: Draws) -> Pair:
    """A question of any sort."""
    dice = draws.below(100)
    if dice < 42:
        return yes_or_no(draws)
    if dice < 55:
        return who_does(draws)
    if dice < 75:
        return object_asked(draws)
    if dice < 83:
        return preposition_left(draws)
    tense = draws.pick(TENSES)
    head, kopf, made = wh_clause(draws, tense)
    return f"(SBARQ {head} (SQ {asked(made)}) (. ?))", f"{inverted(made, kopf + ' ')}?"


def yes_or_no(draws: Draws) -> Pair:
    """Does he see the dog: sieht er den Hund."""
    tense = draws.pick(TENSES)
    if draws.chance(15):
        thing = noun_phrase(draws, draws.pick(NOUNS_OF[draws.pick("BSLCVEIRA")]), NOM, FIXED)
        tense = draws.pick(("present", "past"))
        made = Clause(thing, of_thing(draws, thing, tense), tense)
    else:
        made = with_time(draws, clause(draws, tense, Scope(draws.pick("PPPPA"), THIRD, tense)), 25)
        made = made._replace(adverb=NEITHER)
    return f"(SQ {asked(made)} (. ?))", f"{inverted(made)}?"


def who_does(draws: Draws) -> Pair:
    """Who helps the man: wer hilft dem Mann; the order of a statement."""
    tense = draws.pick(TENSES)
    made = with_time(draws, clause(draws, tense, Scope("P", THIRD, tense), who=WHO), 25)
    tree = f"(SBARQ (WHNP (WP who)) (SQ{statement_vp(made)}) (. ?))"
    return tree, f"{statement(made)[1]}?"


def object_asked(draws: Draws) -> Pair:
    """What, whom, which dog does he see: was, wen, wem, welchen Hund."""
    kind, tense, dice = draws.pick("PPPABSLCVFMD"), draws.pick(TENSES), draws.below(100)
    verb = draws.pick(OBJECT_VERBS[kind])
    tense = said_in(tense, verb)
    to, _, case = verb.prepositions
    made = with_time(draws, Clause(subject(draws, "P"), Predicate(verb, left_behind(to)), tense), 25)
    if dice < 40:
        which = noun_phrase(draws, draws.pick(NOUNS_OF[kind]), case, ASKED)
        head, kopf = f"(WHNP{which.tree[3:]}", which.de
    elif dice < 50 and kind not in "MD":
        noun = draws.pick(NOUNS_OF[kind])
        head, kopf = f"(WHNP (WHADJP (WRB how) (JJ many)) {noun.trees[1]})", f"wie {MANY[case]} {noun.forms[1][case]}"
    elif kind == "P":
        head, kopf = "(WHNP (WP whom))", WHOM[case]
    else:
        head, kopf = "(WHNP (WP what))", "was" if case == ACC else "wem"
    return f"(SBARQ {head} (SQ {asked(made)}) (. ?))", f"{inverted(made, kopf + ' ')}?"


MANY = ("viele", "viele", "vielen")


def left_behind(preposition: str) -> str:
    """An English preposition whose object has moved to the front."""
    return f" (PP ({'TO' if preposition == 'to' else 'IN'} {preposition}))" if preposition else ""


def preposition_left(draws: Draws) -> Pair:
    """What is he waiting for: worauf wartet er; whom: auf wen."""
    verb, tense = draws.pick(TALKED), draws.pick(TENSES)
    tense = said_in(tense, verb)
    for_, auf, case = verb.prepositions
    made = Clause(subject(draws, "P"), Predicate(verb, left_behind(for_)), tense)
    if draws.chance(50):
        head, kopf = "(WHNP (WP whom))", f"{auf} {WHOM[case]}"
    else:
        head, kopf = "(WHNP (WP what))", WHAT_FOR[auf]
    return f"(SBARQ {head} (SQ {asked(made)}) (. ?))", f"{inverted(made, kopf + ' ')}?"


def wh_clause(draws: Draws, tense: str) -> tuple[str, str, Clause]:
    """Where, where to, when, why or how somebody does something: both question words, and the clause without them."""
    word = draws.pick(("where", "where", "whither", "when", "why", "why"))
    if word in ("when", "why"):
        kind = draws.pick("PPPA")
        made = clause(draws, tense, Scope(kind, THIRD, tense))
        made = made._replace(adverb=NEITHER)
    else:
        verb = draws.pick(DONE_SOMEWHERE if word == "where" else GOING)
        made = Clause(subject(draws, "P"), Predicate(verb), said_in(tense, verb))
    en, de = {
        "where": ("where", "wo"),
        "whither": ("where", "wohin"),
        "when": ("when", "wann"),
        "why": ("why", "warum"),
    }[word]
    return f"(WHADVP (WRB {en}))", de, made
