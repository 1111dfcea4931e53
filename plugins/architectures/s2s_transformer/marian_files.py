"""Tensors and options in a file of Marian, model.npz or model.bin, each tensor read when it is asked for.

Shapes: V tokens of a vocabulary, D width.
"""

from __future__ import annotations

__all__ = ["MarianTensors", "open_marian"]

import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import yaml
from numpy.lib import format as npy
from torch import Tensor
from torch.nn.functional import pad

from s2s import CheckpointError
from s2s_transformer.marian_bin import BinTensors

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

OPTIONS = "special:model.yml"
TABLES = ("Wemb", "encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt")
SOFTMAX, TRANSPOSED, BIAS = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W", "decoder_ff_logit_out_b"
INPUT_SCALE = "_QuantMultA"
"""Ends the names of the scales that Firefox's files record for the inputs of linear maps"""
SHORTLISTED = "none"
"""The name there of the rows of the table of target tokens that a shortlist has"""
SMALL, RATIO = 1 << 24, 50
"""Bytes of an array that may be packed in any way, and how many times its bytes in the file a larger one may have"""
NEVER = -1000.0
"""The bias of a token that the model never writes: its probability is 0 in every precision, and in label smoothing its
log-probability does not outweigh the others"""


def open_marian(path: Path) -> tuple[dict[str, Any], MarianTensors]:
    """The options of a file of Marian, and its tensors under Marian's names as the Transformer here has them.

    Marian has no padding: every vocabulary gets a token for it, the last one, whose id is the size of the larger of
    Marian's vocabularies; its vector is zero, and a bias keeps it from being written. Layers that share their tensors
    get them all, and a matrix of the softmax is [V, D]. Raises CheckpointError if the file is damaged, or no model.
    """
    arrays = NpzTensors(path) if path.suffix == ".npz" else BinTensors(path)
    options = _options(path, arrays)
    sizes = [len(arrays[name]) for name in TABLES if name in arrays]
    if not sizes:
        raise CheckpointError(f"{path} has no vectors of tokens: it is no model of Marian's that is read")
    return options, MarianTensors(arrays, _tied(options, arrays), n_tokens=1 + max(sizes))


class MarianTensors(Mapping[str, Tensor]):
    """See `open_marian`."""

    def __init__(self, arrays: Mapping[str, Tensor], tied: Mapping[str, str], n_tokens: int) -> None:
        read = [name for name in arrays if not name.startswith("special:") and not name.endswith(INPUT_SCALE)]
        names = [SOFTMAX if name == TRANSPOSED else name for name in read]
        self.arrays, self.n_tokens = arrays, n_tokens
        self.names = {name: name for name in names} | dict(tied) | {BIAS: BIAS}

    def __getitem__(self, name: str) -> Tensor:
        there = self.names[name]
        tensor = self._in_file(there)
        if there in TABLES:
            return pad(tensor, (0, 0, 0, self.n_tokens - len(tensor)))
        return pad(tensor, (0, self.n_tokens - tensor.size(-1)), value=NEVER) if there == BIAS else tensor

    def multipliers(self, name: str) -> tuple[float, float] | None:
        """See `ForeignFormat.multipliers`."""
        there = TRANSPOSED if name == SOFTMAX and TRANSPOSED in self.arrays else self.names.get(name, name)
        if not isinstance(self.arrays, BinTensors) or there not in self.arrays:
            return None
        multiplier = self.arrays.multiplier(there)
        scales = [name + INPUT_SCALE for name in ([there, SHORTLISTED] if there in TABLES else [there])]
        found = next((self.arrays[name].flatten() for name in scales if name in self.arrays), torch.zeros(1))
        if not (found.numel() == 1 and found.isfinite() and found >= 0):
            raise CheckpointError(f"{self.arrays.path}: '{there}{INPUT_SCALE}' is {found.tolist()}, not one scale")
        return (multiplier, float(found)) if multiplier else None

    def _in_file(self, name: str) -> Tensor:
        if name == SOFTMAX and TRANSPOSED in self.arrays:
            return self.arrays[TRANSPOSED].t()
        if name == BIAS and BIAS not in self.arrays:
            target = next(self._in_file(table) for table in (SOFTMAX, "decoder_Wemb", "Wemb") if table in self.names)
            return torch.zeros(1, len(target))
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class NpzTensors(Mapping[str, Tensor]):
    """The arrays of numbers in a zip archive of .npy files; nothing in it is executed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
        except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise CheckpointError(f"{path} is no .npz file: {error}") from error
        if bomb := next((one for one in members if one.file_size > max(SMALL, RATIO * one.compress_size)), None):
            raise CheckpointError(
                f"{path}: '{bomb.filename}' unpacks to {bomb.file_size:,} bytes, too many to be weights"
            )
        names = [one.filename for one in members]
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise CheckpointError(f"{path}: '{doubled}' is there twice")
        self.names = {name.removesuffix(".npy"): name for name in names}

    def __getitem__(self, name: str) -> Tensor:
        member = self.names[name]
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(member) as file:
                return torch.from_numpy(_array(file, archive.getinfo(member).file_size))
        except Exception as error:  # zlib's, zipfile's and numpy's own
            raise CheckpointError(f"{self.path}: '{name}' is not readable: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _array(file: IO[bytes], n_bytes: int) -> NDArray[Any]:
    """An array of numbers; ValueError if the header does not fit the number of bytes, which are then not read."""
    version = npy.read_magic(file)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, is_fortran, dtype = read_header(file)
    n_values = math.prod(shape)
    if dtype.kind not in "fiu" or any(size < 0 for size in shape):
        raise ValueError(f"it holds {dtype} of shape {shape}, no numbers")
    if file.tell() + n_values * dtype.itemsize != n_bytes:
        raise ValueError(f"its header says {n_values} numbers of {dtype}, but it has {n_bytes} bytes")
    values = np.frombuffer(file.read(n_values * dtype.itemsize), dtype).copy()
    return values.astype(dtype.newbyteorder("="), copy=False).reshape(shape, order="F" if is_fortran else "C")


def _options(path: Path, arrays: Mapping[str, Tensor]) -> dict[str, Any]:
    if OPTIONS not in arrays:
        raise CheckpointError(f"{path} has no '{OPTIONS}': it is no model of Marian")
    text = bytes(arrays[OPTIONS].to(torch.uint8).tolist()).rstrip(b"\0")
    try:
        options = yaml.safe_load(text.decode())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: '{OPTIONS}' is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(options, dict):
        raise CheckpointError(f"{path}: '{OPTIONS}' holds no options")
    return options


def _tied(options: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> dict[str, str]:
    """Names of tensors of the decoder's layers that are those of an earlier layer -> the names of those"""
    layers = options.get("transformer-tied-layers") or []
    if not isinstance(layers, list) or not all(isinstance(layer, int) for layer in layers):
        raise CheckpointError(f"transformer-tied-layers={layers} names no layers")
    tied = {}
    for number, layer in enumerate(layers, 1):
        for name in arrays:
            if number != layer and (found := re.fullmatch(rf"decoder_l{layer}_(.+)", name)):
                tied[f"decoder_l{number}_{found[1]}"] = name
    return tied
