"""The translation task: subword tokenisation and detokenisation of pairs of sentences."""

from __future__ import annotations

__all__ = ["Translation"]

import json
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, DataError, Dependencies, Encoded, Example, Rejected, Task
from s2s.data import joined_vocab, tokenizer_kind
from s2s.io import read_json
from s2s_translation.corpora import corpora_of, synthetic_direction
from s2s_translation.sentences import sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s import Registry, Side, TokenNames
    from s2s.data import Tokenizer
    from s2s_translation import TranslationConfig

SETTINGS = "task.json"
HALF = 32
"""Bits of a seed for each side"""


class Translation(Task):
    """Pairs of sentences, tokenised into subwords."""

    config: TranslationConfig
    src: Tokenizer
    """Set, as `tgt`, by `learn` or `load`; the same object if the vocabulary is joint"""
    tgt: Tokenizer

    def __init__(self, config: TranslationConfig, registry: Registry | None = None) -> None:
        """Without a `registry`, corpora are those of the installed plugins."""
        super().__init__(config)
        self.metrics = config.metrics
        self.metric_options = _metric_options(config)
        self._corpora = corpora_of(config, registry)
        coverage = {} if config.character_coverage == 1 else {"character_coverage": config.character_coverage}
        self._kind = tokenizer_kind(config.subword, self._corpora.registry, defaults=coverage)
        if not self._kind.learns and (option := config.size_option()):
            raise ConfigError(f"{option}: task.subword names a complete vocabulary, which has a size; leave it out")

    def dependencies(self) -> Dependencies:
        """The corpora of training and development, and every option that determines ids."""
        config = self.config
        settings = {
            "subword": config.subword,
            "sizes": {side: size for side, (_, size) in config.sizes().items()},
            "character_coverage": config.character_coverage,
            "lowercase": config.lowercase,
        }
        return self._corpora.dependencies(settings, self._kind.files())

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        """Names and weights, as the configuration gives them."""
        return self._corpora.names_and_weights(split)

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """The pairs of one corpus, lower-cased if task.lowercase is set."""
        pairs = self._corpora.examples(split, corpus)
        return map(_lower, pairs) if self.config.lowercase else pairs

    def learn(self, directory: Path) -> None:
        """Train one subword model on both sides, or one on each, from all usable training pairs."""
        for side, (option, size) in self.config.sizes().items():
            self._kind.learn(self._lines(side), directory / f"{side}.model", size, option=option)
        models = {side: self._kind.load(directory / f"{side}.model").identity for side in self.config.sizes()}
        written = {"lowercase": self.config.lowercase, "models": models}
        (directory / SETTINGS).write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
        self.load(directory)

    def load(self, directory: Path) -> None:
        """Read the models; raises DataError if they do not fit the configuration."""
        written = _read_settings(directory / SETTINGS)
        if written["lowercase"] is not self.config.lowercase:
            raise DataError(
                f"{directory}: made with task.lowercase={str(written['lowercase']).lower()}; "
                "configure the same, or prepare again"
            )
        models = {side: self._kind.load(directory / f"{side}.model") for side in self.config.sizes()}
        for side, model in models.items():
            if model.identity != written["models"].get(side):
                raise DataError(
                    f"{model.path}: its vocabulary is {model.identity[:12]}, but {SETTINGS} beside it was written "
                    f"for {str(written['models'].get(side))[:12]}; copy the folder whole, or prepare again"
                )
        self.src, self.tgt = models.get("joint") or models["src"], models.get("joint") or models["tgt"]
        self.vocab = joined_vocab(self.src, self.tgt, joint=self.config.joint)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Ids of both sides, without bos and eos."""
        src = self.encode_source([example.src for example in examples])
        tgt = self.tgt.encode([self._cased(example.tgt) for example in examples])
        return [Encoded(*ids) for ids in zip(src, tgt, strict=True)]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of new inputs, without bos and eos."""
        return self.src.encode([self._cased(line) for line in lines])

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        """The text of target ids."""
        return self.tgt.decode(ids)

    def source_text(self, ids: Sequence[int]) -> str:
        """The text of source ids."""
        return self.src.decode(ids)

    def pieces(self, ids: Sequence[int], src: str) -> list[str]:
        """The subwords, of which ▁ begins a word."""
        return [self.tgt.pieces[i] for i in ids]

    def vocabulary(self, side: Side) -> Sequence[TokenNames]:
        """The subwords."""
        return self.src.pieces if side == "src" else self.tgt.pieces

    def source_words(self, src: str) -> Sequence[int | None]:
        """Counted from the subwords that begin words, unless normalisation has changed the number of words."""
        words = self.src.words(self.encode_source([src])[0])
        return words if words and words[-1] + 1 == len(src.split()) else super().source_words(src)

    def target_words(self, ids: Sequence[int], src: str) -> Sequence[int | None]:
        """Counted from the subwords that begin words."""
        return self.tgt.words(ids)

    def variation(self) -> Callable[[Encoded, int], Encoded] | None:
        """Re-encodes both sides with other subwords, according to task.subword_sampling."""
        alpha = self.config.subword_sampling
        if alpha == 0:
            return None
        src, tgt = self.src.sampler(alpha), self.tgt.sampler(alpha)
        return lambda pair, seed: Encoded(src(pair.src, seed), tgt(pair.tgt, seed >> HALF))

    def split(self, src: str) -> Sequence[str]:
        """The sentences, by punctuation and capital letters."""
        return sentences(src)

    def describe(self) -> Iterable[str]:
        """Whether the synthetic corpus is used, and in which direction; then the lines that corpora report."""
        if not self.config.train:
            names = {"en": "English", "de": "German"}
            src, tgt = (names[side] for side in synthetic_direction(self.config))
            yield f"no task.train is given: {self.config.pairs:,} pairs of the synthetic corpus, {src} to {tgt}"
        yield from self._corpora.describe()

    def _cased(self, line: str) -> str:
        return line.lower() if self.config.lowercase else line

    def _lines(self, side: str) -> Iterator[str]:
        for corpus, _ in self.corpora("train"):
            for example in self.examples("train", corpus):
                if isinstance(example, Example):
                    yield from example if side == "joint" else [getattr(example, side)]


def _lower(pair: Example | Rejected) -> Example | Rejected:
    return Example(pair.src.lower(), pair.tgt.lower()) if isinstance(pair, Example) else pair


def _metric_options(config: TranslationConfig) -> dict[str, Any]:
    """The outputs' language, and case-insensitive scoring for a lower-casing task."""
    language = {"lang": config.tgt_lang} if config.tgt_lang else {}
    return {**language, "lowercase": True} if config.lowercase else language


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        written = read_json(path)
        if isinstance(written["models"], dict) and isinstance(written["lowercase"], bool):
            return written
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise DataError(f"{path}: missing or damaged; delete its folder and prepare again")
