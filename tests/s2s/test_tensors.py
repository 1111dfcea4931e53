"""One function over trees of tensors of every form, and two of them joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from s2s.decoding.model_scores import gather_hypotheses
from s2s.tensors import host_copy, join_tensors, list_tensors, map_tensors, remember_copy, select_rows, to_device


class Pair(NamedTuple):
    left: Tensor
    right: Tensor | None


@dataclass
class Box:
    content: Any
    n: int = 3


def tree(rows: int, wide: int) -> Any:
    """A dict of a list, a tuple, a named tuple and a dataclass, with a dataclass's type and numbers among them."""
    x = lambda value: torch.full((rows, wide), float(value))  # noqa: E731
    return {"a": [x(1), (x(2), None)], "b": Pair(x(3), None), "c": Box({"d": x(4)}), "e": Box, "f": "text"}


def test_all_tensors_are_mapped_and_the_rest_stays() -> None:
    given = tree(1, 1)
    doubled = map_tensors(lambda t: 2 * t, given)
    assert [float(t) for t in list_tensors(given)] == [1, 2, 3, 4]
    assert [float(t) for t in list_tensors(doubled)] == [2, 4, 6, 8]
    assert type(doubled["a"]) is list
    assert type(doubled["a"][1]) is tuple
    assert doubled["a"][1][1] is None
    assert type(doubled["b"]) is Pair
    assert doubled["c"] == Box(doubled["c"].content, 3)
    assert (doubled["e"], doubled["f"]) == (Box, "text")


def test_trees_are_joined_row_by_row_with_zeros_where_one_is_narrower() -> None:
    joined = join_tensors(tree(2, 1), tree(1, 3))
    values = [[[float(v), 0, 0]] * 2 + [[float(v)] * 3] for v in (1, 2, 3, 4)]
    assert [t.tolist() for t in list_tensors(joined)] == values
    assert type(joined["a"]) is list
    assert type(joined["a"][1]) is tuple
    assert type(joined["b"]) is Pair
    assert joined["c"].n == 3
    assert (joined["a"][1][1], joined["e"], joined["f"]) == (None, Box, "text")


def test_every_dimension_but_the_first_is_padded_at_its_end() -> None:
    a, b = torch.ones(1, 2, 1, 3), torch.ones(1, 1, 4, 3)
    joined = join_tensors(a, b)
    assert joined.shape == (2, 2, 4, 3)
    expected = torch.zeros(2, 2, 4, 3)
    expected[0, :2, :1], expected[1, :1, :4] = 1, 1
    assert torch.equal(joined, expected)


def test_tensors_of_other_numbers_of_dimensions_are_not_joined() -> None:
    with pytest.raises(ValueError, match="argument"):
        join_tensors(torch.ones(1, 2), torch.ones(1, 2, 3))


def test_trees_are_joined_by_a_function_of_ones_own() -> None:
    joined = join_tensors(tree(2, 1), tree(1, 3), lambda a, b: a.new_tensor([len(a), b.size(1)]))
    assert [t.tolist() for t in list_tensors(joined)] == [[2, 3]] * 4
    assert type(joined["b"]) is Pair


def test_the_host_knows_what_it_has_copied_to_a_device() -> None:
    """A device without data: nothing can be read from it."""
    x = torch.arange(3)
    there = to_device(x, torch.device("meta"))
    assert there.device.type == "meta"
    assert host_copy(there) is x
    with pytest.raises(NotImplementedError):
        host_copy(there + 1)


def first(x: Tensor) -> Tensor:
    return x[:1]


def test_the_host_may_know_a_part_of_a_tensor_alone() -> None:
    there = torch.empty(3, device="meta")
    remember_copy(there, torch.tensor([5]), first)
    assert host_copy(there, first).tolist() == [5]
    with pytest.raises(NotImplementedError):
        host_copy(there)
    remember_copy(there, torch.tensor([5, 6, 7]))
    assert [host_copy(there).tolist(), host_copy(there, first).tolist()] == [[5, 6, 7], [5]]
    there.add_(1)
    with pytest.raises(NotImplementedError):
        host_copy(there, first)


def test_a_part_of_what_is_on_the_host_is_computed() -> None:
    x = torch.arange(3)
    remember_copy(x, torch.tensor([5]), first)
    x[0] = 9
    assert host_copy(x, first).tolist() == [9]


@pytest.mark.parametrize("pick", [False, True])
def test_what_was_written_to_is_read_again(pick: bool) -> None:
    """With no data to read, here that raises."""
    there = to_device(torch.arange(3), torch.device("meta"))
    there.add_(1)
    if pick:
        (there,) = select_rows([there], torch.tensor([1]))
    with pytest.raises(NotImplementedError):
        host_copy(there)


def test_what_inference_mode_has_copied_is_known_too() -> None:
    with torch.inference_mode():
        there = to_device(torch.arange(3), torch.device("meta"))
    assert host_copy(there).tolist() == [0, 1, 2]


def test_what_is_on_the_host_is_its_own_copy() -> None:
    x = torch.arange(3)
    assert to_device(x, torch.device("cpu")) is x
    assert host_copy(x) is x


def test_what_is_gathered_from_what_the_host_knows_is_known() -> None:
    meta = torch.device("meta")
    states, parents = to_device(torch.arange(8).view(2, 2, 2), meta), to_device(torch.tensor([[1, 1], [0, 1]]), meta)
    assert host_copy(gather_hypotheses(states, parents)).tolist() == [[[2, 3], [2, 3]], [[4, 5], [6, 7]]]
    for part in (gather_hypotheses(states + 1, parents), gather_hypotheses(states, parents.clone())):
        with pytest.raises(NotImplementedError):
            host_copy(part)


def test_rows_of_what_the_host_has_copied_need_not_be_read_either() -> None:
    there = to_device(torch.arange(8).view(4, 2), torch.device("meta"))
    kept = select_rows([there, there + 1], torch.tensor([3, 0]))
    assert host_copy(kept[0]).tolist() == [[6, 7], [0, 1]]
    with pytest.raises(NotImplementedError):
        host_copy(kept[1])
