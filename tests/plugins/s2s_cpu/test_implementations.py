"""Every operator's function in C against its reference in torch, over generated shapes, with ties and empty places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from harness.reference_operators import use_references
from s2s.backend.operators import OPERATORS, ConsistencyWeights, SamplingRule, TreePaths, add_norm
from s2s.backend.operators.attention import BLOCKED
from s2s.nn.attention import sdpa
from s2s_cpu.compiled import SOURCES
from s2s_cpu.library import native_library
from s2s_cpu.quantization import dequantize_rows, quantize_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.backend import Operator

native = pytest.mark.skipif(native_library().functions is None, reason=native_library().reason)

MAX_WIDTH = 120  # of a line, as ruff has it for Python
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def test_lines_of_c_are_no_longer_than_those_of_python() -> None:
    lines = [(source.name, n, line) for source in SOURCES for n, line in enumerate(source.read_text().splitlines(), 1)]
    assert len(lines) > 1000
    assert [(name, n) for name, n, line in lines if len(line) > MAX_WIDTH] == []


class Draw:
    """Arguments, a pure function of the seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def size(self, *of: int) -> int:
        return of[int(torch.randint(len(of), (), generator=self.generator))]

    def floats(self, *shape: int, scale: float = 1.0) -> Tensor:
        return torch.randn(shape, generator=self.generator) * scale

    def ints(self, n: int, *shape: int) -> Tensor:
        return torch.randint(n, shape, generator=self.generator)

    def scores(self, *shape: int, empty: float = 0.2) -> Tensor:
        """Few different ones, so that many are equal; some -inf, all of some rows."""
        found = -self.ints(6, *shape).float() / 4
        gone = torch.rand(shape, generator=self.generator) < empty
        return found.masked_fill(gone | (self.ints(9, *shape[:-1], 1) == 0), -torch.inf)

    def sorted_scores(self, *shape: int, empty: float = 0.2) -> Tensor:
        return self.scores(*shape, empty=empty).sort(descending=True).values


def of_top_k(draw: Draw) -> tuple[Any, ...]:
    n_values = draw.size(1, 7, 127, 128, 129, 1000)
    return draw.scores(3, 2, n_values), draw.size(1, 5, 44)


def of_top_k_log_probs(draw: Draw) -> tuple[Any, ...]:
    n_values = draw.size(3, 31, 33, 500)
    logits = (draw.floats(4, 3, n_values, scale=draw.size(0, 1, 30)) * 4).round() / 4
    logits[0, 0, 0], logits[1, 1, 1] = torch.nan, torch.inf
    allowed = draw.floats(4, 3, n_values) > 0.5 if draw.size(0, 1) else None
    return logits, draw.size(1, 4, 10), draw.ints(n_values, 2), allowed, bool(draw.size(0, 1))


def of_merge_candidates(draw: Draw) -> tuple[Any, ...]:
    beam, n_sentences = draw.size(1, 4, 21), 40
    m = 2 * beam + 2
    score, node = draw.sorted_scores(n_sentences, beam), draw.ints(99, n_sentences, beam)
    return draw.scores(n_sentences, beam, m), draw.ints(9, n_sentences, beam, m), score, node, 2 * beam


def of_merge_finished(draw: Draw) -> tuple[Any, ...]:
    beam, n_sentences = draw.size(1, 4, 21), 40
    n, score = 2 * beam, draw.sorted_scores(n_sentences, 2 * beam)
    token, eos = draw.ints(5, n_sentences, n), draw.size(2, 9)  # a fifth are eos, or none
    candidates = score, draw.ints(beam, n_sentences, n), token, -score, draw.ints(99, n_sentences, n)
    finished = draw.sorted_scores(n_sentences, beam, empty=0.5)
    before = finished, draw.ints(99, n_sentences, beam), -finished
    penalties = (torch.arange(40.0) + 5) / 6
    return candidates, before, eos, draw.size(beam, n), penalties, draw.ints(20, n_sentences) + 1


def of_unfinished_candidates(draw: Draw) -> tuple[Any, ...]:
    candidates, before, eos, *_ = of_merge_finished(draw)
    n = candidates[0].size(1)
    return candidates, eos, draw.size(before[0].size(1), n)


def of_search_finished(draw: Draw) -> tuple[Any, ...]:
    length, beam = draw.ints(20, 40), draw.size(1, 4)
    finished, penalties = draw.sorted_scores(40, beam), ((torch.arange(40.0) + 5) / 6) ** 0.6
    return 3 * draw.sorted_scores(40, beam), finished, length, length + 7, penalties, draw.size(1, beam)


def of_sample_tokens(draw: Draw) -> tuple[Any, ...]:
    n_values, n = draw.size(2, 31, 256, 700), draw.size(1, 5)
    logits, allowed = draw.floats(4, draw.size(1, n), n_values, scale=3), draw.floats(4, n, n_values) > -1
    uniform = torch.rand(4, n, generator=draw.generator, dtype=torch.double)
    rule = SamplingRule(draw.size(1, 7) / 2, draw.size(0, 3, 900), draw.size(61, 93, 100) / 100)
    return logits, uniform, draw.ints(n_values, 2), allowed, bool(draw.size(0, 1)), rule


def of_padded_attention(draw: Draw) -> tuple[Any, ...]:
    (n, n_keys), (d_k, d_v) = (draw.size(1, 7, 250), draw.size(1, 65, 130)), (draw.size(5, 64), draw.size(16, 19))
    q, k = draw.floats(2, n, 3, d_k).transpose(1, 2), draw.floats(2, n_keys, 3, d_k, scale=2).transpose(1, 2)
    bias = torch.zeros(2, 1, 1, n_keys)
    bias[1, :, :, n_keys // 2 + 1 :] = BLOCKED
    return q, k, draw.floats(2, 3, n_keys, d_v), bias if draw.size(0, 1) else None


def of_tree_attention(draw: Draw) -> tuple[Any, ...]:
    n_sentences, beam, d_k, d_v = 3, draw.size(1, 4), draw.size(5, 64), draw.size(3, 64)
    used, room, longest, heads = 30, 40, 9, 2
    length, n_nodes = torch.tensor([9, 1, 4]), torch.full((n_sentences,), used + beam)
    path = torch.stack([torch.randperm(used, generator=draw.generator) for _ in range(n_sentences * beam)])
    path = path[:, :longest].unflatten(0, (n_sentences, beam)).contiguous()
    newest = (used + torch.arange(beam)).expand(n_sentences, beam)
    path.scatter_(2, (length - 1)[:, None, None].expand(-1, beam, 1), newest[..., None])
    q, k = (draw.floats(n_sentences, beam, heads, d_k).transpose(1, 2) for _ in range(2))
    v, nodes = draw.floats(n_sentences, heads, beam, d_v), draw.floats(n_sentences, room, heads * (d_k + d_v))
    return q, k, v, nodes, TreePaths(path, length, n_nodes, longest, used + beam), sdpa, 0.0


def of_extend_paths(draw: Draw) -> tuple[Any, ...]:
    return draw.ints(99, 5, draw.size(1, 3), 8), torch.tensor([0, 7, 3, 3, 1]), draw.ints(50, 5)


def of_reorder_paths(draw: Draw) -> tuple[Any, ...]:
    return draw.ints(99, 5, 3, draw.size(0, 8)), draw.ints(3, 5, draw.size(1, 7))


def of_add_norm(draw: Draw) -> tuple[Any, ...]:
    width = draw.size(2, 16, 50, 512)
    norm = nn.LayerNorm(width, eps=1e-6).requires_grad_(False)
    norm.weight.copy_(draw.floats(width)), norm.bias.copy_(draw.floats(width))
    return draw.floats(2, 3, width, scale=3) + 1, draw.floats(2, width, 3).mT, norm


def of_apply_dropout(draw: Draw) -> tuple[Any, ...]:
    x = draw.floats(3, draw.size(1, 15, 70), 5)
    return (x.bfloat16() if draw.size(0, 1) else x).transpose(0, draw.size(0, 2)), 0.3


def of_add_dropout(draw: Draw) -> tuple[Any, ...]:
    y, p = of_apply_dropout(draw)
    return draw.floats(*y.shape), y, p


def of_add_dropout_norm(draw: Draw) -> tuple[Any, ...]:
    width = draw.size(16, 48, 512)
    y, x, norm = draw.floats(2, 3, width), draw.floats(2, width, 3).mT, nn.LayerNorm(width).requires_grad_(False)
    norm.weight.copy_(draw.floats(width)), norm.bias.copy_(draw.floats(width))
    return x, y.bfloat16() if draw.size(0, 1) else y, 0.3, norm


def of_quantize_rows(draw: Draw) -> tuple[Any, ...]:
    x = draw.floats(7, draw.size(2, 33, 48, 200)) * torch.logspace(-3, 3, 7)[:, None]
    x[3] = 0
    return x, 128


def of_dequantize_rows(draw: Draw) -> tuple[Any, ...]:
    n = draw.size(1, 70)
    return draw.floats(5, n), draw.floats(5), draw.floats(n)


def of_label_smoothing(draw: Draw) -> tuple[Any, ...]:
    n_values = draw.size(3, 33, 5003)
    logits = draw.floats(9, n_values, scale=draw.size(0, 1, 30))
    return logits, draw.ints(n_values, 9), draw.ints(3, 9) > 0, 0.9, 0.1 / n_values


def of_consistency(draw: Draw) -> tuple[Any, ...]:
    n_values = draw.size(3, 16, 33, 5003)
    logits = draw.floats(9, 2, n_values, scale=draw.size(0, 1, 30))
    weights = ConsistencyWeights(1.0, 0.7, 2.5, draw.size(0, 3))
    return logits, draw.ints(n_values, 9), draw.ints(3, 9) > 0, 0.9, 0.1 / n_values, weights


def of_lstm(draw: Draw) -> tuple[Any, ...]:
    steps, n, width = draw.size(1, 5), draw.size(1, 3), draw.size(16, 48)
    weight = draw.floats(4 * width, width, scale=0.2)
    return draw.floats(steps, n, 4 * width), weight, draw.floats(n, width), draw.floats(n, width)


def of_training_attention(draw: Draw) -> tuple[Any, ...]:
    *padded, bias = of_padded_attention(draw)
    return *padded, bias, bias is None, 0.0


CASES: dict[str, Callable[[Draw], tuple[Any, ...]]] = {
    "top_k": of_top_k,
    "top_k_log_probs": of_top_k_log_probs,
    "merge_candidates": of_merge_candidates,
    "merge_finished": of_merge_finished,
    "unfinished_candidates": of_unfinished_candidates,
    "search_finished": of_search_finished,
    "sample_tokens": of_sample_tokens,
    "padded_attention": of_padded_attention,
    "tree_attention": of_tree_attention,
    "extend_paths": of_extend_paths,
    "reorder_paths": of_reorder_paths,
    "add_norm": of_add_norm,
    "short_attention": of_training_attention,
    "tiled_attention": of_training_attention,
    "apply_dropout": of_apply_dropout,
    "add_dropout": of_add_dropout,
    "add_dropout_norm": of_add_dropout_norm,
    "quantize_rows": of_quantize_rows,
    "dequantize_rows": of_dequantize_rows,
    "label_smoothing_": of_label_smoothing,
    "consistency_": of_consistency,
    "lstm": of_lstm,
}
ELSEWHERE = {"output_loss", "projected_attention", "random_int64"}
"""Without a reference, and without tensors: test_output_loss.py, test_projected_attention.py and s2s/nn/test_dropout.py
test them"""
IMPLEMENTED = {name: one for name, one in OPERATORS.items() if name not in ELSEWHERE} | {
    "quantize_rows": quantize_rows,
    "dequantize_rows": dequantize_rows,
}
SORTED = {"top_k", "top_k_log_probs", "merge_candidates", "merge_finished", "unfinished_candidates"}
"""What a score of -inf stands before is arbitrary"""


def native_function(operator: Operator[..., Any]) -> Callable[..., Any]:
    ((_, function),) = operator.implementations
    return function


def recorded(operator: Operator[..., Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which function each call of the operator takes."""
    taken: list[str] = []
    ((accepts, _),) = operator.implementations
    monkeypatch.setattr(operator, "implementations", ((accepts, lambda *_: taken.append("native")),))
    monkeypatch.setattr(operator, "reference", lambda *_: taken.append("reference"))
    return taken


def leaves(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else [leaf for part in result for leaf in leaves(part)]


def copied(arguments: Any) -> Any:
    """Copies of all tensors, since some operators write into them."""
    if isinstance(arguments, Tensor):
        return arguments.clone(memory_format=torch.preserve_format)
    return mapped(copied, arguments) if isinstance(arguments, tuple) else arguments


def mapped(function: Callable[[Any], Any], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """A tuple of the same type."""
    found = map(function, values)
    return type(values)(*found) if hasattr(values, "_fields") else tuple(found)


def assert_lists_alike(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    """Sorted lists: the same scores, and the same values beside those that are not -inf."""
    torch.testing.assert_close(found[0], expected[0], **CLOSE)
    there = expected[0] > -torch.inf
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one[there], other[there], **CLOSE)


@native
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", IMPLEMENTED)
@torch.no_grad()
def test_the_function_in_c_is_its_reference(name: str, seed: int) -> None:
    operator, arguments = IMPLEMENTED[name], CASES[name](Draw(seed))
    own, given = copied(arguments), copied(arguments)
    with torch.random.fork_rng():
        found = native_function(operator)(*own)
    expected = operator.reference(*given)
    if name in SORTED:
        nested = isinstance(found[0], tuple)
        for one, other in zip(found, expected, strict=True) if nested else [(found, expected)]:
            assert_lists_alike(one, other)
        return
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        assert one.dtype == other.dtype
        difference = 1 if one.dtype == torch.uint8 else 0  # a half may be rounded to either side
        torch.testing.assert_close(one.float(), other.float(), rtol=1e-5, atol=1e-5 + difference)
    if name == "tree_attention":
        assert torch.equal(own[3], given[3]), "both write the newest keys and values"


def test_every_operator_has_cases() -> None:
    assert IMPLEMENTED.keys() == CASES.keys()


@native
@pytest.mark.parametrize("name", IMPLEMENTED)
@torch.no_grad()
def test_a_call_takes_the_function_in_c_and_where_there_is_none_the_reference(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, arguments = IMPLEMENTED[name], CASES[name](Draw(1))
    taken = recorded(operator, monkeypatch)
    operator(*copied(arguments))
    use_references(monkeypatch)
    operator(*copied(arguments))
    assert taken == ["native", "reference"]


@native
@pytest.mark.parametrize("name", IMPLEMENTED)
@torch.no_grad()
def test_other_types_and_devices_go_to_the_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """float64, or for paths, which are integers, the meta device."""
    operator, arguments = IMPLEMENTED[name], CASES[name](Draw(1))
    taken = recorded(operator, monkeypatch)

    def other(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x.to("meta") if name.endswith("paths") else x.double() if x.is_floating_point() else x
        return mapped(other, x) if isinstance(x, tuple) else x

    operator(*other(copied(arguments)))
    assert taken == ["reference"]


@native
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", IMPLEMENTED)
@torch.no_grad()
def test_results_do_not_depend_on_the_default_type(name: str, dtype: torch.dtype) -> None:
    """Memory for results is that of fp32 values."""
    operator, arguments = IMPLEMENTED[name], CASES[name](Draw(1))
    results = []
    for default in (torch.float32, dtype):
        torch.set_default_dtype(default)
        try:
            with torch.random.fork_rng():
                results.append(leaves(native_function(operator)(*copied(arguments))))
        finally:
            torch.set_default_dtype(torch.float32)
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


REFUSED: dict[str, Callable[[], tuple[Operator[..., Any], tuple[Any, ...]]]] = {
    "lstm_weight_wide": lambda: (
        OPERATORS["lstm"],
        (torch.zeros(2, 3, 64), torch.zeros(64, 32), torch.zeros(3, 16), torch.zeros(3, 16)),
    ),
    "norm_without_bias": lambda: (
        OPERATORS["add_norm"],
        (torch.zeros(2, 32), torch.zeros(2, 32), nn.LayerNorm(32, bias=False)),
    ),
    "norm_of_another_type": lambda: (
        OPERATORS["add_norm"],
        (torch.zeros(2, 32), torch.zeros(2, 32), nn.LayerNorm(32).double()),
    ),
    "norm_of_several_dimensions": lambda: (
        OPERATORS["add_norm"],
        (torch.zeros(2, 32), torch.zeros(2, 32), nn.LayerNorm([2, 32])),
    ),
    "sum_that_broadcasts": lambda: (
        OPERATORS["add_norm"],
        (torch.zeros(2, 32), torch.zeros(32), nn.LayerNorm(32)),
    ),
}


@native
@pytest.mark.parametrize("name", REFUSED)
@torch.no_grad()
def test_shapes_that_a_function_in_c_would_misread_go_to_the_reference(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, arguments = REFUSED[name]()
    taken = recorded(operator, monkeypatch)
    operator(*arguments)
    assert taken == ["reference"]


@native
@torch.no_grad()
def test_a_row_without_a_number_has_no_scale() -> None:
    """Its products are then NaN, as in fp32; those of other rows are not."""
    x = torch.randn(4, 70)
    x[1, 3], x[2, 69] = torch.nan, torch.inf
    _, scale = quantize_rows(x, 128)
    assert scale.isnan().tolist() == [False, True, True, False]


@torch.enable_grad()
def test_what_wants_a_gradient_goes_to_the_reference() -> None:
    x, norm = torch.randn(3, 8, requires_grad=True), nn.LayerNorm(8)
    add_norm(x, x, norm).sum().backward()
    assert x.grad is not None
