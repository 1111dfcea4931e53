"""Translation, as a plugin: parallel text in, detokenised text out; without files, a synthetic corpus."""

from __future__ import annotations

__all__ = ["TranslationConfig"]

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import Range, check_ranges

if TYPE_CHECKING:
    from s2s_translation.task import Translation

PAPER_VOCAB_SIZE = 37_000
SYNTHETIC_VOCAB_SIZE = 1_000


@dataclass(kw_only=True)
class TranslationConfig(Choice):
    """Text from one language into another."""

    train: Any = None
    """Training text: [corpus.en,corpus.de], a .tsv or .jsonl of pairs, or several corpora as
    {name: {files: [a.en,a.de], weight: 2}, …}; .gz is read as it is. {corpus: NAME, …}: a corpus of a plugin, with
    its options. null: the synthetic corpus."""
    valid: Any = None
    """Development text, in the same forms; null: none, or the synthetic corpus's own."""
    test: Any = None
    """Test text, in the same forms."""
    src_lang: str = ""
    """Language of the source, such as en; empty: unknown."""
    tgt_lang: str = ""
    """Language of the target, such as de, for metrics that depend on it; empty: unknown."""
    subword: Any = field(default="bpe", metadata={"names": "tokenizer"})
    """Tokeniser (section 5.1: byte-pair encoding): bpe, unigram, char, word, characters, whitespace, hf, or one that a
    plugin registers; with options as {name: hf, file: tokenizer.json}, or task.subword.byte_fallback=true."""
    vocab_size: int | None = None
    """Size of the vocabulary, special tokens included; null: 37,000 (section 5.1), 1,000 for the synthetic corpus."""
    joint: bool = True
    """One vocabulary for both sides, so that embeddings can be shared."""
    src_vocab_size: int | None = None
    """Size of the source vocabulary when joint=false; null: vocab_size."""
    tgt_vocab_size: int | None = None
    """Size of the target vocabulary when joint=false; null: vocab_size."""
    subword_sampling: float = 0.0
    """Subword regularisation: training segments each sentence into other subwords in every epoch. bpe: share of the
    merges that are left out, such as 0.1 (Provilkov et al., 2020). unigram: sharpness of the sampling distribution,
    such as 0.2 (Kudo, 2018); 1 is the model's own distribution. 0: always the same subwords."""
    character_coverage: float = 1.0
    """Share of the characters that get a token of their own; 0.9995 suits Chinese and Japanese."""
    lowercase: bool = False
    """Lower-case both sides; outputs are then lower-case, too."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8 or not a pair: stop, or drop and count it."""
    pairs: int = 20_000
    """Training pairs of the synthetic corpus."""
    synthetic_seed: int = 1
    """Seed of the synthetic corpus."""
    metrics: list[Any] = field(default_factory=lambda: ["bleu", "chrf"])
    """Metrics of the outputs, the main one first: names, or {name: bleu, tokenize: intl} with options."""

    def __post_init__(self) -> None:
        check_ranges("task", self, subword_sampling=Range(0, 1))
        if self.pairs < 1:
            raise ConfigError(f"task.pairs={self.pairs}: give 1 or more")
        for side in ("src_lang", "tgt_lang"):
            if str(getattr(self, side)).lower() in ("true", "false"):
                raise ConfigError(
                    f"task.{side}={getattr(self, side)}: YAML reads this language code as a boolean; "
                    "quote it, as in 'no' for Norwegian"
                )
        if (self.valid or self.test) and not self.train:
            raise ConfigError("task.valid or task.test is given without task.train; give task.train=[source,target]")
        if self.joint and (self.src_vocab_size is not None or self.tgt_vocab_size is not None):
            raise ConfigError(
                "task.src_vocab_size and task.tgt_vocab_size need task.joint=false; else give task.vocab_size"
            )

    def size_option(self) -> str:
        """An option that sets a size of the vocabulary, with its value; empty: none does."""
        given = {name: getattr(self, name) for name in ("vocab_size", "src_vocab_size", "tgt_vocab_size")}
        return next((f"task.{name}={size}" for name, size in given.items() if size is not None), "")

    def sizes(self) -> dict[str, tuple[str, int]]:
        """For "joint", or for "src" and "tgt": the option that sets the vocabulary size, and the size."""
        common = self.vocab_size
        if common is None:
            common = PAPER_VOCAB_SIZE if self.train else SYNTHETIC_VOCAB_SIZE
        if self.joint:
            return {"joint": ("task.vocab_size", common)}
        own = {"src": self.src_vocab_size, "tgt": self.tgt_vocab_size}
        return {
            side: ("task.vocab_size", common) if size is None else (f"task.{side}_vocab_size", size)
            for side, size in own.items()
        }


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The task, under its name."""
    registry.task("translation", TranslationConfig, partial(_build, registry))


def _build(registry: Registry, config: TranslationConfig) -> Translation:
    from s2s_translation.task import Translation  # imports sentencepiece

    return Translation(config, registry)
