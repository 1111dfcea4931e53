"""Changes of the distribution of the next token, between a model's logits and the choice of tokens.

A search with transforms finds and reports log-probabilities of the changed distribution: the softmax of what they
return. (Constraints differ: tokens that they forbid keep their share of the probability.)

Shapes: B sentences, K hypotheses per sentence, V target tokens, T tokens of the longest output so far.
"""

from __future__ import annotations

__all__ = [
    "AffineTransform",
    "LogitsTransform",
    "RepetitionPenalty",
    "Transforms",
    "option_transforms",
    "pad_to_same",
    "trim",
]

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from s2s.decoding.config import BeamConfig, SearchConfig
from s2s.decoding.model_scores import gather_hypotheses
from s2s.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.vocab import Vocab

NO_TOKEN = -1
"""Marks positions before an output's first token"""


class LogitsTransform(Protocol):
    """A function of a model's logits and of the output so far, the same for every batch that holds the hypothesis."""

    def __call__(self, logits: Tensor, output: Tensor) -> Tensor:
        """The changed logits: [B, K, V] in fp32 -> [B, K, V]; -inf: not this token.

        output: [B, K, T], the tokens of each hypothesis, the newest last, and -1 before the first. Logits of a model
        that `returns_log_probs` are log-probabilities.
        """


@dataclass(frozen=True)
class AffineTransform:
    """logits * scale + bias: a temperature, biases of tokens, or a shortlist. The C functions of s2s_cpu compute it."""

    scale: Tensor
    """[V], positive, fp32"""
    bias: Tensor
    """[V], fp32; -inf: never this token"""

    def __post_init__(self) -> None:
        fits = self.scale.shape == self.bias.shape and self.scale.ndim == 1
        if not fits or not (self.scale > 0).all() or not (self.bias < torch.inf).all():
            raise PluginError("AffineTransform: expected positive scales and biases below inf, one for each token")

    def __call__(self, logits: Tensor, output: Tensor) -> Tensor:
        """logits [B, K, V] -> [B, K, V]"""
        del output
        return logits * self.scale.to(logits.device) + self.bias.to(logits.device)

    def then(self, other: AffineTransform) -> AffineTransform:
        """Both as one, this one first."""
        return AffineTransform(self.scale * other.scale, self.bias * other.scale + other.bias)


@dataclass(frozen=True)
class RepetitionPenalty:
    """Tokens of the output so far are less probable: logits above 0 are divided by the penalty, others multiplied.

    From Keskar et al. (2019), section 4.1, without the source, but with the tokens that start outputs.
    """

    penalty: float
    """Above 1, tokens that occur become less probable"""
    starting_tokens: tuple[int, ...] = ()
    changes_log_probs: bool = False
    """Whether log-probabilities are changed in place of logits"""

    def __call__(self, logits: Tensor, output: Tensor) -> Tensor:
        """logits [B, K, V], output [B, K, T] -> [B, K, V]"""
        n_tokens = logits.size(-1)
        logits = logits.log_softmax(-1) if self.changes_log_probs else logits
        occurs = torch.zeros(*logits.shape[:-1], n_tokens + 1, dtype=torch.bool, device=logits.device)
        occurs.scatter_(-1, output.masked_fill(output == NO_TOKEN, n_tokens), True)
        occurs[..., list(self.starting_tokens)] = True
        lowered = torch.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return torch.where(occurs[..., :-1], lowered, logits)


class Transforms:
    """All transforms of a request as one, in their order."""

    def __init__(self, transforms: Sequence[LogitsTransform], n_tokens: int, device: torch.device) -> None:
        self.transforms = list(transforms)
        penalties = [one for one in transforms[:1] if isinstance(one, RepetitionPenalty)]
        affine = [one for one in transforms if isinstance(one, AffineTransform)]
        if any(len(one.scale) != n_tokens for one in affine):
            raise PluginError(f"AffineTransform: expected {n_tokens} scales and biases, one for each token")
        self.are_known = len(penalties) + len(affine) == len(transforms)
        """Whether these are a penalty, if there is one, and affine ones after it, which functions in C compute"""
        self.penalty = penalties[0] if penalties else RepetitionPenalty(1.0)
        """That with which they begin; 1: none"""
        self.affine: AffineTransform | None = None
        """All affine ones, if there are any, where all are known"""
        if self.are_known and affine:
            whole = functools.reduce(AffineTransform.then, affine)
            self.affine = AffineTransform(whole.scale.float().to(device), whole.bias.float().to(device))
            self.transforms = [*penalties, self.affine]
        self.needs_output = bool(penalties) or not self.are_known
        """Whether a search keeps outputs for them"""

    def start(self, n_sentences: int, device: torch.device) -> Tensor | None:
        """The outputs before the first token, [B, 1, 0]; None if no transform needs them."""
        return torch.zeros(n_sentences, 1, 0, dtype=torch.long, device=device) if self.needs_output else None

    def advance(self, output: Tensor | None, token: Tensor, parents: Tensor | None) -> Tensor | None:
        """The outputs after `token` [B, K'], which extend the hypotheses `parents` [B, K'], or each its own."""
        if output is None:
            return None
        before = output if parents is None else gather_hypotheses(output, parents)
        return torch.cat([before, token[..., None]], dim=-1)

    def __call__(self, logits: Tensor, output: Tensor | None) -> Tensor:
        """logits [B, K, V]; output [B, K, T] if `needs_output`."""
        output = logits.new_zeros(*logits.shape[:2], 0, dtype=torch.long) if output is None else output
        for transform in self.transforms:
            changed = transform(logits.float(), output)
            if not isinstance(changed, Tensor) or changed.shape != logits.shape:
                shape = list(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
                raise PluginError(f"{type(transform).__name__}: expected logits {list(logits.shape)}, got {shape}")
            logits = changed.float()
        return logits


def option_transforms(config: SearchConfig, vocab: Vocab) -> list[LogitsTransform]:
    """The transforms that a search's options name."""
    transforms: list[LogitsTransform] = []
    if config.repetition_penalty != 1:
        options = config.repetition_penalty, vocab.starting_tokens, config.penalizes_log_probs
        transforms.append(RepetitionPenalty(*options))
    if isinstance(config, BeamConfig) and (affine := config.affine(vocab)):
        transforms.append(AffineTransform(*(torch.frombuffer(x, dtype=torch.float32) for x in affine)))
    return transforms


def trim(output: Tensor) -> Tensor:
    """Without the first columns that hold no token, which no others do: [B, K, T] -> [B, K, T']"""
    holds = (output != NO_TOKEN).flatten(0, 1).any(0)
    return output[..., int((~holds).sum()) :]


def pad_to_same(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs [B, K, T] and [B', K, T'] padded at their beginning to the same T."""
    n = max(first.size(-1), second.size(-1))
    pad = torch.nn.functional.pad
    return pad(first, (n - first.size(-1), 0), value=NO_TOKEN), pad(second, (n - second.size(-1), 0), value=NO_TOKEN)
