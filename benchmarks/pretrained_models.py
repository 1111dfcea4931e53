"""Small translation models as other people would publish them, trained by transformers and by Marian.

Both take generaltrain.en and generaltrain.de of a folder, and the same subwords.
"""

from __future__ import annotations

__all__ = ["train_hugging_face", "train_marian"]

import json
import random
import subprocess
from typing import TYPE_CHECKING

import sentencepiece
import torch
import transformers
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor

N_PIECES, D, HEADS, LAYERS = 4000, 128, 4, 2
TOKENS, RATE, WARMUP, SMOOTHING, DROPOUT = 1024, 1e-3, 400, 0.1, 0.1
MAX_LEN = 64
Ids = list[int]


def subwords(work: Path) -> Path:
    """One model of sentencepiece of both sides, with Marian's first tokens."""
    path = work / "joint.spm"
    if not path.exists():
        sentencepiece.SentencePieceTrainer.train(
            input=[str(work / f"generaltrain.{side}") for side in ("en", "de")],
            model_prefix=str(work / "joint"),
            vocab_size=N_PIECES,
            character_coverage=1.0,
            eos_id=0,
            unk_id=1,
            bos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
        (work / "joint.model").rename(path)
    return path


def train_marian(pymarian: str, work: Path, folder: Path, updates: int) -> None:
    """A folder with model.npz, its options and its vocabulary."""
    folder.mkdir(exist_ok=True)
    vocab = folder / "joint.spm"
    vocab.write_bytes(subwords(work).read_bytes())
    options = {
        "type": "transformer",
        "model": folder / "model.npz",
        "train-sets": f"{work}/generaltrain.en {work}/generaltrain.de",
        "vocabs": f"{vocab} {vocab}",
        "enc-depth": LAYERS,
        "dec-depth": LAYERS,
        "dim-emb": D,
        "transformer-heads": HEADS,
        "transformer-dim-ffn": 4 * D,
        "transformer-dropout": DROPOUT,
        "tied-embeddings-all": "",
        "label-smoothing": SMOOTHING,
        "mini-batch-words": TOKENS,
        "mini-batch-round-up": "false",
        "max-length": MAX_LEN,
        "learn-rate": RATE,
        "lr-warmup": WARMUP,
        "lr-decay-inv-sqrt": WARMUP,
        "after-batches": updates,
        "seed": 1,
        "cpu-threads": 1,
        "workspace": 1000,
        "quiet": "",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", *str(value).split())]
    subprocess.run([pymarian, "train", *words], check=True)


def train_hugging_face(work: Path, folder: Path, updates: int) -> None:
    """A folder of transformers with a MarianMTModel, as OPUS-MT has them."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(subwords(work)))
    pad = processor.get_piece_size()
    torch.manual_seed(1)
    model = transformers.MarianMTModel(_config(pad))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9)
    texts = [(work / f"generaltrain.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
    encoded = [[[*ids, 0] for ids in processor.encode(lines)] for lines in texts]
    pairs = [pair for pair in zip(*encoded, strict=True) if max(map(len, pair)) <= MAX_LEN]
    batches = _batches(pairs)
    for step in range(1, updates + 1):
        src, tgt = (_padded(side, pad) for side in zip(*next(batches), strict=True))
        start = torch.full_like(tgt[:, :1], pad)
        inputs = {
            "input_ids": src,
            "attention_mask": src != pad,
            "decoder_input_ids": torch.cat([start, tgt], 1)[:, :-1],
        }
        logits = model(**inputs).logits
        F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=pad, label_smoothing=SMOOTHING).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = RATE * min(step / WARMUP, (WARMUP / step) ** 0.5)
        optimizer.step()
        optimizer.zero_grad()
    _save(model, processor, subwords(work), folder)


def _config(pad: int) -> transformers.MarianConfig:
    return transformers.MarianConfig(
        vocab_size=pad + 1,
        d_model=D,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=4 * D,
        decoder_ffn_dim=4 * D,
        activation_function="swish",
        dropout=DROPOUT,
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        bos_token_id=0,
        forced_eos_token_id=0,
    )


def _batches(pairs: list[tuple[Ids, Ids]]) -> Iterator[list[tuple[Ids, Ids]]]:
    """Batches of pairs of similar lengths, with about TOKENS tokens of the longer side, for ever."""
    draw = random.Random(1)
    while True:
        ordered = sorted(pairs, key=lambda pair: (max(map(len, pair)), draw.random()))
        batches: list[list[tuple[Ids, Ids]]] = [[]]
        for pair in ordered:
            if (len(batches[-1]) + 1) * max(map(len, pair)) > TOKENS:
                batches.append([])
            batches[-1].append(pair)
        draw.shuffle(batches)
        yield from batches


def _padded(side: tuple[Ids, ...], pad: int) -> Tensor:
    return pad_sequence([torch.tensor(ids) for ids in side], batch_first=True, padding_value=pad)


def _save(
    model: transformers.MarianMTModel, processor: sentencepiece.SentencePieceProcessor, spm: Path, folder: Path
) -> None:
    pad = processor.get_piece_size()
    model.generation_config = transformers.GenerationConfig(
        num_beams=4,
        max_length=MAX_LEN,
        bad_words_ids=[[pad]],
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
        forced_eos_token_id=0,
    )
    model.save_pretrained(folder)
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(spm.read_bytes())
    pieces = [*(processor.id_to_piece(i) for i in range(pad)), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    settings = {"source_lang": "en", "target_lang": "de", "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
