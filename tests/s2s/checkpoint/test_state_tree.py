"""Trees of an optimizer's state as JSON and tensors, and back."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import pytest
import torch

from s2s.checkpoint.state_tree import flatten_state, unflatten_state
from s2s.errors import CheckpointError

TREES = [
    None,
    True,
    0.1,
    "text",
    [],
    (),
    {},
    [1, (2.5, [None, "x"]), {}],
    {"state": {0: {"step": 3, "name": "x"}, 1: {}}, "groups": [{"betas": (0.9, 0.98), "on": False}]},
    OrderedDict(a=(1,)),
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_a_tree_comes_back_through_json_with_the_types_that_it_had(tree: Any) -> None:
    structure, tensors = flatten_state(tree)
    assert repr(unflatten_state(json.loads(json.dumps(structure)), tensors)) == repr(
        dict(tree) if isinstance(tree, dict) else tree
    )
    assert tensors == {}


def test_tensors_are_named_by_their_path() -> None:
    a, b, c = (torch.randn(2) for _ in range(3))
    structure, tensors = flatten_state({"state": {0: {"m": a}, "x": [1, b]}, "y": (c,)})
    assert tensors.keys() == {"state.0.m", "state.x.1", "y.0"}
    back = unflatten_state(json.loads(json.dumps(structure)), tensors)
    assert back["state"][0]["m"] is a
    assert back["state"]["x"][1] is b
    assert back["y"][0] is c
    assert flatten_state(a)[1] == {"": a}


@pytest.mark.parametrize(
    ("tree", "path", "kind"),
    [
        ({"a": [object()]}, "a.0", "object"),
        ({"a": {1.5: 0}}, "a", "dict"),
        ({(1,): 0}, "", "dict"),
        ([{1, 2}], "0", "set"),
    ],
    ids=["object", "key", "key of the whole", "set"],
)
def test_what_json_cannot_hold_is_named(tree: Any, path: str, kind: str) -> None:
    with pytest.raises(CheckpointError, match=rf"^'{path}' is of type {kind}: a checkpoint holds"):
        flatten_state(tree)
