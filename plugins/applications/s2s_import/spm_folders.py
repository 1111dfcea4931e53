"""The tokenizer.json of a folder of Hugging Face that has none: of its model of sentencepiece, or of byte-level BPE.

Tokens and the way texts are cut into them are those of transformers' own tokeniser of the family.
"""

from __future__ import annotations

__all__ = ["MERGES", "VOCAB", "m2m_tokens", "settings_of", "spm_file", "tokenizer_json", "with_added_tokens"]

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import CheckpointError, ConfigError
from s2s.io import read_json
from s2s_import.language_codes import M2M_100, MBART, MBART_50, NLLB, WMT_21

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SPM = ("sentencepiece.bpe.model", "spiece.model", "sentencepiece.model")
CONFIG, VOCAB, MERGES, ADDED = "config.json", "vocab.json", "merges.txt", "added_tokens.json"
SETTINGS = ("special_tokens_map.json", "tokenizer_config.json")
CONTROL, USER_DEFINED = 3, 4
"""ModelProto.SentencePiece.Type of pieces that are added tokens"""
NAMED = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
"""Special tokens in the order in which they get ids if the model of sentencepiece lacks them"""
T5_NAMED = ("eos", "unk", "pad")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")
"""How an added token is found in a text"""
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
WORDS = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]}
N_MADE_UP, N_SENTINELS, PEGASUS_OFFSET = 8, 100, 103


class Spm(NamedTuple):
    """What is read of a model of sentencepiece."""

    pieces: Sequence[tuple[str, float]]
    """With their scores"""
    added: Mapping[str, bool]
    """Those which are tokens wherever a text has them, and whether they are special"""
    normalization: bytes
    """Its compiled rules; empty: none"""


def settings_of(folder: Path) -> dict[str, Any]:
    """What the files of the tokeniser in a folder say about it; those of versions before 5 are read, too.

    Old folders name its class in config.json.
    """
    config = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    settings = {name: config[name] for name in ("tokenizer_class",) if name in config}
    for name in SETTINGS:
        settings |= read_json(folder / name) if (folder / name).is_file() else {}
    return settings


def spm_file(folder: Path) -> Path | None:
    """The model of sentencepiece in a folder; None if it has none."""
    return next((folder / name for name in SPM if (folder / name).is_file()), None)


def m2m_tokens(folder: Path) -> dict[str, int]:
    """Tokens of M2M-100 with their ids: those of vocab.json, then the codes of the languages."""
    codes = WMT_21 if settings_of(folder).get("language_codes") == "wmt21" else M2M_100
    tokens: dict[str, int] = read_json(folder / VOCAB)
    named = [*(f"__{code}__" for code in codes), *(f"madeupword{i}" for i in range(N_MADE_UP))]
    new = [token for token in named if token not in tokens]
    return tokens | {token: len(tokens) + i for i, token in enumerate(new)}


def tokenizer_json(folder: Path, model_type: str) -> dict[str, Any] | None:
    """The contents of the file that transformers would write; None if files for it are missing."""
    settings, file = settings_of(folder), spm_file(folder)
    if file is None:
        is_bpe = (folder / VOCAB).is_file() and (folder / MERGES).is_file()
        return _byte_level(folder, settings) if is_bpe else None
    spm, kind = _read(file), str(settings.get("tokenizer_class") or model_type).lower()
    if kind.startswith(("m2m_100", "nllb")):
        content = _nllb(spm, settings)
    elif kind.startswith("mbart"):
        content = _mbart(spm, settings, is_50=kind.startswith("mbart50"))
    elif kind.startswith("pegasus"):
        content = _pegasus(spm, settings)
    elif kind.startswith(("t5", "mt5")):
        content = _t5(spm, settings)
    else:
        return None
    named, mask = content.pop("named"), content.pop("mask", {})
    return _with_added(content, [*_earlier(folder, settings), *_special(settings, named, mask, spm.added)])


def with_added_tokens(content: Mapping[str, Any], tokens: Iterable[str]) -> dict[str, Any]:
    """The file with further special tokens behind all others."""
    return _with_added(content, [*content.get("added_tokens", ()), *map(_token, tokens)])


def _nllb(spm: Spm, settings: Mapping[str, Any]) -> dict[str, Any]:
    first = [_name(settings, name, NAMED[name]) for name in ("bos", "pad", "eos", "unk")]
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys([*first, *(piece for piece, _ in spm.pieces)]))}
    ids = {piece: i for i, (piece, _) in enumerate(spm.pieces)}
    bpe = {"type": "BPE", "unk_token": first[3], "fuse_unk": True, "vocab": vocab, "merges": _merges(ids)}
    normalizer = _normalizer(spm, _spaces()) if spm.normalization else None
    mask = {"lstrip": True, "normalized": True}
    return {**_content(bpe, normalizer, METASPACE, named=[*NLLB, *NAMED]), "mask": mask}


def _mbart(spm: Spm, settings: Mapping[str, Any], *, is_50: bool) -> dict[str, Any]:
    """transformers 5 does not normalise texts for mBART, and does for mBART-50."""
    first = [_name(settings, name, NAMED[name]) for name in ("bos", "pad", "eos", "unk")]
    last = [*(MBART_50 if is_50 else MBART), _name(settings, "mask", NAMED["mask"])]
    vocab = [*((token, 0.0) for token in first), *spm.pieces[3:], *((token, 0.0) for token in last)]
    unigram = {"type": "Unigram", "unk_id": 3, "vocab": vocab}
    parts = (_normalizer(spm, _spaces()), METASPACE) if is_50 else (None, WORDS)
    return {**_content(unigram, *parts, named=[*NAMED, *last[:-1]]), "mask": {"lstrip": True}}


def _pegasus(spm: Spm, settings: Mapping[str, Any]) -> dict[str, Any]:
    offset = int(settings.get("offset", PEGASUS_OFFSET))
    masks = [_name(settings, "mask_sent", "<mask_1>"), _name(settings, "mask", "<mask_2>")]
    first = [_name(settings, "pad", "<pad>"), _name(settings, "eos", "</s>"), *(masks if offset else ())]
    unknown = [f"<unk_{i}>" for i in range(2, offset)]
    vocab = [*((token, 0.0) for token in first), *((token, -100.0) for token in unknown), *spm.pieces[2:]]
    unk = _name(settings, "unk", "<unk>")
    unigram = {"type": "Unigram", "unk_id": [piece for piece, _ in vocab].index(unk), "vocab": vocab}
    others = () if spm.normalization else (_replaced("\\n"),)
    normalizer = _normalizer(spm, *others, _spaces())
    return _content(unigram, normalizer, METASPACE, named=[*T5_NAMED, *masks, *unknown])


def _t5(spm: Spm, settings: Mapping[str, Any]) -> dict[str, Any]:
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(int(settings.get("extra_ids", N_SENTINELS))))]
    vocab = [*spm.pieces, *((token, 0.0) for token in sentinels)]
    unigram = {"type": "Unigram", "unk_id": 2, "vocab": vocab}
    return _content(unigram, _normalizer(spm), WORDS, named=[*T5_NAMED, *sentinels])


def _byte_level(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    lines = (folder / MERGES).read_text(encoding="utf-8").split("\n")
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    if any(len(merge) != 2 for merge in merges):
        raise CheckpointError(f"{folder / MERGES}: each line needs two tokens")
    options = {"continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False}
    bpe = {"type": "BPE", **options, "vocab": read_json(folder / VOCAB), "merges": merges}
    spaced = bool(settings.get("add_prefix_space", False))
    bytes_ = {"type": "ByteLevel", "add_prefix_space": spaced, "trim_offsets": True, "use_regex": True}
    content = {**_content(bpe, None, bytes_, named=[]), "decoder": {**bytes_, "add_prefix_space": True}}
    del content["named"]
    return _with_added(content, [*_earlier(folder, settings), *_special(settings, NAMED, {}, {})])


def _content(
    model: Mapping[str, Any], normalizer: Any, pre_tokenizer: Mapping[str, Any], *, named: Iterable[str]
) -> dict[str, Any]:
    """named: the special tokens, each a name in NAMED or a token."""
    parts = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": METASPACE}
    return {"version": "1.0", "truncation": None, "padding": None, **parts, "model": model, "named": list(named)}


def _normalizer(spm: Spm, *further: Mapping[str, Any]) -> dict[str, Any] | None:
    rules = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(spm.normalization).decode()}
    parts = [*([rules] if spm.normalization else []), *further]
    if not further:
        return rules if spm.normalization else None
    return {"type": "Sequence", "normalizers": parts}


def _spaces() -> dict[str, Any]:
    return _replaced(" {2,}")


def _replaced(pattern: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": " "}


def _merges(ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """All pairs of tokens that are a token, in the order of the tokens that they become."""
    merges: list[tuple[str, str]] = []
    for token in ids:
        cuts = [(token[:n], token[n:]) for n in range(1, len(token))]
        known = [pair for pair in cuts if pair[0] in ids and pair[1] in ids]
        merges += sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    rank = {token: i for i, token in enumerate(ids)}
    return sorted(merges, key=lambda pair: (rank[pair[0] + pair[1]], len(pair[0]), len(pair[1])))


def _name(settings: Mapping[str, Any], name: str, default: str) -> str:
    """A special token by its name, such as eos."""
    value = settings.get(f"{name}_token") or default
    return str(value["content"] if isinstance(value, dict) else value)


def _special(
    settings: Mapping[str, Any], named: Iterable[str], mask: Mapping[str, bool], added: Mapping[str, bool]
) -> list[dict[str, Any]]:
    """Added tokens: the special ones, and those of the model of sentencepiece.

    mask: flags of the token that hides others, unless the settings have some.
    """
    tokens = []
    for name in named:
        given = settings.get(f"{name}_token")
        flags = {flag: given[flag] for flag in FLAGS if flag in given} if isinstance(given, dict) else {}
        if name == "mask" and not flags:
            flags = dict(mask)
        tokens.append(_token(_name(settings, name, NAMED[name]) if name in NAMED else name, **flags))
    return [*tokens, *(_token(token, special=is_special) for token, is_special in added.items())]


def _earlier(folder: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Tokens that were added to the model, as versions before 5 write them, in the order of their ids."""
    listed: Mapping[str, Any] = settings.get("added_tokens_decoder", {})
    if listed:
        return [_token(**listed[i]) for i in sorted(listed, key=int)]
    ids: Mapping[str, int] = read_json(folder / ADDED) if (folder / ADDED).is_file() else {}
    return [_token(token, special=False, normalized=True) for token in sorted(ids, key=ids.__getitem__)]


def _token(content: str, *, special: bool = True, **flags: bool) -> dict[str, Any]:
    return {"content": content, **dict.fromkeys(FLAGS, False), **flags, "special": special}


def _with_added(content: Mapping[str, Any], tokens: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The file with these added tokens, the first of several with one name; new ones have ids behind all others."""
    vocab = content["model"]["vocab"]
    ids = dict(vocab) if isinstance(vocab, dict) else {piece: i for i, (piece, _) in enumerate(vocab)}
    added: dict[int, dict[str, Any]] = {}
    ids |= {token["content"]: token["id"] for token in content.get("added_tokens", ())}
    end = max(ids.values(), default=-1) + 1
    for token in tokens:
        number = ids.setdefault(token["content"], end)
        end += number == end
        added.setdefault(number, {**token, "id": number})
    return {**content, "added_tokens": [added[i] for i in sorted(added)]}


def _read(path: Path) -> Spm:
    """A model of sentencepiece; raises CheckpointError if it is damaged."""
    try:
        import sentencepiece.sentencepiece_model_pb2 as messages
    except ImportError as error:
        raise ConfigError(f"{path} needs the package protobuf: {error}; pip install protobuf (extra hf)") from None
    try:
        proto: Any = getattr(messages, "ModelProto").FromString(path.read_bytes())  # noqa: B009  made at import
    except Exception as error:  # the package's own class is private
        raise CheckpointError(f"{path} is no model of sentencepiece: {error}") from None
    added = {one.piece: one.type == CONTROL for one in proto.pieces if one.type in (CONTROL, USER_DEFINED)}
    return Spm([(one.piece, one.score) for one in proto.pieces], added, proto.normalizer_spec.precompiled_charsmap)
