"""Tests a new model on a tiny batch, so that one that breaks its contract raises an error before the first update.

Shapes: B sentences, S source length, T target length, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["check_model"]

import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from s2s import Memory, PluginError, Seq2Seq, UserError, evaluating, make_batch
from s2s.backend import device_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s import Batch, Vocab
    from s2s.data import MappedCorpus

Pair = tuple[Sequence[int] | NDArray[Any], Sequence[int] | NDArray[Any]]
"""Source and target ids, without eos"""
TOLERANCE = 1e-3
"""Largest difference, relative to the largest logit, between numbers that should be equal; sums may differ in order"""
N_STEPS = 3
N_SEARCHED = 1000
"""Pairs among which a short one and a longer one are chosen"""


def check_model(model: Seq2Seq, vocab: Vocab, corpora: Sequence[MappedCorpus], name: str, device: torch.device) -> None:
    """Raise PluginError, naming the method, what was expected and what it returned, if `arch=name` breaks its contract.

    Two pairs of the corpora are encoded and decoded: shapes, finite numbers, no look-ahead, no effect of padding,
    `step` against `decode`, and `project` against itself and `output_matrix`. Random number generators are restored.
    """
    check = _Check(model, vocab, f"arch={name}", device)
    with device_of(device).fork_rng(), torch.no_grad(), evaluating(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check.all(_two_pairs(corpora))


def _two_pairs(corpora: Sequence[MappedCorpus]) -> list[Pair]:
    """The shortest pair and one of median length: real ones, since an architecture may interpret its outputs."""
    corpus = max(corpora, key=len)
    src, tgt = corpus.lengths(np.arange(min(len(corpus), N_SEARCHED)))
    by_length = np.argsort(src + tgt, kind="stable")
    return [corpus[int(by_length[0])], corpus[int(by_length[len(by_length) // 2])]]


class _Check:
    def __init__(self, model: Seq2Seq, vocab: Vocab, what: str, device: torch.device) -> None:
        self.model, self.vocab, self.what, self.device = model, vocab, what, device

    def all(self, pairs: Sequence[Pair]) -> None:
        batch = self._batch(pairs)
        memory, logits = self._logits(batch.src, batch.src_pad, batch.tgt_in)
        n_tokens = batch.tgt_in.size(1)
        for t in range(1, min(n_tokens, N_STEPS + 1)):
            _, before = self._logits(batch.src, batch.src_pad, batch.tgt_in[:, :t])
            expected = f"the same predictions for tokens 1 to {t} with and without the tokens after them"
            self._check_same("decode", before, logits[:, :t], f"{expected} (it looks ahead)")
        for row, pair in enumerate(pairs):
            alone = self._batch([pair])
            _, expected_logits = self._logits(alone.src, alone.src_pad, alone.tgt_in)
            expected = "the same predictions for a sentence alone and beside a longer one (it sees padding)"
            row_logits = logits[row : row + 1, : expected_logits.size(1)]
            self._check_same("encode or decode", row_logits, expected_logits, expected)
        self._steps(memory, batch.tgt_in, logits)
        hidden = self.model.decode(batch.tgt_in, memory)
        self._projections(hidden)
        self._output_matrix(hidden)

    def _batch(self, pairs: Sequence[Pair]) -> Batch:
        ids = [(list(map(int, src)), list(map(int, tgt))) for src, tgt in pairs]
        return make_batch(ids, self.vocab).to(self.device)

    def _logits(self, src: Tensor, pad: Tensor, tgt: Tensor) -> tuple[Memory, Tensor]:
        """src, pad [B, S], tgt [B, T] -> logits [B, T, V], of which none is NaN."""
        memory = self._call("encode", lambda: self.model.encode(src, pad))
        if not isinstance(memory, Memory):
            raise self._broken("encode", "a Memory", type(memory).__name__)
        hidden = self._call("decode", lambda: self.model.decode(tgt, memory))
        self._check_shape("decode", hidden, tgt.shape, "·")
        logits = self._call("project", lambda: self.model.project(hidden))
        self._check_shape("project", logits, tgt.shape, str(self.vocab.tgt))
        if logits.isnan().any() or logits.isposinf().any():
            raise self._broken("decode", "finite numbers", "NaN or infinity")
        return memory, logits

    def _steps(self, memory: Memory, tgt: Tensor, logits: Tensor) -> None:
        state = self._call("start", lambda: self.model.start(memory))
        for t in range(min(tgt.size(1), N_STEPS)):
            result = self._call("step", partial(self.model.step, tgt[:, t : t + 1], state))
            if not (isinstance(result, tuple) and len(result) == 2):
                raise self._broken("step", "logits and the next state", type(result).__name__)
            found, state = result
            self._check_shape("step", found, (tgt.size(0), 1), str(self.vocab.tgt))
            self._check_same("step", found[:, 0], logits[:, t], f"what decode predicts after {t + 1} tokens")

    def _projections(self, hidden: Tensor) -> None:
        """In training mode: a loss that does not keep the logits computes them twice."""
        self.model.train()
        first, second = self.model.project(hidden), self.model.project(hidden)
        self.model.eval()
        expected = "the same logits again, since the backward pass computes them anew; draw random numbers in decode"
        self._check_same("project", second, first, expected)

    def _output_matrix(self, hidden: Tensor) -> None:
        """A loss may compute products of hidden [B, T, ·] and this matrix in place of logits."""
        matrix = self._call("output_matrix", self.model.output_matrix)
        if matrix is None:
            return
        self._check_shape("output_matrix", matrix, (self.vocab.tgt,), str(hidden.size(-1)))
        expected = "a matrix with whose rows hidden states have the products that project returns"
        self._check_same("output_matrix", hidden @ matrix.t(), self.model.project(hidden), expected)

    def _call(self, method: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (UserError, torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            raise self._broken(method, "a result", f"{type(error).__name__}: {error}") from error

    def _check_shape(self, method: str, actual: Any, first: Sequence[int], last: str) -> None:
        if not isinstance(actual, Tensor):
            raise self._broken(method, "a tensor", type(actual).__name__)
        if actual.shape[:-1] != torch.Size(first) or last not in ("·", str(actual.shape[-1])):
            raise self._broken(method, f"[{', '.join(map(str, first))}, {last}]", str(list(actual.shape)))

    def _check_same(self, method: str, actual: Tensor, expected: Tensor, what: str) -> None:
        actual, expected = actual.clamp(min=-1e9), expected.clamp(min=-1e9)
        worst = (actual - expected).abs().max().item()
        if worst > TOLERANCE * max(1.0, expected[expected > -1e9].abs().max().item()):
            raise self._broken(method, what, f"predictions that differ by {worst:.2g}")

    def _broken(self, method: str, expected: str, actual: str) -> PluginError:
        return PluginError(
            f"{self.what}: {type(self.model).__name__}.{method}: expected {expected}, got {actual}. Mend the plugin "
            "(s2s_testing.check_arch tests more), or leave this check out with train.check=false"
        )
