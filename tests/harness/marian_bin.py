"""Marian's binary files, written after their description, not by the code that reads them; and what Firefox adds."""

from __future__ import annotations

__all__ = ["ALPHA", "INTGEMM8", "bin_file", "dequantized", "integers", "with_alphas"]

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

FLOAT32, INT8 = 0x404, 0x101
INTGEMM8 = {"Marian": 0x10001, "Firefox": 0x4101}
ALPHA = "_QuantMultA"
Array = Any


def integers(w: Array) -> tuple[Array, Array]:
    """A matrix as 8-bit integers, and what it was multiplied with."""
    m = np.float32(127) / np.abs(w).max()
    return np.clip(np.rint(w * m), -127, 127).astype(np.int8), m


def is_quantized(name: str, kind: str) -> bool:
    """Whether marian-conv makes integers of a tensor; Firefox's does so with embeddings, too."""
    _, found, end = f"_{name}".rpartition("_W")
    return bool(found) and (len(end) <= 1 or (end == "emb" and kind == "Firefox"))


def dequantized(tensors: Mapping[str, Array], kind: str) -> dict[str, Array]:
    """What the integers of a file stand for."""
    values = dict(tensors)
    for name, w in tensors.items():
        if is_quantized(name, kind):
            q, m = integers(w)
            values[name] = q.astype(np.float32) * (np.float32(1) / m)
    return values


def with_alphas(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """With a scale for the inputs of each matrix, those of queries, keys and values of one input being equal."""
    found = dict(tensors)
    for name in tensors:
        if is_quantized(name, "Firefox") and not name.startswith("encoder_Wemb"):
            same = name[:-1] + "v" if name.endswith(("self_Wq", "self_Wk", "context_Wk")) else name
            found[name + ALPHA] = np.array([20 + len(same) + sum(same.encode()) % 17], np.float32)
    return found


def bin_file(options: dict[str, Any], tensors: Mapping[str, Array], kind: str = "float32") -> bytes:
    """The bytes of model.bin: `kind` is float32, or who numbers the types of its integers, a key of `INTGEMM8`."""
    text = yaml.safe_dump({key: value for key, value in options.items() if key != "test"}).encode() + b"\0"
    names, headers, shapes, data = b"", b"", b"", b""
    for name, x in [*sorted(tensors.items()), ("special:model.yml", np.frombuffer(text, np.int8))]:
        code = FLOAT32 if x.dtype == np.float32 else INT8
        content = x.tobytes()
        if (
            kind != "float32"
            and is_quantized(name.removesuffix(ALPHA), kind)
            and (not name.endswith(ALPHA) or "Wemb" in name)
        ):
            q, m = integers(x)
            code, content = INTGEMM8[kind], (q if "Wemb" in name else q.T).tobytes() + np.float32(m).tobytes()
        content += b"\xff" * (-len(content) % 256)  # Marian does not clear what it pads with
        headers += struct.pack("<4Q", len(name) + 1, code, x.ndim, len(content))
        names += name.encode() + b"\0"
        shapes += struct.pack(f"<{x.ndim}i", *x.shape)
        data += content
    head = struct.pack("<QQ", 1, len(headers) // 32) + headers + names + shapes
    padding = -(len(head) + 8) % 256
    return head + struct.pack("<Q", padding) + bytes(padding) + data
