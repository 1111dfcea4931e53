"""What each rank holds of weights, gradients and Adam's moments: of meta tensors, as real processes measure it, and by
arithmetic where there are too many ranks for processes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch

from harness.folders import ROOT
from harness.held_memory import held_of_meta_tensors
from harness.sorting_runs import WATCH, train_in_ranks
from s2s.plugin import Plugins, load_plugins
from s2s.run import Run

if TYPE_CHECKING:
    from pathlib import Path

MIXTURE = [
    "arch=mixture", "arch.d_model=8", "arch.every=1", "arch.n_experts=4", "train.strategy=experts",
    "arch.of={name: transformer, n_encoder_layers: 1, n_decoder_layers: 1, d_ff: 4, n_heads: 2, dropout: 0.0}",
]  # fmt: skip
STRATEGIES = {"ddp": ["train.strategy=ddp"], "fsdp": ["train.strategy=fsdp"], "experts": MIXTURE}
COPIES = 4
"""Weights, gradients, and two moments, all in fp32"""


@cache
def plugins() -> Plugins:
    return load_plugins(["s2s_example", str(WATCH)])


def trained(folder: Path, size: int, strategy: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that each of so many processes holds after the last of two updates."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "s2s-example"))
    files = [folder.parent / f"held-{rank}" for rank in range(size)]
    env = {rank: {"HELD": str(file)} for rank, file in enumerate(files)}
    options = [*STRATEGIES[strategy], "train.steps=2", "valid.every=0", "--quiet"]
    assert train_in_ranks(folder, size, *options, env=env) == [0] * size
    return [int(file.read_text()) for file in files]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_meta_tensors_take_what_processes_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, size: int
) -> None:
    measured = trained(tmp_path / "a", size, strategy, monkeypatch)
    of_meta = [held_of_meta_tensors(tmp_path / "a" / "run", rank, size, plugins()) for rank in range(size)]
    assert of_meta == measured
    whole = held_of_meta_tensors(tmp_path / "a" / "run", 0, 1, plugins())
    if strategy == "experts":
        assert max(measured) < whole < sum(measured)
    else:
        assert sum(measured) == whole * (size if strategy == "ddp" else 1)


@pytest.mark.parametrize("size", [8, 64, 1024])
def test_many_ranks_hold_what_arithmetic_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """FSDP divides the rows of each parameter as torch.chunk does; copies of all are held by each rank of ddp."""
    trained(tmp_path / "a", 2, "fsdp", monkeypatch)
    run = tmp_path / "a" / "run"
    config, task = Run.load_task(run, plugins())
    with torch.device("meta"):
        model = plugins().hook.s2s_build_model(config=config, vocab=task.vocab, registry=plugins().registry)
    for rank in (0, 1, size // 2, size - 1):
        expected = 0
        for p in model.parameters():
            rows = -(-len(p) // size)
            n_rows = min(max(len(p) - rank * rows, 0), rows)
            expected += n_rows * (p.numel() // len(p)) * p.element_size()
        assert held_of_meta_tensors(run, rank, size, plugins()) == COPIES * expected
