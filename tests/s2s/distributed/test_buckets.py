"""Gradients in few messages: which parameters go together, and what is left afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from s2s.distributed import make_buckets

if TYPE_CHECKING:
    import pytest


def test_neighbours_of_one_type_go_together_up_to_32_mib() -> None:
    mib = 2**20
    sizes = [(12, torch.float32), (20, torch.float32), (1, torch.float32), (2, torch.bfloat16), (99, torch.bfloat16)]
    parameters = [
        nn.Parameter(torch.empty(n * mib // dtype.itemsize, dtype=dtype, device="meta")) for n, dtype in sizes
    ]
    groups = [[p.nbytes // mib for p in bucket.parameters] for bucket in make_buckets(parameters)]
    assert groups == [[12, 20], [1], [2], [99]]


def test_sums_become_the_gradients_and_leave_no_memory_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one parameter this rank has no gradient; what other ranks have is added while it waits."""
    parameters = [nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(3))]
    parameters[0].grad = torch.tensor([[0.0, 1.0], [2.0, 3.0]]).T
    others = torch.tensor([0.0, 1.0, 0.0, 1.0, 4.0, 5.0, 6.0])

    def all_reduce(flat: Tensor, *, async_op: bool) -> Any:
        return SimpleNamespace(wait=lambda: flat.add_(others)) if async_op else None

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    (bucket,) = make_buckets(parameters)
    assert bucket.flat.untyped_storage().nbytes() == 0
    bucket.start_reduce()
    assert [p.grad.tolist() for p in parameters if p.grad is not None] == [[[0, 2], [1, 3]], [0, 0, 0]]
    bucket.finish_reduce()
    assert [p.grad.tolist() for p in parameters if p.grad is not None] == [[[0, 3], [1, 4]], [4, 5, 6]]
    assert bucket.flat.untyped_storage().nbytes() == 0
    assert bucket.work is None
