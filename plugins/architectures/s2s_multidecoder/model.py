"""Whole models that share everything used in encoding, and the routing of rows to the model of their kind.

Shapes: B sentences, K hypotheses, S source length, T target length, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["MultiDecoder"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import AttentionMap, Memory, Seq2Seq, State
from s2s.tensors import host_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from s2s import Side, Vocab
    from s2s_multidecoder import Shared

Part = TypeVar("Part", Memory, State)


@dataclass
class TaggedMemory(Memory):
    """The memory of each model, with its own sentences."""

    tag: Tensor
    """[B], on the host"""
    parts: dict[int, Memory]
    """Only models with sentences"""

    def select(self, rows: Tensor) -> Self:
        """The memory of the sentences `rows` [B']"""
        own, here = host_copy(rows), rows.to(self.pad.device)
        parts = select_parts(self.parts, self.tag, own)
        return replace(self, hidden=self.hidden[here], pad=self.pad[here], tag=self.tag[own], parts=parts)


@dataclass
class TaggedState(State):
    """A state for each decoder, with its own sentences; `sentence` is the tags [B], on the host, `hypothesis` None."""

    parts: dict[int, State]
    """Only decoders with sentences in this state"""

    def reorder(self, parents: Tensor) -> Self:
        """Hypothesis k of sentence b continues hypothesis parents[b, k]: parents [B, K']"""
        rows = {kind: rows_of(self.sentence, kind).to(parents.device) for kind in self.parts}
        parts = {kind: part.reorder(parents[rows[kind]]) for kind, part in self.parts.items()}
        return replace(self, parts=parts)

    def select(self, rows: Tensor) -> Self:
        """The state of the sentences `rows` [B'], on the host"""
        return replace(self, sentence=self.sentence[rows], parts=select_parts(self.parts, self.sentence, rows))

    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""
        parts = {**other.parts, **self.parts}
        both = self.parts.keys() & other.parts.keys()
        joined = {kind: self.parts[kind].join(other.parts[kind]) for kind in both}
        return replace(self, sentence=torch.cat([self.sentence, other.sentence]), parts=parts | joined)


@dataclass
class JoiningState(TaggedState):
    """The state of decoders whose states can be joined."""

    supports_join: ClassVar[bool] = True


class MultiDecoder(Seq2Seq):
    """`models`, one for each kind of source: the first encodes, and the one of a sentence's kind decodes it.

    If they share what is frozen instead, the one of a sentence's kind also encodes it. The last feature of the result
    of `decode` is the kind, so that `project` works on any positions.
    """

    def __init__(self, models: Iterable[Seq2Seq], vocab: Vocab, shared: Shared = "encoding") -> None:
        """models: may be built one by one, so that what they share is in memory twice at most."""
        super().__init__()
        rest = iter(models)
        first = next(rest)
        tied = reached_by_encode(first, vocab) if shared == "encoding" else frozen(first)
        self.models = nn.ModuleList([first])
        for model in rest:
            share(first, model, tied)
            self.models.append(model)
        self.encodes_once = shared == "encoding"
        self.first_tag, self.max_len = vocab.tag_ids.start, first.max_len

    def encode(self, src: Tensor, pad: Tensor) -> TaggedMemory:
        """src, pad [B, S], whose first tokens are tags"""
        tag = self._tag(src)
        if self.encodes_once:
            memory = self._model(0).encode(src, pad)
            return TaggedMemory(memory.hidden, memory.pad, tag, parts_of(memory, tag))
        rows = {kind: rows_of(tag, kind).to(src.device) for kind in kinds(tag)}
        parts = {kind: self._model(kind).encode(src[at], pad[at]) for kind, at in rows.items()}
        longest = max(part.pad.size(1) for part in parts.values())  # of pooled words, each may have another length
        missing = [(part, longest - part.pad.size(1)) for part in parts.values()]
        order = torch.cat(list(rows.values())).argsort()
        hidden = torch.cat([F.pad(part.hidden, (0, 0, 0, n)) for part, n in missing])[order]
        pad = torch.cat([F.pad(part.pad, (0, n), value=True) for part, n in missing])[order]
        return TaggedMemory(hidden, pad, tag, parts)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, · + 1]"""
        assert isinstance(memory, TaggedMemory)
        hidden = routed(
            memory.tag,
            lambda kind: self._model(kind).decode(tgt, memory.parts[kind]),
            lambda kind, rows: self._model(kind).decode(tgt[rows], memory.parts[kind]),
            tgt.device,
        )
        tag = memory.tag.to(hidden.device, hidden.dtype)[:, None, None].expand(*hidden.shape[:2], 1)
        return torch.cat([hidden, tag], dim=-1)

    def project(self, hidden: Tensor) -> Tensor:
        """[..., · + 1] -> logits [..., V]; the host reads the kinds, since the positions may be any."""
        flat, tag = hidden[..., :-1].flatten(0, -2), hidden[..., -1].flatten().cpu().long()
        logits: Tensor = routed(
            tag,
            lambda kind: self._model(kind).project(flat),
            lambda kind, at: self._model(kind).project(flat[at]),
            hidden.device,
        )
        return logits.unflatten(0, hidden.shape[:-1])

    def start(self, memory: Memory) -> State:
        """The start of each decoder with the sentences of its kind."""
        assert isinstance(memory, TaggedMemory)
        parts = {kind: self._model(kind).start(part) for kind, part in memory.parts.items()}
        kind = JoiningState if all(part.supports_join for part in parts.values()) else TaggedState
        return kind(sentence=memory.tag, hypothesis=None, parts=parts)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        assert isinstance(state, TaggedState)
        parts: dict[int, State] = {}

        def step(kind: int, rows: Tensor) -> Tensor:
            logits, parts[kind] = self._model(kind).step(rows, state.parts[kind])
            return logits

        whole, part = lambda kind: step(kind, token), lambda kind, rows: step(kind, token[rows])
        logits = routed(state.sentence, whole, part, token.device)
        return logits, replace(state, parts=parts)

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor | None:
        """src, pad [B, S], tgt [B, T] -> [B, T, S], from the decoder of each sentence's kind; None if it gives none."""
        if self._model(0).attention(src[:1, :1], pad[:1, :1], tgt[:1, :1], layer) is None:  # nor do the others
            return None
        return routed(
            self._tag(src),
            lambda kind: self._model(kind).attention(src, pad, tgt, layer),
            lambda kind, at: self._model(kind).attention(src[at], pad[at], tgt[at], layer),
            src.device,
        )

    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> list[AttentionMap]:
        """src, pad [B, S], tgt [B, T] -> the maps of the decoder of each sentence's kind; all have as many layers."""
        tag = self._tag(src)
        rows = [rows_of(tag, kind).to(src.device) for kind in kinds(tag)]
        pairs = zip(kinds(tag), rows, strict=True)
        maps = zip(*(self._model(kind).attention_maps(src[at], pad[at], tgt[at]) for kind, at in pairs), strict=True)
        order = torch.cat(rows).argsort()
        return [same[0]._replace(weights=torch.cat([one.weights for one in same])[order]) for same in maps]

    def vocab_rows(self) -> dict[str, Side] | None:
        """The rows of all models; None if the models do not define them."""
        model_rows = [self._model(kind).vocab_rows() for kind in range(len(self.models))]
        if None in model_rows:
            return None
        return {f"models.{kind}.{name}": side for kind, rows in enumerate(model_rows) for name, side in rows.items()}

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float | None:
        """The operations of one model: each sentence goes through one decoder."""
        return self._model(0).forward_operations(src, tgt)

    def _tag(self, src: Tensor) -> Tensor:
        """The kinds of sources [B, S] -> [B], on the host"""
        return (host_copy(src)[:, 0] - self.first_tag).clamp(0, len(self.models) - 1)

    def _model(self, kind: int) -> Any:
        return self.models[kind]


def kinds(tag: Tensor) -> list[int]:
    """The kinds among tags [B], in order; without tags, the first kind."""
    return tag.unique().tolist() or [0]


def rows_of(tag: Tensor, kind: int) -> Tensor:
    """Rows of one kind, in order."""
    return (tag == kind).nonzero()[:, 0]


def parts_of(memory: Memory, tag: Tensor) -> dict[int, Memory]:
    """Kind -> the memory of its sentences; tag: [B]"""
    present = kinds(tag)
    if len(present) == 1:
        return {present[0]: memory}
    return {kind: memory.select(rows_of(tag, kind)) for kind in present}


def select_parts(parts: Mapping[int, Part], tag: Tensor, rows: Tensor) -> dict[int, Part]:
    """Kind -> its part with only the sentences `rows` [B'] of those with tags [B]; both on the host"""
    selected = {}
    for kind in kinds(tag[rows]):
        index = (tag == kind).cumsum(0) - 1  # position of a sentence among those of its kind
        selected[kind] = parts[kind].select(index[rows[tag[rows] == kind]])
    return selected


def routed(
    tag: Tensor, whole: Callable[[int], Tensor], part: Callable[[int, Tensor], Tensor], device: torch.device
) -> Tensor:
    """Each row computed by the function of its kind, in the original order: tag [B], on the host -> [B, ...].

    `part` gets the rows of a kind on `device`. If there is only one kind, `whole` computes all rows without a copy.
    """
    present = kinds(tag)
    if len(present) == 1:
        return whole(present[0])
    rows = [rows_of(tag, kind) for kind in present]
    parts = [part(kind, rows_of_kind.to(device)) for kind, rows_of_kind in zip(present, rows, strict=True)]
    return torch.cat(parts)[torch.cat(rows).argsort().to(device)]


def reached_by_encode(model: Seq2Seq, vocab: Vocab) -> set[nn.Parameter]:
    """The parameters that the encoder's output depends on: those with a gradient."""
    device = next(model.parameters()).device
    src = torch.tensor([[vocab.tag_ids.start, vocab.unk, vocab.src_eos]], device=device)
    with torch.enable_grad():
        hidden = model.encode(src, src == vocab.src_pad).hidden
    learnt = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(hidden.sum(), learnt, allow_unused=True)
    return {p for p, gradient in zip(learnt, gradients, strict=True) if gradient is not None}


def frozen(model: nn.Module) -> set[nn.Parameter]:
    """The parameters that are not trained."""
    return {p for p in model.parameters() if not p.requires_grad}


def share(first: nn.Module, other: nn.Module, shared: set[nn.Parameter]) -> None:
    """Tie the `shared` parameters of `first`, by whole modules if possible, to `other`, of the same architecture."""
    for name, parameter in first.named_parameters(recurse=False, remove_duplicate=False):
        if parameter in shared:
            setattr(other, name, parameter)
    for name, module in first.named_children():
        parameters = set(module.parameters())
        if parameters and parameters <= shared:
            setattr(other, name, module)
        else:
            share(module, other.get_submodule(name), shared)
