"""Embedded clauses: adverbial clauses, that and whether, infinitives with zu, and two joined sentences."""

from __future__ import annotations

__all__ = ["adverbial_clause", "joined", "reason_about_it", "reported", "to_do"]

from typing import TYPE_CHECKING

from s2s_synthetic_corpus.clauses import (
    NEITHER,
    Clause,
    clause,
    infinitive,
    inverted,
    statement,
    subject,
    subordinate,
    with_time,
)
from s2s_synthetic_corpus.determiners import FIXED, SAID
from s2s_synthetic_corpus.german import ACC, NOM, PLURAL, block
from s2s_synthetic_corpus.lexicon import (
    BE,
    INFINITIVE_VERBS,
    NOUNS_OF,
    OBJECT_VERBS,
    RAIN,
    SNOW,
    THAT_VERBS,
    VERBS_OF,
    WHETHER_VERBS,
    said_in,
)
from s2s_synthetic_corpus.phrases import PRONOUNS, THIRD, Phrase, noun_phrase
from s2s_synthetic_corpus.predicates import FRAMES, Predicate, Scope, predicate, settled
from s2s_synthetic_corpus.questions import wh_clause
from s2s_synthetic_corpus.relatives import grow
from s2s_synthetic_corpus.things import unsaid

if TYPE_CHECKING:
    from s2s_synthetic_corpus.rng import HashRng

Pair = tuple[str, str]
"""The tree between (S and the full stop, and the German sentence without its full stop."""
IT = Phrase("(NP (PRP it))", "es", light=True)
PEOPLE_FIRST = "PPPPA"
NOW_TENSES = ("present",) * 5 + ("future", "can", "must", "progressive", "should", "want")
THEN_TENSES = ("past",) * 6 + ("could", "wanted")
WHEN_NOW, WHEN_THEN = ("(WHADVP (WRB when))", "wenn"), ("(WHADVP (WRB when))", "als")
BECAUSE, ALTHOUGH, IF = ("(IN because)", "weil"), ("(IN although)", "obwohl"), ("(IN if)", "wenn")
WHILE, BEFORE, AFTER = ("(IN while)", "während"), ("(IN before)", "bevor"), ("(IN after)", "nachdem")
NOW_HEADS = (BECAUSE, BECAUSE, ALTHOUGH, IF, IF, WHEN_NOW, WHILE, BEFORE)
THEN_HEADS = (BECAUSE, BECAUSE, ALTHOUGH, WHEN_THEN, WHEN_THEN, WHILE, BEFORE, AFTER)
CONDITIONS = (IF, WHEN_NOW, BEFORE)
NEGATABLE = (BECAUSE, ALTHOUGH, IF)


def weather(rng: HashRng, tense: str, *, rains: bool = False) -> Clause:
    """It is raining: es regnet gerade; or, if not at this moment, it rains."""
    tense = "progressive" if tense == "present" and not rains else tense
    return Clause(IT, Predicate(rng.pick((RAIN, SNOW))), tense)


def dependent(rng: HashRng, head: Pair, tense: str) -> Pair:
    """A conjunction and its clause, with the German verb last."""
    if rng.chance(10):
        made = weather(rng, tense, rains=head in CONDITIONS)
    else:
        negated = head in NEGATABLE and rng.chance(20)
        made = clause(rng, tense, Scope(rng.pick(PEOPLE_FIRST), THIRD, tense, negated))
        made = made._replace(adverb=NEITHER) if tense == "pluperfect" else made
    return f"(SBAR {head[0]} (S {statement(made)[0]}))", subordinate(made, head[1])


def embedded_in(made: Clause, tree: str, de: str) -> Pair:
    """A statement with a clause at its end."""
    does = made.predicate
    return statement(made._replace(predicate=does._replace(en=f"{does.en} {tree}", tail=does.tail + block(de))))


def adverbial_clause(rng: HashRng) -> Pair:
    """Because, although, if, when, while, before, after: after the main clause, or before it."""
    then = rng.chance(50)
    tense = rng.pick(THEN_TENSES if then else NOW_TENSES)
    head = rng.pick(THEN_HEADS if then else NOW_HEADS)
    if tense == "progressive" and head in CONDITIONS:
        head = WHILE
    negated = tense != "must" and rng.chance(15)
    main = clause(rng, tense, Scope(rng.pick(PEOPLE_FIRST), THIRD, tense, negated, grow))
    if head is AFTER:
        tree, de = dependent(rng, head, "pluperfect")
    else:
        tree, de = dependent(rng, head, "past" if then else "perfect" if rng.chance(12) else "present")
    if rng.chance(60):
        return embedded_in(main, tree, de)
    main = with_time(rng, main, 15)
    return f"{tree} (, ,) {statement(main)[0]}", inverted(main, f"{de}, ")


SAID_NOW = ("present", "present", "perfect", "future", "can", "must")
SAID_THEN = ("past", "past", "pluperfect", "could", "wanted")


def reported(rng: HashRng) -> Pair:
    """Says that, knows that; asks whether, does not know where."""
    told, then = rng.chance(55), rng.chance(35)
    verb = rng.pick(THAT_VERBS if told else WHETHER_VERBS)
    who = subject(rng, "P", grow=None)
    negation = rng.pick(("n't", "not")) if rng.chance(20) else ""
    tense = rng.pick(SAID_THEN if then else SAID_NOW)
    if told or rng.chance(50):
        tree, de = dependent(rng, ("(IN that)", "dass") if told else ("(IN whether)", "ob"), tense)
    else:
        asked, gefragt, made = wh_clause(rng, tense)
        tree, de = f"(SBAR {asked} (S {statement(made)[0]}))", subordinate(made, gefragt)
    return embedded_in(Clause(who, Predicate(verb), "past" if then else "present", negation), tree, de)


ATTEMPTS = ("present", "present", "past", "past", "past", "perfect", "progressive", "future")
EASY = (
    ("easy", "leicht"),
    ("difficult", "schwer"),
    ("important", "wichtig"),
    ("dangerous", "gefährlich"),
    ("nice", "schön"),
)
GOING = tuple(verb for verb in VERBS_OF["P"] if verb.frame == "to")
WILLED = "imperative"
"""Used as the tense of things that one can set out to do, which excludes states."""


def to_do(rng: HashRng) -> Pair:
    """Tries to open the door, goes home to sleep, it is easy to help him; German zu is joined with the verb."""
    dice = rng.below(100)
    if dice < 20:
        does, tense = predicate(rng, Scope("P", THIRD, WILLED)), rng.pick(("present", "past", "future"))
        tree, de = infinitive(does, THIRD)
        easy, leicht = rng.pick(EASY)
        return statement(
            Clause(IT, Predicate(BE, f" (ADJP (JJ {easy})){tree}", after=f" {leicht}", tail=block(de)), tense)
        )
    who = subject(rng, "P", grow=None)
    scope, tense = Scope("P", who.person, WILLED), rng.pick(ATTEMPTS)
    tree, de = infinitive(predicate(rng, scope), who.person)
    if dice < 50:
        verb = rng.pick(GOING)
        going = FRAMES["to"](rng, verb, scope._replace(bare=True))
        return embedded_in(Clause(who, going, tense), tree[1:], f"um {de}")
    verb = rng.pick(INFINITIVE_VERBS)
    return embedded_in(Clause(who, Predicate(verb), said_in(tense, verb)), tree[1:], de)


def reason_about_it(rng: HashRng) -> Pair:
    """Buys the table because it is cheap: the German pronoun has the gender of its noun."""
    kind, then = rng.pick("BSLCVEGIK"), rng.chance(50)
    verb, noun = rng.pick(OBJECT_VERBS[kind]), rng.pick(NOUNS_OF[kind])
    tense = "past" if then and "past" not in verb.barred else "present"
    who, negated = subject(rng, "P"), rng.chance(20)
    what = noun_phrase(rng, noun, ACC, FIXED if negated else SAID)
    lead = f" (PP (IN {verb.prepositions[0]}) {what.tree})" if verb.prepositions[0] else f" {what.tree}"
    main = Clause(who, settled(verb, what, lead, ""), tense, rng.pick(("n't", "not")) if negated else "")
    word = unsaid(rng, what)
    too, zu = rng.pick(((" (RB too)", " zu"), (" (RB very)", " sehr"), ("", "")))
    how = Predicate(BE, f" (ADJP{too} {word.tree})", after=f"{zu} {word.base}")
    why = Clause(taken_up(what), how, tense)
    head = BECAUSE if rng.chance(75) else ALTHOUGH
    return embedded_in(main, f"(SBAR {head[0]} (S {statement(why)[0]}))", subordinate(why, head[1]))


def taken_up(phrase: Phrase) -> Phrase:
    """The pronoun for a thing: it, er or sie or es by its gender; they."""
    if phrase.gender == PLURAL:
        return PRONOUNS[NOM][5]
    return IT._replace(de=("er", "sie", "es")[phrase.gender])


def joined(rng: HashRng) -> Pair:
    """Two statements joined by “and”, or by “but”, which follows a comma in both languages."""
    tenses = rng.pick((NOW_TENSES, THEN_TENSES))
    first, second = (simple(rng, rng.pick(tenses)) for _ in range(2))
    comma, word, wort = rng.pick((("", "and", " und"), ("(, ,) ", "but", ", aber")))
    return f"(S {first[0]}) {comma}(CC {word}) (S {second[0]})", f"{first[1]}{wort} {second[1]}"


def simple(rng: HashRng, tense: str) -> Pair:
    """A short statement."""
    scope = Scope(rng.pick(PEOPLE_FIRST), THIRD, tense, tense != "must" and rng.chance(15))
    return statement(clause(rng, tense, scope))
