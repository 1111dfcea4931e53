"""How texts become the ids of a published model: options of the task.

The tokens around texts are those that the family's own tokeniser puts there; their names follow from the ids in the
model's configuration.
"""

from __future__ import annotations

__all__ = ["Texts", "text_options"]

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import CheckpointError
from s2s.io import read_json, write_file
from s2s_import.languages import Around, Codes, codes_of, language_options, new_codes
from s2s_import.spm_folders import MERGES, VOCAB, m2m_tokens, settings_of, spm_file, tokenizer_json, with_added_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

SPM = ("source.spm", "target.spm")
MARIAN = (VOCAB, *SPM)
TARGET_VOCAB, TOKENIZER = "target_vocab.json", "tokenizer.json"
T5 = ("t5", "mt5")
EXPORTED = "PreTrainedTokenizerFast"
"""The class of tokenisers that s2s-export writes, which does not name the family"""


FAMILIES = {
    "bart": Around(["{decoder_start}", "{forced_bos}"], ["{bos}"]),
    "m2m_100": Around(["{decoder_start}", "{tgt}"], ["{src}"]),
    "nllb_legacy": Around(["{decoder_start}", "{tgt}"], [], ["{eos}", "{src}"]),
    "mbart": Around(["{tgt}"], [], ["{eos}", "{src}"]),
    "mbart50": Around(["{decoder_start}", "{tgt}"], ["{src}"]),
    **dict.fromkeys((*T5, "pegasus"), Around(["{decoder_start}"])),
}
"""By model_type"""
TARGET_FIRST = Around(["{decoder_start}"], ["{tgt}"])
"""Of OPUS-MT with several targets, and of MADLAD-400, a T5"""


class Texts(NamedTuple):
    """How a model's texts become ids."""

    options: dict[str, Any]
    """Of the task, for its run"""
    take_over: Callable[[Path], dict[str, Any]]
    """The options that take over the tokeniser's files; those that have to be made are written into the folder"""
    new: Mapping[str, Sequence[str]]
    """Codes of new languages, and the codes as which they begin"""

    @property
    def n_start(self) -> int:
        """Tokens with which outputs start."""
        return max(1, len(self.options.get("start") or self.options["subword"].get("start") or ()))


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
    codes = codes_of(ids, ">>{}<<")
    task = language_options(settings_of(folder), languages, codes, TARGET_FIRST)
    if len(languages) == 2:
        subword["before"] = [codes.token_of(languages[1])]

    def take_over(empty: Path) -> dict[str, Any]:
        if not new:
            return {"subword": {**subword, "folder": str(folder.absolute())}}
        for name in (*SPM, *(() if is_joint else (TARGET_VOCAB,))):
            write_file(empty / name, (folder / name).read_bytes())
        write_file(empty / VOCAB, json.dumps(ids).encode())
        return {"subword": {**subword, "folder": str(empty.absolute())}}

    return Texts({"subword": subword, "joint": is_joint, **task}, take_over, new)


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
    around = FAMILIES[_family(folder, config)]
    codes = codes_of(ids, "__{}__")
    start, before, end, _ = _filled(folder, config, ids, around, _pair(languages, codes, around))
    subword = {"name": "marian", "start": start, "before": before, "end": end, "tags": False}
    task = language_options(settings_of(folder), languages, codes, around)
    size = max(int(config["vocab_size"]), len(ids))

    def take_over(empty: Path) -> dict[str, Any]:
        write_file(empty / VOCAB, json.dumps(ids).encode())
        for name in SPM:
            write_file(empty / name, spm.read_bytes())
        return {"subword": {**subword, "folder": str(empty.absolute()), "size": size}}

    return Texts({"subword": subword, "joint": True, **task}, take_over, new)


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
    around, is_t5 = FAMILIES[_family(folder, config)], config["model_type"] in T5
    codes = codes_of(ids, "<2{}>") if is_t5 else codes_of(ids, "__{}__", "{}")
    if is_t5 and codes.languages and (languages or len(codes.languages) > 1):
        around = TARGET_FIRST
    start, before, end, names = _filled(folder, config, ids, around, _pair(languages, codes, around))
    bos = start[0] if start else names.get("bos", names.get("eos"))
    subword: dict[str, Any] = {"name": "hf", "start": start, "before": before, "end": end, "bos": bos}
    task = language_options(settings_of(folder), languages, codes, around)
    subword |= {name: names[name] for name in ("pad", "eos") if name in names}

    def take_over(empty: Path) -> dict[str, Any]:
        file = (folder if made is None else empty) / TOKENIZER
        if made is not None:
            write_file(file, json.dumps(made).encode())
        return {"subword": {**subword, "file": str(file.absolute()), "size": size}}

    return Texts({"subword": subword, "joint": True, **task}, take_over, new)


def _pair(languages: Sequence[str], codes: Codes, around: Around) -> dict[str, str]:
    """The tokens of source and target for a run of one direction; none for one of several, and where none are read."""
    if len(languages) != 2 or not around.reads("tgt"):
        return {}
    return {"{src}": codes.tag.format(languages[0]), "{tgt}": codes.token_of(languages[1])}


def _filled(
    folder: Path, config: Mapping[str, Any], ids: Mapping[str, int], around: Around, pair: Mapping[str, str]
) -> tuple[list[str], list[str], list[str], dict[str, str]]:
    """The tokens with which decoding starts, those before and behind sources, and the special ones by their names.

    Those of languages are left out unless the run has one direction; so is a forced one that the model does not have.
    """
    tokens = {i: piece for piece, i in ids.items()}
    names = {
        name: tokens[config[f"{name}_token_id"]]
        for name in ("pad", "bos", "eos", "decoder_start", "forced_bos")
        if config.get(f"{name}_token_id") in tokens
    }
    known = {
        "{forced_bos}": "",
        "{src}": "",
        "{tgt}": "",
        **{f"{{{name}}}": token for name, token in names.items()},
        **pair,
    }
    for pattern in (*around.start, *around.before, *around.end):
        if pattern not in known:
            raise CheckpointError(f"{folder}: its config.json has no {pattern.strip('{}')}_token_id that is a token")
    start, before, end = ([known[pattern] for pattern in part if known[pattern]] for part in around)
    return start, before, end, names


def _family(folder: Path, config: Mapping[str, Any]) -> str:
    settings, kind = settings_of(folder), str(config["model_type"])
    tokenizer = str(settings.get("tokenizer_class", ""))
    starts_with_eos = config.get("decoder_start_token_id") == config.get("eos_token_id")
    if tokenizer.startswith("MBart50") or (kind == "mbart" and tokenizer == EXPORTED and starts_with_eos):
        return "mbart50"
    return "nllb_legacy" if kind == "m2m_100" and settings.get("legacy_behaviour") else kind


def _names(ids: Mapping[str, int]) -> dict[int, str]:
    if not isinstance(ids, dict) or not all(type(i) is int for i in ids.values()):
        raise CheckpointError("the model's vocabulary is no object of tokens and their ids")
    return {i: piece for piece, i in ids.items()}


def _ids(content: Mapping[str, Any]) -> dict[str, int]:
    """The tokens of a tokenizer.json with their ids."""
    vocab = content["model"]["vocab"]
    listed = {piece: i for i, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else vocab
    return {**listed, **{token["content"]: token["id"] for token in content.get("added_tokens", ())}}
