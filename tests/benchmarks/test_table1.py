"""What Table 1 counts, against closed forms and plain loops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.benchmark_scripts import load_benchmark

if TYPE_CHECKING:
    from pathlib import Path

table1, costs, kinds = map(load_benchmark, ("table1", "layer_costs", "layer_kinds"))
KINDS = kinds.KINDS
N, D, W = 12, 8, 5
OPERATIONS = {
    "self-attention": 2 * 2 * N * N * D,
    "recurrent": 2 * 2 * N * D * D,
    "convolutional": 2 * W * N * D * D,
    "self-attention, restricted": 2 * 2 * W * N * D,
    "self-attention with projections": 2 * 2 * N * N * D + 2 * 4 * N * D * D,
}
"""Two for each multiplication and addition"""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_operations_are_those_of_the_closed_form(kind: Any) -> None:
    assert costs.cost(kind.layer(D, W), N, repeats=1).operations == OPERATIONS[kind.name]


@pytest.mark.parametrize("r", [1, 4, 5])
def test_restricted_attention_is_attention_over_the_neighbours(r: int) -> None:
    x = torch.randn(N, D)
    found = kinds.RestrictedSelfAttention(D, r)(x)
    for i in range(N):
        first = i - (r - 1) // 2
        near = x[max(first, 0) : first + r]
        assert torch.allclose(found[i], (near @ x[i] / math.sqrt(D)).softmax(0) @ near, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "sequential", "path"),
    [
        ("self-attention", [2, 2], [1, 1]),
        ("recurrent", [8, 16], [8, 16]),
        ("convolutional", [1, 1], [7, 15]),
        ("self-attention, restricted", [2, 2], [7, 15]),
    ],
)
def test_sequence_and_paths_are_counted_on_the_graph(name: str, sequential: list[int], path: list[int]) -> None:
    """A window of three positions reaches one further to either side with every layer: n - 1 layers."""
    kind = next(kind for kind in KINDS if kind.name == name)
    layer = kind.layer(4, 3)
    assert [costs.products_in_sequence(layer, n) for n in (8, 16)] == sequential
    assert [costs.path_length(lambda _: layer, n) for n in (8, 16)] == path


def test_dilated_convolutions_connect_the_ends_in_a_logarithmic_number_of_layers() -> None:
    assert table1.dilated_paths() == [1 + math.log2(n) for n in table1.COUNTED]


def test_layers_that_never_connect_the_ends_are_an_error() -> None:
    layer = kinds.Convolutional(4, 1)
    with pytest.raises(ValueError, match="do not connect"):
        costs.layers_between_ends(lambda _: layer, 4)


def test_an_exponent_is_the_slope_of_the_logarithms() -> None:
    assert costs.exponent([1, 2, 4], [5, 20, 80]) == pytest.approx(2)


def test_the_report_has_a_line_for_every_kind_twice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    measured = table1.measure(lengths=[16, 32], widths=[8, 16], n=16, d=8)
    found = table1.exponents(measured["self-attention"], "operations")
    assert found == pytest.approx({"n": 2, "d": 1})
    text = table1.report(measured)
    assert all(text.count(f"| {kind.name} |") == 2 for kind in KINDS)
    table1.draw(measured, tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()
