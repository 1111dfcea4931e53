"""The batch-size finder in a process of its own: `python batch_size_process.py FOLDER FREE_BYTES`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

import s2s_plan.batch_size
from s2s.backend.core_devices import CPU
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.task import Vocab
from s2s.training.batch_plan import BatchPlan
from s2s.training.train_step import TrainStep
from s2s_plan.memory import MemoryGuard, PeakMemory
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

VOCAB = Vocab(src=500, tgt=500, joint=True)


def train_step() -> TrainStep:
    """A small train step with train.tokens=auto."""
    torch.manual_seed(1)
    config = TransformerConfig(n_encoder_layers=2, n_decoder_layers=2, d_model=64, d_ff=256, n_heads=4)
    model = Transformer(config, VOCAB)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    train = TrainConfig(tokens="auto")
    return TrainStep(train, 1, VOCAB, model, LabelSmoothed(LabelSmoothedConfig()), optimizer, lambda _: 0.1, World())


def main(folder: Path, free: int) -> None:
    """Print the report, the tokens, whether the weights are unchanged, and the bytes that such a batch takes."""
    CPU.free_memory = lambda _: free  # type: ignore[method-assign]
    update = train_step()
    weights = [p.detach().clone() for p in update.parameters]
    with PeakMemory(torch.device("cpu")) as before:
        pass
    tokens, said = s2s_plan.batch_size.find_batch_size(update, MemoryGuard(), 64, folder)
    same = all(torch.equal(p, w) for p, w in zip(update.parameters, weights, strict=True))
    with PeakMemory(torch.device("cpu")) as peak:
        update.trial([([5] * 63, [5] * 63)] * (tokens // 64), BatchPlan(tokens))
    print(json.dumps([said, tokens, same, peak.bytes - before.bytes]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
