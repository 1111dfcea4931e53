"""Tensors and options in a checkpoint of fairseq, a pickle; nothing in it is executed."""

from __future__ import annotations

__all__ = ["open_fairseq"]

import pickle
import zipfile
from collections import OrderedDict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from s2s import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TEXTS = ("task", "bpe", "tokenizer")
"""Sections of a configuration that say how texts are read; each has the name of what is chosen"""
NODES = ("_content", "_val")
"""What a configuration of omegaconf holds its values in"""


def open_fairseq(path: Path) -> tuple[dict[str, Any], Mapping[str, Tensor]]:
    """The options of the model in a fairseq checkpoint, and its tensors under fairseq's names.

    Classes and functions that the file names become records of what they would have been given, except those that
    build tensors. Raises CheckpointError if the file is damaged, or no checkpoint of a model.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if any(name.endswith("/constants.pkl") for name in archive.namelist()):
                    raise CheckpointError(f"{path} is a program of TorchScript, no checkpoint")
        loaded = torch.load(path, map_location="cpu", pickle_module=_PICKLE, weights_only=False)
    except CheckpointError:
        raise
    except Exception as error:  # whatever a damaged pickle leads to
        raise CheckpointError(f"{path} is no checkpoint of fairseq: {type(error).__name__}: {_line(error)}") from error
    tensors = loaded.get("model") if isinstance(loaded, dict) else None
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in tensors.items()
    ):
        raise CheckpointError(f"{path} is no checkpoint of fairseq: it has no tensors under 'model'")
    options = _options(loaded)
    if options is None:
        raise CheckpointError(f"{path} is no checkpoint of fairseq: it has options neither in 'cfg' nor in 'args'")
    return options, dict(tensors)


class Record:
    """In place of an object of any class, with its state."""

    state: Any = None

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, _: Any) -> None:
        """As of a list, which a subclass of it may be."""

    def extend(self, _: Any) -> None:
        """As of a list."""

    def __setitem__(self, *_: Any) -> None:
        """As of a dict."""


class Unpickler(pickle.Unpickler):
    """Builds tensors, and records of everything else. Each is a class or function of its own, so that the file can
    change no attribute that anything else has."""

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a global of the file."""
        if (module, name) == ("collections", "OrderedDict"):
            return type("Dict", (OrderedDict,), {})
        if module == "torch._utils" and name.startswith("_rebuild_tensor"):
            return lambda storage, offset, size, stride, *_: _tensor(storage, offset, size, stride)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *_: data
        return type("Record", (Record,), {})


def _load(file: Any, **options: Any) -> Any:
    return Unpickler(file, **options).load()


_PICKLE = SimpleNamespace(Unpickler=Unpickler, load=_load, __name__="pickle")
"""What torch.load reads with"""


def _tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """A tensor in its storage; ValueError if it does not fit."""
    flat = torch.empty(0, dtype=storage.dtype).set_(storage._untyped_storage)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if min(offset, *size, *stride, 0) < 0 or (0 not in size and last >= len(flat)):
        raise ValueError(f"a tensor of shape {list(size)} lies outside of its {len(flat)} numbers")
    return flat.as_strided(size, stride, offset)


def _options(checkpoint: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of the model, with those of its texts, as old versions write all of them."""
    config = _plain(checkpoint.get("cfg"))
    parts = {name: config.get(name) for name in ("model", *TEXTS)} if isinstance(config, dict) else {}
    options = parts.get("model")
    if not isinstance(options, dict):
        options = _plain(checkpoint.get("args"))
        return options if isinstance(options, dict) else None
    texts: dict[str, Any] = {}
    for name in TEXTS:
        if isinstance(own := parts[name], dict):
            texts |= {**own, **({name: own["_name"]} if own.get("_name") else {})}
    return texts | {name: value for name, value in options.items() if value is not None or name not in texts}


def _plain(value: Any, depth: int = 0) -> Any:
    """Records as dicts of their state, a few levels deep"""
    if depth > 8:
        return None
    if isinstance(value, Record):
        value = {} if value.state is None else value.state
        for node in NODES:
            if isinstance(value, dict) and node in value:
                return _plain(value[node], depth + 1)
    if isinstance(value, dict):
        return {str(name): _plain(each, depth + 1) for name, each in value.items()}
    return value


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
