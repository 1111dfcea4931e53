"""How often one of two ranks waits for its device in an update: `python -m harness.rank_reads`.

Prints a line of JSON for each optimizer: the reads of an update, and those of one in which the other rank has too
little memory for its first attempt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import torch
from torch import Tensor

from harness import pretend_plugin
from harness.pretend_device import NAME, State, register
from harness.shipped_plugins import shipped
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.task import Vocab
from s2s.training.train_step import TrainStep
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

VOCAB = Vocab(src=20, tgt=20, joint=True)
PAIRS = 8 * [([5, 6, 7], [8, 9])]


@dataclass(frozen=True)
class Ranks(World):
    """The other one adds nothing, and fails as often as is noted here."""

    failures: list[int] = field(default_factory=list)

    def all_reduce(self, values: Tensor) -> Tensor:
        if self.failures:
            self.failures.pop()
            values[0], values[-1] = torch.nan, 1
        return values


def main() -> None:
    """One update before those that are counted: an optimizer's first step may read what later ones do not."""
    shipped()
    register()
    pretend_plugin.s2s_register(shipped().registry)
    device = torch.device(NAME)
    for optimizer, options in ((torch.optim.Adam, {"fused": True}), (torch.optim.Adadelta, {})):
        torch.manual_seed(1)
        config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=8, d_ff=8, n_heads=2)
        model = Transformer(config, VOCAB).to(device)
        world, loss = Ranks(size=2, device=device), LabelSmoothed(LabelSmoothedConfig())
        own = optimizer(model.parameters(), lr=0.1, **options)
        step = TrainStep(TrainConfig(tokens=100, micro_tokens=None), 1, VOCAB, model, loss, own, lambda _: 0.1, world)
        counts = []
        for number, n_failures in enumerate((0, 0, 1), 1):
            world.failures[:] = [1] * n_failures
            State.reads.clear()
            launched = step.launch(PAIRS, number)
            assert launched.values.is_cpu, "what several ranks read before they go on, the trainer need not wait for"
            counts.append(State.reads.total())
        print(json.dumps({"optimizer": optimizer.__name__, "reads": counts[1], "with_a_failure": counts[2]}))


if __name__ == "__main__":
    main()
