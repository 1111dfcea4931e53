"""Gradients in few messages: which parameters go together, and what is left afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from s2s.distributed import make_buckets

if TYPE_CHECKING:
    import pytest


def test_neighbours_of_one_type_go_together_as_far_as_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.distributed.buckets.BUCKET_BYTES", 40)
    sizes = [(4, torch.float32), (6, torch.float32), (1, torch.float32), (2, torch.bfloat16), (99, torch.bfloat16)]
    parameters = [nn.Parameter(torch.ones(n, dtype=dtype)) for n, dtype in sizes]
    groups = [[p.numel() for p in bucket.parameters] for bucket in make_buckets(parameters)]
    assert groups == [[4, 6], [1], [2], [99]]


def test_all_gradients_are_sent_in_one_message_without_waiting_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient that is None counts as zero; two ranks have the same ones here."""
    parameters = [nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(2))]
    parameters[0].grad, parameters[2].grad = torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([5.0, 6])
    sent = []

    def all_reduce(flat: torch.Tensor, *, async_op: bool) -> Any:
        sent.append((flat.tolist(), async_op))
        flat.mul_(2)
        return SimpleNamespace(wait=lambda: None)

    monkeypatch.setattr("s2s.distributed.buckets.dist.all_reduce", all_reduce)
    (bucket,) = make_buckets(parameters)
    assert bucket.flat.numel() == 0
    bucket.start_reduce()
    assert sent == [([1, 2, 3, 4, 0, 5, 6], True)]
    bucket.finish_reduce()
    assert [p.grad.tolist() for p in parameters if p.grad is not None] == [[[2, 4], [6, 8]], [0], [10, 12]]


def test_sums_become_the_gradients_and_leave_no_memory_behind() -> None:
    parameters = [nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(3))]
    (bucket,) = make_buckets(parameters)
    work: Any = SimpleNamespace(wait=lambda: None)
    bucket.flat, bucket.work = torch.arange(7.0), work
    bucket.finish_reduce()
    assert [p.grad.tolist() for p in parameters if p.grad is not None] == [[[0, 1], [2, 3]], [4, 5, 6]]
    assert bucket.flat.untyped_storage().nbytes() == 0
