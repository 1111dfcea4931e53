"""Adverbials of time and manner that are not built from noun phrases, in both languages."""

from __future__ import annotations

__all__ = ["ADVERBS", "JUST", "TIMES", "Adverbial", "manners"]

from typing import NamedTuple

from s2s_synthetic_corpus import english, german


class Adverbial(NamedTuple):
    """An English leaf or phrase and its German; both begin with a space."""

    en: str
    de: str


def adverb(en: str, de: str) -> Adverbial:
    """An adverbial of one word in each language."""
    return Adverbial(f" (ADVP (RB {en}))", f" {de}")


def noun_time(en: str, de: str) -> Adverbial:
    """A noun phrase of time: (NN yesterday), (DT every) (NN day)."""
    return Adverbial(f" (NP {en})", f" {de}")


def at_time(preposition: str, en: str, de: str) -> Adverbial:
    """A prepositional phrase of time."""
    return Adverbial(f" (PP (IN {preposition}) (NP {en}))", f" {de}")


WEEKDAYS = {
    "Monday": "Montag", "Tuesday": "Dienstag", "Wednesday": "Mittwoch", "Thursday": "Donnerstag", "Friday": "Freitag",
    "Saturday": "Samstag", "Sunday": "Sonntag",
}  # fmt: skip
MONTHS = {"January": "Januar", "May": "Mai", "June": "Juni", "July": "Juli", "October": "Oktober"}
SPANS = {"days": "Tagen", "weeks": "Wochen", "months": "Monaten", "years": "Jahren"}
HOURS = range(1, 13)


def hour(n: int) -> str:
    """The German name of an hour: ein Uhr, but halb eins."""
    return "ein" if n == 1 else german.cardinal(n)


NOW = (noun_time("(NN today)", "heute"), adverb("now", "jetzt"))
DAY = (noun_time("(NN today)", "heute"), at_time("in", "(DT the) (NN morning)", "am Morgen"),
       at_time("in", "(DT the) (NN evening)", "am Abend"), at_time("at", "(NN night)", "nachts"))  # fmt: skip
CLOCK = tuple(at_time("at", f"(CD {english.cardinal(n)}) (RB o'clock)", f"um {hour(n)} Uhr") for n in HOURS) + tuple(
    at_time(
        "at", f"(NP (NN half)) (PP (IN past) (NP (CD {english.cardinal(n)})))", f"um halb {german.cardinal(n % 12 + 1)}"
    )
    for n in HOURS
)
HABIT = tuple(
    noun_time(f"(DT every) (NN {en})", f"jeden {de}")
    for en, de in (("day", "Tag"), ("morning", "Morgen"), ("evening", "Abend"))
)
HABIT += tuple(at_time("on", f"(NNPS {en}s)", f"{de.lower()}s") for en, de in WEEKDAYS.items())
SOMETIMES = (adverb("sometimes", "manchmal"),)
SEASON = (at_time("in", "(NN summer)", "im Sommer"), at_time("in", "(NN winter)", "im Winter"))
ON_DAY = tuple(at_time("on", f"(NNP {en})", f"am {de}") for en, de in WEEKDAYS.items())
IN_MONTH = tuple(at_time("in", f"(NNP {en})", f"im {de}") for en, de in MONTHS.items())
YESTERDAY = (noun_time("(NN yesterday)", "gestern"),)
TOMORROW = (noun_time("(NN tomorrow)", "morgen"), noun_time("(NN tomorrow) (NN evening)", "morgen Abend"))
LAST = (noun_time("(JJ last) (NN week)", "letzte Woche"), noun_time("(JJ last) (NN year)", "letztes Jahr"))
NEXT = (noun_time("(JJ next) (NN week)", "nächste Woche"), noun_time("(JJ next) (NN year)", "nächstes Jahr"))
THESE_DAYS = (noun_time("(NN today)", "heute"), noun_time("(DT this) (NN week)", "diese Woche"))
AGO = tuple(
    Adverbial(f" (ADVP (NP (CD {english.cardinal(n)}) (NNS {en})) (RB ago))", f" vor {german.cardinal(n)} {de}")
    for n in range(2, 13) for en, de in SPANS.items()
)  # fmt: skip
IN_SPAN = tuple(
    at_time("in", f"(CD {english.cardinal(n)}) (NNS {en})", f"in {german.cardinal(n)} {de}")
    for n in range(2, 13) for en, de in SPANS.items()
)  # fmt: skip
YEAR = tuple(at_time("in", f"(CD {year})", f"im Jahr {year}") for year in range(1950, 2025))

TIMES: dict[str, tuple[tuple[Adverbial, ...], ...]] = {
    "present": (NOW, DAY, HABIT, HABIT, CLOCK, SOMETIMES, SEASON),
    "past": (YESTERDAY, YESTERDAY, LAST, ON_DAY, CLOCK, DAY[1:], AGO, YEAR, IN_MONTH, SOMETIMES),
    "perfect": (THESE_DAYS,),
    "future": (TOMORROW, TOMORROW, NEXT, ON_DAY, IN_SPAN, CLOCK, SEASON),
    "modal": (NOW, TOMORROW, CLOCK, DAY, ON_DAY),
}
"""Groups of adverbials that go with a group of tenses."""

JUST = adverb("just", "gerade")

OFTEN = (adverb("often", "oft"), adverb("always", "immer"), adverb("rarely", "selten"))
NEVER, NEVER_YET = adverb("never", "nie"), adverb("never", "noch nie")
ADVERBS: dict[str, tuple[Adverbial, ...]] = {
    "present": (*OFTEN, adverb("usually", "meistens"), NEVER),
    "past": (*OFTEN, NEVER),
    "perfect": (adverb("already", "schon"), adverb("already", "schon"), adverb("often", "oft"), NEVER_YET),
    "pluperfect": (adverb("already", "schon"), adverb("never", "noch nie")),
}
"""Adverbs of frequency by tense, in the position of nicht."""

QUICKLY = (adverb("quickly", "schnell"), adverb("slowly", "langsam"))
QUIETLY = (adverb("quietly", "leise"), adverb("loudly", "laut"))
CAREFULLY = (adverb("carefully", "vorsichtig"),)


def manners(marks: str) -> tuple[Adverbial, ...]:
    """Adverbials of manner that fit a verb, from its marks."""
    return QUICKLY * ("m" in marks) + QUIETLY * ("l" in marks) + CAREFULLY * ("c" in marks)
