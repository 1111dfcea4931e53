"""train.freeze: parameters that training does not change."""

from __future__ import annotations

__all__ = ["freeze"]

import re
from typing import TYPE_CHECKING

from s2s import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn


def freeze(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Freeze every parameter whose name matches one of the regular expressions; lines for the first screen.

    A frozen parameter has no gradient and no optimizer state, and does not decay. A tied parameter is frozen if any of
    its names matches. Buffers, such as a running mean, are not parameters: they are updated as before. Raises
    ConfigError for an expression that matches nothing.
    """
    if not patterns:
        return []
    parameters = list(model.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        matches = [p for name, p in parameters if re.search(pattern, name)]
        if not matches:
            modules = [name for name, _ in model.named_modules() if name]
            hint = did_you_mean(pattern, [*modules, *(name for name, _ in parameters)])
            raise ConfigError(f"train.freeze: {pattern!r} is in no name of a parameter.{hint}")
        for p in matches:
            p.requires_grad_(False)
    frozen = [p.numel() for p in model.parameters() if not p.requires_grad]
    n = sum(p.numel() for p in model.parameters())
    return [f"{len(frozen)} tensors, {sum(frozen):,} of {n:,} parameters"]
