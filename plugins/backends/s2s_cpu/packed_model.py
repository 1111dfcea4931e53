"""A model made of functions in C as one file, which a process without torch maps and searches.

The file is a checksum, a line of JSON and, from the next multiple of `PAGE` bytes on, the model's structures and the
memory that they point to; pointers are offsets from there, and `pointers` says where they are. `s2s_cpu.packing` writes
it. Only a file that no other user can have written may be read, since the functions trust the sizes in it.
"""

from __future__ import annotations

__all__ = ["DIGEST", "FORMAT", "PAGE", "PackedModel", "aligned"]

import ctypes
import hashlib
import json
import mmap
from ctypes import c_char, c_int64
from typing import TYPE_CHECKING

from s2s_cpu.structs import ModelStruct, ShortlistStruct, SourceModelStruct

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "s2s packed model 1"
PAGE = 4096
DIGEST = 64
"""Bytes of the sha256, in hex, of all that follows"""


class PackedModel:
    """A model in a file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError for a file that is no such model, or is damaged."""
        with path.open("rb") as file:
            self.memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        with memoryview(self.memory) as whole, whole[DIGEST:] as contents:
            if hashlib.sha256(contents).hexdigest().encode() != self.memory[:DIGEST]:
                raise ValueError(f"{path} is damaged")
        line = self.memory[DIGEST : self.memory.find(b"\n", DIGEST) + 1]
        header, begin = json.loads(line), aligned(DIGEST + len(line), PAGE)
        if header["format"] != FORMAT:
            raise ValueError(f"{path} has another format")
        base = ctypes.addressof(c_char.from_buffer(self.memory, begin))
        for at in header["pointers"]:
            c_int64.from_buffer(self.memory, begin + at).value += base
        self.source = SourceModelStruct.from_buffer(self.memory, begin + header["source"])
        self.target = ModelStruct.from_buffer(self.memory, begin + header["target"])
        self.shortlist: ShortlistStruct | None = None
        if "shortlist" in header:
            self.shortlist = ShortlistStruct.from_buffer(self.memory, begin + header["shortlist"])
        self.n_tokens: int = header["n_tokens"]
        """Of the source's vocabulary"""
        self.n_positions: int | None = header["n_positions"]
        """Tokens of a source, and of an output with eos, whose positions are encoded; None: none are added"""
        self.max_len: int | None = header["max_len"]
        """Tokens that the model takes; None: any number"""
        self.is_constrained: bool = header["is_constrained"]
        """Whether a constraint of the task applies to outputs"""
        self.automaton: dict[str, list[int]] | None = header["automaton"]
        """The tables of that constraint, if it is these alone"""


def aligned(n_bytes: int, to: int) -> int:
    """n_bytes, rounded up to a multiple of `to`."""
    return -(-n_bytes // to) * to
