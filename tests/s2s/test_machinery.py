"""By which means a run computes, what is said of it, and that the means change nothing."""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from s2s.batch import make_batch
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.errors import ConfigError
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.nn.machinery import Machinery, Taken
from s2s.nn.recompute import recompute_layers
from s2s.packing import Capacity, pack
from s2s.task import Vocab
from s2s.training.train_step import TrainStep
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
ABLE, UNABLE = SimpleNamespace(packs=True), SimpleNamespace(packs=False)
VOCAB = Vocab(src=20, tgt=20, joint=True)


def chosen(device: torch.device, model: object = ABLE, n: int = 1, **train: object) -> Machinery:
    config = TrainConfig(**train)  # type: ignore[arg-type]
    return Machinery.choose(config, model, ABLE, device, n_processes=n, longest=256)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: (9, 0))


def test_a_cpu_takes_rectangles_and_no_graph() -> None:
    means = chosen(CPU)
    assert not means.packed.taken
    assert not means.graph.taken
    assert means.capacity(100) is None


@pytest.mark.usefixtures("hopper")
def test_a_gpu_takes_one_shape_and_a_graph_in_bf16() -> None:
    means = chosen(CUDA, precision="bf16")
    assert means.packed.taken
    assert means.graph.taken
    assert means.capacity(1000) == Capacity(1000, 256)
    assert any("CUDA graph" in line for line in means.facts(CUDA))


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"precision": "fp32"}, "16-bit"),
        ({"precision": "bf16", "model": UNABLE}, "takes no other"),
        ({"precision": "bf16", "packed": False}, "as asked"),
    ],
)
def test_whatever_is_in_the_way_of_packing_is_named(own: dict[str, object], reason: str) -> None:
    means = chosen(CUDA, **own)  # type: ignore[arg-type]
    assert not means.packed.taken
    assert not means.graph.taken
    assert reason in means.packed.why


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"n": 2}, "several processes"),
        ({"precision": "fp16"}, "fp16"),
        ({"activations": "recompute"}, "recomputing"),
        ({"graph": False}, "as asked"),
    ],
)
def test_whatever_is_in_the_way_of_a_graph_is_named(own: dict[str, object], reason: str) -> None:
    means = chosen(CUDA, **{"precision": "bf16", **own})  # type: ignore[arg-type]
    assert means.packed.taken
    assert not means.graph.taken
    assert reason in means.graph.why


@pytest.mark.usefixtures("hopper")
def test_without_flash_attention_shapes_are_as_batches_need_them() -> None:
    """A rectangle of the largest shape would be mostly empty."""
    means = chosen(CUDA, packed=True)
    assert means.packed.taken
    assert means.capacity(1000) is None
    assert "not constant" in means.graph.why


@pytest.mark.parametrize(("own", "packs"), [({}, True), ({"attention_dropout": 0.1}, False), ({"d_v": 8}, False)])
def test_the_transformer_packs_what_flash_attention_takes(own: dict[str, float], packs: bool) -> None:
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=8, n_heads=4, **own)  # type: ignore[arg-type]
    assert Transformer(config, VOCAB).packs == packs


def net(dropout: float = 0.1) -> Transformer:
    torch.manual_seed(1)
    small = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 16, "d_ff": 32, "n_heads": 2}
    return Transformer(TransformerConfig(**small, dropout=dropout), VOCAB)


def gradients(model: nn.Module) -> list[torch.Tensor]:
    torch.manual_seed(2)
    batch = make_batch([([5, 6, 7], [8, 9]), ([4], [11, 12, 13, 14])], VOCAB)
    LabelSmoothed(LabelSmoothedConfig())(model, batch).loss.backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def test_what_is_computed_again_is_the_same() -> None:
    plain, again = net(), net()
    recompute_layers(again)
    for one, other in zip(gradients(again), gradients(plain), strict=True):
        assert torch.equal(one, other)


def test_layers_run_twice_in_training_and_once_otherwise() -> None:
    model, runs = net(), []
    for layer in [*model.encoder, *model.decoder]:
        layer.feed_forward.register_forward_hook(lambda *_: runs.append(1))
    recompute_layers(model)
    gradients(model)
    assert len(runs) == 8
    runs.clear()
    gradients(model.eval())
    assert len(runs) == 4


def compiled_updater(**train: object) -> TrainStep:
    """With the constant shapes that a GPU would get."""
    torch._dynamo.reset()
    model, config = net(), TrainConfig(tokens=60, compile=True, **train)  # type: ignore[arg-type]
    means = Machinery.choose(config, model, ABLE, CPU, longest=12)
    means = dataclasses.replace(means, packed=Taken(True, ""), longest=12)
    model.compile(backend="eager", dynamic=False, fullgraph=True)
    loss, optimizer = LabelSmoothed(LabelSmoothedConfig()), torch.optim.SGD(model.parameters())
    return TrainStep(config, 1, VOCAB, model, loss, optimizer, lambda _: 0.1, World(), machinery=means)


BATCHES = [[([5, 6, 7], [8, 9])] * 3, [([4], [11, 12, 13, 14]), ([9, 9], [7])], [([8], [6, 6])]]
LONGER = [([5] * 20, [6] * 20)]


def test_a_run_fails_where_a_batch_is_compiled_anew() -> None:
    update = compiled_updater(recompile="fail")
    for step, pairs in enumerate(BATCHES, 1):
        assert update(pairs, step).finite
    with pytest.raises(ConfigError, match="recompile=fail"):
        update(LONGER, 4)
    torch._dynamo.reset()


def test_a_run_may_go_on_and_compile() -> None:
    update = compiled_updater()
    for step, pairs in enumerate([*BATCHES, LONGER], 1):
        assert update(pairs, step).finite
    torch._dynamo.reset()


def test_batches_of_one_shape_are_compiled_once() -> None:
    """Whole, without a break; more than one graph would mean that every other batch waits for the compiler."""
    torch._dynamo.reset()
    model, capacity = net(0.0), Capacity(60, 12)
    expected = copy.deepcopy(model)
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph)
        return graph.forward

    model.compile(backend=backend, dynamic=False, fullgraph=True)
    for pairs in ([([5, 6, 7], [8, 9])] * 3, [([4], [11, 12, 13, 14]), ([9, 9], [7])], [([8], [6, 6])]):
        batch = pack(pairs, VOCAB, capacity)
        torch.testing.assert_close(model(*batch.inputs), expected(*batch.inputs))
    assert len(graphs) == 1
    torch._dynamo.reset()
