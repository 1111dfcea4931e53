"""An optimizer's state, or any tree of tensors and numbers, as tensors to store and JSON to describe them."""

from __future__ import annotations

__all__ = ["flatten_state", "unflatten_state"]

from typing import TYPE_CHECKING, Any

from torch import Tensor

from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = Any
"""What json.dumps takes, and json.loads gives back unchanged"""


def flatten_state(tree: Any) -> tuple[Json, dict[str, Tensor]]:
    """Take apart a tree of dicts, lists, tuples, tensors, numbers, text and None; `unflatten_state` is the inverse.

    >>> flatten_state({"lr": 0.1, "betas": (0.9, 0.98)})
    ({'dict': [['lr', 0.1], ['betas', {'tuple': [0.9, 0.98]}]]}, {})
    """
    tensors: dict[str, Tensor] = {}
    return _flatten(tree, "", tensors), tensors


def unflatten_state(structure: Json, tensors: Mapping[str, Tensor]) -> Any:
    """The tree that `flatten_state` was given."""
    if isinstance(structure, list):
        return [unflatten_state(item, tensors) for item in structure]
    if not isinstance(structure, dict):
        return structure
    ((kind, content),) = structure.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "tuple":
        return tuple(unflatten_state(item, tensors) for item in content)
    return {key: unflatten_state(value, tensors) for key, value in content}


def _flatten(tree: Any, path: str, tensors: dict[str, Tensor]) -> Json:
    if isinstance(tree, Tensor):
        tensors[path] = tree
        return {"tensor": path}
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if type(tree) in (list, tuple):
        items = [_flatten(item, _join(path, i), tensors) for i, item in enumerate(tree)]
        return items if isinstance(tree, list) else {"tuple": items}
    if isinstance(tree, dict) and all(type(key) in (int, str) for key in tree):
        # pairs, since JSON would turn the keys 0, 1, … of an optimizer's state into text
        return {"dict": [[key, _flatten(value, _join(path, key), tensors)] for key, value in tree.items()]}
    raise CheckpointError(
        f"'{path}' is of type {type(tree).__name__}: a checkpoint holds tensors, numbers, text, "
        "and lists, tuples and dicts of these"
    )


def _join(path: str, key: int | str) -> str:
    return f"{path}.{key}" if path else str(key)
