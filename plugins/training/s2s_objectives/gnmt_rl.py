"""Maximum likelihood and expected reward together, as GNMT was refined (Wu et al., 2016, section 5.2)."""

from __future__ import annotations

__all__ = ["GnmtRl"]

from typing import TYPE_CHECKING

import torch

from s2s import Sums
from s2s_objectives import GnmtRlConfig
from s2s_objectives.sequences import SequenceObjective

if TYPE_CHECKING:
    from s2s import Batch, Seq2Seq


class GnmtRl(SequenceObjective[GnmtRlConfig]):
    """-alpha log p(y*) - mean over sampled outputs y of (r(y) - mean r) log p(y), summed over sentences (equation 9).

    The gradient is that of the log-probabilities alone; rewards r are constants.
    """

    extras = ("score", "nll_sentence")

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: score, the mean of the metric over the sampled outputs; nll_sentence, of the references."""
        samples = self.draw(model, batch)
        outputs = samples.beside_references()
        log_probs = self.log_probs(model, batch, outputs)
        weights = [self.weights(*sentence) for sentence in zip(outputs, samples.outputs, samples.scores, strict=True)]
        loss = -(torch.tensor([weight for of in weights for weight in of]).to(log_probs) * log_probs).sum()
        first = torch.tensor([0, *map(len, outputs[:-1])], device=log_probs.device).cumsum(0)
        nll = -log_probs.detach()[first].sum()
        return Sums(loss, len(outputs), {"score": samples.mean_score, "nll_sentence": nll})

    def weights(self, outputs: list[list[int]], samples: list[list[int]], scores: list[float]) -> list[float]:
        """The weight of log p for each distinct output, of which the first is the reference."""
        sign = 1.0 if self.metric.higher_is_better else -1.0
        rewards = [sign * score / self.config.scale for score in scores]
        mean = sum(rewards) / max(len(rewards), 1)
        weight = dict.fromkeys(map(tuple, outputs), 0.0)
        for output, reward in zip(samples, rewards, strict=True):
            weight[tuple(output)] += (reward - mean) / len(rewards)
        weight[tuple(outputs[0])] += self.config.alpha
        return list(weight.values())
