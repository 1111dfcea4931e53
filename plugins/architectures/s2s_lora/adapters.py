"""Adapters on linear maps: x W^T + (alpha / r) x A^T B^T.

Shapes: I inputs, O outputs, r rank.
"""

from __future__ import annotations

__all__ = ["adapt", "merged_weights"]

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import ConfigError
from s2s_lora import ADAPTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s_lora import LoRAConfig


def adapt(model: nn.Module, config: LoRAConfig) -> None:
    """Freeze `model` and add an adapter to each linear map whose name matches `config.match`.

    B is zero at first, so that the model's outputs are unchanged. The adapters are parameters of the linear maps,
    lora_a [r, I] and lora_b [O, r]; all other names are unchanged.
    """
    linears = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    chosen = [module for name, module in linears.items() if re.search(config.match, name)]
    if not chosen:
        known = ", ".join(list(linears)[:5]) or "none"
        raise ConfigError(f"arch.match={config.match} is found in no name of a linear map; those are: {known}")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    module: Any  # torch's types allow only tensors and modules as attributes
    for module in chosen:
        a = torch.empty(config.rank, module.in_features)
        nn.init.kaiming_uniform_(a, a=math.sqrt(5))  # as nn.Linear's own weight, like the authors' code
        module.lora_a = nn.Parameter(a)
        module.lora_b = nn.Parameter(torch.zeros(module.out_features, config.rank))
        module.lora_scale = config.alpha / config.rank
        module.lora_hook = module.register_forward_hook(partial(_add, dropout=config.dropout))
        if hasattr(module, "weight_and_bias"):  # the sum is prepacked for decoding
            module.weight_and_bias = partial(_merged, module)


def merged_weights(config: LoRAConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by name, without the adapters: each is added to the weight of its linear map."""
    merged = {name: tensor for name, tensor in weights.items() if not re.search(ADAPTERS, name)}
    for name, a in weights.items():
        linear, is_a, _ = name.rpartition(".lora_a")
        if is_a:
            scaled = config.alpha / config.rank * weights[f"{linear}.lora_b"]
            merged[f"{linear}.weight"] = merged[f"{linear}.weight"] + scaled @ a
    return merged


def _product(module: Any) -> Tensor:
    """[O, I]"""
    return module.lora_scale * module.lora_b @ module.lora_a


def _merged(module: Any) -> tuple[Tensor, Tensor | None]:
    """[O, I], [O]"""
    return module.weight + _product(module), module.bias


def _add(module: Any, inputs: tuple[Tensor], output: Any, *, dropout: float) -> Any:
    """Forward hook of a linear map: the sum of its output, whole or in parts, and the adapter's."""
    if getattr(module, "prepacked", None) is not None:
        return output  # already includes the adapter
    x = F.dropout(inputs[0], dropout, module.training)
    update = module.lora_scale * F.linear(F.linear(x, module.lora_a), module.lora_b)
    if isinstance(output, tuple):
        return tuple(part + more for part, more in zip(output, update.split(module.parts, dim=-1), strict=True))
    return output + update
