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
    from s2s_synthetic_corpus.draws import Draws

TENSES = ("present", "present", "past", "past", "perfect", "progressive", "can", "future", "want")
PLAIN_TENSES = ("present", "present", "past")
VERBS_FOR = {
    kinds: tuple(v for kind in kinds for v in OBJECT_VERBS.get(kind, ())) for kinds in {n.kinds for n in NOUNS}
}
"""What people do to something of these kinds."""
DONE_SOMEWHERE = tuple(
    verb for verb in VERBS_OF["P"] if verb.frame == "at" or (verb.frame == "i" and "p" in verb.marks)
)


def grow(draws: Draws, phrase: Phrase) -> Phrase:
    """The phrase, now and then with a relative clause."""
    noun, dice = phrase.noun, draws.below(1000)
    if noun is None or dice >= 110:
        return phrase
    if noun.kinds in ("P", "A") and dice < 55:
        tree, de = doing(draws, noun, phrase.gender)
    elif noun.kinds == "P" and dice < 70:
        tree, de = owning(draws, phrase.gender)
    elif noun.place[0] == "in" and dice < 50:
        tree, de = inside(draws, phrase.gender)
    elif dice < 85 and VERBS_FOR[noun.kinds]:
        tree, de = done_to(draws, noun, phrase.gender)
    elif noun.adjectives:
        tree, de = described(draws, noun, phrase)
    else:
        return phrase
    return phrase._replace(tree=f"(NP {phrase.tree} (SBAR {tree}))", de=phrase.de + block(de), heavy=True)


def who(noun: Noun) -> str:
    """The relative that is the subject: who for people, that for all else."""
    return "(WHNP (WP who))" if noun.kinds == "P" else "(WHNP (WDT that))"


def person(gender: int) -> int:
    """Singular or plural, as the verb sees it."""
    return THEY if gender == PLURAL else THIRD


def doing(draws: Draws, noun: Noun, gender: int) -> tuple[str, str]:
    """Who sleeps: der schläft."""
    scope = Scope(noun.kinds, THIRD, "", draws.chance(12))
    made = clause(draws, draws.pick(TENSES), scope, who=Phrase("", "", person(gender)))
    return f"{who(noun)} (S{statement_vp(made)})", without_subject(made, RELATIVE[gender][NOM])


def described(draws: Draws, noun: Noun, phrase: Phrase) -> tuple[str, str]:
    """That is old, that belongs to Anna: das alt ist, das Anna gehört."""
    tense = draws.pick(PLAIN_TENSES)
    made = Clause(Phrase("", "", person(phrase.gender)), of_thing(draws, phrase, tense), tense)
    return f"{who(noun)} (S{statement_vp(made)})", without_subject(made, RELATIVE[phrase.gender][NOM])


def done_to(draws: Draws, noun: Noun, gender: int) -> tuple[str, str]:
    """That he is looking for, that he helps: den er gerade sucht, dem er hilft."""
    verb, tense = draws.pick(VERBS_FOR[noun.kinds]), draws.pick(TENSES)
    tense = said_in(tense, verb)
    en, _, case = verb.prepositions
    left = f" (PP ({'TO' if en == 'to' else 'IN'} {en}))" if en else ""
    made = Clause(subject(draws, "P"), Predicate(verb, left), tense)
    tree = f"(WHNP (WDT that)) (S {made.subject.tree}{statement_vp(made)})"
    return tree, subordinate(made, RELATIVE[gender][case])


def owning(draws: Draws, gender: int) -> tuple[str, str]:
    """Whose dog sleeps: dessen Hund schläft."""
    noun, plural = draws.pick(NOUNS_OF["A"]), draws.chance(30)
    owned = Phrase("", "", THEY if plural else THIRD)
    made = clause(draws, draws.pick(TENSES), Scope("A", THIRD, ""), who=owned)
    head = f"{RELATIVE[gender][GEN]} {noun.forms[plural][NOM]}"
    return f"(WHNP (WP$ whose) {noun.trees[plural]}) (S{statement_vp(made)})", without_subject(made, head)


def inside(draws: Draws, gender: int) -> tuple[str, str]:
    """In which we live: in dem wir wohnen."""
    made = Clause(subject(draws, "P"), Predicate(draws.pick(DONE_SOMEWHERE)), draws.pick(PLAIN_TENSES))
    tree = f"(WHPP (IN in) (WHNP (WDT which))) (S {made.subject.tree}{statement_vp(made)})"
    return tree, subordinate(made, f"in {RELATIVE[gender][DAT]}")
