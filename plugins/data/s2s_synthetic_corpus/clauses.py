"""Clauses: a subject, a predicate and a tense, in the word orders of both languages.

English keeps subject, verb, object. German puts the finite verb second in a statement, first in a yes-no question, and
last in a subordinate clause, where it is joined with a separable prefix again.
"""

from __future__ import annotations

__all__ = [
    "NEITHER", "REFLEXIVE", "Clause", "asked", "clause", "infinitive", "inverted", "may_be_timed", "statement",
    "statement_vp", "subject", "subordinate", "when", "with_time", "without_subject",
]  # fmt: skip

from typing import TYPE_CHECKING, NamedTuple

from s2s_synthetic_corpus.determiners import FIXED, FREE
from s2s_synthetic_corpus.english import verb_phrase
from s2s_synthetic_corpus.german import NOM
from s2s_synthetic_corpus.lexicon import NOUNS_OF
from s2s_synthetic_corpus.phrases import Phrase, both, called, each_one, noun_phrase, pronoun
from s2s_synthetic_corpus.predicates import Predicate, Scope, grown, predicate
from s2s_synthetic_corpus.times import ADVERBS, JUST, TIMES, Adverbial

if TYPE_CHECKING:
    from s2s_synthetic_corpus.rng import HashRng

REFLEXIVE = (" mich", " dich", " sich", " uns", " sich", " sich")
EVERYTHING = (" jede", " alle ")
"""No adverb with these objects: “never” together with “every” is hard to understand."""
NEITHER = Adverbial("", "")
GROUPS = {
    "past": "past",
    "pluperfect": "past",
    "wanted": "past",
    "could": "past",
    "perfect": "perfect",
    "future": "future",
}
GROUPS |= {"present": "present", "progressive": "present", "was done": "past", "is done": "present"}
GROUPS |= {"has been done": "perfect", "will be done": "future"}
"""Tense -> group of adverbials of time; tenses not listed here are modal verbs, which have their own group."""


class Clause(NamedTuple):
    """All parts of a clause."""

    subject: Phrase
    predicate: Predicate
    tense: str
    negation: str = ""
    """not, n't, or empty."""
    adverb: Adverbial = NEITHER
    """Adverb of frequency, in the position of nicht."""
    time: Adverbial = NEITHER
    """Adverbial of time, unless it comes first in the sentence."""
    second: Predicate | None = None
    """A second predicate with the same subject."""


def subject(rng: HashRng, kind: str, *, negated: bool = False, grow: Scope | None = None) -> Phrase:
    """The subject: P a person, A an animal."""
    dice = rng.below(100)
    if kind == "P" and dice < 50:
        if dice < 34:
            return pronoun(rng, NOM)
        return called(rng) if dice < 46 else both(one_who_does(rng), one_who_does(rng))
    style = FIXED if negated else FREE
    phrase = each_one(rng, rng.pick(NOUNS_OF[kind]), NOM, style)
    if dice >= 96:
        return both(phrase, noun_phrase(rng, rng.pick(NOUNS_OF[kind]), NOM, style))
    return grown(rng, phrase, grow) if grow else phrase


def one_who_does(rng: HashRng) -> Phrase:
    """A name or a simple noun phrase for a person."""
    return called(rng) if rng.chance(40) else noun_phrase(rng, rng.pick(NOUNS_OF["P"]), NOM, FIXED)


def clause(rng: HashRng, tense: str, scope: Scope, *, who: Phrase | None = None) -> Clause:
    """A subject of the scope's kind and something it does; the caller adds adverbials of time."""
    doer = who or subject(rng, scope.kind, negated=scope.negated, grow=scope)
    does = predicate(rng, scope._replace(person=doer.person, tense=tense, noun=doer.noun))
    adverb = NEITHER
    if not scope.negated and tense in ADVERBS and rng.chance(18) and not does.before.startswith(EVERYTHING):
        adverb = rng.pick(ADVERBS[tense])
    negation = ("n't" if rng.chance(60) else "not") if scope.negated else ""
    return Clause(doer, does, tense, negation, adverb)


def with_time(rng: HashRng, made: Clause, percent: int) -> Clause:
    """The clause, with an adverbial of time in `percent` of the cases."""
    if not rng.chance(percent) or made.predicate.heavy or not may_be_timed(made):
        return made
    return made._replace(time=when(rng, made.tense))


def may_be_timed(made: Clause) -> bool:
    """Whether an adverbial of time fits: no adverb of frequency, not a state, and not the progressive."""
    return not (made.adverb.en or made.tense == "progressive" or "t" in made.predicate.verb.marks)


def when(rng: HashRng, tense: str) -> Adverbial:
    """An adverbial of time that goes with the tense."""
    return rng.pick(rng.pick(TIMES[GROUPS.get(tense, "modal")]))


def statement_vp(made: Clause) -> str:
    """The English verb phrase, with a space before it."""
    verb, person = made.predicate.verb, made.subject.person
    rest = made.predicate.en
    first = verb_phrase(
        verb.frames[made.tense][person], verb.english, f"{rest}{made.time.en}", made.adverb.en, made.negation
    )
    if not made.second:
        return first
    verb = made.second.verb
    second = verb_phrase(verb.frames[made.tense][person], verb.english, made.second.en, "", "")
    return f" (VP{first} (CC and){second})"


def middle(made: Clause) -> str:
    """German between the pronouns and the final verb."""
    does = made.predicate
    time = JUST.de + made.time.de if made.tense == "progressive" else made.time.de
    never = " nicht" if made.negation and not does.kein else made.adverb.de
    return f"{time}{does.before}{never}{does.after}"


def lights(does: Predicate, person: int) -> str:
    """German pronouns early in the clause, the reflexive one first."""
    return REFLEXIVE[person] + does.light if does.verb.reflexive else does.light


def joined_second(made: Clause, *, last: bool) -> str:
    """The second predicate in German; `last`: with its verb at the end."""
    does = made.second
    if does is None:
        return ""
    person = made.subject.person
    verb, early = does.verb.german[made.tense][person], lights(does, person)
    if last:
        return f" und{early}{does.before}{does.after}{verb.joined}"
    return f" und {verb.finite}{early}{does.before}{does.after}{verb.end}"


def statement(made: Clause) -> tuple[str, str]:
    """Subject first: (NP …) (VP …), and German with the verb second."""
    who, does = made.subject, made.predicate
    verb = does.verb.german[made.tense][who.person]
    de = f"{who.de} {verb.finite}{lights(does, who.person)}{middle(made)}{verb.end}{does.tail}"
    return who.tree + statement_vp(made), de + joined_second(made, last=False)


def with_subject(made: Clause) -> str:
    """The German subject and the pronouns, if the subject is not first: pronouns precede a noun."""
    who, early = made.subject, lights(made.predicate, made.subject.person)
    return f" {who.de}{early}" if who.light else f"{early} {who.de}"


def inverted(made: Clause, front: str = "") -> str:
    """German with the verb before the subject, after `front` (which ends with a space) or at the start."""
    does = made.predicate
    verb = does.verb.german[made.tense][made.subject.person]
    de = f"{front}{verb.finite}{with_subject(made)}{middle(made)}{verb.end}{does.tail}"
    return de + joined_second(made, last=False)


def subordinate(made: Clause, head: str) -> str:
    """German with the verb last, after a conjunction or a relative pronoun."""
    does = made.predicate
    verb = does.verb.german[made.tense][made.subject.person]
    return f"{head}{with_subject(made)}{middle(made)}{verb.joined}{does.tail}{joined_second(made, last=True)}"


def without_subject(made: Clause, head: str) -> str:
    """A subordinate clause whose head is its subject: der, wer."""
    does, person = made.predicate, made.subject.person
    verb = does.verb.german[made.tense][person]
    return f"{head}{lights(does, person)}{middle(made)}{verb.joined}{does.tail}"


def asked(made: Clause) -> str:
    """The English auxiliary, subject and rest of a question."""
    does, person = made.predicate, made.subject.person
    frame = does.verb.frames[made.tense][person]
    rest = f"{does.verb.english[frame.tag]}{does.en}{made.time.en}"
    return f"{frame.auxiliary} {made.subject.tree}{frame.opening}{rest}{frame.close}"


def infinitive(does: Predicate, person: int) -> tuple[str, str]:
    """(S (VP (TO to) …)) with a space before it, and die Tür aufzumachen without one."""
    en = f" (S (VP (TO to) (VP {does.verb.english[0]}{does.en})))"
    de = f"{lights(does, person)}{does.before}{does.after}{does.verb.zu}{does.tail}"
    return en, de[1:]
