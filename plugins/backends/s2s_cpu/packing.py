"""Writes models for processes without torch; see `s2s_cpu.packed_model`."""

from __future__ import annotations

__all__ = ["pack_model"]

import ctypes
import hashlib
import itertools
import json
from ctypes import c_char, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.backend import fused
from s2s_cpu.packed_model import DIGEST, FORMAT, PAGE, aligned
from s2s_cpu.search_constraint import automaton_of
from s2s_cpu.stream_search import StreamSearch, shortlist_struct
from s2s_cpu.structs import ModelStruct, SourceModelStruct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor

    from s2s.decoding import SearchRequest
    from s2s_cpu.stream_model import StreamModel, Struct

LINE = 64
"""Bytes to a multiple of which blocks are aligned"""


class Block(NamedTuple):
    """Memory that structures point to."""

    address: int
    n_bytes: int
    struct: type[ctypes.Structure] | None = None
    """Of which it is an array; None: numbers"""


class Tables(NamedTuple):
    """Encodings of the first positions, [P, D]; None: the model adds none."""

    src: Tensor | None
    tgt: Tensor | None


def pack_model(path: Path, request: SearchRequest, n_positions: int, most_bytes: int) -> str | None:
    """Write the file of a request's model, of its shortlist and of its constraint, for up to `n_positions` tokens of a
    source and of an output, and return the digest of what it contains; the caller renames it into place.

    None if the model does not consist of functions in C, which return logits, if the constraint's tables are
    impossible, or if all this takes more than `most_bytes`.
    """
    model = request.model
    search = model.stream_search() if isinstance(model, fused.HasStreamSearch) else None
    if not isinstance(search, StreamSearch) or model.returns_log_probs:
        return None
    try:
        automaton = automaton_of(request.constraint, request.vocab.tgt)
    except ValueError:  # impossible tables, which a search that needs them reports
        return None
    n_positions = min(n_positions, model.max_len or n_positions)
    tables = Tables(search.positions.src(n_positions), search.positions.tgt(n_positions))
    others = {
        "n_tokens": search.n_tokens,
        "n_positions": None if tables.src is None and tables.tgt is None else n_positions,
        "max_len": model.max_len,
        "is_constrained": request.constraint is not None,
        "automaton": automaton.numbers if automaton else None,
    }
    return _write_model(path, search.model, tables, request, others, most_bytes)


def _write_model(
    path: Path,
    model: StreamModel,
    tables: Tables,
    request: SearchRequest,
    others: Mapping[str, Any],
    most_bytes: int,
) -> str | None:
    """Write a model; others: values of the line of JSON."""
    source = SourceModelStruct.from_buffer_copy(model.source)
    target = ModelStruct.from_buffer_copy(model.target)
    source.positions, target.positions = (None if table is None else table.data_ptr() for table in tables)
    tensors = (*model.tensors(), *(table for table in tables if table is not None))
    roots = {"source": source, "target": target}
    if shortlist := shortlist_struct(request):
        roots["shortlist"], tensors = shortlist, (*tensors, *(request.shortlist or ()))
    every = (*map(_block, tensors), *map(_struct_block, (*model.structs(), *roots.values())))
    blocks = list({block.address: block for block in every if block.n_bytes}.values())  # weights may be shared
    ends = list(itertools.accumulate(aligned(block.n_bytes, LINE) for block in blocks))
    if ends[-1] > most_bytes:
        return None
    begin_of = dict(zip((block.address for block in blocks), [0, *ends], strict=False))
    parts, pointers = list[bytes | bytearray | memoryview](), list[int]()
    for block in blocks:
        contents, found = _relocated(block, begin_of)
        pointers += found
        parts += [contents, bytes(-block.n_bytes % LINE)]
    begins = {name: begin_of[ctypes.addressof(struct)] for name, struct in roots.items()}
    header = {"format": FORMAT, "pointers": pointers, **others, **begins}
    line = json.dumps(header).encode() + b"\n"
    parts.insert(0, line.ljust(aligned(DIGEST + len(line), PAGE) - DIGEST, b"\0"))
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    with path.open("wb") as file:
        file.write(digest.hexdigest().encode())
        file.writelines(parts)
    return digest.hexdigest()


def _block(x: Tensor) -> Block:
    assert x.is_contiguous()
    return Block(x.data_ptr(), x.numel() * x.element_size())


def _struct_block(struct: Struct) -> Block:
    kind = struct._type_ if isinstance(struct, ctypes.Array) else type(struct)
    return Block(ctypes.addressof(struct), ctypes.sizeof(struct), kind)


def _relocated(block: Block, begin_of: Mapping[int, int]) -> tuple[memoryview | bytearray, list[int]]:
    """A block's contents, with offsets in place of pointers, and where in the file these are."""
    memory = (c_char * block.n_bytes).from_address(block.address)
    if block.struct is None:
        return memoryview(memory).cast("B"), []
    contents, found = bytearray(memory), []
    for begin in range(0, block.n_bytes, ctypes.sizeof(block.struct)):
        for at in _pointers(block.struct, begin):
            pointer = c_int64.from_buffer(contents, at)
            if pointer.value:
                pointer.value = begin_of[pointer.value]
                found.append(begin_of[block.address] + at)
    return contents, found


def _pointers(struct: type[ctypes.Structure], begin: int) -> Iterator[int]:
    """Where the pointers of a structure are that begins at `begin`."""
    for name, kind, *_ in struct._fields_:
        at = begin + getattr(struct, name).offset
        if issubclass(kind, ctypes.Structure):
            yield from _pointers(kind, at)
        elif kind is c_void_p or issubclass(kind, ctypes._Pointer):
            yield at
