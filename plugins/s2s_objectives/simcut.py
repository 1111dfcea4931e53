"""SimCut (Gao et al., 2022): cross-entropy, and the divergence to a pass from which whole tokens are cut.

Shapes: N target positions, n of a chunk, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["SimCut"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s import ConfigError, Context, Objective, Sums
from s2s.nn import WordDropout
from s2s_objectives.chunks import smoothed, sum_over_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s import Batch, Seq2Seq
    from s2s_objectives import SimCutConfig


class SimCut(Objective):
    """Sum over target tokens of CE(p) + alpha * KL(p || p_cut): p_cut reads sources and targets with tokens cut out.

    Both passes have dropout, each its own, and both get the gradient of the divergence.
    """

    extras = ("nll", "kl")
    valid_extras = ()  # nothing is cut in validation
    packs = True

    def __init__(self, config: SimCutConfig, context: Context) -> None:
        self.config = config

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: nll of the whole pass; kl, from it to the one with cuts. Each per target token."""
        counts, config = ~batch.tgt_pad.flatten(), self.config

        def sums(whole: Tensor, cut: Tensor, target: Tensor, counts: Tensor) -> Tensor:
            """[3]: loss, nll, kl"""
            p, q = (model.project(h).log_softmax(-1, dtype=torch.float32) for h in (whole, cut))  # [n, V]
            nll = -p.gather(-1, target[:, None])[:, 0]
            kl = (p.exp() * (p - q)).sum(-1)
            loss = smoothed(nll, p, config.eps) + config.alpha * kl
            return torch.stack([(x * counts).sum() for x in (loss, nll, kl)])

        whole = model(*batch.inputs).flatten(0, -2)
        with cutting(model, config.cut):
            cut = model(*batch.inputs).flatten(0, -2)
        loss, nll, kl = sum_over_chunks(sums, config.chunk, [whole, cut, batch.tgt_out.flatten(), counts])
        return Sums(loss, counts.sum(), {"nll": nll, "kl": kl})


@contextmanager
def cutting(model: Seq2Seq, share: float) -> Iterator[None]:
    """Within it, the model's word dropout leaves out a share of the tokens, whatever its own."""
    found = [module for module in model.modules() if isinstance(module, WordDropout)]
    if not found:
        raise ConfigError(
            "objective=simcut cuts tokens by the word dropout of the architecture, and this one has none: take "
            "arch=transformer or arch=rnn, or objective=rdrop"
        )
    own = [module.p for module in found]
    try:
        for module in found:
            module.p = share
        yield
    finally:
        for module, p in zip(found, own, strict=True):
            module.p = p
