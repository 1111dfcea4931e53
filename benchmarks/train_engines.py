"""What is measured: one update of s2s, whole or with a lever switched off, or of a peer."""

from __future__ import annotations

__all__ = ["BASE", "Engine", "arch_of", "build"]

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch.nn import functional as F

from s2s.compose import compose
from s2s.config import Config, TrainConfig
from s2s.data.batching import Pair
from s2s.distributed import World
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.nn.machinery import DTYPES, Machinery
from s2s.optim import AdamConfig
from s2s.optim.build import adam
from s2s.plugin import load_plugins
from s2s.update import Updater
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer
from train_peers import Peer

if TYPE_CHECKING:
    from s2s.task import Vocab

BASE: dict[str, Any] = {
    "peer": "",
    "precision": "fp32",
    "matmul": "auto",
    "attention": "auto",
    "chunk": None,
    "dropout": "ours",
    "fused": True,
    "packed": None,
}
"""All levers on"""
RATE = 1e-4


@dataclass
class Engine:
    """Something that learns from batches."""

    call: Callable[[Sequence[Pair], int], object]
    device: torch.device
    around: Callable[[], AbstractContextManager[object]] = nullcontext

    def update(self, batch: Sequence[Pair], step: int) -> None:
        """One update, from ids to new weights."""
        with self.around():
            self.call(batch, step)


def build(config: TransformerConfig, vocab: Vocab, device: torch.device, **how: Any) -> Engine:
    """The engine that `how`, in the keys of BASE, describes."""
    if how["peer"]:
        return Engine(Peer(how["peer"], config, vocab, device, DTYPES[how["precision"]]), device)
    torch.manual_seed(1)
    model = Transformer(replace(config, attention=how["attention"]), vocab).to(device).train()
    learnt = list(model.parameters())
    optimizer = adam(AdamConfig(), learnt) if how["fused"] else torch.optim.Adam(learnt, betas=(0.9, 0.98), eps=1e-9)
    train = TrainConfig(precision=how["precision"], matmul=how["matmul"], packed=how["packed"])
    loss = LabelSmoothed(LabelSmoothedConfig(chunk=how["chunk"]))
    machinery = Machinery.choose(train, model, loss, device, longest=256)
    world = World(device=device)
    updater = Updater(train, 1, vocab, model, loss, optimizer, lambda _: RATE, world, machinery=machinery)
    own_masks = patch("s2s.nn.dropout.dropout", F.dropout)  # as torch draws them
    return Engine(updater, device, (lambda: own_masks) if how["dropout"] == "torch" else nullcontext)


def arch_of(name: str) -> TransformerConfig:
    """The shipped preset transformer_<name>."""
    config = compose(Config, [f"arch=transformer_{name}", "task=translation_tiny"], load_plugins()).config
    assert isinstance(config.arch, TransformerConfig)
    return config.arch
