"""The model of a run: what is refused before its first update, and what plugins do with its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from s2s.config import Config, TrainConfig
from s2s.config.data import DataConfig
from s2s.distributed import World
from s2s.errors import ConfigError, DataError, PluginError
from s2s.model import Memory, Seq2Seq
from s2s.registry import Choice
from s2s.task import Vocab
from s2s.training import build_model as building
from s2s.training.build_model import build_model, trainable_parameters


class Model(Seq2Seq):
    """One number, drawn when the model is made."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(1))

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(src, pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        return tgt


class Corpus:
    """Lengths of both sides alone."""

    def __init__(self, sides: tuple[Any, ...]) -> None:
        self.sides = sides

    def __len__(self) -> int:
        return len(self.sides[0])

    def lengths(self, rows: Any) -> tuple[Any, ...]:
        assert len(rows) == len(self)
        return self.sides


def corpus(*longest: int) -> Corpus:
    """Pairs without eos whose sources, and whose targets, have at most so many tokens; 0: no pairs."""
    return Corpus(tuple(np.array([1, n]) if n else np.array([], int) for n in longest))


def built(
    model: Any,
    *,
    prepares: Any = (),
    valid: Any = (),
    vocab: Vocab | None = None,
    max_len: int = 5,
    arch: Choice | None = None,
    **train: Any,
) -> Any:
    """What a plugin builds, with what other plugins say of its weights."""

    def build(**_: Any) -> Any:
        return model() if callable(model) and not isinstance(model, nn.Module) else model

    hook = SimpleNamespace(s2s_build_model=build, s2s_prepare_model=lambda **_: list(prepares))
    plugins: Any = SimpleNamespace(hook=hook, registry=SimpleNamespace())
    config = Config(data=DataConfig(max_len=max_len), train=TrainConfig(**train), seed=3)
    config.arch = arch or Choice(name="mine")
    config.task = Choice(name="some")
    task: Any = SimpleNamespace(vocab=vocab or Vocab(src=9, tgt=9))
    prepared: Any = SimpleNamespace(train=[("corpus", 1.0)], valid=list(valid))
    run: Any = SimpleNamespace(path=Path("x"))
    return build_model(config, plugins, World(), task, prepared, run)


def test_weights_depend_on_the_seed_alone_and_facts_come_as_plugins_give_them() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(99)
    model, facts = built(Model, prepares=[[("a", "1"), ("b", "2")], [("c", "3")]])
    assert torch.equal(model.weight, expected)
    assert facts == [("a", "1"), ("b", "2"), ("c", "3")]


@pytest.mark.parametrize(("activations", "n_calls"), [("keep", 0), ("recompute", 1)])
def test_activations_are_computed_again_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, activations: str, n_calls: int
) -> None:
    calls = list[Any]()
    monkeypatch.setattr(building, "checkpoint_activations", calls.append)
    built(Model, activations=activations)
    assert len(calls) == n_calls


def test_what_is_no_model_is_refused() -> None:
    class Unfinished(Seq2Seq):
        def encode(self, src: Tensor, pad: Tensor) -> Memory: ...

    with pytest.raises(PluginError, match=r"^arch=mine: Can't instantiate abstract class .*decode.*; write what is m"):
        built(Unfinished)
    with pytest.raises(PluginError, match=r"^arch=mine: expected a Seq2Seq, got dict$"):
        built({})

    def wrong() -> Any:
        return len(5)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="has no len"):
        built(wrong)


@dataclass(kw_only=True)
class Sizes(Choice):
    """Numbers, the largest of which is to blame."""

    width: int = 1
    n_layers: int = 1
    shared: bool = True
    rate: float = 1e30


class Layers(Model):
    """So many linear maps of this width."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(sizes.width, sizes.width) for _ in range(sizes.n_layers))


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"width": 2**62}, "arch.width=4611686018427387904"),
        ({"width": 2**64}, "arch.width=18446744073709551616"),
        ({"width": 2**27}, "arch.width=134217728"),
        ({"n_layers": 2**62}, "arch.n_layers=4611686018427387904"),
        ({"n_layers": 50, "width": 3}, "arch.n_layers=50"),
    ],
    ids=["overflow", "no int64", "no memory", "no end", "many"],
)
def test_of_a_model_that_is_too_large_the_largest_number_is_named(
    monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], named: str
) -> None:
    monkeypatch.setattr(building, "MAX_TENSORS", 90)
    arch = Sizes(name="mine", **sizes)
    message = rf"^arch=mine: there is no memory for so large a model: {named} is the largest of its numbers; give a sm"
    with pytest.raises(ConfigError, match=message):
        built(lambda: Layers(arch), arch=arch)
    assert built(lambda: Layers(Sizes(width=3, n_layers=40)))[0].layers
    assert nn.Linear(2, 2), "no limit is left behind"


@pytest.mark.parametrize(("labels", "ignores", "refused"), [(0, False, False), (2, True, False), (2, False, True)])
def test_labels_need_a_model_that_does_not_read_them(labels: int, ignores: bool, refused: bool) -> None:
    model = Model()
    model.ignores_labels = ignores
    vocab = Vocab(src=9, tgt=9, labels=range(7, 7 + labels))
    if refused:
        with pytest.raises(ConfigError, match=r"^task=some labels the words of training pairs, and arch=mine would re"):
            built(model, vocab=vocab)
    else:
        assert built(model, vocab=vocab)[0] is model


@pytest.mark.parametrize(
    ("limit", "max_len", "valid", "message"),
    [
        (5, 5, [corpus(4, 4), corpus(0, 0)], ""),
        (5, 6, [], "data.max_len=6, but arch=mine takes at most 5 tokens here; give data.max_len=5"),
        (5, 5, [corpus(2, 2), corpus(5, 1)], "a sentence of the development set has 6 tokens, but arch=mine takes at "),
        (5, 5, [corpus(1, 5)], "a sentence of the development set has 6 tokens"),
        (2, 2, [corpus(2, 1)], "a sentence of the development set has 3 tokens"),
        (None, 6, [corpus(50, 1)], ""),
    ],
)  # fmt: skip
def test_no_sentence_is_longer_than_the_model_takes(limit: Any, max_len: int, valid: Any, message: str) -> None:
    """Its end counts."""
    model = Model()
    model.max_len = limit
    if message:
        with pytest.raises((ConfigError, DataError)) as caught:
            built(model, valid=valid, max_len=max_len)
        assert str(caught.value).startswith(message)
    else:
        assert built(model, valid=valid, max_len=max_len)[0] is model


def test_something_must_be_trainable() -> None:
    model = Model()
    assert [p is model.weight for p in trainable_parameters(model, None, "mine")] == [True]
    model.weight.requires_grad_(False)
    with pytest.raises(ConfigError, match=r"^arch=mine: no parameter of the model is trainable; is all of it froz"):
        trainable_parameters(model, None, "mine")
