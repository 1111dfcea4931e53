"""Questions: yes or no, and with a question word, which German declines and English may part from its preposition."""

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
    from s2s_synthetic_corpus.rng import HashRng

Pair = tuple[str, str]
"""The whole tree, and the whole German sentence."""
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


def question(rng: HashRng) -> Pair:
    """A question of any type."""
    dice = rng.below(100)
    if dice < 42:
        return yes_or_no(rng)
    if dice < 55:
        return who_does(rng)
    if dice < 75:
        return object_asked(rng)
    if dice < 83:
        return preposition_left(rng)
    tense = rng.pick(TENSES)
    head, kopf, made = wh_clause(rng, tense)
    return f"(SBARQ {head} (SQ {asked(made)}) (. ?))", f"{inverted(made, kopf + ' ')}?"


def yes_or_no(rng: HashRng) -> Pair:
    """Does he see the dog: sieht er den Hund."""
    tense = rng.pick(TENSES)
    if rng.chance(15):
        thing = noun_phrase(rng, rng.pick(NOUNS_OF[rng.pick("BSLCVEIRA")]), NOM, FIXED)
        tense = rng.pick(("present", "past"))
        made = Clause(thing, of_thing(rng, thing, tense), tense)
    else:
        made = with_time(rng, clause(rng, tense, Scope(rng.pick("PPPPA"), THIRD, tense)), 25)
        made = made._replace(adverb=NEITHER)
    return f"(SQ {asked(made)} (. ?))", f"{inverted(made)}?"


def who_does(rng: HashRng) -> Pair:
    """Who helps the man: wer hilft dem Mann; the order of a statement."""
    tense = rng.pick(TENSES)
    made = with_time(rng, clause(rng, tense, Scope("P", THIRD, tense), who=WHO), 25)
    tree = f"(SBARQ (WHNP (WP who)) (SQ{statement_vp(made)}) (. ?))"
    return tree, f"{statement(made)[1]}?"


def object_asked(rng: HashRng) -> Pair:
    """What, whom, which dog does he see: was, wen, wem, welchen Hund."""
    kind, tense, dice = rng.pick("PPPABSLCVFMD"), rng.pick(TENSES), rng.below(100)
    verb = rng.pick(OBJECT_VERBS[kind])
    tense = said_in(tense, verb)
    to, _, case = verb.prepositions
    made = with_time(rng, Clause(subject(rng, "P"), Predicate(verb, left_behind(to)), tense), 25)
    if dice < 40:
        which = noun_phrase(rng, rng.pick(NOUNS_OF[kind]), case, ASKED)
        head, kopf = f"(WHNP{which.tree[3:]}", which.de
    elif dice < 50 and kind not in "MD":
        noun = rng.pick(NOUNS_OF[kind])
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


def preposition_left(rng: HashRng) -> Pair:
    """What is he waiting for: worauf wartet er; whom: auf wen."""
    verb, tense = rng.pick(TALKED), rng.pick(TENSES)
    tense = said_in(tense, verb)
    for_, auf, case = verb.prepositions
    made = Clause(subject(rng, "P"), Predicate(verb, left_behind(for_)), tense)
    if rng.chance(50):
        head, kopf = "(WHNP (WP whom))", f"{auf} {WHOM[case]}"
    else:
        head, kopf = "(WHNP (WP what))", WHAT_FOR[auf]
    return f"(SBARQ {head} (SQ {asked(made)}) (. ?))", f"{inverted(made, kopf + ' ')}?"


def wh_clause(rng: HashRng, tense: str) -> tuple[str, str, Clause]:
    """Where, where to, when or why somebody does something: both question words, and the clause without them."""
    word = rng.pick(("where", "where", "whither", "when", "why", "why"))
    if word in ("when", "why"):
        kind = rng.pick("PPPA")
        made = clause(rng, tense, Scope(kind, THIRD, tense))
        made = made._replace(adverb=NEITHER)
    else:
        verb = rng.pick(DONE_SOMEWHERE if word == "where" else GOING)
        made = Clause(subject(rng, "P"), Predicate(verb), said_in(tense, verb))
    en, de = {
        "where": ("where", "wo"),
        "whither": ("where", "wohin"),
        "when": ("when", "wann"),
        "why": ("why", "warum"),
    }[word]
    return f"(WHADVP (WRB {en}))", de, made
