"""How texts become the ids of a published model: options of the task.

The tokens around texts are those that the family's own tokeniser puts there; their names follow from the ids in the
model's configuration.
"""

from __future__ import annotations

__all__ = ["Texts", "text_options"]

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import CheckpointError, ConfigError
from s2s.io import read_json, write_file
from s2s_import.spm_folders import MERGES, VOCAB, m2m_tokens, settings_of, spm_file, tokenizer_json, with_added_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping, Sequence
    from pathlib import Path

SPM = ("source.spm", "target.spm")
MARIAN = (VOCAB, *SPM)
TARGET_VOCAB, TOKENIZER = "target_vocab.json", "tokenizer.json"
CODES = {
    "{}": r"[a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2}",
    "__{}__": r"__[a-z]{2,3}__",
    "<2{}>": r"<2\w+>",
    ">>{}<<": r">>\w+<<",
}
"""How the code of a language is spelt as a token, and the tokens that are codes: of NLLB and mBART, M2M-100,
MADLAD-400, OPUS-MT"""


T5 = ("t5", "mt5")


class Around(NamedTuple):
    """What a family puts around texts: names of tokens, {src} and {tgt} for the codes of the languages."""

    start: Sequence[str]
    before: Sequence[str] = ()
    end: Sequence[str] = ()


FAMILIES = {
    "bart": Around(["{decoder_start}", "{forced_bos}"], ["{bos}"]),
    "m2m_100": Around(["{decoder_start}", "{tgt}"], ["{src}"]),
    "nllb_legacy": Around(["{decoder_start}", "{tgt}"], [], ["{eos}", "{src}"]),
    "mbart": Around(["{tgt}"], [], ["{eos}", "{src}"]),
    "mbart50": Around(["{decoder_start}", "{tgt}"], ["{src}"]),
    **dict.fromkeys((*T5, "pegasus"), Around(["{decoder_start}"])),
}
"""By model_type; MADLAD-400, a T5, has <2de> before its sources"""


class Texts(NamedTuple):
    """How a model's texts become ids."""

    options: dict[str, Any]
    """Of the task, for its run"""
    take_over: Callable[[Path], dict[str, Any]]
    """The options that take over the tokeniser's files; those that have to be made are written into the folder"""
    new: Mapping[str, Sequence[str]]
    """Codes of new languages, and the codes as which they begin"""


def text_options(
    folder: Path, config: Mapping[str, Any], languages: Sequence[str], new_languages: Mapping[str, str | None]
) -> Texts:
    """By the files in a model's folder; raises CheckpointError if it has none of a tokeniser that is read.

    config: config.json with the settings of generation_config.json.
    """
    if all((folder / name).is_file() for name in MARIAN):
        return _marian(folder, config, languages, new_languages)
    if (folder / TOKENIZER).is_file():
        made = read_json(folder / TOKENIZER) if new_languages else None
        return _hugging_face(folder, config, languages, new_languages, made)
    if config["model_type"] == "m2m_100" and (folder / VOCAB).is_file() and (spm := spm_file(folder)):
        return _m2m_100(folder, config, languages, new_languages, spm)
    if content := tokenizer_json(folder, str(config["model_type"])):
        return _hugging_face(folder, config, languages, new_languages, content)
    raise CheckpointError(
        f"{folder} has no files of a tokeniser that is read here: {TOKENIZER}, a model of sentencepiece, "
        f"{VOCAB} and {MERGES}, or {', '.join(MARIAN)}"
    )


def _marian(
    folder: Path, config: Mapping[str, Any], languages: Sequence[str], new_languages: Mapping[str, str | None]
) -> Texts:
    is_joint = not (folder / TARGET_VOCAB).is_file()
    ids = read_json(folder / VOCAB)
    tokens = _names(ids if is_joint else read_json(folder / TARGET_VOCAB))
    pad = config.get("pad_token_id")
    start = config.get("decoder_start_token_id", pad)
    subword: dict[str, Any] = {"name": "marian", "start": [] if start == pad else [tokens[start]]}
    new = new_codes(new_languages, ids)
    ids |= {code: len(ids) + i for i, code in enumerate(new)}
    if languages:
        subword["before"] = [_code(languages[1], ids)]

    def take_over(empty: Path) -> dict[str, Any]:
        if not new:
            return {"subword": {**subword, "folder": str(folder.absolute())}}
        for name in (*SPM, *(() if is_joint else (TARGET_VOCAB,))):
            write_file(empty / name, (folder / name).read_bytes())
        write_file(empty / VOCAB, json.dumps(ids).encode())
        return {"subword": {**subword, "folder": str(empty.absolute())}}

    return Texts({"subword": subword, "joint": is_joint, **_languages(folder, languages)}, take_over, new)


def _m2m_100(
    folder: Path,
    config: Mapping[str, Any],
    languages: Sequence[str],
    new_languages: Mapping[str, str | None],
    spm: Path,
) -> Texts:
    """Its tokeniser is one of sentencepiece with ids of vocab.json, as OPUS-MT's."""
    ids = m2m_tokens(folder)
    new = new_codes(new_languages, ids)
    ids |= {code: len(ids) + i for i, code in enumerate(new)}
    start, before, end, _ = _around(folder, config, languages, ids)
    subword = {"name": "marian", "start": start, "before": before, "end": end, "tags": False}
    size = max(int(config["vocab_size"]), len(ids))

    def take_over(empty: Path) -> dict[str, Any]:
        write_file(empty / VOCAB, json.dumps(ids).encode())
        for name in SPM:
            write_file(empty / name, spm.read_bytes())
        return {"subword": {**subword, "folder": str(empty.absolute()), "size": size}}

    return Texts({"subword": subword, "joint": True, **_languages(folder, languages)}, take_over, new)


def _hugging_face(
    folder: Path,
    config: Mapping[str, Any],
    languages: Sequence[str],
    new_languages: Mapping[str, str | None],
    made: Mapping[str, Any] | None,
) -> Texts:
    """made: the contents of tokenizer.json; None: those of the file in the folder."""
    ids = _ids(read_json(folder / TOKENIZER) if made is None else made)
    new, size = new_codes(new_languages, ids), int(config["vocab_size"])
    if made is not None and new:
        made = with_added_tokens(made, new)
        ids = _ids(made)
        size = max(size, max(ids.values()) + 1)
    start, before, end, names = _around(folder, config, languages, ids)
    subword: dict[str, Any] = {"name": "hf", "start": list(filter(None, start)), "before": before, "end": end}
    subword["bos"] = start[0]
    subword |= {name: names[name] for name in ("pad", "eos") if name in names}

    def take_over(empty: Path) -> dict[str, Any]:
        file = (folder if made is None else empty) / TOKENIZER
        if made is not None:
            write_file(file, json.dumps(made).encode())
        return {"subword": {**subword, "file": str(file.absolute()), "size": size}}

    return Texts({"subword": subword, "joint": True, **_languages(folder, languages)}, take_over, new)


def _around(
    folder: Path, config: Mapping[str, Any], languages: Sequence[str], ids: Mapping[str, int]
) -> tuple[list[str], list[str], list[str], dict[str, str]]:
    """The tokens with which decoding starts, those before and behind sources, and the special ones by their names."""
    tokens = {i: piece for piece, i in ids.items()}
    names = {
        name: tokens[config[f"{name}_token_id"]]
        for name in ("pad", "bos", "eos", "decoder_start", "forced_bos")
        if config.get(f"{name}_token_id") in tokens
    }
    family = FAMILIES[_family(folder, config)]
    if config["model_type"] in T5 and languages:
        family = family._replace(before=["{tgt}"])
    codes = {"src": languages[0], "tgt": languages[1]} if languages else {}
    start, before, end = ([_filled(token, names, codes, ids, folder) for token in part] for part in family)
    return start, before, end, names


def _filled(
    pattern: str, names: Mapping[str, str], codes: Mapping[str, str], ids: Mapping[str, int], folder: Path
) -> str:
    """The token that a family's pattern means; empty for a forced token that the model does not have."""
    name = pattern.strip("{}")
    if name in codes:
        return _code(codes[name], ids)
    if name in names or name == "forced_bos":
        return names.get(name, "")
    if name in ("src", "tgt"):
        raise ConfigError(
            f"{folder} is a model of several languages: s2s-import model={folder} languages=[SOURCE,TARGET] makes a "
            "run of one direction"
        )
    raise CheckpointError(f"{folder}: its config.json has no {name}_token_id that is a token")


def _family(folder: Path, config: Mapping[str, Any]) -> str:
    settings, kind = settings_of(folder), str(config["model_type"])
    if str(settings.get("tokenizer_class", "")).startswith("MBart50"):
        return "mbart50"
    return "nllb_legacy" if kind == "m2m_100" and settings.get("legacy_behaviour") else kind


def new_codes(new_languages: Mapping[str, str | None], tokens: Collection[str]) -> dict[str, list[str]]:
    """The codes of languages that a model does not have, each with those as which it begins."""
    new: dict[str, list[str]] = {}
    if not new_languages:
        return new
    codes = {spelling: [token for token in tokens if re.fullmatch(form, token)] for spelling, form in CODES.items()}
    spelling = max(codes, key=lambda one: len(codes[one]))
    if not codes[spelling]:
        raise ConfigError("new_languages: the model has no codes of languages")
    for language, related in new_languages.items():
        code = spelling.format(language)
        if code in tokens:
            raise ConfigError(f"new_languages: the model has {language} already")
        new[code] = codes[spelling] if related is None else [_code(related, tokens)]
    return new


def _code(language: str, tokens: Container[str]) -> str:
    """The token that stands for a language."""
    for spelling in CODES:
        if spelling.format(language) in tokens:
            return spelling.format(language)
    raise ConfigError(f"languages: the model has no token for {language}")


def _names(ids: Mapping[str, int]) -> dict[int, str]:
    if not isinstance(ids, dict) or not all(type(i) is int for i in ids.values()):
        raise CheckpointError("the model's vocabulary is no object of tokens and their ids")
    return {i: piece for piece, i in ids.items()}


def _ids(content: Mapping[str, Any]) -> dict[str, int]:
    """The tokens of a tokenizer.json with their ids."""
    vocab = content["model"]["vocab"]
    listed = {piece: i for i, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else vocab
    return {**listed, **{token["content"]: token["id"] for token in content.get("added_tokens", ())}}


def _languages(folder: Path, languages: Sequence[str]) -> dict[str, str]:
    settings = settings_of(folder)
    src, tgt = languages or (settings.get("source_lang"), settings.get("target_lang"))
    return {name: value for name, value in (("src_lang", src), ("tgt_lang", tgt)) if isinstance(value, str) and value}
