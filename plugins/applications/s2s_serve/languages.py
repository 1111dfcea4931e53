"""Which languages are served, and which language a text is in.

Detection compares character n-grams with those of the runs' own training text, where it is still available: a
multinomial naive Bayes classifier (Cavnar and Trenkle, 1994, count the same n-grams) over the served languages only.
"""

from __future__ import annotations

__all__ = ["LANGUAGE_NAMES", "Detected", "Detector", "directions"]

import math
import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from s2s import Example, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from s2s import Task
    from s2s_serve.engine import Engine

LANGUAGE_NAMES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "he": "Hebrew",
    "hi": "Hindi",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
"""English names of languages by their codes (ISO 639-1)"""

N_SAMPLED_PAIRS = 3000
"""Training pairs of a corpus from which the n-grams of its two languages are counted"""
NGRAM_ORDERS = (1, 2, 3)


class Detected(NamedTuple):
    """A language, and the confidence in it, from 0 to 100."""

    language: str
    confidence: float


def directions(engines: Mapping[str, Engine]) -> dict[tuple[str, str], Engine]:
    """Source and target language -> the engine that translates; of two for one direction, the first."""
    found: dict[tuple[str, str], Engine] = {}
    for name, engine in engines.items():
        if direction := _direction(name, engine.task):
            found.setdefault(direction, engine)
    return found


def _direction(name: str, task: Task) -> tuple[str, str] | None:
    """Source and target language from the task's options, else from the name."""
    src, tgt = (str(getattr(task.config, side, "") or "") for side in ("src_lang", "tgt_lang"))
    by_name = re.fullmatch(r"([a-z]{2,3})[-_]([a-z]{2,3})", name)
    if src and tgt:
        return src, tgt
    return (by_name[1], by_name[2]) if by_name else None


class Detector:
    """Distinguishes the languages of training text."""

    def __init__(self, texts: Mapping[str, Iterable[str]]) -> None:
        """texts: sentences of each language; a language without any is unknown."""
        counts = {
            language: Counter(gram for line in lines for gram in _grams(line)) for language, lines in texts.items()
        }
        self.counts = {language: counter for language, counter in counts.items() if counter}
        n_kinds = len({gram for counter in self.counts.values() for gram in counter})
        self.totals = {language: counter.total() + n_kinds for language, counter in self.counts.items()}

    @classmethod
    def of_runs(cls, served: Mapping[tuple[str, str], Engine]) -> Detector:
        """A detector from the training text of every direction; text that can no longer be read is left out."""
        texts: dict[str, list[str]] = {}
        for (src, tgt), engine in served.items():
            for example in _examples(engine.task):
                texts.setdefault(src, []).append(example.src)
                texts.setdefault(tgt, []).append(example.tgt)
        return cls(texts)

    def __call__(self, text: str) -> list[Detected]:
        """All languages, the most probable first; none for a text without a letter."""
        grams = list(_grams(text)) if any(map(str.isalpha, text)) else []
        if not grams or not self.counts:
            return []
        logs = {
            language: sum(math.log((counter[gram] + 1) / self.totals[language]) for gram in grams)
            for language, counter in self.counts.items()
        }
        most = max(logs.values())
        weights = {language: math.exp((log - most) / len(NGRAM_ORDERS)) for language, log in logs.items()}
        total = sum(weights.values())
        found = [Detected(language, round(100 * weight / total, 1)) for language, weight in weights.items()]
        return sorted(found, key=lambda each: (-each.confidence, each.language))


def _grams(text: str) -> Iterator[str]:
    padded = f" {' '.join(text.lower().split())} "
    for order in NGRAM_ORDERS:
        yield from (padded[i : i + order] for i in range(len(padded) - order + 1))


def _examples(task: Task) -> Iterator[Example]:
    try:
        for corpus, _ in task.corpora("train"):
            examples = (example for example in task.examples("train", corpus) if isinstance(example, Example))
            yield from islice(examples, N_SAMPLED_PAIRS)
    except (OSError, ValueError, UserError):  # the files are gone or have changed
        return
