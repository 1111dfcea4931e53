"""Rows of embeddings and output projections, taken from a model with another vocabulary: each row follows its token.

Shapes: V tokens of this model, U tokens of the other one.
"""

from __future__ import annotations

__all__ = ["match_tokens", "pieces_of_new", "rows_by_size", "take_rows"]

from types import MappingProxyType
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from s2s import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from s2s import Side, TokenNames, Vocab

NO_PIECES: Mapping[int, Sequence[int]] = MappingProxyType({})


def match_tokens(tokens: Sequence[TokenNames], other: Sequence[TokenNames]) -> Tensor:
    """[V], the other model's id of each token, -1 if it has none.

    Tokens match if they share a name; of several names, the most specific one in the other vocabulary counts.
    """
    named = [_names(names) for names in other]
    ids: dict[str, int] = {}
    for level in range(max(map(len, named), default=0)):
        for i, names in enumerate(named):
            if level < len(names):
                ids.setdefault(names[level], i)
    return torch.tensor([next((ids[name] for name in _names(names) if name in ids), -1) for names in tokens])


def pieces_of_new(
    tokens: Sequence[TokenNames], ids: Tensor, split: Callable[[str], Sequence[int]]
) -> dict[int, Sequence[int]]:
    """Each token that `match_tokens` did not find, if the other model's tokens spell one of its names -> those."""
    new = [i for i, at in enumerate(ids.tolist()) if at < 0]
    found = {i: next(filter(None, map(split, _names(tokens[i]))), ()) for i in new}
    return {i: pieces for i, pieces in found.items() if pieces}


def take_rows(current: Tensor, other: Tensor, ids: Tensor, pieces: Mapping[int, Sequence[int]] = NO_PIECES) -> Tensor:
    """own [V, ...], other [U, ...], ids [V] -> [V, ...]: the other's row for each token, its own where ids is -1.

    pieces: new token -> tokens of the other model, of whose rows its own is the mean.
    """
    known = (ids >= 0).to(current.device)
    rows = current.clone()
    rows[known] = other[ids[ids >= 0]].to(current)
    for token, parts in pieces.items():
        rows[token] = other[list(parts)].float().mean(dim=0).to(current)
    return rows


def rows_by_size(model: nn.Module, vocab: Vocab, arch: str) -> dict[str, Side]:
    """`Seq2Seq.vocab_rows` for an architecture that does not define it: modules whose size is that of the vocabulary.

    An nn.Embedding is looked up by ids of one side, an nn.Linear with as many outputs as target tokens is the output
    projection. Raises ConfigError if sizes alone are ambiguous.
    """
    same_size = vocab.src == vocab.tgt and not vocab.joint
    rows: dict[str, Side] = {}
    sides: list[tuple[str, int]] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and module.num_embeddings in (vocab.src, vocab.tgt):
            side: Side = "tgt" if module.num_embeddings == vocab.tgt else "src"
            rows |= dict.fromkeys(_tensors(name, module), side)
            sides.append(("embedding", module.num_embeddings))
        elif isinstance(module, nn.Linear) and module.out_features == vocab.tgt:
            rows |= dict.fromkeys(_tensors(name, module), "tgt")
            sides.append(("projection", module.out_features))
    most = 2 if vocab.joint else 1
    ambiguous = same_size or any(sides.count(one) > (most if one[0] == "embedding" else 1) for one in sides)
    if ambiguous or not sides:
        raise ConfigError(
            f"train.init_from: the vocabularies differ, and arch={arch} does not say which of its tensors have a row "
            f"for each token ({vocab.src:,} source, {vocab.tgt:,} target): define Seq2Seq.vocab_rows, or leave them as "
            "initialised with train.init_map"
        )
    return rows


def _tensors(prefix: str, module: nn.Module) -> Iterator[str]:
    return (f"{prefix}.{name}" if prefix else name for name, _ in module.named_parameters())


def _names(names: TokenNames) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
