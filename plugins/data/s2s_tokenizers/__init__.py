"""Tokenisers beside subwords: task.subword=characters, whitespace, fairseq, hf (tokenizer.json), marian."""

from __future__ import annotations

__all__ = ["FairseqConfig", "HuggingFaceConfig", "ListedConfig", "MarianConfig", "s2s_register"]

from dataclasses import dataclass, field
from typing import Literal

from s2s import Choice, Registry, hookimpl
from s2s.config import Mark


@dataclass(kw_only=True)
class ListedConfig(Choice):
    """The most frequent characters, or words between blanks, of the training text."""

    invisible: Literal["drop", "keep"] = field(default="drop", metadata=Mark.earlier("keep"))
    """Invisible characters that carry no meaning, such as soft hyphens and joiners in Latin words: drop leaves them out
    of every text."""
    symbols: list[str] = field(default_factory=list)
    """Texts that are one token wherever they occur, such as tags: ['<BT>']."""


@dataclass(kw_only=True)
class PublishedConfig(Choice):
    """The tokeniser of a published model: its tokens, and those that it puts around texts."""

    start: list[str] = field(default_factory=list)
    """The tokens with which decoding starts, such as ['</s>','deu_Latn']; empty: its bos."""
    before: list[str] = field(default_factory=list)
    """Tokens before every source, such as the code of its language: ['eng_Latn']."""
    end: list[str] = field(default_factory=list)
    """Tokens behind every source, such as ['</s>','en_XX']; empty: eos."""
    size: int = 0
    """Rows of the model's tables, where some have no token: they get one that no text contains. 0: none has."""


@dataclass(kw_only=True)
class HuggingFaceConfig(PublishedConfig):
    """A complete tokeniser of the package tokenizers (pip install tokenizers, extra hf), with the ids that it has."""

    file: str = ""
    """Its tokenizer.json, which is copied into the run."""
    pad: str = ""
    """The token for padding; empty: the first of <pad>, [PAD] and <|pad|> that the file has."""
    unk: str = ""
    """The unknown token; empty: that of the model, or else <unk> or [UNK]. None is needed if no text is unknown."""
    bos: str = ""
    """The token that begins outputs; empty: the first of <s>, <bos>, [CLS] and <|startoftext|> that the file has."""
    eos: str = ""
    """The token that ends texts; empty: the first of </s>, <eos>, [SEP] and <|endoftext|> that the file has."""


@dataclass(kw_only=True)
class MarianConfig(PublishedConfig):
    """The tokeniser of a MarianMTModel, with the ids of its vocab.json; its bos is <pad>."""

    folder: str = ""
    """Folder with vocab.json, source.spm, target.spm and, if each side has tokens of its own, target_vocab.json, which
    are copied into the run; empty: the run's own."""
    tags: bool = True
    """A text may begin with a tag, such as >>fr<<, which is one token; false for M2M-100, whose codes are __fr__."""


@dataclass(kw_only=True)
class FairseqConfig(PublishedConfig):
    """The dictionaries of a model of fairseq, and codes of BPE as of subword-nmt and fastBPE."""

    folder: str = ""
    """Folder with vocab.json, target_vocab.json and, if words are cut, codes, which are copied into the run; empty: the
    run's own."""
    moses: list[str] = field(default_factory=list)
    """Languages of sources and targets, such as [en,de], as whose words Moses separates them; empty: by blanks."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("tokenizer", "characters", ListedConfig, "s2s_tokenizers.listed:CharacterKind")
    registry.add("tokenizer", "whitespace", ListedConfig, "s2s_tokenizers.listed:WhitespaceKind")
    registry.add("tokenizer", "marian", MarianConfig, "s2s_tokenizers.marian:MarianKind")
    registry.add("tokenizer", "fairseq", FairseqConfig, "s2s_tokenizers.fairseq:FairseqKind")
    registry.add("tokenizer", "hf", HuggingFaceConfig, "s2s_tokenizers.hugging_face:HuggingFaceKind")
