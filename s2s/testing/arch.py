"""What training and search rely on in every architecture. The checks leave a model in evaluation mode.

Shapes: B sentences, S source length, T target length, K hypotheses, V target vocabulary.
"""

from __future__ import annotations

__all__ = [
    "VOCAB",
    "assert_causal",
    "assert_deterministic",
    "assert_ignores_padding",
    "assert_saves_everything",
    "assert_state_reorders",
    "assert_step_is_decode",
    "assert_trains",
    "check_arch",
]

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.batch import Batch, make_batch
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s.model import Seq2Seq
    from s2s.registry import Choice, Entry

VOCAB = Vocab(src=19, tgt=19, joint=True)
"""The task that architectures are checked on: fifteen symbols beside the special ones, the same on both sides."""

LENGTHS = ((5, 4), (2, 6), (7, 1), (1, 3))
"""Source and target lengths of the sentences that architectures are checked on."""

TOLERANCE = 1e-4
"""Largest difference between two logits that should be equal: sums may be taken in another order."""


def check_arch(entry: Entry, config: Choice, vocab: Vocab = VOCAB) -> None:
    """Everything that training and search rely on; keep `config` small."""
    build = lambda: _seeded(entry.build, config, vocab)  # noqa: E731
    model = build()
    assert_causal(model, vocab)
    assert_ignores_padding(model, vocab)
    assert_step_is_decode(model, vocab)
    assert_state_reorders(model, vocab)
    assert_deterministic(model, vocab)
    assert_saves_everything(model, entry.build(config, vocab), vocab)
    assert_trains(build(), vocab)


def assert_causal(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """What is predicted for a position depends on no later target symbol."""
    batch = _batch(vocab)
    before = _logits(model, batch.src, batch.src_pad, batch.tgt_in)
    for t in range(1, batch.tgt_in.size(1)):
        other = batch.tgt_in.clone()
        other[:, t:] = _regular(vocab, other[:, t:].shape, seed=99)
        after = _logits(model, batch.src, batch.src_pad, other)
        _same(after[:, :t], before[:, :t], f"decode looks ahead: predictions before symbol {t} change with it")


def assert_ignores_padding(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """A sentence's predictions are the same alone and beside longer ones, and nothing gives NaN."""
    pairs = _pairs(vocab)
    together = make_batch(pairs, vocab)
    logits = _logits(model, together.src, together.src_pad, together.tgt_in)
    for i, pair in enumerate(pairs):
        alone = make_batch([pair], vocab)
        expected = _logits(model, alone.src, alone.src_pad, alone.tgt_in)
        what = f"padding or a neighbour is seen: {len(pair[0])} + {len(pair[1])} symbols, alone and in a batch"
        _same(logits[i : i + 1, : expected.size(1)], expected, what)
    nothing = torch.full_like(together.src, vocab.pad)
    empty = _logits(model, nothing, nothing == vocab.pad, together.tgt_in)
    assert empty.isfinite().all(), "a source of nothing but padding gives NaN or infinity"


@torch.no_grad()
def assert_step_is_decode(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """Step by step, each hypothesis of each sentence is predicted as `decode` predicts it at once."""
    walk = _Walk(model, vocab)
    walk.compare("the first step differs from decode")
    walk.select(torch.zeros(len(LENGTHS), 3, dtype=torch.long))
    for _ in range(4):
        walk.feed()
        walk.compare("step differs from decode")


@torch.no_grad()
def assert_state_reorders(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """A state goes on as told: hypotheses permuted, copied or dropped, sentences permuted or dropped."""
    walk = _Walk(model, vocab)
    walk.select(torch.zeros(len(LENGTHS), 3, dtype=torch.long))
    for order in ([2, 0, 1], [1, 1, 0], [2, 0], [1, 0, 1, 0]):
        walk.feed()
        walk.select(torch.stack([torch.tensor(order).roll(i) for i in range(len(LENGTHS))]))
        walk.feed()
        walk.compare(f"State.select({order}), or a step after it, mixes hypotheses up")
    for rows in ([2, 0, 3], [1, 2], [0]):
        walk.keep(torch.tensor(rows))
        walk.feed()
        walk.compare(f"State.keep({rows}), or a step after it, mixes sentences up")


def assert_deterministic(model: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """Evaluation has nothing random, and training has nothing that the seed does not decide."""
    batch = _batch(vocab)
    first, second = (_logits(model, batch.src, batch.src_pad, batch.tgt_in) for _ in range(2))
    assert torch.equal(first, second), "in evaluation, two runs differ"
    runs = [_seeded(_gradients, model, batch) for _ in range(2)]
    for name, gradient in runs[0].items():
        assert torch.equal(gradient, runs[1][name]), f"two runs from one seed differ in the gradient of {name}"


def assert_saves_everything(model: Seq2Seq, other: Seq2Seq, vocab: Vocab = VOCAB) -> None:
    """The state dict is all of a model: `other`, of the same config, becomes it."""
    batch = _batch(vocab)
    other.load_state_dict({name: t.clone() for name, t in model.state_dict().items()})
    expected = _logits(model, batch.src, batch.src_pad, batch.tgt_in)
    found = _logits(other, batch.src, batch.src_pad, batch.tgt_in)
    assert torch.equal(found, expected), "a model that loads another's state dict computes something else"


def assert_trains(model: Seq2Seq, vocab: Vocab = VOCAB, n_steps: int = 60, lr: float = 3e-3) -> None:
    """On copying short sentences, the loss falls, and every parameter takes part."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for step in range(n_steps):
        src = [_regular(vocab, (1 + i % 4,), n_symbols=6, seed=16 * step + i).tolist() for i in range(16)]
        batch = make_batch([(s, s) for s in src], vocab)
        optimizer.zero_grad()
        loss = _loss(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    unused = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert not unused, f"no gradient reaches {', '.join(unused)}"
    begin, end = losses[0], sum(losses[-5:]) / 5
    assert end < 0.75 * begin, f"the loss fell from {begin:.2f} to {end:.2f} only, in {n_steps} steps"


class _Walk:
    """A state on its way, beside what it stands for: the prefixes that were fed, of the sentences still there."""

    def __init__(self, model: Seq2Seq, vocab: Vocab) -> None:
        self.model, self.vocab, self.n_fed = model.eval(), vocab, 0
        batch = _batch(vocab)
        self.memory = model.encode(batch.src, batch.src_pad)
        self.state = model.start(self.memory)
        self.rows = torch.arange(batch.src.size(0))  # [B]
        self.prefixes = torch.empty(batch.src.size(0), 1, 0, dtype=torch.long)  # [B, K, t]
        self.feed(torch.full((batch.src.size(0), 1), vocab.bos))

    def feed(self, token: Tensor | None = None) -> None:
        """One symbol for each hypothesis: token [B, K], or any."""
        self.n_fed += 1
        if token is None:
            token = _regular(self.vocab, self.prefixes.shape[:2], seed=self.n_fed)
        self.prefixes = torch.cat([self.prefixes, token[..., None]], dim=2)
        self.logits, self.state = self.model.step(token, self.state)

    def select(self, parents: Tensor) -> None:
        """parents [B, K']"""
        self.prefixes = self.prefixes[torch.arange(len(self.rows))[:, None], parents]
        self.state = self.state.select(parents)

    def keep(self, rows: Tensor) -> None:
        """rows [B']"""
        self.rows, self.prefixes = self.rows[rows], self.prefixes[rows]
        self.state = self.state.keep(rows)

    def compare(self, what: str) -> None:
        """The last step's logits are those of `decode` for each whole prefix."""
        n_sentences, beam, _ = self.prefixes.shape
        memory = self.memory.keep(self.rows.repeat_interleave(beam))
        hidden = self.model.decode(self.prefixes.flatten(0, 1), memory)[:, -1]
        expected = self.model.project(hidden).unflatten(0, (n_sentences, beam))
        _same(self.logits, expected, what)


def _regular(vocab: Vocab, shape: Sequence[int], n_symbols: int | None = None, seed: int = 0) -> Tensor:
    """Symbols that are not special, drawn from all or from the first few."""
    special = {vocab.pad, vocab.unk, vocab.bos, vocab.eos}
    ids = torch.tensor([i for i in range(min(vocab.src, vocab.tgt)) if i not in special])[:n_symbols]
    return ids[torch.randint(len(ids), tuple(shape), generator=torch.Generator().manual_seed(seed))]


def _batch(vocab: Vocab) -> Batch:
    return make_batch(_pairs(vocab), vocab)


def _pairs(vocab: Vocab) -> list[tuple[list[int], list[int]]]:
    return [(_regular(vocab, (s,), seed=s).tolist(), _regular(vocab, (t,), seed=10 + t).tolist()) for s, t in LENGTHS]


@torch.no_grad()
def _logits(model: Seq2Seq, src: Tensor, pad: Tensor, tgt: Tensor) -> Tensor:
    """[B, T, V]"""
    model.eval()
    return model.project(model(src, pad, tgt))


def _loss(model: Seq2Seq, batch: Batch) -> Tensor:
    """Cross-entropy per symbol, without the toolkit's own loss."""
    logits = model.project(model(batch.src, batch.src_pad, batch.tgt_in))
    return F.cross_entropy(logits[~batch.tgt_pad], batch.tgt_out[~batch.tgt_pad])


def _gradients(model: Seq2Seq, batch: Batch) -> dict[str, Tensor]:
    """Of one training step, by parameter."""
    model.train().zero_grad()
    _loss(model, batch).backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.eval().zero_grad()
    return gradients


def _seeded(function: Callable[..., Any], *args: Any) -> Any:
    """The result with torch's generator at a fixed seed, and put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return function(*args)


def _same(found: Tensor, expected: Tensor, what: str) -> None:
    assert found.shape == expected.shape, f"{what}: shape {list(found.shape)}, expected {list(expected.shape)}"
    worst = (found - expected).abs().max().item()
    assert worst <= TOLERANCE, f"{what}: logits differ by {worst:.2g}"  # NaN fails, too
