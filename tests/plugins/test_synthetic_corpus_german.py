"""The German of the synthetic corpus, against rules written down a second time (tests/harness/german_grammar.py)."""

from __future__ import annotations

import re
from functools import cache

import pytest

from harness.german_grammar import (
    CASES,
    FINITE,
    GENDERS,
    before_the_verb,
    noun_phrases,
    readings,
    verb_last_faults,
    words,
)
from s2s_synthetic_corpus import german
from s2s_synthetic_corpus.determiners import FREE, NEGATED, NUMBER
from s2s_synthetic_corpus.generate import Parallel, pairs
from s2s_synthetic_corpus.lexicon import NOUNS
from s2s_synthetic_corpus.phrases import noun_phrase
from s2s_synthetic_corpus.rng import HashRng
from s2s_synthetic_corpus.times import TIMES


@cache
def sample() -> tuple[Parallel, ...]:
    return tuple(pairs(6, 2_500))


def test_articles_adjectives_and_nouns_agree_everywhere() -> None:
    """Every noun phrase of the corpus has a gender, number and case in which all its words agree."""
    checked = 0
    for made in sample():
        for phrase in noun_phrases(made.de):
            assert readings(phrase), f"{phrase} in {made.de}"
            checked += bool(phrase.determiner or phrase.adjectives)
    assert checked > 4_000


def test_a_wrong_ending_would_be_seen() -> None:
    wrong = ["Der alter Mann schläft.", "Ich sehe ein alten Hund.", "Er hilft mit den Kinder.", "Wir sehen dem Frau."]
    wrong += [
        "Er kommt aus das Haus.",
        "Sie geht zur Garten.",
        "Kalter Wasser ist gut.",
        "Die Hut der altes Frau ist rot.",
    ]
    for sentence in wrong:
        assert not all(map(readings, noun_phrases(sentence))), sentence


@pytest.mark.parametrize("case", [german.NOM, german.ACC, german.DAT])
def test_a_noun_phrase_is_in_the_case_that_was_asked_for(case: int) -> None:
    for index in range(700):
        rng = HashRng(2, index)
        phrase = noun_phrase(rng, rng.pick(NOUNS), case, rng.pick((FREE, NEGATED)))
        (found,) = noun_phrases(phrase.de)
        assert (GENDERS[phrase.gender], CASES[case]) in readings(found), phrase


def test_every_determiner_is_declined_by_the_rules() -> None:
    """All determiners × genders × cases, with a weak, mixed or strong adjective behind them."""
    examples = {0: "Hund", 1: "Katze", 2: "Pferd", 3: "Hunde"}
    forms = {3: ("Hunde", "Hunde", "Hunden", "Hunde"), 0: ("Hund", "Hund", "Hund", "Hundes")}
    forms |= {2: ("Pferd", "Pferd", "Pferd", "Pferdes"), 1: ("Katze",) * 4}
    for determiner, plural in {*FREE.counted, *NEGATED.counted}:
        if determiner is NUMBER:
            continue
        for gender in [3] if plural else [0, 1, 2]:
            assert examples[gender] == forms[gender][0]
            for case in range(4):
                article, ending = determiner.forms[gender][case], determiner.endings[gender][case]
                text = f"{article}klein{ending} {forms[gender][case]}"
                if case == german.GEN and not article:
                    continue
                (found,) = noun_phrases(text)
                assert (GENDERS[gender], CASES[case]) in readings(found), text


TIME_WORDS = sorted({time.de[1:] for groups in TIMES.values() for group in groups for time in group}, key=len)


def simple_statements() -> list[str]:
    """Statements of one clause that are not joined with another."""
    return [made.de for made in sample() if made.de[-1] == "." and "," not in made.de and " und " not in made.de]


def test_the_finite_verb_of_a_statement_is_second() -> None:
    """One time, one word, or one noun phrase with what belongs to it stands before the verb."""
    for sentence in simple_statements():
        before = before_the_verb(sentence)
        if before in TIME_WORDS or before[:1].lower() + before[1:] in TIME_WORDS:
            continue
        if re.fullmatch(r"(In )?\w+", before):
            continue
        head, *belonging = noun_phrases(f"{before} .")
        assert sentence.index(head.noun) < len(before)
        for phrase in belonging:
            assert phrase.preposition == "mit" or any(case == "G" for _, case in readings(phrase)), sentence


def test_a_pronoun_is_followed_by_a_verb_of_its_person() -> None:
    endings = {"ich": r"\w+(?<!st)", "du": r"\w*(st|[sßz]t)", "wir": r"\w+n|sind"}
    counts = dict.fromkeys(endings, 0)
    for made in sample():
        first, second, *_ = words(made.de)
        if first.lower() in endings and made.de[-1] == ".":
            counts[first.lower()] += 1
            assert second in FINITE
            assert re.fullmatch(endings[first.lower()], second), made.de
    assert min(counts.values()) > 15


def test_a_question_begins_with_its_verb_or_a_question_word() -> None:
    for made in sample():
        if made.de[-1] == "?":
            first = words(made.de)[0].lower()
            assert first in FINITE or first.startswith("w") or first in {"auf", "an", "über", "von"}, made.de


def test_subordinate_clauses_end_in_their_finite_verb() -> None:
    for made in sample():
        assert not verb_last_faults(made.de), made.de


def test_a_verb_in_the_wrong_place_would_be_seen() -> None:
    assert verb_last_faults("Er weiß, dass der Hund schläft im Garten.")
    assert verb_last_faults("Der Mann, der wohnt in Berlin, singt.")
    assert verb_last_faults("Wenn der Mann, der in Berlin wohnt, singt laut, lacht sie.")
    assert not verb_last_faults("Wenn der Mann, der in Berlin wohnt, laut singt, lacht sie.")


# Written by hand: infinitive with principal parts, then du and er now, er then, er has …, in a clause with dass, zu.
CONJUGATIONS = [
    ("auf|machen", "machst auf", "macht auf", "machte auf", "hat aufgemacht", "aufmacht", "aufzumachen"),
    ("arbeiten", "arbeitest", "arbeitet", "arbeitete", "hat gearbeitet", "arbeitet", "zu arbeiten"),
    ("reparieren", "reparierst", "repariert", "reparierte", "hat repariert", "repariert", "zu reparieren"),
    ("besuchen", "besuchst", "besucht", "besuchte", "hat besucht", "besucht", "zu besuchen"),
    ("ein|laden lädt lud geladen", "lädst ein", "lädt ein", "lud ein", "hat eingeladen", "einlädt", "einzuladen"),
    ("lesen liest las gelesen", "liest", "liest", "las", "hat gelesen", "liest", "zu lesen"),
    ("auf|stehen steht stand ist gestanden", "stehst auf", "steht auf", "stand auf", "ist aufgestanden", "aufsteht",
     "aufzustehen"),
    ("wissen weiß wusste gewusst", "weißt", "weiß", "wusste", "hat gewusst", "weiß", "zu wissen"),
    ("mögen mag mochte gemocht", "magst", "mag", "mochte", "hat gemocht", "mag", "zu mögen"),
    ("reisen ist", "reist", "reist", "reiste", "ist gereist", "reist", "zu reisen"),
]  # fmt: skip


@pytest.mark.parametrize("row", CONJUGATIONS, ids=[row[0].split()[0] for row in CONJUGATIONS])
def test_conjugation(row: tuple[str, ...]) -> None:
    verb = german.parse_principal(row[0])
    forms = german.conjugate(verb)
    said = [
        "".join(forms[tense][person][:2])
        for tense, person in (("present", 1), ("present", 2), ("past", 2), ("perfect", 2))
    ]
    assert tuple(said) == row[1:5]
    assert forms["present"][2].joined == f" {row[5]}"
    assert german.zu_infinitive(verb) == f" {row[6]}"


@pytest.mark.parametrize(
    ("principal", "said"),
    [("lesen liest las gelesen", "lies"), ("fahren fährt fuhr ist gefahren", "fahr"), ("warten", "warte"),
     ("geben gibt gab gegeben", "gib"), ("ein|laden lädt lud geladen", "lade ein"), ("zu|machen", "mach zu")],
)  # fmt: skip
def test_the_imperative(principal: str, said: str) -> None:
    assert "".join(german.imperative(german.parse_principal(principal))) == said


@pytest.mark.parametrize(
    ("n", "word"),
    [(1, "eins"), (12, "zwölf"), (16, "sechzehn"), (17, "siebzehn"), (21, "einundzwanzig"), (30, "dreißig"),
     (66, "sechsundsechzig"), (77, "siebenundsiebzig"), (99, "neunundneunzig")],
)  # fmt: skip
def test_numbers_say_units_before_tens(n: int, word: str) -> None:
    assert german.cardinal(n) == word


def test_all_numbers_differ() -> None:
    assert len({german.cardinal(n) for n in range(100)}) == 100
    assert german.thousands(1250) == "1.250"


def test_separable_prefixes_part_in_statements_and_join_in_clauses() -> None:
    text = [made.de for made in pairs(9, 4_000)]
    assert any(re.match(r"^\w+ (macht|machte) .* auf\.$", line) for line in text)
    joined = re.compile(
        r"\b(dass|weil|ob|obwohl|wenn|als) [^,]* (auf|an|ab|mit|weg|zurück|ein|zu)(mach|ruf|rief|räum|hol|kam|komm)"
    )
    assert any(joined.search(line) for line in text)
    assert any("aufzumachen" in line for line in text)
    assert any("aufgemacht" in line for line in text)


def test_animals_feed_and_people_dine() -> None:
    """English eats is one word; its German depends on who does it."""
    for made in sample():
        if re.match(r"(Ich|Du|Er|Sie|Wir|Anna|Peter) ", made.de):
            assert not re.match(r"\w+ (friss|fress|fraß)", made.de), made.de
        if re.match(r"(Der|Die|Das) (Hund|Katze|Kuh|Maus|Bär) ", made.de):
            assert not re.match(r"\w+ \w+ (isst|aß|essen)\b", made.de), made.de
