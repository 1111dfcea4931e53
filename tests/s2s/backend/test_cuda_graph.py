"""A recorded update against the plain one; on a CPU with a recorder that runs the function again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from s2s.backend.cuda_graph import CUDAGraphCallable, graph_decoding
from s2s.backend.device_types import device_of
from s2s.backend.growing_state import bucket_size
from s2s.data.packing import Capacity, pack
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.batch import Batch

VOCAB = Vocab(src=20, tgt=20, joint=True)
CAPACITY = Capacity(tokens=60, max_len=12)
PAIRS = [[([5, 6, 7], [8, 9])] * 3, [([4], [11, 12, 13, 14]), ([9, 9], [7])], [([8, 8, 8, 8], [6])]]


def again(function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """A recorder for any device: it writes each run's result over the first's."""
    result = function()

    def replay() -> None:
        result.copy_(function())

    return replay, result


def setting(device: str, dropout: float) -> tuple[Transformer, Callable[[Batch, Tensor], Tensor]]:
    torch.manual_seed(1)
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=32, n_heads=2, dropout=dropout)
    model, loss = Transformer(config, VOCAB).to(device), LabelSmoothed(LabelSmoothedConfig())

    def learn(batch: Batch, factor: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            out = loss(model, batch)
        (out.loss * factor).backward()
        return torch.stack([out.loss.detach(), out.extras["nll"].detach()])

    return model, learn


def gradients(model: Transformer, call: Callable[[Batch, Tensor], Tensor], device: str) -> tuple[list[Tensor], Tensor]:
    """Of three batches, one after the other, and the sums of all."""
    batches = [pack(pairs, VOCAB, CAPACITY).to(torch.device(device)) for pairs in PAIRS]
    if isinstance(call, CUDAGraphCallable):
        for batch in batches:
            call.prepare(batch)
        model.zero_grad(set_to_none=False)
    else:
        model.zero_grad()
    sums = []
    for step, batch in enumerate(batches):
        torch.manual_seed(step)
        sums.append(call(batch, torch.tensor(0.1 * (step + 1), device=device)))
    return [p.grad.clone() for p in model.parameters() if p.grad is not None], torch.stack(sums)


def check(device: str, recorder: Callable[..., object], dropout: float) -> None:
    model, learn = setting(device, dropout)
    expected, sums = gradients(model, learn, device)
    found, found_sums = gradients(model, CUDAGraphCallable(learn, recorder), device)  # type: ignore[arg-type]
    torch.testing.assert_close(found_sums, sums)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_recorded_update_is_the_plain_one() -> None:
    check("cpu", again, dropout=0.1)


@pytest.mark.gpu
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_so_it_is_as_a_cuda_graph(dropout: float) -> None:
    check("cuda", device_of(torch.device("cuda")).capture, dropout)


def test_a_shape_is_recorded_once() -> None:
    shapes = []

    def counting(function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        shapes.append(1)
        return again(function)

    model, learn = setting("cpu", 0.0)
    gradients(model, CUDAGraphCallable(learn, counting), "cpu")
    assert len(shapes) == 1


def test_each_shape_is_recorded_and_replayed_by_itself() -> None:
    one, other = (pack(pairs, VOCAB) for pairs in PAIRS[:2])
    shapes: list[int] = []

    def count_positions(batch: Batch, factor: Tensor) -> Tensor:
        shapes.append(batch.src.size(-1))
        return factor * batch.src.size(-1)

    call = CUDAGraphCallable(count_positions, again)
    for batch in (one, other, one):
        call.prepare(batch)
    assert shapes == [12, 5]
    assert [float(call(batch, torch.tensor(2.0))) for batch in (one, other, one)] == [24, 10, 24]


class Recording:
    """A stand-in for CUDA that notes what is asked of it."""

    def __init__(self, events: list[str], name: str) -> None:
        self.events, self.name = events, name

    def __enter__(self) -> None:
        self.events.append(f"enter {self.name}")

    def __exit__(self, *_: object) -> None:
        self.events.append(f"leave {self.name}")

    def wait_stream(self, other: Recording) -> None:
        self.events.append(f"{self.name} waits for {other.name}")

    def replay(self) -> None:
        self.events.append("replay")


def test_a_function_is_captured_after_three_runs_beside_the_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    side, current, graph = (Recording(events, name) for name in ("side", "current", "graph"))
    monkeypatch.setattr("torch.cuda.Stream", lambda: side)
    monkeypatch.setattr("torch.cuda.current_stream", lambda: current)
    monkeypatch.setattr("torch.cuda.CUDAGraph", lambda: graph)
    monkeypatch.setattr("torch.cuda.stream", lambda stream: stream)
    monkeypatch.setattr("torch.cuda.graph", lambda graph: graph)

    def run() -> Tensor:
        events.append("run")
        return torch.ones(len(events))

    replay, result = device_of(torch.device("cuda")).capture(run)
    replay()
    warm_up = ["side waits for current", "enter side", "run", "run", "run", "leave side", "current waits for side"]
    assert events == [*warm_up, "enter graph", "run", "leave graph", "replay"]
    assert len(result) == events.index("enter graph") + 2, "what the captured run returned"


def test_without_a_plugin_no_decoding_step_is_captured() -> None:
    model, _ = setting("cpu", 0.0)
    assert graph_decoding.reference(model) is False


@pytest.mark.parametrize("least", [1, 16])
def test_a_dimension_takes_the_next_of_four_sizes_for_every_doubling(least: int) -> None:
    sizes = {n << j for j in range(12) for n in (5, 6, 7, 8)} | {1, 2, 3, 4}
    allowed = sorted(size for size in sizes if size % least == 0)
    for n in range(1, 3000):
        assert bucket_size(n, torch.device("cuda"), least) == next(size for size in allowed if size >= n)
        assert bucket_size(n, torch.device("cpu"), least) == n
    assert bucket_size(1, torch.device("cuda")) == 1
