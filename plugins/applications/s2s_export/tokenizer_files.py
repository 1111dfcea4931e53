"""The files of a tokeniser that transformers loads as AutoTokenizer, with the tokens that a run puts around texts."""

from __future__ import annotations

__all__ = ["write_tokenizer"]

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

from s2s import ConfigError
from s2s.io import read_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.data import Tokenizer

UNUSED = re.compile(r"<unused \d+>")
"""Rows of a model without a token, which the tokeniser here has names for"""
CODE = re.compile(r"__([a-z]{2,3})__")
"""Languages as M2M-100 spells them"""
CONFIG = "tokenizer_config.json"


def write_tokenizer(sides: tuple[Tokenizer, Tokenizer], max_length: int, folder: Path) -> None:
    """A tokenizer.json, or for models of sentencepiece the files of MarianTokenizer or M2M100Tokenizer."""
    src, tgt = sides
    names = {name: src.pieces[i] for name, i in zip(("pad_token", "unk_token"), (src.pad, src.unk), strict=True)}
    settings = {**names, "eos_token": src.pieces[src.eos], "model_max_length": max_length}
    if src.library == "tokenizers":
        content = _around(read_json(src.library_file), src)
        (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        if not src.before and src.src_eos not in (-1, src.eos):  # the language behind the text, as NLLB once had it
            settings["legacy_behaviour"] = True
    elif src.before or src.after:
        settings |= _write_m2m_100(src, folder)
    else:
        settings |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": src.pieces != tgt.pieces}
        settings |= {"bos_token": "<s>"} if "<s>" in src.pieces else {}
        _write_marian(src, tgt, folder)
    (folder / CONFIG).write_text(json.dumps(settings, indent=2, ensure_ascii=False), encoding="utf-8")


def _around(content: dict[str, Any], src: Tokenizer) -> dict[str, Any]:
    """A tokenizer.json whose post-processor puts the run's tokens around a text, in place of its own."""
    content["added_tokens"] = [t for t in content.get("added_tokens", ()) if not UNUSED.fullmatch(t["content"])]
    end = src.src_eos if src.src_eos >= 0 else src.eos
    before, after = ([src.pieces[i] for i in ids] for ids in (src.before, (*src.after, end)))
    special = {token: {"id": token, "ids": [src.id_of(token)], "tokens": [token]} for token in (*before, *after)}

    def template(*texts: dict[str, Any]) -> list[dict[str, Any]]:
        tokens = [[{"SpecialToken": {"id": token, "type_id": 0}} for token in some] for some in (before, after)]
        return [*tokens[0], *texts, *tokens[1]]

    single, pair = ([{"Sequence": {"id": name, "type_id": 0}} for name in names] for names in ("A", "AB"))
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": template(*single),
        "pair": template(*pair),
        "special_tokens": special,
    }
    return content


def _write_m2m_100(src: Tokenizer, folder: Path) -> dict[str, Any]:
    """The model of sentencepiece and the ids of its tokens; returns further settings.

    M2M100Tokenizer puts the language before a text, and gives its list of languages the ids behind those of the file.
    """
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as LISTS

    language = CODE.fullmatch(src.pieces[src.before[0]]) if len(src.before) == 1 and not src.after else None
    end = next((i for i, piece in enumerate(src.pieces) if CODE.fullmatch(piece)), len(src.pieces))
    tail = src.pieces[end:]
    named = next((name for name, codes in LISTS.items() if tail[: len(codes)] == [f"__{code}__" for code in codes]), "")
    if language is None or not named:
        raise ConfigError(
            "format=hf: tokens around texts need a tokenizer.json, which the model did not have, or all languages of "
            "M2M-100 behind all other tokens, of which pruning leaves those of the run"
        )
    shutil.copyfile(src.library_file, folder / "sentencepiece.bpe.model")
    _write_ids(folder / "vocab.json", src.pieces[:end])
    return {
        "tokenizer_class": "M2M100Tokenizer",
        "src_lang": language[1],
        "language_codes": named,
        "num_madeup_words": len(tail) - len(LISTS[named]),
        "additional_special_tokens": tail[: len(LISTS[named])],
        "bos_token": "<s>",
    }


def _write_marian(src: Tokenizer, tgt: Tokenizer, folder: Path) -> None:
    """The sentencepiece models, and the id of every token."""
    for name, side in (("source.spm", src), ("target.spm", tgt)):
        shutil.copyfile(side.library_file, folder / name)
    tables: Sequence[tuple[str, Tokenizer]] = [("vocab.json", src), ("target_vocab.json", tgt)]
    for name, side in tables[: 1 + (src.pieces != tgt.pieces)]:
        _write_ids(folder / name, side.pieces)


def _write_ids(file: Path, pieces: Sequence[str]) -> None:
    ids = {piece: i for i, piece in enumerate(pieces)}
    file.write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
