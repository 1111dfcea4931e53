"""Experts divided over ranks: they learn and save the same as one process with all experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

from harness.sorting_runs import outcome, records, train, train_in_ranks
from s2s.distributed import World
from s2s.errors import ConfigError
from s2s_moe.expert_parallel import ExpertParallel, owners

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

MIXTURE = [
    "arch=mixture",
    "arch.of={name: transformer, n_encoder_layers: 1, n_decoder_layers: 1, d_ff: 16, n_heads: 2, dropout: 0.0}",
    "arch.d_model=16",
    "arch.n_experts=5",
    "arch.every=1",
    "train.steps=4",
    "train.clip=0.5",
    "valid.every=2",
    "checkpoint.every=2",
]
SGD = ["optim=sgd", "schedule.lr=0.1", "optim.momentum=0.9"]
EXPERTS = "train.strategy=experts"


def in_ranks(folder: Path, size: int, *arguments: str) -> None:
    codes = train_in_ranks(folder, size, *MIXTURE, *arguments, EXPERTS)
    assert codes == [0] * size, (folder.parent / f"{folder.name}.log").read_text()


def assert_same(folder: Path, expected: Path, files: list[str], tolerance: float = 1e-6) -> None:
    for file in files:
        ours, theirs = (load_file(path / "run" / "checkpoints" / file) for path in (folder, expected))
        assert {name: t.shape for name, t in ours.items()} == {name: t.shape for name, t in theirs.items()}
        for name, tensor in ours.items():
            torch.testing.assert_close(tensor, theirs[name], rtol=0, atol=tolerance, msg=f"{file} {name}")


def test_divided_experts_learn_and_save_what_one_process_does(tmp_path: Path) -> None:
    """Two micro-batches an update, five experts on two ranks, noisy gates, a clipped gradient, EMA, validation."""
    common = [*SGD, "train.ema=0.9"]
    assert train(tmp_path / "one", *MIXTURE, *common) == 0
    in_ranks(tmp_path / "two", 2, *common)
    assert_same(tmp_path / "two", tmp_path / "one", [f"step-000004/{n}.safetensors" for n in ("model", "optim", "ema")])
    for kind, keys in (("update", ["loss", "gnorm", "balance", "max_load"]), ("valid", ["nll"])):
        found, wanted = (records(tmp_path / name / "run", kind, *keys) for name in ("two", "one"))
        torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), rtol=1e-5, atol=1e-6)
    assert outcome(tmp_path / "two")["best"] == outcome(tmp_path / "one")["best"]


def test_a_run_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    """Three ranks, of which some have no pair of their own, then one process; Adam, whose state is divided, too.

    Without noise in the gates, which is drawn for each micro-batch: three ranks need three of them.
    """
    quiet = ["arch.noisy=false", "arch.load=0", "arch.importance=0.1"]
    common = [*quiet, "optim.eps=1e-3", "train.tokens=24", "train.micro_tokens=24", "valid.every=0"]
    assert train(tmp_path / "one", *MIXTURE, *common) == 0
    in_ranks(tmp_path / "mixed", 3, *common, "train.steps=2")
    assert train(tmp_path / "mixed", *MIXTURE, *common, "train.steps=3") == 0
    in_ranks(tmp_path / "mixed", 2, *common)
    assert_same(tmp_path / "mixed", tmp_path / "one", [f"step-000004/{n}.safetensors" for n in ("model", "optim")])


@pytest.mark.slow
def test_bf16_comes_near_one_process(tmp_path: Path) -> None:
    common = [*SGD, "train.precision=bf16", "valid.every=0"]
    assert train(tmp_path / "one", *MIXTURE, *common) == 0
    in_ranks(tmp_path / "two", 2, *common)
    assert_same(tmp_path / "two", tmp_path / "one", ["step-000004/model.safetensors"], 5e-3)


@pytest.mark.parametrize(("experts", "ranks"), [(5, 2), (8, 8), (7, 3)])
def test_experts_are_divided_evenly_between_neighbours(experts: int, ranks: int) -> None:
    found = owners(experts, ranks)
    assert found == sorted(found)
    shares = [found.count(rank) for rank in range(ranks)]
    assert sum(shares) == experts
    assert max(shares) - min(shares) <= 1


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"3 processes, and arch.n_experts=2"):
        owners(2, 3)
    with pytest.raises(ConfigError, match="has no mixture of experts"):
        ExpertParallel(World(), torch.float32).wrap(torch.nn.Linear(2, 2))
    with pytest.raises(ConfigError, match=r"give train.precision=bf16"):
        ExpertParallel(World(), torch.float16)
