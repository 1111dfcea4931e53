"""The mixture layer: each token is computed by a few of many experts (Shazeer et al., 2017, section 2).

Shapes: N tokens, G groups of tokens, D width, E experts, k active ones per token.
"""

from __future__ import annotations

__all__ = ["MixtureLayer", "Tokens", "auxiliary_names", "n_gate_weights", "take_auxiliary"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from s2s import Auxiliary, ConfigError, Mean
from s2s_moe.gating import FlatGate, Gates, HierarchicalGate, squared_variation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s_moe import GatingConfig
    from s2s_moe.exchange import Exchange


FEW_TOKENS = 256
"""Of so many on an accelerator, a product takes the time of reading the weights, as of one: that every expert computes
all tokens then costs less than that the host reads how many each has"""


class Tokens(NamedTuple):
    """Which positions of a pass count, and the groups over which the use of experts is summed."""

    group: Tensor
    """[N], the group of each position; n_groups for padding"""
    n_groups: int

    @classmethod
    def of_sentences(cls, pad: Tensor, balance: str) -> Tokens:
        """pad [B, S]: a group for each sentence, or one for all."""
        rows = torch.arange(len(pad), device=pad.device)[:, None].expand_as(pad)
        n_groups = len(pad) if balance == "sentence" else 1
        group = rows if balance == "sentence" else torch.zeros_like(rows)
        return cls(group.masked_fill(pad, n_groups).flatten(), n_groups)


class ExpertUsage(NamedTuple):
    """How one pass used the experts."""

    loss: Tensor
    """[], summed over the tokens that count: each group's balance losses are weighted by its number of tokens"""
    n_tokens: Tensor
    """[]"""
    importance: Tensor
    """[E], sums of gates over all groups"""
    counts: Tensor
    """[E], tokens"""


class MixtureLayer(nn.Module):
    """y = sum over the active experts of gate * expert(x), equation 1; experts are position-wise modules."""

    def __init__(self, config: GatingConfig, d_model: int, experts: Iterable[nn.Module]) -> None:
        super().__init__()
        self.config = config
        self.experts = nn.ModuleList(experts)
        n, k, noisy = config.n_experts, config.k, config.noisy
        self.gate: nn.Module = (
            HierarchicalGate(d_model, n, config.n_groups, k, noisy=noisy)
            if config.n_groups
            else FlatGate(d_model, n, k, noisy=noisy)
        )
        self.tokens: Tokens | None = None
        """Set by the model before a recorded training pass"""
        self.uses: list[ExpertUsage] | None = None
        """The use of experts in the recorded passes; None: nothing is recorded"""
        self.exchange: Exchange | None = None
        """Set by train.strategy=experts, which divides the experts over the ranks"""

    def begin(self, pad: Tensor) -> None:
        """Prepare for a pass over sentences, pad [B, S]."""
        records = self.training and self.uses is not None and torch.is_grad_enabled()
        self.tokens = Tokens.of_sentences(pad, self.config.balance) if records else None

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]"""
        flat, tokens = x.flatten(0, -2), self.tokens if self.training else None
        if tokens is not None and len(tokens.group) != len(flat):
            raise ConfigError(
                f"arch.of: a mixture is given {len(flat)} vectors for {len(tokens.group)} tokens, and balances tokens; "
                "take an architecture, or other modules of it, that keep one vector for each"
            )
        gates: Gates = self.gate(flat, tokens and tokens.group, tokens.n_groups if tokens else 0)
        if tokens is not None and self.uses is not None:
            self.uses.append(self._usage(gates, tokens))
        return self.mix(flat, gates).view_as(x)

    def mix(self, x: Tensor, gates: Gates) -> Tensor:
        """[N, D] -> [N, D]: tokens are sorted by expert, and each expert computes all its tokens at once."""
        if self._is_small(x):
            every = torch.stack([expert(x) for expert in self.experts], dim=1)  # [N, E, D]
            active = every.gather(1, gates.experts[..., None].expand(-1, -1, every.size(-1)))
            return (active * gates.weights[..., None].to(active.dtype)).sum(1)
        expert = gates.experts.flatten()  # [N k]
        order = expert.argsort(stable=True)
        counts = _counts(expert, len(self.experts))
        compute = self.exchange or compute_here
        computed = compute(self.experts, x[order // self.config.n_active], counts)
        computed = computed[order.argsort()].unflatten(0, gates.experts.shape)
        return (computed * gates.weights[..., None].to(computed.dtype)).sum(1)

    def _is_small(self, x: Tensor) -> bool:
        """Whether all experts compute all tokens x [N, D]: on a device, in decoding, while they are few."""
        return not (x.is_cpu or self.exchange or torch.is_grad_enabled()) and len(x) <= FEW_TOKENS

    def _usage(self, gates: Gates, tokens: Tokens) -> ExpertUsage:
        """The balance losses of each group, weighted by its number of tokens, and the values for the log."""
        assert gates.importance is not None
        loss = self.config.importance * squared_variation(gates.importance)  # [G]
        if gates.load is not None:
            loss = loss + self.config.load * squared_variation(gates.load)
        n_tokens = _counts(tokens.group, tokens.n_groups + 1)[: tokens.n_groups]  # [G]
        n_experts, is_padding = len(self.experts), (tokens.group == tokens.n_groups)[:, None]
        counts = _counts(gates.experts.masked_fill(is_padding, n_experts).flatten(), n_experts + 1)[:n_experts]
        return ExpertUsage((loss * n_tokens).sum(), n_tokens.sum(), gates.importance.detach().sum(0), counts)


def _counts(index: Tensor, n: int) -> Tensor:
    """How often each of 0 to n - 1 occurs in index [N]: [n]; bincount would wait for the device to find the greatest"""
    return index.new_zeros(n).scatter_add_(0, index, torch.ones_like(index))


def compute_here(experts: nn.ModuleList, x: Tensor, counts: Tensor) -> Tensor:
    """x [N k, D], sorted by expert, and the number of tokens of each expert, [E] -> [N k, D].

    The host reads the numbers: experts are modules of any kind, which take tensors of known sizes.
    """
    parts = x.split(counts.tolist())
    return torch.cat([e(part) for e, part in zip(experts, parts, strict=True)])  # empty parts, too, for a gradient


def take_auxiliary(layers: Sequence[MixtureLayer], device: torch.device) -> Auxiliary:
    """The balance losses of all layers since the last call, and statistics of the experts in each pass, for the log:

    balance, the losses per token; cv_importance and cv_load, coefficients of variation; max_load, the load of the
    fullest expert over the mean (as in the paper's table 6); with log_experts, each expert's share of the tokens.
    """
    uses = [use for layer in layers for use in layer.uses or ()]
    for layer in layers:
        layer.uses = layer.tokens = None
    config = layers[0].config
    total = torch.zeros(5 + config.n_experts, device=device)
    for use in uses:
        n, load = use.n_tokens.float(), use.counts.float()
        variation = squared_variation(torch.stack([use.importance, load])).sqrt()  # [2]
        fullest = load.max() / load.mean().clamp(min=1e-10)
        total += torch.cat([torch.stack([n, use.loss.detach(), *variation * n, fullest * n]), load])
    n, balance, importance, load, fullest = total[:5]
    extras = {"balance": Mean(balance, n), "cv_importance": Mean(importance, n), "cv_load": Mean(load, n)}
    extras |= {"max_load": Mean(fullest, n)}
    if config.log_experts:
        extras |= {f"expert_{i}": Mean(count, total[5:].sum()) for i, count in enumerate(total[5:])}
    return Auxiliary(sum((use.loss for use in uses), torch.zeros((), device=device)), extras)


def auxiliary_names(config: GatingConfig) -> tuple[str, ...]:
    """Names of the extras of `take_auxiliary`."""
    experts = range(config.n_experts if config.log_experts else 0)
    return ("balance", "cv_importance", "cv_load", "max_load", *(f"expert_{i}" for i in experts))


def n_gate_weights(config: GatingConfig, d_model: int) -> int:
    """Weights of the gating networks that multiply a token, without those of the noise."""
    return d_model * (config.n_groups + config.n_experts)
