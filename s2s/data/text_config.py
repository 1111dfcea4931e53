"""The options of a task of text to text."""

from __future__ import annotations

__all__ = ["TextConfig"]

from dataclasses import dataclass, field
from typing import Any, Literal

from s2s.config.marks import Mark
from s2s.config.ranges import Range, at_least, check_ranges
from s2s.errors import ConfigError
from s2s.registry import Choice


@dataclass(kw_only=True)
class TextConfig(Choice):
    """Text to text."""

    train: Any = None
    """Training text: [corpus.en,corpus.de], a file of pairs (.tsv, .csv, .jsonl, .json, .xlsx, .parquet, .arrow, .tmx,
    .xliff, .po), a folder of them, or several corpora as {name: {files: [a.en,a.de], weight: 2}, …}; text may be
    compressed (.gz, .bz2, .xz, .zst). {corpus: NAME, …}: a corpus of a plugin, with
    its options. With fields: {language: de}, all examples of a corpus have these fields."""
    valid: Any = None
    """Development text, in the same forms; null: none."""
    test: Any = None
    """Test text, in the same forms."""
    columns: list[Any] = field(default_factory=list)
    """[source,target] of files of pairs: names of columns, keys, or numbers from 1. Empty: those named after the
    languages, or source and target, or the first two texts, as the first screen says."""
    src_lang: str = ""
    """Language of the source, such as en; empty: as the training files' names end, corpus.en and corpus.de."""
    tgt_lang: str = ""
    """Language of the target, such as de, for metrics that depend on it; empty: as the files' names end."""
    subword: Any = field(default="bpe", metadata={"names": "tokenizer"})
    """Tokeniser (section 5.1: byte-pair encoding): bpe, unigram, char, word, characters, whitespace, hf, or one that a
    plugin registers; with options as {name: hf, file: tokenizer.json}, or task.subword.byte_fallback=true."""
    vocab_size: int | None = None
    """Size of the vocabulary, special tokens included; null: 37,000 (section 5.1)."""
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
    unknown_symbols: float = field(default=0.05, metadata=Mark.earlier(0.0))
    """Share of the training pairs, other ones in every epoch, whose source gets a symbol without a token, so that a
    model learns the unknown token, or the bytes of byte_fallback. 0: none."""
    noise: list[Any] = field(default_factory=list)
    """Noise on training pairs, at most one kind on each, such as [upper_case,typos]; with options as in
    {name: upper_case, share: 0.1}. Vocabularies are learnt from text with the same noise; development text has none."""
    lowercase: bool = False
    """Lower-case both sides; outputs are then lower-case, too."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8 or not a pair: stop, or drop and count it."""
    context: int = 0
    """Previous source sentences of the same document that are read with each one; the target alone is predicted. In
    training text, an empty line, a key `document` (or `doc`) of JSON lines or a third column of a TSV separates
    documents; {files: …, documents: false}: a corpus of single sentences."""

    metrics: list[Any] = field(default_factory=lambda: ["bleu", "chrf"])
    """Metrics of the outputs, the main one first: names, or {name: bleu, tokenize: intl} with options."""

    def __post_init__(self) -> None:
        check_ranges("task", self, subword_sampling=Range(0, 1), unknown_symbols=Range(0, 1), context=at_least(0, 100))
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

    @property
    def default_size(self) -> int:
        """Size of a vocabulary whose option is null."""
        return 37_000

    def sizes(self) -> dict[str, tuple[str, int]]:
        """For "joint", or for "src" and "tgt": the option that sets the vocabulary size, and the size."""
        common = self.default_size if self.vocab_size is None else self.vocab_size
        if self.joint:
            return {"joint": ("task.vocab_size", common)}
        sizes = {"src": self.src_vocab_size, "tgt": self.tgt_vocab_size}
        return {
            side: ("task.vocab_size", common) if size is None else (f"task.{side}_vocab_size", size)
            for side, size in sizes.items()
        }

    def size_option(self) -> str:
        """An option that sets a size, with its value; empty: none does."""
        sizes = {name: getattr(self, name) for name in ("vocab_size", "src_vocab_size", "tgt_vocab_size")}
        return next((f"task.{name}={size}" for name, size in sizes.items() if size is not None), "")
