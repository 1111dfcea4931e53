"""Folders as transformers wrote them from 2020 to 2023: a model of sentencepiece, and no tokenizer.json."""

from __future__ import annotations

__all__ = ["KINDS", "Kind", "lines_of_scripts", "spm_folder"]

import io
import json
import random
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import sentencepiece

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCRIPTS = (
    (0x61, 0x7A),
    (0xE0, 0xFF),
    (0x410, 0x44F),
    (0x905, 0x939),
    (0x3041, 0x30FA),
    (0x4E00, 0x4E80),
    (0x621, 0x64A),
)
ODD = [" ", "  ", "   ", "\t", "\n", "\r\n", "\x00", "\x01", "\x1f", "\x7f", "\x85", "\u00a0", "\u2028", "\u3000"]
ODD += ["\u200b", "\u200d", "\u00ad", "\ufeff", "e\u0301", "\u0300", "ﬁ", "Ａ", "①", "½", "ｶﾞ", "Ⅷ", "…", "™", "²", "ß"]
ODD += [
    "😀",
    "👩\u200d👧",
    "🇩🇪",
    "👍🏽",
    "क\u093c",
    "ـ",
    "▁",
    "▁▁",
    "ı",
    "İ",
    "\U00020000",
    "한",
    "ᄀ",
    "<mask>",
    "<2de>",
    "<new>",
    ">>x<<",
]
BLOCKS = (
    (0x20, 0x7E),
    (0xA0, 0x24F),
    (0x370, 0x52F),
    (0x600, 0x6FF),
    (0x900, 0x97F),
    (0x3040, 0x30FF),
    (0x4E00, 0x9FFF),
)
BLOCKS += ((0x2000, 0x2BFF), (0x1F300, 0x1FAFF), (0xFB00, 0xFFEF), (0x00, 0x1F), (0xAC00, 0xD7A3))
FAIRSEQ = {"bos_id": 1, "eos_id": 2, "unk_id": 0, "pad_id": -1}
T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


class Kind(NamedTuple):
    """A family's tokeniser before version 5."""

    model_type: str
    tokenizer_class: str
    file: str
    spm: Mapping[str, Any]
    """Options of its training"""
    ids: Mapping[str, int]
    """Of special tokens, in config.json"""
    languages: tuple[str, ...] = ()
    settings: Mapping[str, Any] = {}
    """Further ones in tokenizer_config.json"""
    others: Mapping[str, Mapping[str, Any]] = {}
    """Further files"""


FAIRSEQ_IDS = {"bos": 0, "pad": 1, "eos": 2, "decoder_start": 2}
T5_IDS = {"pad": 0, "eos": 1, "decoder_start": 0}
BPE, UNIGRAM = {"model_type": "bpe"}, {"model_type": "unigram"}
NO_RULES = {"normalization_rule_name": "identity"}
KINDS = {
    "m2m-100": Kind(
        "m2m_100", "M2M100Tokenizer", "sentencepiece.bpe.model", {**FAIRSEQ, **BPE}, FAIRSEQ_IDS, ("en", "de")
    ),
    "nllb": Kind(
        "m2m_100", "NllbTokenizer", "sentencepiece.bpe.model", {**FAIRSEQ, **BPE}, FAIRSEQ_IDS, ("eng_Latn", "deu_Latn")
    ),
    "mbart": Kind(
        "mbart", "MBartTokenizer", "sentencepiece.bpe.model", {**FAIRSEQ, **UNIGRAM}, FAIRSEQ_IDS, ("en_XX", "de_DE")
    ),
    "mbart-50": Kind(
        "mbart", "MBart50Tokenizer", "sentencepiece.bpe.model", {**FAIRSEQ, **UNIGRAM}, FAIRSEQ_IDS, ("en_XX", "uk_UA")
    ),
    "mbart-50-2020": Kind(
        "mbart", "MBart50Tokenizer", "sentencepiece.bpe.model", {**FAIRSEQ, **UNIGRAM}, FAIRSEQ_IDS, ("en_XX", "uk_UA"),
        others={"tokenizer_config.json": {}},
    ),
    "t5": Kind("t5", "T5Tokenizer", "spiece.model", {**T5, **UNIGRAM}, T5_IDS),
    "mt5": Kind("mt5", "T5Tokenizer", "spiece.model", {**T5, **UNIGRAM}, T5_IDS, (), {"extra_ids": 0}),
    "t5-no-rules": Kind("t5", "T5Tokenizer", "spiece.model", {**T5, **UNIGRAM, **NO_RULES}, T5_IDS),
    "t5-symbols": Kind(
        "t5", "T5Tokenizer", "spiece.model", {**T5, **UNIGRAM, "user_defined_symbols": "<2de>,<2hi>"}, T5_IDS
    ),
    "t5-added": Kind(
        "t5", "T5Tokenizer", "spiece.model", {**T5, **UNIGRAM}, T5_IDS, others={
            "added_tokens.json": {"<new>": 1000, "Ａ": 1001},
            "special_tokens_map.json": {"eos_token": "</s>", "additional_special_tokens": ["<extra_id_0>"]},
        },
    ),
    "pegasus": Kind("pegasus", "PegasusTokenizer", "spiece.model", {**T5, **UNIGRAM}, T5_IDS),
    "pegasus-no-rules": Kind("pegasus", "PegasusTokenizer", "spiece.model", {**T5, **UNIGRAM, **NO_RULES}, T5_IDS),
    "bart": Kind("bart", "BartTokenizer", "", {}, FAIRSEQ_IDS),
    "bart-spaced": Kind("bart", "BartTokenizer", "", {}, FAIRSEQ_IDS, (), {"add_prefix_space": True}, {
        "special_tokens_map.json": {"mask_token": {
            "content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False
        }},
    }),
}  # fmt: skip


def spm_folder(folder: Path, kind: Kind) -> dict[str, Any]:
    """Write the files of the tokeniser; returns config.json."""
    folder.mkdir(parents=True)
    settings = {"tokenizer_class": kind.tokenizer_class, **kind.settings}
    for name, written in {"tokenizer_config.json": settings, **kind.others}.items():
        (folder / name).write_text(json.dumps(written))
    if kind.file:
        content = _spm(tuple(kind.spm.items()))
        (folder / kind.file).write_bytes(content)
        model = sentencepiece.SentencePieceProcessor(model_proto=content)
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *(model.id_to_piece(i) for i in range(3, model.get_piece_size()))]
        if kind.tokenizer_class == "M2M100Tokenizer":
            (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    else:
        _byte_level(folder)
    size = 20_000  # more rows than tokens, as published models have
    ids = {f"{name}_token_id": i for name, i in kind.ids.items()}
    config = {"model_type": kind.model_type, "tokenizer_class": kind.tokenizer_class, "vocab_size": size, **ids}
    (folder / "config.json").write_text(json.dumps(config))
    return config


def lines_of_scripts(n: int, seed: int = 1) -> list[str]:
    """Texts of five scripts and more, with odd blanks, emoji, marks, control characters, compatibility forms."""
    numbers, words = random.Random(seed), _words()
    lines = ["", " ", "   ", "a", " a  b ", *ODD]
    while len(lines) < n:
        kind = numbers.randrange(4)
        if kind == 3:
            first, last = numbers.choice(BLOCKS)
            line = "".join(" " if numbers.random() < 0.15 else chr(numbers.randint(first, last)) for _ in range(20))
        else:
            chosen = numbers.choices(numbers.choice(words), k=numbers.randint(1, 9))
            for _ in range(numbers.randrange(4) if kind == 2 else 0):
                chosen.insert(numbers.randrange(len(chosen) + 1), numbers.choice(ODD))
            line = numbers.choice(("", " ")).join(chosen) if kind == 2 else " ".join(chosen)
        lines.append(line)
    return lines[:n]


@cache
def _words() -> list[list[str]]:
    numbers = random.Random(7)

    def word(first: int, last: int) -> str:
        return "".join(chr(numbers.randint(first, last)) for _ in range(numbers.randint(1, 7)))

    return [[word(*script) for _ in range(60)] for script in SCRIPTS]


@cache
def _spm(options: tuple[tuple[str, Any], ...]) -> bytes:
    written, numbers = io.BytesIO(), random.Random(3)
    lines = [" ".join(numbers.choices(numbers.choice(_words()), k=8)) for _ in range(400)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        vocab_size=900,
        hard_vocab_limit=False,
        character_coverage=0.999,
        minloglevel=2,
        **dict(options),
    )
    return written.getvalue()


def _byte_level(folder: Path) -> None:
    import tokenizers

    numbers = random.Random(3)
    lines = [" ".join(numbers.choices(numbers.choice(_words()), k=8)) for _ in range(200)]
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(lines, vocab_size=600, special_tokens=special, show_progress=False)
    tokenizer.save_model(str(folder))
