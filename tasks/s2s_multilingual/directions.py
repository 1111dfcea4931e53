"""Corpora by direction: of each corpus every pair of its languages, both ways."""

from __future__ import annotations

__all__ = ["Directed", "directed", "fitting"]

import re
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import ConfigError
from s2s.data import TextTask
from s2s_multilingual.languages import base_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from s2s.data import CorpusOptions

SIDES = ("src_lang", "tgt_lang")
ANY = re.compile(r"(?<!\w)mul(?!\w)")
"""In the name of a direction, any language: its code of ISO 639-2"""


class Directed(NamedTuple):
    """A corpus in one direction."""

    corpus: CorpusOptions
    src: str
    tgt: str
    """Its languages; both empty if each example names its own"""

    @property
    def direction(self) -> str:
        """Such as en-de; of examples that name their own, the name of the corpus."""
        return f"{self.src}-{self.tgt}" if self.src else self.corpus.name


def directed(corpora: Sequence[CorpusOptions], spelt: Callable[[str], str] = str) -> list[Directed]:
    """Every corpus in all its directions. Raises ConfigError for languages that do not fit its files.

    spelt: how the model spells a language.
    """
    return [
        one
        for corpus in corpora
        for pair, src, tgt in _pairs(corpus)
        for one in _both_ways(pair, spelt(src) if src else "", spelt(tgt) if tgt else "")
    ]


def fitting(corpora: Sequence[Directed], patterns: Sequence[str]) -> list[Directed]:
    """Those of directions that a pattern names; raises ConfigError for a pattern that names none."""
    named = [one for one in corpora if one.src]
    for pattern in patterns:
        if named and not any(_fits(one, pattern) for one in named):
            directions = ", ".join(dict.fromkeys(one.direction for one in named))
            raise ConfigError(f"task.directions: {pattern} is none of the training text's: {directions}")
    return [one for one in corpora if not one.src or any(_fits(one, pattern) for pattern in patterns)]


def _fits(one: Directed, pattern: str) -> bool:
    """Whether a pattern names a direction, by codes as the model spells them or by those without script and region."""
    names = one.direction, f"{base_of(one.src)}-{base_of(one.tgt)}"
    return any(re.fullmatch(ANY.sub(".+", re.escape(pattern)), name) for name in names)


def _both_ways(corpus: CorpusOptions, src: str, tgt: str) -> list[Directed]:
    if not src:
        return [Directed(corpus, "", "")]
    return [
        Directed(
            replace(
                corpus,
                name=f"{corpus.name}/{a}-{b}",
                fields={**corpus.fields, "src_lang": a, "tgt_lang": b},
                swapped=(a, b) != (src, tgt),
            ),
            a,
            b,
        )
        for a, b in ((src, tgt), (tgt, src))
    ]


def _pairs(corpus: CorpusOptions) -> Iterator[tuple[CorpusOptions, str, str]]:
    """The corpus for each pair of its languages; with empty ones if they are not known."""
    options = {name: value for name, value in corpus.options.items() if name != "languages"}
    files = list(options.get("files", ()))
    languages = _languages(corpus, files)
    if not languages and len(files) > 1:
        raise ConfigError(
            f"{corpus.key}: which languages have {', '.join(files)}? Give languages: [en,de], and each of several "
            "corpora as a list of its own"
        )
    if not languages:
        yield replace(corpus, options=options), "", ""
        return
    for (i, src), (j, tgt) in combinations(enumerate(languages), 2):
        own: dict[str, Any] = {"files": [files[i], files[j]]} if len(files) > 1 else {"src_lang": src, "tgt_lang": tgt}
        yield replace(corpus, options={**options, **own}), src, tgt


def _languages(corpus: CorpusOptions, files: Sequence[str]) -> list[str]:
    """Those that the options of a corpus, its fields or the names of its files give; none if they are not known."""
    given = corpus.options.get("languages")
    if given is None:
        languages = _of_both(corpus.fields) or _of_both({**corpus.defaults, **corpus.options}) or _by_names(files)
    elif isinstance(given, list) and len(given) > 1 and all(isinstance(one, str) and one for one in given):
        languages = list(given)
    else:
        raise ConfigError(f"{corpus.key}.languages={given!r}: give two or more, such as [en,de]")
    if len(files) > 1 and languages and len(languages) != len(files):
        raise ConfigError(f"{corpus.key}: {len(files)} files, but {len(languages)} languages; give one for each")
    if len(set(languages)) < len(languages):
        raise ConfigError(f"{corpus.key}: {', '.join(languages)} names a language twice; give each once")
    return languages


def _of_both(values: Mapping[str, Any]) -> list[str]:
    return [str(values[side]) for side in SIDES] if all(values.get(side) for side in SIDES) else []


def _by_names(files: Sequence[str]) -> list[str]:
    """The languages of files by the ends of their names; none if any is unknown."""
    found = [TextTask.file_form.languages([files[0], other]) for other in files[1:]]
    return [found[0][0], *(tgt for _, tgt in found)] if found and all(map(all, found)) else []
