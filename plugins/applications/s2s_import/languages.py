"""The languages of a published model: those that have a token, and the options of the task that reads them."""

from __future__ import annotations

__all__ = ["Around", "Codes", "codes_of", "language_options", "new_codes"]

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

CODES = {
    "{}": r"[a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2}",
    "__{}__": r"__[a-z]{2,3}__",
    "<2{}>": r"<2[a-z]{2,3}(_[A-Z][A-Za-z]+)?>",
    ">>{}<<": r">>\w+<<",
}
"""How the code of a language is spelt as a token, and the tokens that are codes: of NLLB and mBART, M2M-100,
MADLAD-400, OPUS-MT"""
PLACES = {"{src}": "src", "{tgt}": "tgt", "{decoder_start}": "bos", "{eos}": "eos"}
"""What task=multilingual calls the tokens around texts; it has no others"""


class Around(NamedTuple):
    """What a family puts around texts: names of tokens, {src} and {tgt} for the codes of the languages."""

    start: Sequence[str]
    before: Sequence[str] = ()
    end: Sequence[str] = ()

    @property
    def places(self) -> dict[str, list[str]]:
        """The same as options of task=multilingual."""
        places = {part: [PLACES[one] for one in getattr(self, part) if one in PLACES] for part in self._fields}
        return {**places, "end": places["end"] or ["eos"]}

    def reads(self, side: str) -> bool:
        """Whether a token names the language of a side."""
        return any(side in place for place in self.places.values())


class Codes(NamedTuple):
    """The languages of a model that have a token."""

    tag: str
    """How a code is spelt"""
    languages: Sequence[str]

    def token_of(self, language: str) -> str:
        """The token of a language; raises ConfigError if it has none."""
        if language not in self.languages:
            raise ConfigError(
                f"languages: the model has no token for {language}.{did_you_mean(language, self.languages)}"
            )
        return self.tag.format(language)


def codes_of(ids: Mapping[str, int], *tags: str) -> Codes:
    """Those of the first of these spellings that a vocabulary has, in the order of their ids."""
    for tag in tags:
        before, after = map(len, tag.split("{}"))
        codes = sorted((piece for piece in ids if re.fullmatch(CODES[tag], piece)), key=ids.__getitem__)
        if codes:
            return Codes(tag, [code[before : len(code) - after] for code in codes])
    return Codes(tags[0], [])


def language_options(
    settings: Mapping[str, Any], languages: Sequence[str], known: Codes, around: Around
) -> dict[str, Any]:
    """The options of a task: of one direction for two languages, else of all or those that are given.

    A model whose targets are not marked, or that has one token of a language only, is of one direction. Of one whose
    sources are not marked, such as OPUS-MT, the first of several languages needs no token.
    """
    own = settings.get("source_lang"), settings.get("target_lang")
    if not around.reads("tgt") or len(languages) == 2 or not (languages or len(known.languages) > 1):
        if around.reads("src") and languages:
            known.token_of(languages[0])
        pair = zip(("src_lang", "tgt_lang"), languages or own, strict=False)
        return {name: value for name, value in pair if isinstance(value, str) and value}
    for language in languages if around.reads("src") else languages[1:]:
        known.token_of(language)
    src = "" if around.reads("src") or (languages and languages[0] in known.languages) else (languages or own)[0]
    chosen = [one for one in languages if one in known.languages] or list(known.languages)
    return {"name": "multilingual", "languages": chosen, "tag": known.tag, "src_lang": str(src or ""), **around.places}


def new_codes(new_languages: Mapping[str, str | None], tokens: Collection[str]) -> dict[str, list[str]]:
    """The codes of languages that a model does not have, each with those as which it begins."""
    new: dict[str, list[str]] = {}
    if not new_languages:
        return new
    codes = {spelling: [token for token in tokens if re.fullmatch(form, token)] for spelling, form in CODES.items()}
    spelling = max(codes, key=lambda one: len(codes[one]))
    if not codes[spelling]:
        raise ConfigError("new_languages: the model has no codes of languages")
    for language, related in new_languages.items():
        code = spelling.format(language)
        if code in tokens:
            raise ConfigError(f"new_languages: the model has {language} already")
        if related is not None and spelling.format(related) not in tokens:
            raise ConfigError(f"languages: the model has no token for {related}")
        new[code] = codes[spelling] if related is None else [spelling.format(related)]
    return new
