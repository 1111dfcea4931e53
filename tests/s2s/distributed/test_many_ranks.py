"""Every rank of a large world makes the same collectives in the same order: otherwise all would wait for ever.

Each rank is a whole s2s-train by itself (`pretend_ranks`), of which a few are recorded. What the others send is not
known, and no weight or loss is right; ranks that read what rank 0 has written, or score unequal parts of the
development set, are left to the tests with real processes.
"""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import torch
from torch import nn

from harness.pretend_ranks import Sent, first_difference, in_group, record
from harness.sorting_runs import records, train
from s2s_moe.exchange import Exchange
from s2s_moe.expert_parallel import owners

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

COMMON = [
    *("arch.n_encoder_layers=1", "arch.n_decoder_layers=1", "search.max_len_b=4", "search.max_len_a=0"),
    *("train.steps=2", "train.micro_tokens=20", "valid.every=2", "checkpoint.every=0", "--quiet"),
]
FSDP = ["train.strategy=fsdp"]
EXPERTS = [
    "arch=mixture",
    "arch.of={name: transformer, n_encoder_layers: 1, n_decoder_layers: 1, d_ff: 4, n_heads: 2, dropout: 0.0}",
    "arch.d_model=8",
    "arch.every=1",
    "train.strategy=experts",
]
NO_REPORT = patch("s2s_report.command.write_training_report")  # whose figures take longer than all else
STRATEGIES = {"ddp": [], "fsdp": FSDP, "experts": [*EXPERTS, "arch.n_experts=8"]}


def sent_by(
    folder: Path,
    ranks: Sequence[int],
    size: int,
    *arguments: str,
    start: Path | None = None,
    env: Mapping[int, dict[str, str]] | None = None,
    changed: Mapping[int, AbstractContextManager[Any]] | None = None,
    code: int = 0,
    passes: int = 2,
) -> dict[int, Sent]:
    """What these ranks of so many send. start: a run to continue. env, changed: what is different for one rank."""
    common = [option for option in COMMON if "strategy=experts" not in " ".join(arguments) or "layers" not in option]
    everyone = [*common, f"valid.sentences={size}", f"valid.score={str(size <= 64).lower()}", *arguments]

    def run(rank: int) -> None:
        if rank == max(ranks):  # the first of a pass
            shutil.rmtree(folder, ignore_errors=True)
            if start:
                shutil.copytree(start, folder, symlinks=True)
        with patch.dict(os.environ, (env or {}).get(rank, {})), (changed or {}).get(rank, nullcontext()), NO_REPORT:
            codes[rank] = train(folder, *everyone)

    codes: dict[int, int] = {}
    sent = record(run, ranks, size, passes)
    assert codes == dict.fromkeys(codes, code)
    return sent


@pytest.mark.parametrize(
    ("strategy", "ranks", "size"),
    [
        ("ddp", (0, 63), 64),
        ("fsdp", (0, 63), 64),
        ("experts", (0, 1), 2),
        *(pytest.param(name, tuple(range(8)), 8, marks=pytest.mark.slow) for name in STRATEGIES),
        *(pytest.param(name, (0, 1, 31, 32, 62, 63), 64, marks=pytest.mark.slow) for name in ("ddp", "fsdp")),
        *(pytest.param(name, (0, 1, 511, 1022, 1023), 1024, marks=pytest.mark.slow) for name in ("ddp", "fsdp")),
    ],
)
def test_all_ranks_make_the_same_collectives(tmp_path: Path, strategy: str, ranks: tuple[int, ...], size: int) -> None:
    """Most ranks of many have no pair in a batch of some ten; each micro-batch has another shape."""
    sent = sent_by(tmp_path / "a", ranks, size, *STRATEGIES[strategy])
    assert first_difference(sent) == ""
    kinds = {one.kind for one in sent[0].collectives}
    own = {"ddp": "all_reduce", "fsdp": "reduce_scatter_single", "experts": "all_to_all_single"}
    assert own[strategy] in kinds


def test_ranks_that_divide_gradients_differently_are_found(tmp_path: Path) -> None:
    """The comparison would otherwise prove nothing."""
    changed = {1: patch("s2s.distributed.buckets.BUCKET_BYTES", 1000)}
    assert "rank 0 has" in first_difference(sent_by(tmp_path / "a", (0, 1), 8, changed=changed))


@pytest.mark.slow
def test_a_rank_that_saves_by_its_own_clock_is_found(tmp_path: Path) -> None:
    changed = {1: patch("s2s.training.trainer.Trainer.save_is_due", lambda _: True)}
    assert first_difference(sent_by(tmp_path / "a", (0, 1), 8, *FSDP, changed=changed))


@pytest.mark.slow
def test_a_rank_that_runs_out_of_memory_does_not_part_from_the_others(tmp_path: Path) -> None:
    """They divide the batch further together, and make the same collectives once more."""
    whole = ["train.micro_tokens=1000", "train.tokens=240", "valid.every=0"]
    plain = sent_by(tmp_path / "a", (0, 1), 2, *whole)
    sent = sent_by(tmp_path / "a", (0, 1), 2, *whole, env={1: {"MEMORY": "60"}})
    assert first_difference(sent) == ""
    assert len(sent[0].collectives) > len(plain[0].collectives)


@pytest.mark.slow
def test_an_update_that_is_not_finite_on_one_rank_is_skipped_by_all(tmp_path: Path) -> None:
    sent = sent_by(tmp_path / "a", (0, 1), 8, "train.steps=3", env={1: {"SPOIL": "2"}})
    assert first_difference(sent) == ""
    assert (tmp_path / "a" / "run" / "bad_batches.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_signal_to_one_rank_ends_all_after_the_same_collectives(tmp_path: Path, strategy: str) -> None:
    own = {1: {"SIGNAL": "TERM updating 1"}}
    sent = sent_by(tmp_path / "a", (0, 1, 2), 3, *STRATEGIES[strategy], env=own, code=75, passes=3)
    assert first_difference(sent) == ""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_run_goes_on_in_step_with_more_and_with_fewer_ranks(tmp_path: Path, strategy: str) -> None:
    """As torchrun starts it again where machines have come or gone."""
    options = STRATEGIES[strategy]
    sent_by(tmp_path / "eight", (0, 7), 8, *options)
    for size in (3, 64):
        folder = tmp_path / str(size)
        shared = ["train.steps=4", "valid.score=false"]
        sent = sent_by(folder, (0, 1, size - 1), size, *options, *shared, start=tmp_path / "eight")
        assert first_difference(sent) == ""
        assert [step for (step,) in records(folder / "run", "update", "step")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("ranks", "size"), [(range(8), 8), pytest.param((0, 1, 511, 1023), 1024, marks=pytest.mark.slow)]
)
def test_what_a_rank_sends_to_experts_is_what_another_expects(ranks: Sequence[int], size: int) -> None:
    """Tokens per expert differ from rank to rank, and some ranks have none."""
    draw, n_experts = torch.Generator().manual_seed(1), size + 3
    counts = {rank: torch.randint(0, 3, (n_experts,), generator=draw) * (rank % 5 != 1) for rank in range(size)}
    earlier = {rank: Sent(small={("all_gather", 0): own}) for rank, own in counts.items()}
    splits: dict[int, list[tuple[list[int], list[int]]]] = {}
    experts = nn.ModuleList(nn.Identity() for _ in range(n_experts))
    for rank in ranks:
        with in_group(rank, size, earlier) as (world, sent):
            x = torch.ones(int(counts[rank].sum()), 4)
            assert Exchange(world, owners(n_experts, size))(experts, x, counts[rank]).shape == x.shape
        splits[rank] = sent.splits
    for one in ranks:
        for other in ranks:
            for (sent_rows, _), (_, received) in zip(splits[one], splits[other], strict=True):
                assert sent_rows[other] == received[one]
