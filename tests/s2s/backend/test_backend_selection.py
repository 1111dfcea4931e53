"""Which backend a run computes with, how it is reported, and that the choice changes no result."""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from s2s.backend.selection import BackendSelection, Decision, as_in_training
from s2s.batch import make_batch
from s2s.config import TrainConfig
from s2s.data.packing import Capacity, pack
from s2s.distributed import World
from s2s.errors import ConfigError
from s2s.nn import LabelSmoothedConfig
from s2s.nn.activation_checkpointing import checkpoint_activations
from s2s.nn.loss import LabelSmoothed
from s2s.task import Vocab
from s2s.training.train_step import TrainStep
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
ABLE, UNABLE = SimpleNamespace(supports_packing=True, supports_cuda_graph=True), SimpleNamespace(supports_packing=False)
VOCAB = Vocab(src=20, tgt=20, joint=True)


def chosen(device: torch.device, model: object = ABLE, n: int = 1, **train: object) -> BackendSelection:
    config = TrainConfig(**train)  # type: ignore[arg-type]
    return BackendSelection.select(config, model, ABLE, device, n_processes=n, longest=256)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: (9, 0))


def test_a_cpu_takes_rectangles_and_no_graph() -> None:
    backend = chosen(CPU)
    assert not backend.packed.enabled
    assert not backend.cuda_graph.enabled
    assert not backend.static_shapes


@pytest.mark.usefixtures("hopper")
def test_a_gpu_takes_one_shape_and_a_graph_in_bf16() -> None:
    backend = chosen(CUDA, precision="bf16")
    assert backend.packed.enabled
    assert backend.cuda_graph.enabled
    assert backend.max_len == 256
    assert any("CUDA graph" in line for line in backend.describe(CUDA))


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"precision": "fp32"}, "16-bit"),
        ({"precision": "bf16", "model": UNABLE}, "padded batches only"),
        ({"precision": "bf16", "packed": False}, "as configured"),
    ],
)
def test_whatever_is_in_the_way_of_packing_is_named(own: dict[str, object], reason: str) -> None:
    backend = chosen(CUDA, **own)  # type: ignore[arg-type]
    assert not backend.packed.enabled
    assert not backend.cuda_graph.enabled
    assert reason in backend.packed.reason


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"n": 2}, "several processes"),
        ({"precision": "fp16"}, "fp16"),
        ({"activations": "recompute"}, "activation checkpointing"),
        ({"graph": False}, "as configured"),
    ],
)
def test_whatever_is_in_the_way_of_a_graph_is_named(own: dict[str, object], reason: str) -> None:
    backend = chosen(CUDA, **{"precision": "bf16", **own})  # type: ignore[arg-type]
    assert backend.packed.enabled
    assert not backend.cuda_graph.enabled
    assert reason in backend.cuda_graph.reason


@pytest.mark.usefixtures("hopper")
def test_without_flash_attention_shapes_are_as_batches_need_them() -> None:
    """A rectangle of the largest shape would be mostly empty."""
    backend = chosen(CUDA, packed=True)
    assert backend.packed.enabled
    assert not backend.static_shapes
    assert "not static" in backend.cuda_graph.reason


@pytest.mark.parametrize(("own", "packs"), [({}, True), ({"attention_dropout": 0.1}, False), ({"d_v": 8}, False)])
def test_the_transformer_packs_what_flash_attention_takes(own: dict[str, float], packs: bool) -> None:
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=8, n_heads=4, **own)  # type: ignore[arg-type]
    assert Transformer(config, VOCAB).supports_packing == packs


def test_a_measurement_has_the_threads_and_the_products_of_training() -> None:
    products = torch.backends.mkldnn.matmul
    before = torch.get_num_threads(), products.fp32_precision
    with as_in_training(TrainConfig(threads=before[0] + 1, matmul="onednn"), torch.device("cpu")):
        assert (torch.get_num_threads(), products.fp32_precision) == (before[0] + 1, "bf16")
    assert (torch.get_num_threads(), products.fp32_precision) == before


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
    checkpoint_activations(again)
    for one, other in zip(gradients(again), gradients(plain), strict=True):
        assert torch.equal(one, other)


def test_layers_run_twice_in_training_and_once_otherwise() -> None:
    model, runs = net(), []
    for layer in [*model.encoder, *model.decoder]:
        layer.feed_forward.register_forward_hook(lambda *_: runs.append(1))
    checkpoint_activations(model)
    gradients(model)
    assert len(runs) == 8
    runs.clear()
    gradients(model.eval())
    assert len(runs) == 4


def compiled_train_step(**train: object) -> TrainStep:
    """With the constant shapes that a GPU would get."""
    torch._dynamo.reset()
    model, config = net(), TrainConfig(tokens=60, compile=True, **train)  # type: ignore[arg-type]
    backend = BackendSelection.select(config, model, ABLE, CPU, n_processes=1, longest=12)
    backend = dataclasses.replace(backend, packed=Decision(True, ""), max_len=12)
    model.compile(backend="eager", dynamic=False, fullgraph=True)
    loss, optimizer = LabelSmoothed(LabelSmoothedConfig()), torch.optim.SGD(model.parameters())
    return TrainStep(config, 1, VOCAB, model, loss, optimizer, lambda _: 0.1, World(), backend=backend)


BATCHES = [[([5, 6, 7], [8, 9])] * 3, [([4], [11, 12, 13, 14]), ([9, 9], [7])], [([8], [6, 6])]]
LONGER = [([5] * 20, [6] * 20)]


def test_a_run_fails_where_a_batch_is_compiled_anew() -> None:
    update = compiled_train_step(recompile="fail")
    for step, pairs in enumerate(BATCHES, 1):
        assert update(pairs, step).is_finite
    with pytest.raises(ConfigError, match="recompile=fail"):
        update(LONGER, 4)
    torch._dynamo.reset()


def test_a_run_may_go_on_and_compile() -> None:
    update = compiled_train_step()
    for step, pairs in enumerate([*BATCHES, LONGER], 1):
        assert update(pairs, step).is_finite
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


@pytest.mark.parametrize(
    ("backend", "lines"),
    [
        (BackendSelection(), ["batches padded: default"]),
        (
            BackendSelection(packed=Decision(True, "why"), max_len=9, compiled=True, fail_on_recompile=True),
            ["batches packed, of one static shape: why", "model compiled, static shapes, once"],
        ),
        (BackendSelection(compiled=True), ["batches padded: default", "model compiled"]),
        (
            BackendSelection(activation_checkpointing=True),
            ["batches padded: default", "activation checkpointing: layers are computed again in backward"],
        ),
    ],
)
def test_each_selection_is_described_in_a_line(backend: BackendSelection, lines: list[str]) -> None:
    own, rest = list(backend.describe(CPU))[:2], list(backend.describe(CPU))[2:]
    assert [line.partition(" by ")[0] for line in own] == ["fp32 matmul", "loss, dropout and norms"]
    assert rest == lines
    on_gpu = list(backend.describe(CUDA))
    assert on_gpu == [lines[0], "eager forward and backward: default", *lines[1:]]
    graph = dataclasses.replace(backend, cuda_graph=Decision(True, "fast"))
    assert list(graph.describe(CUDA))[1] == "a CUDA graph of forward and backward: fast"


@pytest.mark.usefixtures("hopper")
def test_what_does_not_say_that_it_packs_or_can_be_captured_does_not() -> None:
    plain, config = SimpleNamespace(), TrainConfig(precision="bf16")
    for model, objective in ((plain, ABLE), (ABLE, plain)):
        backend = BackendSelection.select(config, model, objective, CUDA, n_processes=1, longest=256)
        assert backend.packed == Decision(False, "this model or objective supports padded batches only")
    uncaptured = SimpleNamespace(supports_packing=True)
    backend = BackendSelection.select(config, ABLE, uncaptured, CUDA, n_processes=1, longest=256)
    assert backend.cuda_graph == Decision(False, "the objective cannot be captured")


def test_any_length_given_makes_shapes_static() -> None:
    assert not BackendSelection().static_shapes
    assert BackendSelection(max_len=1).static_shapes


@pytest.mark.parametrize(("recompile", "fails"), [("fail", True), ("allow", False)])
def test_only_what_is_compiled_can_fail_to_recompile(recompile: str, fails: bool) -> None:
    backend = chosen(CPU, compile=True, recompile=recompile, activations="recompute")
    assert (backend.compiled, backend.fail_on_recompile) == (True, fails)
    assert backend.activation_checkpointing
    plain = chosen(CPU)
    assert (plain.compiled, plain.fail_on_recompile, plain.activation_checkpointing) == (False, False, False)
