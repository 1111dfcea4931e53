"""What the ranks of a run must agree on, compared before the first update: otherwise each trains another model.

Ranks sum their gradients, so another seed, corpus or kernel in one of them raises no error: its weights drift apart
from those that are saved. First hashes are compared; only ranks that disagree send the rest.
"""

from __future__ import annotations

__all__ = ["check_agreement", "data_of", "disagreement", "options_of", "weights_of"]

import hashlib
import json
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from s2s.backend.matmul import select_matmul
from s2s.backend.operators.operator import description
from s2s.compose import flatten
from s2s.compose.yaml12 import plain, to_text
from s2s.errors import ConfigError
from s2s.run import tokenizer
from s2s.run.environment import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor, nn

    from s2s.config import Config
    from s2s.data import PreparedData
    from s2s.distributed import World
    from s2s.plugin import Plugins

OWN = ("data.prepared",)
"""Options in which ranks may differ: a folder on the machine's own disk, of whose contents `data_of` compares the
hashes. Of train.device each rank may have its own index, as in cuda:1."""
VARIABLES = (
    *("S2S_KERNELS", "ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS"),
    *("ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA", "DNNL_DEFAULT_FPMATH_MODE"),
    *("CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
    *("NCCL_ALGO", "NCCL_PROTO"),
)
"""Variables of the environment by which libraries compute other numbers"""
MOST_NAMED = 3
"""Differing keys that a message names; of the others it gives the number"""
MOST_SHOWN = 60
"""Characters of a value that a message shows"""


def check_agreement(world: World, describe: Callable[[], Mapping[str, Any]]) -> None:
    """Raise ConfigError on all ranks unless `describe` returns the same on all of them; every rank must call it."""
    if world.size == 1:
        return
    own = json.dumps(describe(), default=repr)
    if len(set(world.all_gather(hashlib.sha256(own.encode()).hexdigest()))) > 1:
        said = disagreement(world.all_gather(json.loads(own)))
        with suppress(RuntimeError):  # until all have read it: a process that ends may take with it what it has sent
            world.barrier()
        raise ConfigError(f"{said}; start all ranks with the same options, files and packages")


def disagreement(descriptions: Sequence[Mapping[str, Any]]) -> str | None:
    """The first ranks that were given different things, and what, in the order of the first rank's keys; or None."""
    first = descriptions[0]
    for rank, other in enumerate(descriptions):
        keys = [key for key in {**first, **other} if _text(first, key) != _text(other, key)]
        if keys:
            words = [f"{key} is {_shown(first, other, key)}" for key in keys[:MOST_NAMED]]
            more = f", and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
            return f"ranks 0 and {rank} were given different things: {', '.join(words)}{more}"
    return None


def options_of(config: Config, plugins: Plugins) -> dict[str, Any]:
    """What the user has given: options, variables of the environment, versions and code."""
    options = {key: plain(value) for key, value in flatten(config).items() if key not in OWN}
    options["train.device"] = config.train.device.partition(":")[0]
    variables = {name: os.environ.get(name) for name in VARIABLES}
    return {**options, **variables, **versions(plugins)}


def data_of(config: Config, world: World, prepared: PreparedData) -> dict[str, Any]:
    """What was read and chosen by the time at which the model is built: options, corpora, vocabulary, kernels."""
    own = {**{key: plain(value) for key, value in flatten(config).items() if key not in (*OWN, "run")}}
    own["train.device"] = world.device.type
    valid = hashlib.sha256(json.dumps([c.manifest for c in prepared.valid], sort_keys=True).encode())
    return {
        **own,
        "the training data": prepared.identity,
        "the development data": valid.hexdigest(),
        "the vocabulary": tokenizer.identity(prepared.tokenizer),
        **(dict(_processor(config)) if world.device.type == "cpu" else {}),
    }


def weights_of(model: nn.Module) -> dict[str, Any]:
    """What the model begins with: of each tensor its name, type, shape, and the sum of its bits."""
    tensors = model.state_dict()
    sums = torch.stack([_bits(tensor) for tensor in tensors.values()]).tolist() if tensors else []
    whole = [[name, str(t.dtype), list(t.shape), n] for (name, t), n in zip(tensors.items(), sums, strict=True)]
    return {"a hash of the initial weights": hashlib.sha256(json.dumps(whole).encode()).hexdigest()}


def _bits(tensor: Tensor) -> Tensor:
    """The sum of a tensor's elements read as integers, []: a pass over memory, where a hash would take ten."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}.get(tensor.element_size(), torch.int64)
    return tensor.detach().contiguous().view(integers).sum(dtype=torch.int64)


def _processor(config: Config) -> Iterator[tuple[str, Any]]:
    """What a CPU computes with; the reasons, such as a path, may differ."""
    yield "the number of threads", torch.get_num_threads()
    yield "kernels", re.sub(r" \(.*?\)(?=, |$)", "", description())
    yield "train.matmul", select_matmul(config.train.matmul, torch.device("cpu")).name
    yield "ATEN_CPU_CAPABILITY", torch.backends.cpu.get_cpu_capability()


def _text(given: Mapping[str, Any], key: str) -> str | None:
    """A value as text, since NaN is not equal to itself; None if there is none."""
    return json.dumps(given[key]) if key in given else None


def _shown(one: Mapping[str, Any], two: Mapping[str, Any], key: str) -> str:
    """Both values, or of long ones the part around their first difference."""
    texts = [to_text(given[key]) if key in given else "not given" for given in (one, two)]
    differ = next((place for place, pair in enumerate(zip(*texts, strict=False)) if len(set(pair)) > 1), 0)
    return " and ".join(_cut(text, differ) for text in texts)


def _cut(value: str, place: int) -> str:
    begin = max(0, min(place - MOST_SHOWN // 3, len(value) - MOST_SHOWN))
    shown = value[begin : begin + MOST_SHOWN]
    return f"{'…' if begin else ''}{shown}{'…' if begin + MOST_SHOWN < len(value) else ''}"
