"""The contract of an architecture.

Shapes: B sentences, S source length, T target length, K hypotheses of a sentence, D width, V target tokens.

`encode` and `decode` are enough for every search. `start` and `step` are a speed-up;
`s2s_testing.assert_step_is_decode` checks that they agree with `decode`.
"""

from __future__ import annotations

__all__ = ["AttentionMap", "Memory", "Seq2Seq", "State", "evaluating"]

import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from s2s.tensors import Tree, join_tensors, map_tensors, select_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s.batch import Packing
    from s2s.task import Side


@dataclass
class Memory:
    """What the encoder passes to the decoder; every tensor's first dimension is the sentence.

    An architecture that passes more derives from this class and adds fields.
    """

    hidden: Tensor
    """[B, S, D]"""
    pad: Tensor
    """[B, S], True at padding"""
    listed: Tensor | None = field(default=None, kw_only=True)
    """[B, V], True at the tokens of which an output may consist, for a model that `reads_shortlists`; None: all"""

    def select(self, rows: Tensor) -> Self:
        """The memory of some sentences; rows: their indices [B'], one may occur more than once."""
        return select_rows(self, rows)


@dataclass
class State:
    """The state of decoding: what belongs to the sentence, separate from what belongs to the hypothesis.

    Search reorders hypotheses at every step, which copies only `hypothesis`; `sentence` (encoder output,
    cross-attention keys and values) is computed once and never copied for the beam. A state must not be used
    again after `step`, `select` or `join`, which may write into its tensors.
    """

    supports_join: ClassVar[bool] = False
    """Whether zeros appended to any dimension but the first change nothing, so that `join` is correct. A search then
    replaces finished sentences of a batch with others from the queue; otherwise it does so only once the batch is
    empty. A stored mask must be True at the valid positions, since joining pads with zeros."""

    supports_capture: ClassVar[bool] = False
    """Whether a step can be captured in a CUDA graph: it does not change the shapes of the tensors, and nothing in it
    depends on their values on the host. A state whose tensors grow is an `s2s.backend.GrowingState`."""

    sentence: Tree
    """Tensors [B, ...]"""
    hypothesis: Tree
    """Tensors [B, K, ...]"""

    def reorder(self, parents: Tensor) -> Self:
        """Hypothesis k of sentence b continues hypothesis parents[b, k]; parents: [B, K'] -> K' hypotheses."""
        first = torch.arange(parents.size(0), device=parents.device)[:, None]

        def pick(t: Tensor) -> Tensor:
            rows = (
                first * t.size(1) + parents
            )  # one index copies whole rows: t[first, parents] took three times as long
            return t.flatten(0, 1).index_select(0, rows.flatten()).unflatten(0, parents.shape)

        return replace(self, hypothesis=map_tensors(pick, self.hypothesis))

    def select(self, rows: Tensor) -> Self:
        """The state of some sentences, which is how finished ones leave the batch.

        rows: their indices [B'], on the host, which then need not wait for the device.
        """
        sentence, hypothesis = select_rows((self.sentence, self.hypothesis), rows)
        return replace(self, sentence=sentence, hypothesis=hypothesis)

    def join(self, other: Self) -> Self:
        """The sentences of both states, these first; all have the same number of hypotheses, of any lengths."""
        sentence = join_tensors(self.sentence, other.sentence)
        return replace(self, sentence=sentence, hypothesis=join_tensors(self.hypothesis, other.hypothesis))


class AttentionMap(NamedTuple):
    """The attention weights of one layer."""

    kind: str
    """Which attention of the architecture, such as encoder, decoder, cross"""
    layer: int
    """From 1; 0: of no layer in particular"""
    queries: Side
    """Whose tokens attend: on the target side, row t belongs to the token that is predicted after tgt[:, t]"""
    keys: Side
    """Whose tokens are attended to: on the target side, column t is tgt[:, t], the starting tokens first"""
    weights: Tensor
    """[B, h, queries, keys] in fp32; a row sums to 1"""


class Seq2Seq(nn.Module, ABC):
    """p(y | x), one token at a time."""

    supports_packing: bool = False
    """Whether `forward` also accepts packed batches (sentences concatenated); on a GPU they need flash attention."""
    max_len: int | None = None
    """Longest source and target that the model can take, in tokens with the end token; None: any."""
    returns_log_probs: bool = False
    """Whether `project` and `step` return log-probabilities, such as a weighted mean of several models, which search
    adds as they are; otherwise they return logits, which search normalises."""

    reads_shortlists: bool = False
    """Whether logits of `step` are -inf for tokens that `Memory.listed` lacks, computed without them"""
    ignores_labels: bool = False
    """Whether `encode` reads a source as if its `Vocab.labels` were not there; other models are refused with labels"""

    @abstractmethod
    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        """The encoder's output. src: ids [B, S], each ending in eos. pad: [B, S], True at padding."""

    @abstractmethod
    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """[B, T, ·], which `project` turns into logits. tgt: [B, T], each beginning with `Vocab.starting_tokens`.
        memory: as `encode` returns it."""

    def project(self, hidden: Tensor) -> Tensor:
        """[..., ·] -> logits [..., V]; separate from `decode`, so that a loss need not hold them all at once.

        It must not draw random numbers, since a loss may compute the same logits twice. The default is for a `decode`
        that returns logits itself.
        """
        return hidden

    def output_matrix(self) -> Tensor | None:
        """[V, ·], where `project` returns the products of `hidden` and its rows; a loss may then compute those itself.

        None, the default: only `project` can compute logits.
        """
        return None

    def forward(self, src: Tensor, pad: Tensor, tgt: Tensor, packing: Packing | None = None) -> Tensor:
        """Teacher forcing -> [B, T, ·], before `project`.

        src: as for `encode`. pad: as for `encode`. tgt: as for `decode`.
        packing: only a model with `supports_packing` gets it; then src, pad [N], tgt [N'] -> [N', ·].
        """
        assert packing is None, "this model takes padded batches"
        return self.decode(tgt, self.encode(src, pad))

    def has_methods_of(self, kind: type[Seq2Seq], *methods: str) -> bool:
        """Whether these methods are those of the class `kind`, which functions then may replace."""
        return all(name not in vars(self) and getattr(type(self), name) is getattr(kind, name) for name in methods)

    def label_logits(self, src: Tensor, pad: Tensor) -> Tensor | None:
        """src, pad [B, S] -> [B, W, L], over the `Vocab.labels` of each source word, with eos; None: not learnt."""
        return None

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float | None:
        """Floating-point operations of `forward` and `project` over pairs of these lengths, eos counted, padding not.

        The log computes from it the share of the device's peak rate that training reaches; None: unknown.
        """
        return None

    def vocab_rows(self) -> Mapping[str, Side] | None:
        """Names in the state dict of tensors that have a row for each token, [V, ...] -> whose tokens they are.

        Embeddings, output projections and their biases: train.init_from moves their rows to another vocabulary. None:
        they are found by their sizes, which works for nn.Embedding and nn.Linear unless two sizes are equal.
        """
        return None

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor | None:
        """How much each prediction attends to each source token: src, pad [B, S], tgt [B, T] -> [B, T, S] in fp32.

        Row t belongs to the token that is predicted after tgt[:, t]; it sums to 1, and is 0 at padding. Heads are
        averaged. The default is for an architecture that cannot provide it.

        layer: the decoder's, from 1; None: the architecture's choice for alignments.
        """
        return None

    def forward_with_attention(self, src: Tensor, pad: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor | None]:
        """`forward` and `attention`, both with gradients, for objectives that train alignments.

        The default makes a pass for each, with dropout of its own.
        """
        return self(src, pad, tgt), self.attention(src, pad, tgt)

    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> Sequence[AttentionMap]:
        """All attention weights of `forward`, layer by layer: src, pad [B, S], tgt [B, T].

        The default is `attention`, as one head; an architecture that uses the attention of s2s.nn overrides it with
        `s2s.nn.recording_weights`.
        """
        weights = self.attention(src, pad, tgt)
        return [] if weights is None else [AttentionMap("cross", 0, "tgt", "src", weights[:, None])]

    def start(self, memory: Memory) -> State:
        """Before the first token, one hypothesis per sentence; the default is correct, but quadratic."""
        prefix = torch.empty(memory.pad.size(0), 1, 0, dtype=torch.long, device=memory.pad.device)
        return State(sentence=memory, hypothesis=prefix)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """Feed the newest token of each hypothesis -> logits [B, K, V] of the next.

        token: [B, K]. state: not used again.
        """
        prefix = torch.cat([state.hypothesis, token[:, :, None]], dim=2)  # [B, K, t]
        n_sentences, beam, _ = prefix.shape
        rows = torch.arange(n_sentences, device=prefix.device).repeat_interleave(beam)
        hidden = self.decode(prefix.flatten(0, 1), state.sentence.select(rows))[:, -1]  # [B * K, ·]
        return self.project(hidden).unflatten(0, (n_sentences, beam)), replace(state, hypothesis=prefix)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Run without dropout; afterwards every module is back in its previous mode."""
    training = [module for module in model.modules() if module.training]
    if training:  # eval() walks all modules even if none is training, which takes longer than a small model's step
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
