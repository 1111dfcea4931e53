"""Models as other people publish them, tiny and random: made by transformers, with a tokeniser that was learnt here."""

from __future__ import annotations

__all__ = ["LINES", "opus_mt"]

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
import sentencepiece
import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

LINES = {
    "src": [
        f"the {size} {animal} sees a {thing}."
        for size in ("old", "big", "tiny")
        for animal in ("dog", "cat", "cow")
        for thing in ("house", "tree", "Ball", "car")
    ],
    "tgt": [
        f"{animal} {size} sieht ein {thing}."
        for size in ("alt", "groß", "klein")
        for animal in ("Hund", "Katze")
        for thing in ("Haus", "Baum", "Ball", "Auto")
    ],
}
"""Texts of both languages, which are no translations of each other"""
SIZES = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2}
SIZES |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}


def opus_mt(folder: Path, *, joint: bool = True, tags: Sequence[str] = (), **options: Any) -> Any:
    """A MarianMTModel in a folder as OPUS-MT publishes them: eos, unk and `tags` first, pad last; returns the model."""
    transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    models = {"source": _sentencepiece(LINES["src"]), "target": _sentencepiece(LINES["tgt"])}
    for side, content in models.items():
        (folder / f"{side}.spm").write_bytes(content)
    pieces = {side: [*tags, *_pieces(content)] for side, content in models.items()}
    longest = max(map(len, pieces.values()))  # transformers has one id of padding for both sides
    pieces = {side: [*own, *(f"▁{i}" for i in range(longest - len(own)))] for side, own in pieces.items()}
    tables = {"vocab.json": _table([*pieces["source"], *pieces["target"]] if joint else pieces["source"])}
    if not joint:
        tables["target_vocab.json"] = _table(pieces["target"])
    for name, table in tables.items():
        (folder / name).write_text(json.dumps(table))
    settings = {"source_lang": "en", "target_lang": "de", "model_max_length": 512, "separate_vocabs": not joint}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    sizes = [len(table) for table in tables.values()]
    config = transformers.MarianConfig(
        vocab_size=sizes[0],
        decoder_vocab_size=sizes[-1],
        share_encoder_decoder_embeddings=joint,
        pad_token_id=sizes[-1] - 1,
        decoder_start_token_id=sizes[-1] - 1,
        eos_token_id=0,
        bos_token_id=0,
        forced_eos_token_id=0,
        **{"activation_function": "swish", "scale_embedding": True, "max_position_embeddings": 64, **SIZES, **options},
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "embed_positions" not in name:
                tensor.add_(0.3 * torch.randn_like(tensor))
    model.generation_config = transformers.GenerationConfig(
        num_beams=4,
        max_length=24,
        bad_words_ids=[[config.pad_token_id]],
        pad_token_id=config.pad_token_id,
        eos_token_id=0,
        decoder_start_token_id=config.pad_token_id,
        forced_eos_token_id=0,
    )
    model.save_pretrained(folder)
    return model


def _sentencepiece(lines: Iterable[str]) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=written, vocab_size=90, hard_vocab_limit=False, minloglevel=2
    )
    return written.getvalue()


def _pieces(content: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size()) if not processor.is_control(i)]


def _table(pieces: Iterable[str]) -> dict[str, int]:
    return {piece: i for i, piece in enumerate(dict.fromkeys(["</s>", "<unk>", *pieces, "<pad>"]))}
