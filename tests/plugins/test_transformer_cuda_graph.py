"""Recorded steps against plain ones; on a CPU with a recorder that runs the function again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import torch

from harness.recurrent_model import Recurrent
from harness.search_calls import find_queued
from s2s.backend.growing_state import bucket_size
from s2s.decoding import BeamConfig, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.generation.acceleration import capture_steps
from s2s.model import Memory, State
from s2s.task import Vocab
from s2s_cuda import decoding_graph
from s2s_cuda.decoding_graph import CUDAGraphDecoding, graph_decoding
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from s2s.decoding import Hypothesis

VOCAB = Vocab(src=60, tgt=60, joint=True)


def again(function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """A recorder for any device: runs to warm up, then each run's result over the first's."""
    for _ in range(3):
        result = function()

    def replay() -> None:
        result.copy_(function())

    return replay, result


def small(device: str) -> Transformer:
    torch.manual_seed(5)
    config = TransformerConfig(n_encoder_layers=2, n_decoder_layers=2, d_model=32, d_ff=64, n_heads=4)
    model = Transformer(config, VOCAB).eval().to(device)
    for parameter in model.parameters():
        parameter.data *= 1.3  # an untrained model hardly prefers anything: make it choose
    return model


def outputs(model: Transformer, beam: int, tokens: int, n: int, device: str) -> list[list[Hypothesis]]:
    """Sentences that come and go, longer and shorter than any size that recurs."""
    draw = random.Random(1)
    lines = [[draw.randrange(4, 60) for _ in range(draw.choice([1, 2, 9, 17, 40]))] for _ in range(n)]
    sources = sorted((SourceSentence(i, [*line, VOCAB.eos]) for i, line in enumerate(lines)), key=lambda s: -len(s.ids))
    search = BeamSearch(BeamConfig(beam=beam, max_len_a=1.0, max_len_b=8))
    return find_queued(search, model, FixedQueue(sources, tokens), VOCAB, device, nbest=beam)


@pytest.fixture
def graphed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.backend.core_devices.CPU.supports_graphs", True)


def assert_alike(first: list[list[Hypothesis]], second: list[list[Hypothesis]]) -> None:
    assert [[h.tokens for h in row] for row in first] == [[h.tokens for h in row] for row in second]
    for one, other in zip(first, second, strict=True):
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


@pytest.mark.usefixtures("graphed")
@pytest.mark.parametrize("tokens", [60, 400])
@pytest.mark.parametrize("beam", [1, 4])
def test_recorded_steps_find_the_same(beam: int, tokens: int) -> None:
    plain, model = small("cpu"), small("cpu")
    graph_decoding(model, again)
    assert_alike(outputs(model, beam, tokens, 40, "cpu"), outputs(plain, beam, tokens, 40, "cpu"))


class CapturedState(State):
    """That of a recurrent model keeps its shapes, and so needs to say no more than this."""

    supports_capture = True


class CapturedRecurrent(Recurrent):
    def start(self, memory: Memory) -> State:
        return CapturedState(**vars(super().start(memory)))


@pytest.mark.usefixtures("graphed")
@pytest.mark.parametrize("beam", [1, 4])
@torch.no_grad()
def test_any_state_that_keeps_its_shapes_can_be_captured(beam: int) -> None:
    plain, model = CapturedRecurrent(60).eval(), CapturedRecurrent(60).eval()
    assert graph_decoding(model, again)  # type: ignore[arg-type]
    assert_alike(outputs(model, beam, 60, 12, "cpu"), outputs(plain, beam, 60, 12, "cpu"))  # type: ignore[arg-type]
    assert model.step.graphs  # type: ignore[attr-defined]


def test_what_is_not_captured_is_not_claimed(monkeypatch: pytest.MonkeyPatch, plugin_operators: str) -> None:
    """The Transformer's steps are, those of a state that says nothing are not, in any combination."""
    monkeypatch.setattr("s2s.backend.core_devices.CPU.capture", lambda _, function: again(function))
    yes, no = small("cpu"), Recurrent(60).eval()
    step = no.step
    assert capture_steps([no]) == "steps eager, since the architecture's state does not support CUDA graphs"
    assert capture_steps([small("cpu"), no]) == "steps of 1 of 2 models captured in CUDA graphs"
    assert capture_steps([yes]) == "steps captured in CUDA graphs"
    assert isinstance(yes.step, CUDAGraphDecoding)
    assert no.step == step


@pytest.mark.usefixtures("graphed")
def test_few_recordings_serve_many_steps() -> None:
    model, calls = small("cpu"), [0]
    plain = model.step

    def counted(token: Tensor, state: object) -> tuple[Tensor, object]:
        calls[0] += 1
        return plain(token, state)  # type: ignore[arg-type]

    steps = CUDAGraphDecoding(counted, again)  # type: ignore[arg-type]
    model.step = steps  # type: ignore[method-assign]
    outputs(model, 4, 400, 60, "cpu")
    assert calls[0] > 100
    assert len(steps.graphs) < calls[0] / 8


@pytest.mark.usefixtures("graphed")
def test_recordings_beyond_the_most_are_let_go_and_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_graph, "MAX_GRAPHS", 2)
    plain, model = small("cpu"), small("cpu")
    graph_decoding(model, again)
    assert_alike(outputs(model, 4, 200, 30, "cpu"), outputs(plain, 4, 200, 30, "cpu"))
    assert len(model.step.graphs) == 2  # type: ignore[attr-defined]


def test_sizes_that_recur_are_few_and_waste_little(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cpu")
    assert bucket_size(37, device) == 37
    monkeypatch.setattr("s2s.backend.core_devices.CPU.supports_graphs", True)
    sizes = {n: bucket_size(n, device) for n in range(1, 4097)}
    assert all(n <= size <= max(n + 1, n * 1.25) for n, size in sizes.items())
    assert len(set(sizes.values())) < 45
    assert all(bucket_size(size, device) == size for size in sizes.values())
    assert {bucket_size(n, device, minimum=32) % 32 for n in range(300)} == {0}


@pytest.mark.gpu
@pytest.mark.parametrize("beam", [1, 4])
def test_graphs_find_the_same(beam: int) -> None:
    plain, model = small("cuda"), small("cuda")
    graph_decoding(model)
    with torch.no_grad():
        assert_alike(outputs(model, beam, 400, 60, "cuda"), outputs(plain, beam, 400, 60, "cuda"))


@pytest.mark.gpu
def test_graphs_find_the_same_in_bf16() -> None:
    """Through autocast, whose copies of weights must not be let go before the graph is."""
    plain, model = small("cuda"), small("cuda")
    graph_decoding(model)
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        first = outputs(model, 4, 400, 60, "cuda")
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        again_, second = outputs(model, 4, 400, 60, "cuda"), outputs(plain, 4, 400, 60, "cuda")
    assert [[h.tokens for h in row] for row in first] == [[h.tokens for h in row] for row in again_]
    same = sum(a[0].tokens == b[0].tokens for a, b in zip(first, second, strict=True))
    assert same >= 57
