"""Updates recorded whole, the optimizer's step included, against the plain ones."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from s2s.backend.selection import BackendSelection, Decision
from s2s.config import TrainConfig
from s2s.distributed import World
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.optim import optimizer_step as module
from s2s.optim.optimizer_step import CUDAGraphOptimizerStep, OptimizerStep
from s2s.task import Vocab
from s2s.training.batch_plan import BatchPlan
from s2s.training.train_step import TrainStep
from s2s_optim import AdamConfig, AdamWConfig
from s2s_optim.build import adam, adamw
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

VOCAB = Vocab(src=20, tgt=20, joint=True)
BATCHES = [[([5, 6, 7], [8, 9])] * 3, [([4], [11, 12, 13, 14]), ([9, 9], [7])], [([8, 8, 8, 8], [6])]] * 2
CPU = torch.device("cpu")
EPS = 1e-4
"""So much that Adam makes no steps of what is rounded: the gradient of a key's bias is 0"""


def again(function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """A recorder for any device, which as a graph does writes each run's result over the first's."""
    result = function()

    def replay() -> None:
        result.copy_(function())

    return replay, result


def train_step(device: torch.device = CPU, *, recorded: bool, decays: bool = False, **train: Any) -> TrainStep:
    """With batches of one shape."""
    torch.manual_seed(1)
    small = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=16, d_ff=32, n_heads=2)
    model = Transformer(small, VOCAB).to(device)
    parameters = list(model.parameters())
    optimizer = adamw(AdamWConfig(eps=EPS), parameters) if decays else adam(AdamConfig(eps=EPS), parameters)
    backend = dataclasses.replace(
        BackendSelection(), packed=Decision(True, ""), max_len=12, cuda_graph=Decision(recorded, "")
    )
    precision = "fp32" if device == CPU else "bf16"
    return TrainStep(
        TrainConfig(tokens=60, precision=precision, **train),
        seed=1,
        vocab=VOCAB,
        model=model,
        objective=LabelSmoothed(LabelSmoothedConfig()),
        optimizer=optimizer,
        schedule=lambda step: 1e-3 / step,
        world=World(device=device),
        backend=backend,
    )


def check_equal(one: TrainStep, other: TrainStep) -> None:
    for (name, p), (_, q) in zip(one.model.named_parameters(), other.model.named_parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-7, msg=lambda m, name=name: f"{name}: {m}")


def check(device: torch.device, *, decays: bool, clip: float | None) -> None:
    plain, recorded = (train_step(device, recorded=r, decays=decays, clip=clip) for r in (False, True))
    assert isinstance(recorded.optimizer_step, CUDAGraphOptimizerStep)
    for step, batch in enumerate(BATCHES, 1):
        expected, found = plain(batch, step), recorded(batch, step)
        assert found.gnorm == pytest.approx(expected.gnorm, rel=1e-5)
        assert found.lr == expected.lr
        check_equal(recorded, plain)


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.backend.core_devices.CPU.capture", lambda _, function: again(function))


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize(("decays", "clip"), [(False, None), (True, 0.1)], ids=["adam", "adamw clipped"])
def test_a_recorded_update_is_the_plain_one(decays: bool, clip: float | None) -> None:
    check(CPU, decays=decays, clip=clip)


@pytest.mark.gpu
@pytest.mark.parametrize(("decays", "clip"), [(False, None), (True, 0.1)], ids=["adam", "adamw clipped"])
def test_so_it_is_as_a_cuda_graph(decays: bool, clip: float | None) -> None:
    check(torch.device("cuda"), decays=decays, clip=clip)


@pytest.mark.usefixtures("by_hand")
def test_what_is_not_finite_changes_nothing_and_the_next_update_goes_on() -> None:
    """Neither weights nor means nor Adam's count of steps."""
    plain, recorded = train_step(recorded=False), train_step(recorded=True)
    handles: list[Any] = []
    for step, batch in enumerate(BATCHES, 1):
        for update in (plain, recorded):
            if step == 3:
                weight = update.model.get_parameter("encoder.0.feed_forward.inner.weight")
                handles.append(weight.register_hook(lambda g: g * math.nan))
            before = copy.deepcopy(update.optimizer.state_dict()["state"]) if step == 3 else None
            assert update(batch, step).is_finite == (step != 3)
            if before is not None:
                torch.testing.assert_close(update.optimizer.state_dict()["state"], before, rtol=0, atol=0)
                handles.pop().remove()
        check_equal(recorded, plain)


@pytest.mark.usefixtures("by_hand")
def test_a_run_that_is_continued_steps_with_the_state_that_was_loaded() -> None:
    """A probe may have recorded before; and a checkpoint says nothing of how steps were taken."""
    whole, parts, plain = train_step(recorded=True), train_step(recorded=True), train_step(recorded=False)
    for step, batch in enumerate(BATCHES[:2], 1):
        whole(batch, step)
        plain(batch, step)
    for saved, other in zip(
        whole.optimizer.state_dict()["param_groups"], plain.optimizer.state_dict()["param_groups"], strict=True
    ):
        assert saved.keys() == other.keys()
        assert not any(isinstance(value, torch.Tensor) for value in saved.values())
        assert saved["capturable"] is False
    parts.trial(BATCHES[0], BatchPlan(parts.config.n_tokens))
    parts.model.load_state_dict(whole.model.state_dict())
    parts.optimizer.load_state_dict(copy.deepcopy(whole.optimizer.state_dict()))
    for step, batch in enumerate(BATCHES[2:], 3):
        whole(batch, step)
        parts(batch, step)
        check_equal(parts, whole)


@pytest.mark.usefixtures("by_hand")
def test_smaller_parts_are_recorded_anew() -> None:
    plain, recorded = train_step(recorded=False), train_step(recorded=True)
    for step, batch in enumerate(BATCHES, 1):
        if step == 2:
            plain._split_further()
            recorded._split_further()
        plain(batch, step)
        recorded(batch, step)
        check_equal(recorded, plain)


class Noting(torch.optim.Adam):
    """Notes with which options it steps."""

    def __init__(self) -> None:
        super().__init__([torch.nn.Parameter(torch.zeros(2))], 0.1, fused=True)
        self.seen: list[dict[str, Any]] = []

    def step(self, closure: Any = None) -> None:
        own: Any = self
        group = self.param_groups[0]
        self.seen.append({"lr": group["lr"], "capturable": group["capturable"], "found_inf": float(own.found_inf)})


def test_a_captured_step_takes_its_options_as_tensors_and_leaves_none_behind() -> None:
    optimizer = Noting()
    step = CUDAGraphOptimizerStep(optimizer, None, torch.amp.GradScaler(enabled=False), lambda _: torch.ones(()), again)
    step.prepare()
    assert optimizer.seen == [{"lr": step.lr, "capturable": True, "found_inf": 1.0}], "captured without an update"
    assert step(torch.tensor([3.0, 2.0]), 0.25).tolist() == [3, 2, 1], "the sums, and the norm"
    assert optimizer.seen[1] == {"lr": step.lr, "capturable": True, "found_inf": 0.0}
    assert float(step.lr) == 0.25
    group = optimizer.param_groups[0]
    assert (group["lr"], group["capturable"], hasattr(optimizer, "found_inf")) == (0.1, False, False)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("bad", ["loss", "norm"])
def test_a_device_skips_what_is_not_finite(
    kind: type[torch.optim.Optimizer], bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And steps otherwise as the host does, bit for bit; on a CPU, the same kernels read the same tensor."""

    def stepped(values: list[float | None], *, on_device: bool) -> tuple[Tensor, Any]:
        monkeypatch.setattr(module, "can_be_stopped", lambda _: on_device)
        parameter = torch.nn.Parameter(torch.ones(3))
        optimizer: Any = kind([parameter], lr=0.1, fused=True)  # type: ignore[call-arg]
        norms = iter(torch.tensor(value or (math.inf if bad == "norm" else 1.0)) for value in values)
        step = OptimizerStep(optimizer, None, torch.amp.GradScaler(enabled=False), lambda _: next(norms))
        assert step.device_decides is on_device
        for number, value in enumerate(values, 1):
            parameter.grad = torch.full((3,), value or math.nan)
            loss = math.nan if value is None and bad == "loss" else 1.0
            assert bool(module.is_finite(step(torch.tensor([loss]), 0.5 / number))) is (value is not None)
        return parameter.detach(), optimizer.state_dict()["state"]

    values = [None, 2.0, None, 3.0]
    found, expected = (stepped(values, on_device=on_device) for on_device in (True, False))
    assert found[0].isfinite().all()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_momentum_is_not_left_to_the_device() -> None:
    """Its first values would be arbitrary."""
    parameters = [torch.nn.Parameter(torch.zeros(2))]
    assert module.skips(torch.optim.SGD(parameters, 0.1, fused=True))
    assert not module.skips(torch.optim.SGD(parameters, 0.1, momentum=0.9, fused=True))
    assert not module.skips(torch.optim.Adadelta(parameters))


def test_an_optimizer_that_no_tensor_can_stop_is_left_to_the_host() -> None:
    parameters = [torch.nn.Parameter(torch.zeros(2))]
    assert CUDAGraphOptimizerStep.supports(adam(AdamConfig(), parameters))
    assert not CUDAGraphOptimizerStep.supports(torch.optim.Adam(parameters, fused=False, foreach=False))
    assert not CUDAGraphOptimizerStep.supports(torch.optim.SGD(parameters, 0.1, fused=True))
    assert issubclass(CUDAGraphOptimizerStep, OptimizerStep)
