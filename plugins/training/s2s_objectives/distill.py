"""Word-level knowledge distillation (Kim and Rush, 2016) from one or several teachers.

Shapes: N target positions, n in a chunk, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["Distill"]

import math
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from s2s import Context, Objective, Sums

if TYPE_CHECKING:
    from s2s import Batch, Seq2Seq
    from s2s_objectives import DistillConfig


class Distill(Objective):
    """Sum over target tokens of (1 - weight) * nll + weight * temperature ** 2 * KL(teachers || student).

    The temperature applies to both distributions of the divergence (Hinton et al., 2015), not to the nll.
    """

    extras = ("nll", "kl")

    def __init__(self, config: DistillConfig, context: Context) -> None:
        self.config = config
        self.teachers = [context.load_run(name, "objective.teachers") for name in config.teachers]
        self.supports_packing = all(teacher.supports_packing for teacher in self.teachers)

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: nll of the target; kl(teachers || student) at the temperature. Each per target token."""
        weight, temperature = self.config.weight, self.config.temperature
        with torch.no_grad():
            taught = [teacher(*batch.inputs).flatten(0, -2) for teacher in self.teachers]  # each [N, ·]
        counts = ~batch.tgt_pad.flatten()

        def sums(hidden: Tensor, target: Tensor, counts: Tensor, *taught: Tensor) -> Tensor:
            """[3]: loss, nll, kl"""
            logits = model.project(hidden).float()  # [n, V]
            with torch.no_grad():
                teacher = self.mean_log_probs(taught)
            nll = -logits.log_softmax(-1).gather(-1, target[:, None])[:, 0]
            student = (logits / temperature).log_softmax(-1)
            kl = (teacher.exp() * (teacher - student)).nan_to_num().sum(-1)  # 0 * (-inf) is 0
            loss = (1 - weight) * nll + weight * temperature**2 * kl
            return torch.stack([(x * counts).sum() for x in (loss, nll, kl)])

        hidden = model(*batch.inputs).flatten(0, -2)
        flat = [hidden, batch.tgt_out.flatten(), counts, *taught]
        chunks = zip(*(t.split(self.config.chunk) for t in flat), strict=True)
        again = partial(checkpoint, sums, use_reentrant=False, preserve_rng_state=False)  # no logits are kept
        loss, nll, kl = torch.stack([again(*chunk) for chunk in chunks]).sum(0)
        return Sums(loss, counts.sum(), {"nll": nll, "kl": kl})

    def mean_log_probs(self, taught: tuple[Tensor, ...]) -> Tensor:
        """Logarithm of the mean of the teachers' probabilities at the temperature: [n, V]"""
        logits = [teacher.project(h).float() for teacher, h in zip(self.teachers, taught, strict=True)]
        log_probs = torch.stack([(x / self.config.temperature).log_softmax(-1) for x in logits])
        return log_probs.logsumexp(0) - math.log(len(logits))
