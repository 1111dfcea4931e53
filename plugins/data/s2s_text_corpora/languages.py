"""Codes and names of languages, as the columns of tables and the parts of translation memories have them."""

from __future__ import annotations

__all__ = ["is_language", "language_of", "matching", "same_language"]

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CODE_LIST = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee "
    "el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is "
    "it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms "
    "mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk "
    "sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi "
    "yo za zh zu eng deu ger fra fre spa ita por rus zho chi jpn kor nld dut pol ces cze swe dan fin nor hun tur "
    "ara heb hin"
)
CODES = frozenset(CODE_LIST.split())
"""ISO 639-1, and of ISO 639-2 those of large corpora"""
NAMES = {
    "english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it", "portuguese": "pt",
    "dutch": "nl", "russian": "ru", "chinese": "zh", "japanese": "ja", "korean": "ko", "arabic": "ar", "polish": "pl",
    "czech": "cs", "swedish": "sv", "danish": "da", "finnish": "fi", "norwegian": "no", "hungarian": "hu",
    "turkish": "tr", "greek": "el", "hebrew": "he", "hindi": "hi", "ukrainian": "uk", "romanian": "ro",
    "bulgarian": "bg", "vietnamese": "vi", "indonesian": "id", "thai": "th", "latin": "la", "swahili": "sw",
    "englisch": "en", "deutsch": "de", "französisch": "fr", "français": "fr", "anglais": "en", "español": "es",
}  # fmt: skip
REGION = re.compile(r"[-_](?:[a-z]{2}|[a-z]{4}|\d{3})\b", re.IGNORECASE)

SEPARATORS = re.compile(r"[\s._-]+")


def is_language(word: str) -> bool:
    """Whether a word is a language's code or name."""
    return word in CODES or word in NAMES


def language_of(name: str) -> str:
    """The code of a language by its name, as English; empty for anything else."""
    return NAMES.get(name.strip().lower(), "")


def same_language(one: str, other: str) -> bool:
    """Whether two codes or names mean the same language, be it in different regions: en-US, en_GB, English."""
    return bool(one) and bool(other) and _base(one) == _base(other)


def matching(language: str, names: Iterable[str]) -> str:
    """The name that means a language: itself, else the only one of the same language, as in text_en or en-US; or ""."""
    names = list(names)
    for name in names:
        if _normal(name) == _normal(language):
            return name
    base = _base(language)
    alike = [name for name in names if base in {_base(name), *SEPARATORS.split(name.lower())}]
    return alike[0] if len(alike) == 1 else ""


def _normal(code: str) -> str:
    return code.strip().lower().replace("_", "-")


def _base(code: str) -> str:
    """The language without script and region."""
    plain = REGION.sub("", _normal(code))
    return NAMES.get(plain, plain)
