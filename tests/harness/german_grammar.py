"""An independent check of German: agreement, cases after prepositions and verb positions, found from the text alone.

It shares with the generator only the lists of words (which noun has which gender, plural and genitive); endings are
derived from rules here, while the generator reads tables, and sentences are analysed word by word.
"""

from __future__ import annotations

__all__ = ["NounPhrase", "before_the_verb", "finite_forms", "noun_phrases", "readings", "verb_last_faults", "words"]

import re
from itertools import product
from typing import NamedTuple

from s2s_synthetic_corpus import lexicon, nouns

CASES, GENDERS = "NADG", "mfnp"
Reading = tuple[str, str]
"""Gender (p: plural) and case."""
EVERY_READING = frozenset(product(GENDERS, CASES))
WEAK_NOUNS = {"Junge": "Jungen", "Nachbar": "Nachbarn", "Student": "Studenten", "Bauer": "Bauern"}
WEAK_NOUNS |= {"Bär": "Bären", "Affe": "Affen"}
STRONG_ENDINGS = {
    "mN": "er",
    "mA": "en",
    "mD": "em",
    "fN": "e",
    "fA": "e",
    "fD": "er",
    "fG": "er",
    "nN": "es",
    "nA": "es",
}
STRONG_ENDINGS |= {"nD": "em", "pN": "e", "pA": "e", "pD": "en", "pG": "er"}
DER = dict(zip(["mN", "mA", "mD", "mG"], ["der", "den", "dem", "des"], strict=True))
DER |= dict(zip(["fN", "fA", "fD", "fG"], ["die", "die", "der", "der"], strict=True))
DER |= dict(zip(["nN", "nA", "nD", "nG"], ["das", "das", "dem", "des"], strict=True))
DER |= dict(zip(["pN", "pA", "pD", "pG"], ["die", "die", "den", "der"], strict=True))
DATIVE_AFTER = {"mit", "von", "zu", "aus", "nach"}
EITHER_AFTER = {"in", "an", "auf", "hinter", "neben", "vor", "unter", "über"}
MELTED = {"im": "mnD", "am": "mnD", "zum": "mnD", "vom": "mnD", "ins": "nA", "ans": "nA", "zur": "fD"}
EIN_STEMS = {"ein", "kein", "mein", "dein", "sein", "ihr", "unser"}
DER_STEMS = {"dies", "jed", "all", "welch"}
LOOSE_STEMS = {"einig", "viel"}


def words(sentence: str) -> list[str]:
    """Words and marks; the first word as it is."""
    return re.findall(r"[\w.-]*\w|[,.?!]", sentence)


def pronominal(gender: str, case: str) -> str:
    """Ending of dieser: that of a strong adjective, but -es in the genitive of der and das."""
    return STRONG_ENDINGS.get(gender + case, "es")


def adjective_ending(kind: str, gender: str, case: str) -> str:
    """Weak: -e in five cells, else -en; strong: as dieser, but -en in that genitive; mixed: strong where ein is."""
    bare = (gender, case) in {("m", "N"), ("n", "N"), ("n", "A")}
    if kind == "strong" or (kind == "mixed" and bare):
        return STRONG_ENDINGS.get(gender + case, "en")
    return "e" if gender != "p" and (case == "N" or (case == "A" and gender in "fn")) else "en"


def noun_readings() -> dict[str, set[Reading]]:
    """For each form of each noun, what it can be."""
    found: dict[str, set[Reading]] = {}
    for row in nouns.NOUNS.strip().splitlines():
        _, _, singular, plural, genitive, gender, *_ = row.split()
        oblique = WEAK_NOUNS.get(singular, singular)
        forms = {"N": singular, "A": oblique, "D": oblique, "G": genitive}
        for case, form in forms.items():
            found.setdefault(form, set()).add((gender, case))
        if plural != nouns.NUMBERLESS:
            for case in CASES:
                n = "n" if case == "D" and plural[-1] not in "ns" else ""
                found.setdefault(plural + n, set()).add(("p", case))
    return found


NOUNS = noun_readings()
STEMS = {row.split()[3] for row in nouns.ADJECTIVES.strip().splitlines()}
STEMS |= {row.split()[1] for row in nouns.COLOURS.strip().splitlines()}
ADJECTIVES = {stem + ending for stem in STEMS for ending in ("e", "er", "es", "en", "em")}


def determiner(word: str) -> tuple[str, frozenset[Reading]] | None:
    """Which adjectives follow a determiner and what it can agree with; None: it is no determiner."""
    if word in MELTED:
        *genders, case = MELTED[word]
        return "weak", frozenset((gender, case) for gender in genders)
    if word in DER.values():
        return "weak", frozenset((cell[0], cell[1]) for cell, form in DER.items() if form == word)
    for stem, kind in [(s, "weak") for s in DER_STEMS] + [(s, "strong") for s in LOOSE_STEMS]:
        if word.startswith(stem) and word != stem:
            return kind, frozenset(r for r in EVERY_READING if word == stem + pronominal(*r))
    for stem in EIN_STEMS:
        if word.startswith(stem) and len(word) <= len(stem) + 2:
            cells = frozenset(r for r in EVERY_READING if word == stem + ein_ending(*r))
            return "mixed", frozenset(r for r in cells if stem != "ein" or r[0] != "p")
    return None


def ein_ending(gender: str, case: str) -> str:
    """As dieser, but nothing in three cells."""
    return "" if (gender, case) in {("m", "N"), ("n", "N"), ("n", "A")} else pronominal(gender, case)


class NounPhrase(NamedTuple):
    """A noun with what stands before it."""

    preposition: str
    determiner: str
    adjectives: tuple[str, ...]
    noun: str
    perhaps_pronoun: bool
    """What looks like a determiner may be ihr (to her), or behind a comma a relative, before a bare noun."""


def noun_phrases(sentence: str) -> list[NounPhrase]:
    """All noun phrases of a sentence whose noun is in the lexicon."""
    found, tokens = [], words(sentence)
    tokens[0] = tokens[0] if tokens[0] in NOUNS else tokens[0].lower()
    for at, noun in enumerate(tokens):
        if noun not in NOUNS:
            continue
        start = at
        while start and (tokens[start - 1] in ADJECTIVES or tokens[start - 1] == "sehr"):
            start -= 1
        adjectives = tuple(word for word in tokens[start:at] if word != "sehr")
        article = tokens[start - 1] if start and determiner(tokens[start - 1]) else ""
        before = start - 1 - bool(article)
        preposition = tokens[before] if before >= 0 and tokens[before] in DATIVE_AFTER | EITHER_AFTER else ""
        perhaps = article == "ihr" or (article in DER.values() and before >= 0 and tokens[before] == ",")
        found.append(NounPhrase(preposition, article, adjectives, noun, perhaps))
    return found


def readings(phrase: NounPhrase) -> frozenset[Reading]:
    """Genders and cases in which every word of the phrase agrees; empty: the phrase is wrong."""
    kind, cells = determiner(phrase.determiner) or ("strong", EVERY_READING)
    cells &= NOUNS[phrase.noun]
    if phrase.preposition:
        cells = frozenset(c for c in cells if c[1] == "D" or (c[1] == "A" and phrase.preposition in EITHER_AFTER))
    for word in phrase.adjectives:
        cells = frozenset(c for c in cells if any(word == s + adjective_ending(kind, *c) for s in STEMS))
    if phrase.perhaps_pronoun:
        return cells | readings(phrase._replace(determiner="", perhaps_pronoun=False))
    return cells


def finite_forms() -> set[str]:
    """Every form that can be the finite verb of a main clause."""
    verbs = [verb for _, verb in lexicon.ALL_VERBS]
    verbs += [*lexicon.THAT_VERBS, *lexicon.WHETHER_VERBS, *lexicon.INFINITIVE_VERBS, lexicon.BE, lexicon.THERE]
    verbs += [lexicon.LIE, lexicon.STAND, lexicon.BELONG, lexicon.COST, lexicon.RAIN, lexicon.SNOW]
    return {complex_.finite for verb in verbs for row in verb.german.values() for complex_ in row}


PREFIXES = ("auf", "zu", "zurück", "an", "aus", "ein", "ab", "mit", "weg")
FINITE = finite_forms()
LAST = FINITE | {prefix + form for prefix in PREFIXES for form in FINITE}
HEADS = {"dass", "ob", "weil", "obwohl", "wenn", "als", "bevor", "nachdem", "während"}
ASKING = {"wo", "wohin", "wann", "warum"}
RELATIVES = {"der", "die", "das", "den", "dem", "dessen", "deren", "denen"}


def relative(segment: list[str]) -> bool:
    """Whether words after a comma begin a relative clause."""
    first = segment[1] if segment[0] == "in" and len(segment) > 1 else segment[0]
    infinitive = "zu" in segment[-2:-1] or re.fullmatch(rf"({'|'.join(PREFIXES)})zu\w+en", segment[-1])
    return first in RELATIVES and not infinitive


def verb_last_faults(sentence: str) -> list[str]:
    """Subordinate clauses of a sentence that do not end in a finite verb.

    A relative clause may interrupt another one, which then goes on behind the next comma.
    """
    segments = [words(part) for part in sentence.rstrip(".?!").split(", ")]
    segments[0][0] = segments[0][0][0].lower() + segments[0][0][1:]
    faults: list[str] = []
    at, goes_on = 0, True  # what follows a relative clause is not another one
    while at < len(segments):
        first = segments[at][0]
        is_relative = not goes_on and relative(segments[at])
        opened = first in HEADS or (at and first in ASKING) or is_relative
        at, goes_on = (closed(segments, at, faults) if opened else at + 1), is_relative
    return faults


def closed(segments: list[list[str]], at: int, faults: list[str]) -> int:
    """Where what follows the clause that opens at a segment begins."""
    while segments[at][-1] not in LAST:
        if at + 2 >= len(segments) or not relative(segments[at + 1]):
            faults.append(" ".join(segments[at]))
            return at + 1
        at = closed(segments, at + 1, faults)
    return at + 1


def before_the_verb(sentence: str) -> str:
    """What stands before the finite verb of a simple statement."""
    tokens = words(sentence)
    at = next(at for at, token in enumerate(tokens) if at and token in FINITE)
    return " ".join(tokens[:at])
