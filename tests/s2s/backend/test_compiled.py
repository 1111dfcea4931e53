"""Models compiled whole by torch.compile: no break, and one graph for batches of all lengths.

The compiler's own code is not tested: the graph is run as it was traced.
"""

from __future__ import annotations

import copy
import random
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
import torch

from harness.shipped_plugins import shipped
from s2s.backend.device_types import device_of
from s2s.batch import Batch, make_batch
from s2s.compose import compose
from s2s.config import Config
from s2s_testing import VOCAB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.model import Seq2Seq

WARM_UP = [(3, 5, 4), (4, 7, 6)]
LATER = [(5, 9, 8), (2, 12, 11), (7, 4, 13)]
"""Sentences of a batch, and tokens of its longest source and target"""
WHOLE = ["transformer_tiny", "convs2s_tiny", "transformer_lm_tiny"]
SLOW = ["transformer_modern_tiny", "bytenet_tiny", "memory_network_tiny", "mixture_tiny"]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing compiled before, nor after."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def built(arch: str) -> Seq2Seq:
    torch.manual_seed(1)
    config = compose(Config, [f"arch={arch}", "task=translation"], shipped()).config.arch
    device_of(torch.device("cpu"))  # built at its first use, which a compiler cannot trace
    model: Seq2Seq = shipped().registry.get("arch", config.name).build(config, VOCAB)
    return model.eval()


def batch_of(n: int, src: int, tgt: int) -> Batch:
    draw = random.Random(n)
    return make_batch(
        [
            ([draw.randrange(4, VOCAB.src) for _ in range(src - i % 3)], [draw.randrange(4, VOCAB.tgt)] * (tgt - i % 2))
            for i in range(n)
        ],
        VOCAB,
    )


@pytest.mark.parametrize("arch", [*WHOLE, *(pytest.param(arch, marks=pytest.mark.slow) for arch in SLOW)])
def test_training_is_one_graph_for_batches_of_all_lengths(arch: str) -> None:
    model, graphs = built(arch), []
    expected = copy.deepcopy(model)

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph)
        return graph.forward

    model.compile(backend=backend, dynamic=True, fullgraph=True)
    for number, sizes in enumerate([*WARM_UP, *LATER]):
        batch = batch_of(*sizes)
        with torch._dynamo.config.patch(error_on_recompile=True) if number >= len(WARM_UP) else nullcontext():
            found = model(*batch.inputs)
        torch.testing.assert_close(found, expected(*batch.inputs), rtol=1e-4, atol=1e-5)
        found.sum().backward()
    assert 1 <= len(graphs) <= len(WARM_UP)
