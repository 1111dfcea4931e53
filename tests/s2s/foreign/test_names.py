"""Tables of names: written and read back, tensors are equal; what does not fit is named."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor

from s2s.errors import CheckpointError
from s2s.foreign import Layout, NameTable, TensorNames

ORDER = torch.tensor([2, 0, 3, 1])
TABLE = NameTable(
    [
        TensorNames(f"{0}.qkv", ["layer0.q", "layer0.k", "layer0.v"], [Layout.permuted(ORDER, 1)]),
        TensorNames("{}.qkv", ["layer{}.q", "layer{}.k", "layer{}.v"], [Layout.permuted(ORDER, 1)]).numbered(1),
        TensorNames("map", ["map.T"], [Layout.permuted(ORDER, 0), Layout.transposed()]),
        TensorNames("bias", ["row"], [Layout.row()]),
        TensorNames("table", ["scaled"], [Layout.scaled(4.0)]),
        TensorNames("table", ["copy"], [Layout.scaled(4.0)], optional=True, is_written=False),
    ],
    {"positions": lambda n: torch.arange(n, dtype=torch.float32)[:, None]},
    zeros=["zero"],
)


def model() -> dict[str, Tensor]:
    shapes = {"0.qkv": (6, 4), "1.qkv": (6, 4), "map": (4, 3), "bias": (5,), "table": (5, 4)}
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def written() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A model and its tensors there."""
    weights = model()
    return weights, dict(TABLE.to_foreign(weights))


def test_layouts_are_what_they_say() -> None:
    weights, there = written()
    assert torch.equal(there["layer1.k"], weights["1.qkv"][2:4][:, ORDER])
    assert torch.equal(there["map.T"], weights["map"][ORDER].t())
    assert torch.equal(there["row"], weights["bias"].reshape(1, 5))
    assert torch.equal(there["scaled"], 4 * weights["table"])


@pytest.mark.parametrize("without", [[], ["copy"]], ids=["all", "no copy"])
def test_what_is_written_is_read_back_bit_for_bit(without: list[str]) -> None:
    weights, there = written()
    loaded = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    TABLE.load(loaded, {name: tensor for name, tensor in there.items() if name not in without})
    for name, tensor in weights.items():
        assert torch.equal(loaded[name], tensor), name


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"layer1.k": None}, "'layer1.k' is missing"),
        ({"layer1.k": None, "row": None}, "'layer1.k' is missing (and 1 more)"),
        ({"extra": torch.zeros(1)}, "'extra' is unknown here"),
        ({"layer0.v": torch.zeros(3, 4)}, "'layer0.v' is [3, 4], but '0.qkv' needs [2, 4]"),
        ({"map.T": torch.zeros(4, 3)}, "'map.T' is [4, 3], but 'map' needs [3, 4]"),
        ({"copy": torch.zeros(5, 4)}, "'copy' differs from 'scaled', but the model has one for both"),
        ({"positions": torch.ones(3, 1)}, "'positions' is not what this model computes in its place"),
        ({"positions": torch.ones(3, 2)}, "'positions' is not what this model computes in its place"),
        ({"zero": torch.ones(2)}, "'zero' is not zero, which this model cannot express"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_tensor_that_does_not_fit_is_named(changed: dict[str, Tensor | None], error: str) -> None:
    weights, there = written()
    tensors = {name: tensor for name, tensor in {**there, **changed}.items() if tensor is not None}
    with pytest.raises(CheckpointError) as caught:
        TABLE.load(weights, tensors)
    assert str(caught.value) == error


def test_computed_and_zero_tensors_that_agree_are_accepted() -> None:
    weights, there = written()
    TABLE.load(weights, {**there, "positions": torch.arange(7.0)[:, None], "zero": torch.zeros(3)})


def test_a_tensor_of_the_model_without_a_name_there_is_named() -> None:
    weights, there = written()
    weights["more"] = torch.zeros(1)
    with pytest.raises(CheckpointError, match=r"^the format has no tensor for 'more'$"):
        dict(TABLE.to_foreign(weights))
    with pytest.raises(CheckpointError, match=r"^'more' is not in the table of names$"):
        TABLE.load(weights, there)


class Counting(Mapping[str, Tensor]):
    """Tensors that are read when asked for, and the largest number of them alive at once."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors, self.alive, self.most = tensors, weakref.WeakSet[Tensor](), 0

    def __getitem__(self, name: str) -> Tensor:
        read = self.tensors[name].clone()
        self.alive.add(read)
        self.most = max(self.most, len(self.alive))
        return read

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


def test_a_model_is_never_held_twice() -> None:
    n = 20
    table = NameTable([TensorNames("{}", ["{}.a", "{}.b"]).numbered(layer) for layer in range(n)])
    weights = {str(layer): torch.randn(4, 2) for layer in range(n)}
    tensors = Counting(dict(table.to_foreign(weights)))
    table.load({name: torch.zeros(4, 2) for name in weights}, tensors)
    assert tensors.most <= 4  # those of one line, and of the one before


def test_a_copy_may_be_in_a_file_alone_and_ignored_tensors_and_prefixes_in_none() -> None:
    rows = [TensorNames("a", ["m.a"]), TensorNames("a", ["m.copy"], optional=True), TensorNames("b", ["b"])]
    table = NameTable(rows, ignored=["m.version"], prefix="m.")
    weights = {"a": torch.randn(3), "b": torch.randn(2)}
    assert dict(table.to_foreign(weights)).keys() == {"m.a", "m.copy", "b"}
    there = {"copy": weights["a"], "version": torch.ones(1), "b": weights["b"]}
    loaded = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    table.load(loaded, there)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in weights.items())
    with pytest.raises(CheckpointError, match=r"^'m\.a' is missing$"):
        table.load(loaded, {"b": weights["b"], "version": torch.ones(1)})
