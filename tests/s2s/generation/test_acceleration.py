"""How decoding is accelerated, and how that is reported, with a stand-in for the GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from s2s.config import GenerateConfig
from s2s.errors import ConfigError
from s2s.generation import acceleration
from s2s.generation.acceleration import accelerate, resolve_matmul

if TYPE_CHECKING:
    from s2s.generation.models import Models

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
MODELS: Models = SimpleNamespace(model="m", members=["a", "b"], int8={})  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("options", "device", "chosen"),
    [
        ({}, CPU, "auto"),
        ({"output": "file"}, CPU, "by rule"),
        ({"output": "file"}, CUDA, "auto"),
        ({"output": "file", "precision": "bf16"}, CPU, "auto"),
        ({"output": "file", "quantization": "int8"}, CPU, "auto"),
        ({"output": "file", "matmul": "onednn"}, CPU, "onednn"),
        ({"matmul": "exact"}, CPU, "by rule"),
        ({"matmul": "torch"}, CPU, "torch"),
    ],
    ids=str,
)
def test_products_are_timed_only_where_no_other_shard_has_to_agree(
    options: dict[str, Any], device: torch.device, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceleration, "deterministic_backend", lambda _: "by rule")
    assert resolve_matmul(GenerateConfig(**options), None, device) == chosen  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "device", "description"),
    [
        (GenerateConfig(), CUDA, "cuda:0 in fp32, steps of ['a', 'b'] requested=False"),
        (GenerateConfig(graph=True, precision="bf16"), CUDA, "cuda:0 in bf16, steps of ['a', 'b'] requested=True"),
        (GenerateConfig(graph=False, precision="fp16"), CUDA, "cuda:0 in fp16"),
        (GenerateConfig(precision="bf16"), CPU, "cpu in bf16"),
        (GenerateConfig(), CPU, "cpu, C, m by auto, none"),
        (GenerateConfig(matmul="native", quantization="int8", graph=False), CPU, "cpu, C, m by native, int8"),
        (GenerateConfig(workers=2), CPU, "cpu, 2 processes, C, m by auto, none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_description_says_what_was_chosen(
    config: GenerateConfig, device: torch.device, description: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []
    monkeypatch.setattr(acceleration, "keep_freed_memory", lambda: kept.append(True))
    monkeypatch.setattr(acceleration, "capture_steps", lambda models, *, requested: f"steps of {models} {requested=}")
    monkeypatch.setattr(acceleration, "prepack", lambda *arguments: "{} by {}, {}".format(*arguments))
    monkeypatch.setattr(acceleration, "description", lambda: "C")
    assert accelerate(MODELS, device, config) == description
    assert bool(kept) == (device == CPU and config.precision == "fp32")


@pytest.mark.parametrize(
    ("options", "device", "message"),
    [
        ({"quantization": "int8"}, CUDA, "works on a CPU in fp32, but device is cuda:0"),
        ({"quantization": "int8", "precision": "bf16"}, CPU, "and precision=bf16"),
        ({"graph": True}, CPU, "captures steps on a CUDA device, but device is cpu"),
    ],
    ids=str,
)
def test_what_a_device_cannot_do_is_refused(options: dict[str, Any], device: torch.device, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        accelerate(MODELS, device, GenerateConfig(**options))
