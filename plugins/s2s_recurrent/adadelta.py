"""Adadelta, with which Bahdanau et al. (2015) trained."""

from __future__ import annotations

__all__ = ["adadelta"]

from typing import TYPE_CHECKING

from torch.optim import Adadelta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.nn import Parameter

    from s2s_recurrent import AdadeltaConfig


def adadelta(config: AdadeltaConfig, parameters: Sequence[Parameter]) -> Adadelta:
    """The schedule sets the learning rate."""
    return Adadelta(parameters, lr=0.0, rho=config.rho, eps=config.eps)
