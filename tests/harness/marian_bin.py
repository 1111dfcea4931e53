"""Marian's binary files, written after their description, not by the code that reads them; and what Firefox adds."""

from __future__ import annotations

__all__ = [
    "ALPHA",
    "INTGEMM8",
    "IntegerEquations",
    "bin_file",
    "dequantized",
    "integers",
    "shortlist_file",
    "with_alphas",
]

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from harness.marian_npz import Equations

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


class IntegerMatrix:
    """A matrix of a file whose products are those of 8-bit integers: its rows are looked up, too."""

    __array_ufunc__ = None  # so that x @ this is computed here

    def __init__(self, w: Array, alpha: Array, *, transposed: bool = False) -> None:
        self.w, self.alpha, self.transposed = w, np.float32(alpha[0]), transposed

    @property
    def T(self) -> IntegerMatrix:  # noqa: N802  as numpy names it
        return IntegerMatrix(self.w, [self.alpha], transposed=not self.transposed)

    def __getitem__(self, ids: Any) -> Array:
        q, m = integers(self.w)
        return q[ids] * (np.float32(1) / m).astype(np.float64)

    def __rmatmul__(self, x: Array) -> Array:
        q, m = integers(self.w)
        rounded = np.clip(np.rint(x.astype(np.float32) * self.alpha), -127, 127).astype(np.int64)
        return (rounded @ (q.T if self.transposed else q).astype(np.int64)) / (np.float64(self.alpha) * m)


class IntegerEquations(Equations):
    """Marian's model as a file of Firefox intends it: matrices and their inputs in 8-bit integers, all else in fp64."""

    def __init__(self, options: dict[str, Any], tensors: Mapping[str, Array]) -> None:
        """tensors: those of `with_alphas`"""
        super().__init__(options, dict(tensors))
        for name, w in tensors.items():
            if name + ALPHA in tensors:
                self.w[name] = IntegerMatrix(w, tensors[name + ALPHA])
            elif is_quantized(name, "Firefox") and not name.endswith(ALPHA):
                q, m = integers(w)
                self.w[name] = q / np.float64(m)


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


def shortlist_file(first: int, lists: list[list[int]]) -> bytes:
    """The bytes of lex.s2t.bin: the tokens of each source token, and how many frequent ones there are."""
    offsets = [0]
    for tokens in lists:
        offsets.append(offsets[-1] + len(tokens))
    ids = [token for tokens in lists for token in tokens]
    body = struct.pack("<4Q", first, 50, len(offsets), len(ids)) + struct.pack(f"<{len(offsets)}Q", *offsets)
    body += struct.pack(f"<{len(ids)}I", *ids)
    checksum = 0
    for (word,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8]):
        checksum ^= (word + 0x9E3779B9 + (checksum << 6) + (checksum >> 2)) % 2**64
    return struct.pack("<QQ", 0xF11A48D5013417F5, checksum) + body
