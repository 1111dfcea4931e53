"""Relative clauses: their pronoun takes gender and number from its noun, and its case from its own clause."""

from __future__ import annotations

__all__ = ["grow"]

from typing import TYPE_CHECKING

from s2s_synthetic_corpus.clauses import Clause, clause, statement_vp, subject, subordinate, without_subject
from s2s_synthetic_corpus.german import DAT, GEN, NOM, PLURAL, RELATIVE, block
from s2s_synthetic_corpus.lexicon import NOUNS, NOUNS_OF, OBJECT_VERBS, VERBS_OF, Noun, said_in
from s2s_synthetic_corpus.phrases import THEY, THIRD, Phrase
from s2s_synthetic_corpus.predicates import Predicate, Scope
from s2s_synthetic_corpus.things import of_thing

if TYPE_CHECKING:
    from s2s_synthetic_corpus.rng import HashRng

TENSES = ("present", "present", "past", "past", "perfect", "progressive", "can", "future", "want")
PLAIN_TENSES = ("present", "present", "past")
VERBS_FOR = {
    kinds: tuple(v for kind in kinds for v in OBJECT_VERBS.get(kind, ())) for kinds in {n.kinds for n in NOUNS}
}
"""Kinds -> verbs that take an object of one of these kinds, with a person as subject."""
DONE_SOMEWHERE = tuple(
    verb for verb in VERBS_OF["P"] if verb.frame == "at" or (verb.frame == "i" and "p" in verb.marks)
)


def grow(rng: HashRng, phrase: Phrase) -> Phrase:
    """The phrase, sometimes with a relative clause."""
    noun, dice = phrase.noun, rng.below(1000)
    if noun is None or dice >= 110:
        return phrase
    if noun.kinds in ("P", "A") and dice < 55:
        tree, de = doing(rng, noun, phrase.gender)
    elif noun.kinds == "P" and dice < 70:
        tree, de = owning(rng, phrase.gender)
    elif noun.place[0] == "in" and dice < 50:
        tree, de = inside(rng, phrase.gender)
    elif dice < 85 and VERBS_FOR[noun.kinds]:
        tree, de = done_to(rng, noun, phrase.gender)
    elif noun.adjectives:
        tree, de = described(rng, noun, phrase)
    else:
        return phrase
    return phrase._replace(tree=f"(NP {phrase.tree} (SBAR {tree}))", de=phrase.de + block(de), heavy=True)


def who(noun: Noun) -> str:
    """The relative pronoun as subject: who for people, that for everything else."""
    return "(WHNP (WP who))" if noun.kinds == "P" else "(WHNP (WDT that))"


def person(gender: int) -> int:
    """The person of the verb: third person singular or plural."""
    return THEY if gender == PLURAL else THIRD


def doing(rng: HashRng, noun: Noun, gender: int) -> tuple[str, str]:
    """Who sleeps: der schläft."""
    scope = Scope(noun.kinds, THIRD, "", rng.chance(12))
    made = clause(rng, rng.pick(TENSES), scope, who=Phrase("", "", person(gender)))
    return f"{who(noun)} (S{statement_vp(made)})", without_subject(made, RELATIVE[gender][NOM])


def described(rng: HashRng, noun: Noun, phrase: Phrase) -> tuple[str, str]:
    """That is old, that belongs to Anna: das alt ist, das Anna gehört."""
    tense = rng.pick(PLAIN_TENSES)
    made = Clause(Phrase("", "", person(phrase.gender)), of_thing(rng, phrase, tense), tense)
    return f"{who(noun)} (S{statement_vp(made)})", without_subject(made, RELATIVE[phrase.gender][NOM])


def done_to(rng: HashRng, noun: Noun, gender: int) -> tuple[str, str]:
    """That he is looking for, that he helps: den er gerade sucht, dem er hilft."""
    verb, tense = rng.pick(VERBS_FOR[noun.kinds]), rng.pick(TENSES)
    tense = said_in(tense, verb)
    en, _, case = verb.prepositions
    left = f" (PP ({'TO' if en == 'to' else 'IN'} {en}))" if en else ""
    made = Clause(subject(rng, "P"), Predicate(verb, left), tense)
    tree = f"(WHNP (WDT that)) (S {made.subject.tree}{statement_vp(made)})"
    return tree, subordinate(made, RELATIVE[gender][case])


def owning(rng: HashRng, gender: int) -> tuple[str, str]:
    """Whose dog sleeps: dessen Hund schläft."""
    noun, plural = rng.pick(NOUNS_OF["A"]), rng.chance(30)
    owned = Phrase("", "", THEY if plural else THIRD)
    made = clause(rng, rng.pick(TENSES), Scope("A", THIRD, ""), who=owned)
    head = f"{RELATIVE[gender][GEN]} {noun.forms[plural][NOM]}"
    return f"(WHNP (WP$ whose) {noun.trees[plural]}) (S{statement_vp(made)})", without_subject(made, head)


def inside(rng: HashRng, gender: int) -> tuple[str, str]:
    """In which we live: in dem wir wohnen."""
    made = Clause(subject(rng, "P"), Predicate(rng.pick(DONE_SOMEWHERE)), rng.pick(PLAIN_TENSES))
    tree = f"(WHPP (IN in) (WHNP (WDT which))) (S {made.subject.tree}{statement_vp(made)})"
    return tree, subordinate(made, f"in {RELATIVE[gender][DAT]}")
