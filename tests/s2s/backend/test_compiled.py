"""Steps of training and of decoding, compiled whole by torch.compile: no break, and one graph for all sizes.

The compiler's own code is not tested: the graph is run as it was traced.
"""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from harness.shipped_plugins import shipped
from s2s.backend.device_types import device_of
from s2s.batch import Batch, make_batch
from s2s.compose import compose
from s2s.config import Config
from s2s.nn import LabelSmoothedConfig
from s2s.nn.kv_cache import KVCacheState
from s2s.nn.loss import LabelSmoothed
from s2s_testing import VOCAB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest.mark import ParameterSet

    from s2s.model import Seq2Seq


def slow(*archs: str) -> list[ParameterSet]:
    return [pytest.param(arch, marks=pytest.mark.slow) for arch in archs]


WARM_UP = [(3, 5, 4), (4, 7, 6)]
LATER = [(5, 9, 8), (2, 12, 11), (7, 4, 13), (40, 12, 20)]
"""Sentences of a batch, and tokens of its longest source and target"""
WHOLE = ["transformer_tiny", "convs2s_tiny", "transformer_lm_tiny"]
SLOW = slow("transformer_modern_tiny", "bytenet_tiny", "memory_network_tiny", "mixture_tiny")
STEPS = ["transformer_tiny", "rnn_tiny"]
SLOW_STEPS = [*slow("transformer_lm_tiny", "convs2s_tiny", "bahdanau", "luong"), *SLOW]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing compiled before, nor after; that two sizes are equal once means nothing."""
    torch._dynamo.reset()
    with torch.fx.experimental._config.patch(use_duck_shape=False):
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


def options_of(backend: Callable[..., object]) -> dict[str, Any]:
    return {"backend": backend, "dynamic": True, "fullgraph": True}


class Graphs(list[torch.fx.GraphModule]):
    """A backend that runs graphs as they were traced, and keeps them."""

    def __call__(self, graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        self.append(graph)
        return graph.forward


OBJECTIVE = LabelSmoothed(LabelSmoothedConfig(chunk=0))


def training_step(model: Seq2Seq, batch: Batch) -> tuple[Tensor, ...]:
    """Forward pass and loss, as `s2s.training.train_step` calls them."""
    sums = OBJECTIVE(model, batch)
    assert isinstance(sums.normaliser, Tensor)
    return sums.loss, sums.normaliser, *(x for x in sums.extras.values() if isinstance(x, Tensor))


@pytest.mark.parametrize("arch", WHOLE + SLOW)
def test_a_training_step_is_one_graph_for_batches_of_all_sizes(arch: str) -> None:
    model, graphs = built(arch), Graphs()
    plain = copy.deepcopy(model)
    step = torch.compile(training_step, **options_of(graphs))
    for number, sizes in enumerate([*WARM_UP, *LATER]):
        batch = batch_of(*sizes)
        with torch._dynamo.config.patch(error_on_recompile=number >= len(WARM_UP)):
            found = step(model, batch)
        expected = training_step(plain, batch)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        for one, sums in ((model, found), (plain, expected)):
            one.zero_grad()
            sums[0].backward()
        torch.testing.assert_close(gradients(model), gradients(plain), rtol=1e-3, atol=1e-5)
    assert 1 <= len(graphs) <= len(WARM_UP)


def gradients(model: Seq2Seq) -> dict[str, Tensor]:
    """Of the parameters that have one which is not 0."""
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None and p.grad.any()}


def test_dropout_is_part_of_the_graph() -> None:
    model, graphs = built("transformer_tiny").train(), Graphs()
    step, losses = torch.compile(training_step, **options_of(graphs)), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(step(model, batch_of(*LATER[0]))[0].item())
    assert losses[0] == losses[1] != losses[2]
    assert len(graphs) == 1


@pytest.mark.slow
def test_a_recurrent_model_is_one_graph_for_each_length() -> None:
    """Its loop over the positions is unrolled: more sentences are no new graph, other lengths are."""
    model, graphs = built("rnn_tiny"), Graphs()
    step = torch.compile(training_step, **options_of(graphs))
    for sizes, n_graphs in [((3, 5, 4), 1), ((4, 5, 4), 1), ((3, 5, 6), 2), ((3, 7, 4), 3)]:
        batch = batch_of(*sizes)
        torch.testing.assert_close(step(model, batch), training_step(model, batch), rtol=1e-4, atol=1e-4)
        assert len(graphs) == n_graphs, sizes


def test_an_lstm_of_torch_cannot_be_traced() -> None:
    """When it can, docs/training.md is to say so."""
    step = torch.compile(training_step, **options_of(Graphs()))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="LSTM"):
        step(built("moe_lstm_tiny"), batch_of(*WARM_UP[0]))


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("arch", STEPS + SLOW_STEPS)
@torch.no_grad()
def test_a_decoding_step_is_one_graph_for_all_lengths_and_sentences(arch: str, beam: int) -> None:
    """One for the first step, whose beam is one; one for others; and one for tensors that are parts of larger ones,
    as they are when sentences have left; for a beam of one another where buffers are full. Room for further tokens is
    made before a step, as where steps are captured."""
    model, graphs = built(arch), Graphs()
    step = torch.compile(lambda token, state: model.step(token, state), **options_of(graphs))
    draw, n_steps = torch.Generator().manual_seed(1), {3: 45, 4: 60, 6: 5}
    for batch in (batch_of(*sizes) for sizes in [(3, 5, 4), (4, 7, 6), (6, 4, 5)]):
        n = len(batch.src)
        states = [model.start(model.encode(batch.src, batch.src_pad)) for _ in range(2)]
        token = torch.full((n, 1), VOCAB.bos)
        for number in range(n_steps[n]):
            states = [state.reserve() if isinstance(state, KVCacheState) else state for state in states]
            with torch._dynamo.config.patch(error_on_recompile=n > 3):
                found, after = step(token, states[0])
            expected, other = model.step(token, states[1])
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            parents = torch.randint(found.size(1), (len(token), beam), generator=draw)
            states = [state.reorder(parents) for state in (after, other)]
            n_left = len(token) - (number == 2 or (number == 20 and n > 3))
            if n_left < len(token):
                states = [state.select(torch.arange(n_left)) for state in states]
            token = torch.randint(4, VOCAB.tgt, (n_left, beam), generator=draw)
    assert len(graphs) <= (4 if beam == 1 else 3)
