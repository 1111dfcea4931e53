"""The references of top_k against a stable sort."""

from __future__ import annotations

import pytest
import torch

from s2s.backend.operators import top_k, top_k_log_probs


class Elsewhere(torch.Tensor):
    """As on a device that must not be synchronised."""

    is_cpu = False  # type: ignore[assignment]


TIED = torch.tensor([[2e-9, 1e-9, 1e-9, 3e-9], [-0.0, 0.0, -1.0, 0.0], [5.0, -2.0, -2.0, -2.0], [0.1, 0.2, 0.3, 0.4]])


@pytest.mark.parametrize("kind", [torch.Tensor, Elsewhere])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 9])
def test_of_equal_values_the_first_comes_first(kind: type[torch.Tensor], n: int) -> None:
    values, index = top_k.reference(TIED.as_subclass(kind), n)
    expected = TIED.sort(dim=-1, descending=True, stable=True)
    assert values.tolist() == expected.values[:, :n].tolist()
    assert index.tolist() == expected.indices[:, :n].tolist()


def test_log_probabilities_are_normalized_unless_they_are_already() -> None:
    logits, none = torch.tensor([[0.0, 2.0, 1.0]]), torch.empty(0, dtype=torch.long)
    torch.testing.assert_close(top_k_log_probs.reference(logits, 2, none)[0], logits.log_softmax(-1)[:, [1, 2]])
    assert top_k_log_probs.reference(logits, 2, none, normalize=False)[0].tolist() == [[2.0, 1.0]]
