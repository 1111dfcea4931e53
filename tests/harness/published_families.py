"""Tiny random models of the families that have a tokenizer.json, as transformers writes them."""

from __future__ import annotations

__all__ = ["FAMILIES", "Family", "published"]

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch

from harness.published import LINES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SIZES = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2}
SIZES |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64}
T5_SIZES = {"d_model": 16, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 2, "d_kv": 6, "d_ff": 24}


class Family(NamedTuple):
    """How a family is made, and what its own tokeniser puts around texts."""

    model_type: str
    config: str
    """Class of transformers, without Config"""
    kind: str
    """Of the tokeniser: byte-level BPE, BPE, or unigram"""
    special: Sequence[str]
    """The first ids"""
    codes: Sequence[str]
    """The last ids"""
    source: str
    """Tokens around a source, TEXT between them"""
    start: Sequence[str]
    languages: Sequence[str] = ()
    options: Mapping[str, Any] = {}
    tokenizer_class: str = "PreTrainedTokenizerFast"
    settings: Mapping[str, Any] = {}
    """Others of the tokeniser"""


FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]
NLLB = ["eng_Latn", "deu_Latn"]
MBART = ["en_XX", "de_DE"]
T5 = ["<pad>", "</s>", "<unk>"]
FAMILIES = {
    "bart": Family("bart", "Bart", "bytes", FAIRSEQ, [], "<s> TEXT </s>", ["</s>", "<s>"]),
    "nllb": Family(
        "m2m_100", "M2M100", "bpe", FAIRSEQ, NLLB, "eng_Latn TEXT </s>", ["</s>", "deu_Latn"], NLLB,
        {"scale_embedding": True, "activation_function": "relu"},
    ),
    "nllb_legacy": Family(
        "m2m_100", "M2M100", "bpe", FAIRSEQ, NLLB, "TEXT </s> eng_Latn", ["</s>", "deu_Latn"], NLLB,
        {"scale_embedding": True, "activation_function": "relu"}, settings={"legacy_behaviour": True},
    ),
    "mbart50": Family(
        "mbart", "MBart", "unigram", FAIRSEQ, MBART, "en_XX TEXT </s>", ["</s>", "de_DE"], MBART,
        {"scale_embedding": True}, "MBart50Tokenizer",
    ),
    "mbart": Family(
        "mbart", "MBart", "unigram", FAIRSEQ, MBART, "TEXT </s> en_XX", ["de_DE"], MBART, {"scale_embedding": True},
    ),
    "t5": Family("t5", "T5", "unigram", T5, [], "TEXT </s>", ["<pad>"], options={"feed_forward_proj": "relu"}),
    "madlad": Family(
        "t5", "T5", "unigram", T5, ["<2de>", "<2en>"], "<2de> TEXT </s>", ["<pad>"], ["en", "de"],
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
}  # fmt: skip


def published(name: str, folder: Path) -> tuple[Any, Any]:
    """Write a model of the family; returns the model, and its tokeniser without the tokens around texts."""
    transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
    family = FAMILIES[name]
    tokenizer = _tokenizer(family)
    ids = tokenizer.get_vocab()
    n_tokens = tokenizer.get_vocab_size() + 5  # a table with more rows than tokens
    sizes = T5_SIZES if family.model_type == "t5" else SIZES
    special = {"pad_token_id": ids["<pad>"], "eos_token_id": ids["</s>"], "bos_token_id": ids.get("<s>")}
    start = {"decoder_start_token_id": ids[family.start[0]]}
    config = getattr(transformers, f"{family.config}Config")(
        **{**sizes, "vocab_size": n_tokens, **special, **start, "forced_eos_token_id": None, **family.options}
    )
    torch.manual_seed(3)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    with torch.no_grad():
        for weight_name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and "embed_positions.weights" not in weight_name:
                tensor.add_(0.3 * torch.randn_like(tensor))
    generation = {"max_length": 20, "num_beams": 1, **special, **start}
    if len(family.start) > 1:
        generation["forced_bos_token_id"] = ids[family.start[1]]
    model.generation_config = transformers.GenerationConfig(**generation)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": family.tokenizer_class, **family.settings})
    )
    return model, tokenizer


def _tokenizer(family: Family) -> Any:
    tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    models, trainers = tokenizers.models, tokenizers.trainers
    options = {"special_tokens": list(family.special), "vocab_size": 120, "show_progress": False}
    if family.kind == "unigram":
        tokenizer = tokenizers.Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(unk_token="<unk>", **options)
    else:
        tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
        trainer = trainers.BpeTrainer(**options)
    if family.kind == "bytes":
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
    else:
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
        tokenizer.decoder = tokenizers.decoders.Metaspace()
    tokenizer.train_from_iterator([*LINES["src"], *LINES["tgt"]], trainer)
    tokenizer.add_special_tokens(list(family.codes))
    return tokenizer
