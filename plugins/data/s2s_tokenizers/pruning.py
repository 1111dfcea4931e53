"""Tokenisers of published models with fewer tokens: texts are segmented as before where all their tokens are kept."""

from __future__ import annotations

__all__ = ["kept_with_parts", "pruned_json", "pruned_sentencepiece", "sentencepiece_proto"]

from typing import TYPE_CHECKING, Any

from s2s import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

UNUSED = 5
"""ModelProto.SentencePiece.Type: the library does not use such a piece, and splits what would be one"""


def sentencepiece_proto(model: bytes) -> Any:
    """A ModelProto; raises ConfigError if the package protobuf is missing."""
    try:
        import sentencepiece.sentencepiece_model_pb2 as messages
    except ImportError as error:
        raise ConfigError(
            f"another vocabulary needs the package protobuf: {error}; pip install protobuf (extra hf)"
        ) from None
    return getattr(messages, "ModelProto").FromString(model)  # noqa: B009  made when the module is imported


def pruned_sentencepiece(model: bytes, kept: Collection[str]) -> bytes:
    """A model of sentencepiece that segments texts into these pieces alone; its ids are as before."""
    proto = sentencepiece_proto(model)
    normal = proto.SentencePiece.Type.Value("NORMAL")
    for piece in proto.pieces:
        if piece.type == normal and piece.piece not in kept:
            piece.type = UNUSED
    content: bytes = proto.SerializeToString()
    return content


def kept_with_parts(content: Mapping[str, Any], kept: Collection[int]) -> set[int]:
    """Ids of a tokenizer.json, with the tokens that BPE merges on the way to them."""
    model = content["model"]
    if model["type"] != "BPE":
        return set(kept)
    ids: dict[str, int] = model["vocab"]
    parts: dict[int, tuple[int, int]] = {}
    for merge in model["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        if left + right in ids and left in ids and right in ids:
            parts.setdefault(ids[left + right], (ids[left], ids[right]))
    found, waiting = set[int](), list(kept)
    while waiting:
        if (token := waiting.pop()) not in found:
            found.add(token)
            waiting += parts.get(token, ())
    return found


def pruned_json(content: Mapping[str, Any], kept: Sequence[int]) -> dict[str, Any]:
    """A complete tokenizer.json with the tokens `kept` alone, whose new ids are their places there."""
    new = {old: i for i, old in enumerate(kept)}
    model = dict(content["model"])
    if isinstance(model["vocab"], list):  # Unigram: pieces and scores, in the order of their ids
        model["vocab"] = [list(model["vocab"][i]) for i in kept]
        model["unk_id"] = new.get(model.get("unk_id", -1))
    else:
        ids = model["vocab"]
        model["vocab"] = {piece: new[i] for piece, i in ids.items() if i in new}
        if "merges" in model:
            model["merges"] = [merge for merge in model["merges"] if _is_kept(merge, model["vocab"])]
    added = [{**token, "id": new[token["id"]]} for token in content.get("added_tokens", ()) if token["id"] in new]
    return {**content, "model": model, "added_tokens": added, "post_processor": None}


def _is_kept(merge: Any, vocab: Collection[str]) -> bool:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left in vocab and right in vocab and left + right in vocab
