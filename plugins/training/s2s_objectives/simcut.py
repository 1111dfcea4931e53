"""SimCut (Gao et al., 2022): cross-entropy, and the divergence to a pass whose inputs have whole tokens cut out."""

from __future__ import annotations

__all__ = ["SimCut"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

from s2s import ConfigError, Context, Objective, Sums
from s2s.backend import operators
from s2s.nn import WordDropout
from s2s_objectives.consistency import Consistency

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s import Batch, Seq2Seq
    from s2s_objectives import SimCutConfig


class SimCut(Objective):
    """Sum over target tokens of CE(p) + alpha * KL(p || p_cut): p_cut reads sources and targets with tokens cut out.

    Each pass draws its own dropout, and both get the gradient of the divergence.
    """

    extras = ("nll", "kl")
    valid_extras = ()  # nothing is cut in validation
    supports_packing = True

    def __init__(self, config: SimCutConfig, context: Context) -> None:
        self.cut = config.cut
        self.consistency = Consistency(
            operators.ConsistencyWeights(1.0, 0.0, config.alpha, 0.0), config.eps, config.chunk
        )

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: nll of the pass without cuts; kl(it || the pass with cuts). Each per target token."""
        whole = model(*batch.inputs)
        with cutting(model, self.cut):
            cut = model(*batch.inputs)
        sums = self.consistency(model, batch, whole, cut)
        return Sums(sums.loss, (~batch.tgt_pad).sum(), {"nll": sums.nll_p, "kl": sums.kl_pq})


@contextmanager
def cutting(model: Seq2Seq, share: float) -> Iterator[None]:
    """Inside this context, the model's word dropout cuts out `share` of the tokens, whatever its own probability."""
    dropouts = [module for module in model.modules() if isinstance(module, WordDropout)]
    if not dropouts:
        raise ConfigError(
            "objective=simcut cuts tokens by the word dropout of the architecture, and this one has none: take "
            "arch=transformer or arch=rnn, or objective=rdrop"
        )
    rates = [module.p for module in dropouts]
    try:
        for module in dropouts:
            module.p = share
        yield
    finally:
        for module, p in zip(dropouts, rates, strict=True):
            module.p = p
