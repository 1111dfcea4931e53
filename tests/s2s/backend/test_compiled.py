"""Steps of training and of decoding, compiled whole by torch.compile: no break, and one graph for all sizes.

The compiler's own code is not tested: the graph is run as it was traced.
"""

from __future__ import annotations

import copy
import random
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import Unsupported, UserError
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from harness.shipped_plugins import shipped
from s2s.backend.device_types import device_of
from s2s.batch import Batch, make_batch
from s2s.compose import compose
from s2s.config import Config
from s2s.nn import LabelSmoothedConfig
from s2s.nn.kv_cache import KVCacheState
from s2s.nn.loss import LabelSmoothed
from s2s.task import Vocab
from s2s_objectives import DistillConfig, RDropConfig, SimCutConfig
from s2s_objectives.distill import Distill
from s2s_objectives.rdrop import RDrop
from s2s_objectives.simcut import SimCut
from s2s_parsing.linear import Action, Kind
from s2s_parsing.stack_guide import StackGuide
from s2s_testing import VOCAB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest.mark import ParameterSet

    from s2s.model import Seq2Seq
    from s2s.objective import Objective


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


def built(arch: str, vocab: Vocab = VOCAB) -> Seq2Seq:
    torch.manual_seed(1)
    config = compose(Config, [f"arch={arch}", "task=translation"], shipped()).config.arch
    device_of(torch.device("cpu"))  # built at its first use, which a compiler cannot trace
    model: Seq2Seq = shipped().registry.get("arch", config.name).build(config, vocab)
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


SMOOTHED = LabelSmoothed(LabelSmoothedConfig(chunk=0))


def training_step(model: Seq2Seq, batch: Batch, objective: Objective = SMOOTHED) -> tuple[Tensor, ...]:
    """Forward pass and loss, as `s2s.training.train_step` calls them."""
    sums = objective(model, batch)
    assert isinstance(sums.normaliser, Tensor)
    return sums.loss, sums.normaliser, *(x for x in sums.extras.values() if isinstance(x, Tensor))


@pytest.mark.parametrize("arch", WHOLE + SLOW)
def test_a_training_step_is_one_graph_for_batches_of_all_sizes(arch: str) -> None:
    check_traced(built(arch), SMOOTHED)


class Teachers:
    """The context of an objective that learns from one other model."""

    def load_run(self, *_: str) -> Seq2Seq:
        return built("transformer_tiny").requires_grad_(False)


OBJECTIVES: dict[str, Callable[[], Objective]] = {
    "rdrop": lambda: RDrop(RDropConfig(chunk=0), SimpleNamespace()),  # type: ignore[arg-type]
    "simcut": lambda: SimCut(SimCutConfig(chunk=0), SimpleNamespace()),  # type: ignore[arg-type]
    "distill": lambda: Distill(DistillConfig(teachers=["a"], chunk=10_000), Teachers()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", ["rdrop", *slow("simcut", "distill")])
def test_an_objective_of_several_passes_is_one_graph_too(name: str) -> None:
    check_traced(built("transformer_tiny"), OBJECTIVES[name]())


def check_traced(model: Seq2Seq, objective: Objective) -> None:
    plain, graphs = copy.deepcopy(model), Graphs()
    step = torch.compile(partial(training_step, objective=objective), **options_of(graphs))
    for number, sizes in enumerate([*WARM_UP, *LATER]):
        batch = batch_of(*sizes)
        with torch._dynamo.config.patch(error_on_recompile=number >= len(WARM_UP)):
            found = step(model, batch)
        expected = training_step(plain, batch, objective)
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


class Refused(NamedTuple):
    """What torch does not trace whole, with sizes that vary."""

    why: str
    error: type[Exception]
    message: str
    """Part of it"""
    vocab: Vocab = VOCAB
    objective: Objective = SMOOTHED
    decodes: bool = True
    """Whether this is so of a decoding step, too"""


ACTIONS = [Action(Kind.WORD), Action(Kind.OPEN, "S"), Action(Kind.CLOSE)]
BRACKETS = StackGuide([None] * 4 + [ACTIONS[i % 3] for i in range(VOCAB.tgt - 4)], depth=40)
REFUSED = {
    "moe_lstm_tiny": Refused("an LSTM of torch's", Unsupported, "Attempted to wrap RNN, GRU, or LSTM"),
    "rnng_tiny": Refused(
        "trees, and brackets that close, decide how much is computed",
        UserError,
        "data-dependent expression",
        Vocab(src=VOCAB.src, tgt=VOCAB.tgt, guide=BRACKETS),
    ),
    "multidecoder_tiny": Refused(
        "the kinds of sources decide which models run",
        GuardOnDataDependentSymNode,
        "data-dependent expression",
        Vocab(src=VOCAB.src, tgt=VOCAB.src, tags=2),
    ),
    "transformer_tiny": Refused(
        "a loss of chunks, whose number varies",
        AssertionError,
        "lift_tracked_freevar_to_input should not be called on root SubgraphTracer",
        objective=LabelSmoothed(LabelSmoothedConfig(chunk=7)),
        decodes=False,
    ),
}
"""By architecture; when one can be traced, docs/training.md is to say so."""


@pytest.mark.parametrize("arch", ["moe_lstm_tiny", *slow("rnng_tiny", "multidecoder_tiny", "transformer_tiny")])
def test_what_torch_cannot_trace_is_known(arch: str) -> None:
    refused = REFUSED[arch]
    model = built(arch, refused.vocab)
    batch = make_batch([([4, 5, 6], [4, 5, 6, 7]), ([7, 8], [7, 6])], refused.vocab)
    with pytest.raises(refused.error, match=refused.message):
        torch.compile(training_step, **options_of(Graphs()))(model, batch, refused.objective)
    if refused.decodes:
        step = torch.compile(model.step, **options_of(Graphs()))
        with torch.no_grad():
            state = model.start(model.encode(batch.src, batch.src_pad))
            with pytest.raises(refused.error, match=refused.message):
                step(batch.tgt_in[:, :1], state)


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
