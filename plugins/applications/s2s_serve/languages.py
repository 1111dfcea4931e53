"""Which languages are served, and in which of them a text is."""

from __future__ import annotations

__all__ = ["Detected", "Detector", "Direction", "directions", "directions_of", "served_code"]

import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from s2s_serve.engine import Engine

SCRIPTS = {
    "ARABIC": "ar arz ary fa ps sdh ug ur",
    "ARMENIAN": "hy",
    "BENGALI": "as bn",
    "CJK": "ja ko wuu yue zh",
    "CYRILLIC": "ba be bg kk ky mk mn ru sr tg tt uk",
    "DEVANAGARI": "gom hi mr ne sa",
    "ETHIOPIC": "am",
    "GEORGIAN": "ka",
    "GREEK": "el grc",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "hbo he",
    "HIRAGANA": "ja",
    "KANNADA": "kn",
    "KATAKANA": "ja",
    "KHMER": "km",
    "LAO": "lo",
    "MALAYALAM": "ml",
    "MYANMAR": "my",
    "ORIYA": "or",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
    "TIBETAN": "dz",
}
"""First words of the Unicode names of letters -> the languages written with them; all others are written in Latin"""
SHORT = 60
"""Characters of a text with little evidence"""
LATIN_TOO = ("gom", "mn", "sr", "tg", "tt")


class Detected(NamedTuple):
    """A language, and the confidence in it, from 0 to 100."""

    language: str
    confidence: float


class Direction(NamedTuple):
    """What translates from one language into another."""

    engine: Engine
    fields: Mapping[str, Any]
    """Of each input"""


def directions(engines: Mapping[str, Engine]) -> dict[tuple[str, str], Direction]:
    """Source and target language -> what translates; of two for one direction, the first."""
    served: dict[tuple[str, str], Direction] = {}
    for engine in engines.values():
        for src, tgt, fields in directions_of(engine):
            served.setdefault((src, tgt), Direction(engine, fields))
    return served


def directions_of(engine: Engine) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Source and target languages of a run, with the fields of each input; none if they are not known."""
    found = engine.task.directions() or _by_name(engine.name)
    return [(src, tgt, fields) for src, tgt, fields in found if src and tgt]


def served_code(code: str, served: Collection[str]) -> str:
    """The served code that a given one means, in any case, or else that of its language without script and region, such
    as en for en-US; the given one if there is none."""
    by_name = {one.lower().replace("_", "-"): one for one in served}
    name = code.strip().lower().replace("_", "-")
    while name and name not in by_name:
        name = name.rpartition("-")[0]
    return by_name.get(name, code)


def _by_name(name: str) -> list[tuple[str, str, Mapping[str, Any]]]:
    """The direction of a run named by it, such as en-de."""
    languages = re.fullmatch(r"([a-z]{2,3})[-_]([a-z]{2,3})", name)
    return [(languages[1], languages[2], {})] if languages else []


class Detector:
    """Distinguishes the languages that are served, by py3langid's naive Bayes classifier over byte n-grams."""

    def __init__(self, languages: Iterable[str]) -> None:
        """languages: codes (ISO 639-1); those that the classifier does not have are never detected."""
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # numpy, which plain requests do without

        self.identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        self.languages = sorted({*languages} & {*self.identifier.labels})
        self.identifier.set_languages(self.languages)

    def __call__(self, text: str) -> list[Detected]:
        """The languages, the most probable first; none without evidence, or for a script that none of them uses.

        A single letter is none, except in scripts without case, which write words with one.
        """
        script = _script(text)
        written = [language for language in self.languages if _uses(language, script)]
        if not written or _is_single(text):
            return []
        ranked = self.identifier.rank(_with_edges(text))
        scores = {language: score for language, score in ranked if language in written}
        if len(written) > 1 and len(set(scores.values())) == 1:
            return []
        total = sum(scores.values())
        return [Detected(language, round(100 * score / total, 1)) for language, score in scores.items()]


def _is_single(text: str) -> bool:
    """Whether the only letter of a text is one that has cases."""
    letters = [letter for letter in text if letter.isalpha()]
    return len(letters) == 1 and letters[0].lower() != letters[0].upper()


def _with_edges(text: str) -> str:
    """A text between blanks, as words are in the text from which the classifier's n-grams are; a short one, which may
    have as few as one of them, also in lower case."""
    plain = " ".join(text.split())
    return f" {plain} {plain.lower()} " if len(plain) <= SHORT else f" {plain} "


def _script(text: str) -> str:
    """The script of most letters, as the first word of their Unicode names; empty without a letter."""
    letters = filter(str.isalpha, unicodedata.normalize("NFKC", text))
    scripts = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in letters)
    return max(scripts, key=lambda script: scripts[script], default="")


def _uses(language: str, script: str) -> bool:
    if script == "LATIN":
        return language in LATIN_TOO or not any(language in codes.split() for codes in SCRIPTS.values())
    return language in SCRIPTS.get(script, "").split()
