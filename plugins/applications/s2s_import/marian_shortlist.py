"""Lexical shortlists of Marian: lex.*.s2t.bin, as Firefox has them, and the text lex.s2t that they are made of.

A binary file has six numbers of 64 bits (magic number, checksum, number of frequent tokens, most tokens of a source
token, number of offsets, number of tokens), the offsets in 64 bits, and the tokens in 32.

Shapes: S source tokens of a vocabulary, N pairs.
"""

from __future__ import annotations

__all__ = ["ShortlistFile", "find_shortlist", "read_shortlist"]

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from s2s import CheckpointError
from s2s_import.marian_vocabularies import PACKED, UNK, file_name, suffix, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from s2s import Side
    from s2s_import.marian_vocabularies import Vocabulary

MAGIC = 0xF11A48D5013417F5
HEADER = 48
FIRST, BEST = 100, 100
"""Of a text, if options do not say how many frequent tokens there are, and how many for each source token"""
MASK = (1 << 64) - 1


class ShortlistFile(NamedTuple):
    """Where a shortlist is, and of a text, how much of it is used."""

    path: Path
    first: int
    best: int
    threshold: float


class Pairs(NamedTuple):
    """Source tokens with the target tokens that they bring."""

    first: int
    """The target tokens below it are those of all sources"""
    src: NDArray[np.int64]
    """[N]"""
    tgt: NDArray[np.int64]
    """[N]"""

    def tensors(self, n_source: int, rows: Mapping[Side, Sequence[Sequence[int]]] | None) -> dict[str, Tensor]:
        """Those of s2s's own shortlist, for a vocabulary of n_source source tokens.

        rows: the tokens of which those of another vocabulary are made, as of `PublishedModel.load`. One of several has
        what they bring as a source, and as a target all sources bring it.
        """
        src, tgt, always = self.src, self.tgt, [*range(self.first)]
        if rows is not None:
            new = {old[0]: i for i, old in enumerate(rows["tgt"]) if len(old) == 1}
            brought: dict[int, list[int]] = {}
            for one, token in zip(src.tolist(), tgt.tolist(), strict=True):
                if token in new:
                    brought.setdefault(one, []).append(new[token])
            pairs = {(i, t) for i, old in enumerate(rows["src"]) for one in old for t in brought.get(one, ())}
            src, tgt = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
            always = [new[token] for token in always if token in new]
            always += [i for i, old in enumerate(rows["tgt"]) if len(old) != 1]
            n_source = len(rows["src"])
        order = np.argsort(src, kind="stable")
        offsets = np.cumsum([0, *np.bincount(src, minlength=n_source)])
        arrays = {"always": np.array(always), "offsets": offsets, "tokens": tgt[order]}
        return {name: torch.from_numpy(np.ascontiguousarray(x, np.int64)) for name, x in arrays.items()}


def find_shortlist(model: Path, options: Mapping[str, Any]) -> ShortlistFile | None:
    """The one that options name, or else the binary one beside a model.bin; None: there is none."""
    named = options.get("shortlist") or []
    values = [str(value) for value in (named if isinstance(named, list) else [named])]
    if values:
        found = [model.parent / (file_name(values[0]) + end) for end in ("", *PACKED)]
    else:
        found = sorted(model.parent.glob("lex.*.bin*")) if suffix(model) == ".bin" else []
    path = next((file for file in found if file.is_file()), None)
    if path is None:
        return None
    numbers = [] if suffix(path) == ".bin" else values[1:]
    try:
        first = int(numbers[0]) if numbers else FIRST
        best = int(numbers[1]) if len(numbers) > 1 else BEST
        threshold = float(numbers[2]) if len(numbers) > 2 else 0.0
    except ValueError:
        raise CheckpointError(f"shortlist=[{', '.join(values)}] beside {model} has no numbers") from None
    return ShortlistFile(path, first, best, threshold)


def read_shortlist(file: ShortlistFile, src: Vocabulary, tgt: Vocabulary) -> Pairs:
    """The pairs of a file; with one vocabulary for both sides, each source token brings itself, too.

    Raises CheckpointError for a file that is damaged, or of other vocabularies.
    """
    content, sources, targets = unpacked(file.path), src.tokens(), tgt.tokens()
    is_binary = content[:8] == MAGIC.to_bytes(8, "little")
    found = _of_binary(file, content) if is_binary else _of_text(file, content, sources, targets)
    if (found.src >= len(sources)).any() or (found.tgt >= len(targets)).any():
        raise CheckpointError(f"{file.path} has tokens that the vocabularies lack: it is that of another model")
    own = np.arange(len(sources) if src.pieces == tgt.pieces else 0)
    first = min(found.first, len(targets))
    return Pairs(first, np.concatenate([found.src, own]), np.concatenate([found.tgt, own]))


def _of_binary(file: ShortlistFile, content: bytes) -> Pairs:
    header = np.frombuffer(content[:HEADER].ljust(HEADER, b"\0"), "<u8").tolist()
    _, checksum, first, _, n_offsets, n_tokens = header
    if len(content) != HEADER + 8 * n_offsets + 4 * n_tokens or n_offsets < 1:
        raise CheckpointError(f"{file.path} is cut off, or no shortlist")
    words = np.frombuffer(content[16 : len(content) // 8 * 8], "<u8")
    if _checksum(words) != checksum:
        raise CheckpointError(f"{file.path} is damaged: its checksum is another")
    offsets = np.frombuffer(content[HEADER:][: 8 * n_offsets], "<u8")
    tokens = np.frombuffer(content[HEADER + 8 * n_offsets :], "<u4").astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != n_tokens or (offsets[1:] < offsets[:-1]).any():
        raise CheckpointError(f"{file.path} has offsets that are outside of it")
    begins = offsets.astype(np.int64)
    return Pairs(first, np.repeat(np.arange(n_offsets - 1), begins[1:] - begins[:-1]), tokens)


def _checksum(words: NDArray[np.uint64]) -> int:
    """Marian's hash of all words, which is boost's way to combine them"""
    seed = 0
    for word in words.tolist():
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & MASK
    return seed


def _of_text(file: ShortlistFile, content: bytes, sources: list[str], targets: list[str]) -> Pairs:
    """The best of lines `target source probability`; NULL stands for no word, and unknown words for <unk>."""
    src_ids, tgt_ids = ({token: i for i, token in enumerate(tokens)} for tokens in (sources, targets))
    found: dict[int, dict[int, float]] = {}
    for tgt, src, probability in _lines(file, content):
        of_source = found.setdefault(src_ids.get(src, src_ids[UNK]), {})
        of_source[tgt_ids.get(tgt, tgt_ids[UNK])] = probability
    best = {src: sorted(((p, tgt) for tgt, p in each.items()), reverse=True) for src, each in found.items()}
    pairs = [(src, tgt) for src, each in best.items() for p, tgt in each[: file.best] if p > file.threshold]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return Pairs(file.first, both[:, 0], both[:, 1])


def _lines(file: ShortlistFile, content: bytes) -> Iterator[tuple[str, str, float]]:
    words = content.decode(errors="replace").split()
    if len(words) % 3:
        raise CheckpointError(f"{file.path} is no shortlist: lines are `target source probability`")
    try:
        for tgt, src, probability in zip(words[::3], words[1::3], map(float, words[2::3]), strict=True):
            if "NULL" not in (tgt, src):
                yield tgt, src, probability
    except ValueError as error:
        raise CheckpointError(f"{file.path} is no shortlist: {error}") from None
