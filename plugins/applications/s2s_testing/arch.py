"""Properties of every architecture that training and search rely on. The checks leave a model in evaluation mode.

Shapes: B sentences, S source length, T target length, K hypotheses, V target vocabulary.
"""

from __future__ import annotations

__all__ = [
    "VOCAB",
    "assert_causal",
    "assert_deterministic",
    "assert_ignores_padding",
    "assert_prepacks",
    "assert_saves_everything",
    "assert_state_joins",
    "assert_state_reorders",
    "assert_step_is_decode",
    "assert_trains",
    "check_arch",
]

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s import Batch, HasAuxiliary, Vocab, load_plugins, make_batch
from s2s.backend import linear
from s2s_testing.attention import assert_attention, assert_attention_maps
from s2s_testing.incremental import LENGTHS, IncrementalDecoding, assert_close, batch_of, pairs, regular
from s2s_testing.vocab_rows import assert_vocab_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s import Choice, Entry, Seq2Seq

VOCAB = Vocab(src=19, tgt=19, joint=True)
"""The vocabulary with which architectures are checked: fifteen tokens besides the special ones, joint."""


def check_arch(entry: Entry, config: Choice, vocab: Vocab = VOCAB) -> None:
    """Everything that training and search rely on; keep `config` small."""
    build = lambda: _seeded(entry.build, config, vocab)  # noqa: E731
    model = build()
    _assert_output_matrix(model, vocab)
    assert_causal(model, vocab)
    assert_ignores_padding(model, vocab)
    assert_attention(model, vocab)
    assert_attention_maps(model, vocab)
    assert_step_is_decode(model, vocab)
    assert_state_reorders(model, vocab)
    assert_state_joins(model, vocab)
    assert_deterministic(model, vocab)
    assert_saves_everything(model, entry.build(config, vocab), vocab)
    assert_vocab_rows(model, vocab)
    assert_trains(build(), vocab)
    assert_prepacks(build(), vocab)


def assert_causal(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """The prediction for a position does not depend on later target tokens."""
    batch = batch_of(vocab)
    before = _logits(model, batch.src, batch.src_pad, batch.tgt_in)
    for t in range(1, batch.tgt_in.size(1)):
        other = batch.tgt_in.clone()
        other[:, t:] = regular(vocab, other[:, t:].shape, seed=99)
        after = _logits(model, batch.src, batch.src_pad, other)
        assert_close(after[:, :t], before[:, :t], f"decode looks ahead: predictions before token {t} change with it")


@torch.no_grad()
def _assert_output_matrix(model: Seq2Seq, vocab: Vocab) -> None:
    """`project` returns the products with the rows of `output_matrix`, if there is one."""
    batch, matrix = batch_of(vocab), model.eval().output_matrix()
    if matrix is not None:
        hidden = model(batch.src, batch.src_pad, batch.tgt_in)
        assert_close(hidden @ matrix.t(), model.project(hidden), "project differs from products with output_matrix")


def assert_ignores_padding(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """A sentence's predictions are the same alone and in a batch with longer ones, and nothing gives NaN."""
    sentences = pairs(vocab)
    together = make_batch(sentences, vocab)
    logits = _logits(model, together.src, together.src_pad, together.tgt_in)
    for i, pair in enumerate(sentences):
        alone = make_batch([pair], vocab)
        expected = _logits(model, alone.src, alone.src_pad, alone.tgt_in)
        what = f"padding or a neighbour is seen: {len(pair[0])} + {len(pair[1])} tokens, alone and in a batch"
        assert_close(logits[i : i + 1, : expected.size(1)], expected, what)
    nothing = torch.full_like(together.src, vocab.src_pad)
    empty = _logits(model, nothing, nothing == vocab.src_pad, together.tgt_in)
    assert empty.isfinite().all(), "a source of nothing but padding gives NaN or infinity"


@torch.no_grad()
def assert_step_is_decode(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """Decoding step by step gives each hypothesis of each sentence the predictions of `decode` on the whole prefix."""
    decoding = IncrementalDecoding(model, vocab)
    decoding.compare("the first step differs from decode")
    decoding.reorder(torch.zeros(len(LENGTHS), 3, dtype=torch.long))
    for _ in range(4):
        decoding.step()
        decoding.compare("step differs from decode")


@torch.no_grad()
def assert_state_reorders(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """A state continues correctly after its hypotheses or sentences are permuted, copied or dropped."""
    decoding = IncrementalDecoding(model, vocab)
    decoding.reorder(torch.zeros(len(LENGTHS), 3, dtype=torch.long))
    for order in ([2, 0, 1], [1, 1, 0], [2, 0], [1, 0, 1, 0]):
        decoding.step()
        decoding.reorder(torch.stack([torch.tensor(order).roll(i) for i in range(len(LENGTHS))]))
        decoding.step()
        decoding.compare(f"State.reorder({order}), or a step after it, mixes hypotheses up")
    for rows in ([2, 0, 3], [1, 2], [0]):
        decoding.select(torch.tensor(rows))
        decoding.step()
        decoding.compare(f"State.select({rows}), or a step after it, mixes sentences up")


@torch.no_grad()
def assert_state_joins(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """If states can be joined, sentences that began at different times continue together as each would alone."""
    older, newer = IncrementalDecoding(model, vocab), IncrementalDecoding(model, vocab)
    if not older.state.supports_join:
        return
    for decoding in (older, newer):
        decoding.reorder(torch.zeros(len(LENGTHS), 3, dtype=torch.long))
    for _ in range(3):
        older.step()
    older.select(torch.tensor([1, 0]))
    newer.select(torch.tensor([2, 3]))
    older.join(newer)
    for order in ([0, 1, 2], [2, 0, 0]):
        older.step()
        older.compare("State.join, or a step after it, mixes sentences up")
        older.reorder(torch.tensor([order] * 4))
    older.select(torch.tensor([3, 0, 2]))
    older.step()
    older.compare("State.select after State.join, or a step after it, mixes sentences up")


def assert_deterministic(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """Evaluation is deterministic, and training depends only on the seed."""
    batch = batch_of(vocab)
    first, second = (_logits(model, batch.src, batch.src_pad, batch.tgt_in) for _ in range(2))
    assert torch.equal(first, second), "in evaluation, two runs differ"
    runs = [_seeded(_gradients, model, batch) for _ in range(2)]
    for name, gradient in runs[0].items():
        assert torch.equal(gradient, runs[1][name]), f"two runs from one seed differ in the gradient of {name}"


def assert_saves_everything(model: Seq2Seq, other: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """The state dict is complete: loaded into `other`, of the same config, it gives the same model."""
    batch = batch_of(vocab)
    other.load_state_dict({name: t.clone() for name, t in model.state_dict().items()})
    expected = _logits(model, batch.src, batch.src_pad, batch.tgt_in)
    logits = _logits(other, batch.src, batch.src_pad, batch.tgt_in)
    assert torch.equal(logits, expected), "a model that loads another's state dict computes something else"


def assert_trains(model: Seq2Seq, vocab: Vocab = VOCAB, n_steps: int = 60, lr: float = 3e-3) -> None:
    """When learning to copy short sentences, the loss falls, and every parameter gets a gradient."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for step in range(n_steps):
        src = [regular(vocab, (1 + i % 4,), n_tokens=6, seed=16 * step + i).tolist() for i in range(16)]
        batch = make_batch([(s, s) for s in src], vocab)
        optimizer.zero_grad()
        if isinstance(model, HasAuxiliary):
            model.record_auxiliary()
        loss = _loss(model, batch)
        added = model.take_auxiliary().loss if isinstance(model, HasAuxiliary) else 0
        (loss + added).backward()
        optimizer.step()
        losses.append(loss.item())
    unused = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert not unused, f"no gradient reaches {', '.join(unused)}"
    begin, end = losses[0], sum(losses[-5:]) / 5
    assert end < 0.75 * begin, f"the loss fell from {begin:.2f} to {end:.2f} only, in {n_steps} steps"


@torch.no_grad()
def assert_prepacks(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """Prepacked linear maps, as in decoding on a CPU, give the model's predictions; it can no longer be trained."""
    if not linear.prepack.implementations:
        load_plugins()  # one of them prepacks
    model.eval()
    batch = batch_of(vocab)
    before = _logits(model, batch.src, batch.src_pad, batch.tgt_in)
    linear.prepack(model, linear.deterministic_backend(model), "none")
    after = _logits(model, batch.src, batch.src_pad, batch.tgt_in)
    assert_close(after, before, "prepacked linear maps give other predictions: a module may read the weight of another")
    assert_step_is_decode(model, vocab)


@torch.no_grad()
def _logits(model: Seq2Seq, src: Tensor, pad: Tensor, tgt: Tensor) -> Tensor:
    """[B, T, V]"""
    model.eval()
    return model.project(model(src, pad, tgt))


def _loss(model: Seq2Seq, batch: Batch) -> Tensor:
    """Cross-entropy per token, without the toolkit's own loss."""
    logits = model.project(model(batch.src, batch.src_pad, batch.tgt_in))
    return F.cross_entropy(logits[~batch.tgt_pad], batch.tgt_out[~batch.tgt_pad])


def _gradients(model: Seq2Seq, batch: Batch) -> dict[str, Tensor]:
    """The gradients of one training step, by parameter."""
    model.train().zero_grad()
    _loss(model, batch).backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.eval().zero_grad()
    return gradients


def _seeded(function: Callable[..., Any], *args: Any) -> Any:
    """The result with torch's generator at a fixed seed; its state is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return function(*args)
