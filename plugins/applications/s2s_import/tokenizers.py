"""How texts become the ids of a published model: options of the task.

The tokens around texts are those that the family's own tokeniser puts there; their names follow from the ids in the
model's configuration.
"""

from __future__ import annotations

__all__ = ["text_options"]

from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import CheckpointError, ConfigError
from s2s.io import read_json

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from pathlib import Path

MARIAN = ("vocab.json", "source.spm", "target.spm")
TARGET_VOCAB, TOKENIZER, TOKENIZER_CONFIG = "target_vocab.json", "tokenizer.json", "tokenizer_config.json"
CODES = ("{}", "__{}__", "<2{}>", ">>{}<<")
"""How the code of a language is spelt as a token: NLLB and mBART, M2M-100, MADLAD-400, OPUS-MT"""


T5 = ("t5", "mt5")


class Around(NamedTuple):
    """What a family puts around texts: names of tokens, {src} and {tgt} for the codes of the languages."""

    start: Sequence[str]
    before: Sequence[str] = ()
    end: Sequence[str] = ()


FAMILIES = {
    "bart": Around(["{decoder_start}", "{forced_bos}"], ["{bos}"]),
    "m2m_100": Around(["{decoder_start}", "{tgt}"], ["{src}"]),
    "mbart": Around(["{tgt}"], [], ["{eos}", "{src}"]),
    "mbart50": Around(["{decoder_start}", "{tgt}"], ["{src}"]),
    **dict.fromkeys(T5, Around(["{decoder_start}"])),
}
"""By model_type; MADLAD-400, a T5, has <2de> before its sources"""


def text_options(
    folder: Path, config: Mapping[str, Any], languages: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the task by the files in a model's folder: those of its run, and those that take over the files.

    config: config.json with the settings of generation_config.json.
    """
    if all((folder / name).is_file() for name in MARIAN):
        return _marian(folder, config, languages)
    if (folder / TOKENIZER).is_file():
        return _hugging_face(folder, config, languages)
    raise CheckpointError(
        f"{folder} has no files of a tokeniser that is read here: {TOKENIZER}, or {', '.join(MARIAN)}"
    )


def _marian(folder: Path, config: Mapping[str, Any], languages: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    is_joint = not (folder / TARGET_VOCAB).is_file()
    tokens = _names(read_json(folder / (MARIAN[0] if is_joint else TARGET_VOCAB)))
    pad = config.get("pad_token_id")
    start = config.get("decoder_start_token_id", pad)
    subword: dict[str, Any] = {"name": "marian", "start": [] if start == pad else [tokens[start]]}
    if languages:
        subword["before"] = [_code(languages[1], read_json(folder / MARIAN[0]))]
    options = {"subword": subword, "joint": is_joint, **_languages(folder, languages)}
    return options, {"subword": {**subword, "folder": str(folder.absolute())}}


def _hugging_face(
    folder: Path, config: Mapping[str, Any], languages: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    content = read_json(folder / TOKENIZER)
    tokens = _pieces(content)
    ids = {piece: i for i, piece in tokens.items()}
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
    subword: dict[str, Any] = {"name": "hf", "start": list(filter(None, start)), "before": before, "end": end}
    subword["bos"] = start[0]
    subword |= {name: names[name] for name in ("pad", "eos") if name in names}
    options = {"subword": subword, "joint": True, **_languages(folder, languages)}
    taken_over = {"file": str((folder / TOKENIZER).absolute()), "size": int(config["vocab_size"])}
    return options, {"subword": {**subword, **taken_over}}


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
    path = folder / TOKENIZER_CONFIG
    kind = str(read_json(path).get("tokenizer_class", "")) if path.is_file() else ""
    return "mbart50" if kind.startswith("MBart50") else str(config["model_type"])


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


def _pieces(content: Mapping[str, Any]) -> dict[int, str]:
    """The tokens of a tokenizer.json by their ids."""
    vocab = content["model"]["vocab"]
    listed = enumerate(piece for piece, _ in vocab) if isinstance(vocab, list) else ((i, p) for p, i in vocab.items())
    added = ((token["id"], token["content"]) for token in content.get("added_tokens", ()))
    return {**dict(listed), **dict(added)}


def _languages(folder: Path, languages: Sequence[str]) -> dict[str, str]:
    path = folder / TOKENIZER_CONFIG
    settings = read_json(path) if path.is_file() else {}
    src, tgt = languages or (settings.get("source_lang"), settings.get("target_lang"))
    return {name: value for name, value in (("src_lang", src), ("tgt_lang", tgt)) if isinstance(value, str) and value}
