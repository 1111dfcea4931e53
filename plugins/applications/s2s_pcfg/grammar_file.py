"""The file of a grammar: an .npz archive of arrays and their checksum, which is believed in nothing when it is read.

Shapes: X symbols, W word classes, N known words, K maximum number of substates, R binary rules, U unary rules, L pairs
of tag and word class.
"""

from __future__ import annotations

__all__ = ["read_arrays", "write_arrays"]

import hashlib
import io
import re
import zipfile
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from s2s import DataError
from s2s.backend import available_memory
from s2s.data import open_bytes
from s2s.io import write_output
from s2s_pcfg.words import BLANK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

SHAPES = {
    "symbols": "X", "words": "W", "known": "N", "by_tags": "",
    "n_substates": "X", "binary": "R3", "unary": "U2", "lexical": "L2",
    "p_root": "XK", "p_binary": "RKKK", "p_unary": "UKK", "p_lexical": "LK",
    "coarse_p_root": "X", "coarse_p_binary": "R", "coarse_p_unary": "U", "coarse_p_lexical": "L",
}  # fmt: skip
"""Of each array: a letter for each dimension, equal ones for equal sizes"""
KINDS = {"symbols": "U", "words": "U", "known": "U", "by_tags": "b"}
"""Kinds of types; those of probabilities are float64, all others int64"""
INDICES = {"binary": "XXX", "unary": "XX", "lexical": "XW"}
"""Of what each column is the number"""
CHECKSUM = "sha256"
NO_LABEL = re.compile(rf"[{BLANK}()]")
TOLERANCE = 1e-6


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Replace the file by the arrays, which have the names of SHAPES, and their checksum."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays, **{CHECKSUM: np.array(_checksum(arrays))})  # type: ignore[arg-type]  # its stub
    write_output(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """What `write_arrays` wrote; raises DataError for whatever else the file holds."""
    with open_bytes(path, text=False) as file:
        try:
            _check_size(file)
            with np.load(file, allow_pickle=False) as archive:
                arrays: dict[str, NDArray[Any]] = dict(archive)
            _check(arrays)
        except DataError:
            raise
        except Exception as error:  # of zipfile, zlib and numpy, which have no common one
            what = " ".join(str(error).split())[:200] or type(error).__name__
            raise DataError(f"{path}: not a grammar of s2s-pcfg ({what}); train it again") from None
    return arrays


def _check_size(file: IO[bytes]) -> None:
    """Raise ValueError for an archive of other members, or of more than fits into memory; nothing is unpacked."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    names = sorted(member.filename for member in members)
    if names != sorted(f"{name}.npy" for name in (*SHAPES, CHECKSUM)):
        raise ValueError("its arrays have other names")
    needed, available = sum(member.file_size for member in members), available_memory()
    if needed > available.n_bytes:
        raise ValueError(f"it unpacks to {needed:,} bytes, and {available.limit} has {available.n_bytes:,} left")
    file.seek(0)


def _check(arrays: dict[str, NDArray[Any]]) -> None:
    """Raise ValueError, or another error, unless all is as `write_arrays` was given it; removes the checksum."""
    checksum = arrays.pop(CHECKSUM)
    sizes = {"2": 2, "3": 3}
    for name, shape in SHAPES.items():
        array = arrays[name]
        kind = KINDS.get(name, "")
        if (array.dtype.kind if kind else array.dtype) != (kind or (np.float64 if "p_" in name else np.int64)):
            raise ValueError(f"{name} has the type {array.dtype}")
        if array.ndim != len(shape) or any(
            sizes.setdefault(letter, n) != n for letter, n in zip(shape, array.shape, strict=True)
        ):
            raise ValueError(f"{name} has the shape {list(array.shape)}")
    if checksum.shape or checksum.item() != _checksum(arrays):
        raise ValueError("its checksum does not match")
    _check_values(arrays, sizes)


def _check_values(arrays: Arrays, sizes: Mapping[str, int]) -> None:
    """The same for arrays with right types and shapes."""
    for name, columns in INDICES.items():
        limits = np.array([sizes[letter] for letter in columns])
        if ((arrays[name] < 0) | (arrays[name] >= limits)).any():
            raise ValueError(f"{name} has a number that is none of a symbol or word")
        if len(np.unique(arrays[name], axis=0)) < len(arrays[name]):
            raise ValueError(f"{name} has a rule twice")
    for name in (name for name in SHAPES if "p_" in name):
        if not ((arrays[name] >= 0) & (arrays[name] <= 1 + TOLERANCE)).all():  # false for NaN
            raise ValueError(f"{name} has values that are no probabilities")
        if name.endswith("p_root") and abs(arrays[name].sum() - 1) > TOLERANCE:
            raise ValueError(f"{name} does not sum to 1")
    if arrays["n_substates"].min() < 1 or arrays["n_substates"].max() != sizes["K"]:
        raise ValueError("n_substates has a number out of range")
    for name in ("symbols", "words"):
        if len(set(arrays[name].tolist())) < len(arrays[name]):
            raise ValueError(f"{name} has a name twice")
    if any(map(NO_LABEL.search, arrays["symbols"].tolist())):
        raise ValueError("symbols has a name that is no label of a bracket")


def _checksum(arrays: Arrays) -> str:
    """The sha256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {arrays[name].shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
