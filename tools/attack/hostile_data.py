"""Hostile tables, JSON, compressed files, tokenisers and weights: depth, declared sizes, quotes, damage."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


def table(draw: random.Random) -> tuple[str, bytes]:
    """What is hostile, and a table of commas."""
    n = draw.choice((30, 3000, 1_000_000))
    texts = {
        "unclosed": 'src,tgt\n"a,b\n' + "line of text\n" * n,
        "quotes": '"' * n,
        "pairs of quotes": '""' * n + ",x\n",
        "columns": "a," * n + "\n" + "b," * n,
        "delimiters": ",;|\t" * n,
        "null": "a,b\n" + "\0,\0\n" * min(n, 3000),
        "returns": "a,b\r" * n,
        "long": "a," + "x" * (2 * n) + "\n",
        "formula": '=cmd|"/c calc"!A1,b\n' * min(n, 3000),
        "header": "src,src,tgt,tgt\n" + "a,b,c,d\n" * 3,
        "byte order": "\ufeff" * n + "a,b\n",
        "one quote a line": 'a"b,c"d\n"' * min(n, 3000),
    }
    what = draw.choice(list(texts))
    return what, texts[what].encode()


def record(draw: random.Random) -> tuple[str, bytes]:
    """What is hostile, and JSON."""
    n = draw.choice((30, 3000, 1_000_000))
    good = '{"src": "a", "tgt": "b"}'
    texts = {
        "lists": "[" * n + "]" * n,
        "objects": '{"a":' * n,
        "deep in a pair": '{"src": "a", "tgt": ' + "[" * n + "]" * n + "}",
        "digits": '{"src": "a", "tgt": ' + "9" * n + "}",
        "exponent": '{"src": "a", "tgt": 1e' + "9" * min(n, 3000) + "}",
        "twice": '{"src": "a", "src": "b", "tgt": "c"}',
        "keys": "{" + ",".join(f'"{i}": 1' for i in range(min(n, 100_000))) + "}",
        "surrogate": '{"src": "\\ud800", "tgt": "\\udc00\\ud800"}',
        "null": '{"src": "\\u0000", "tgt": "a\\u0000b"}',
        "escapes": '{"src": "' + "\\" * n + '"}',
        "NaN": '{"src": NaN, "tgt": Infinity}',
        "array": "[" + ",".join([good] * min(n, 3000)) + "," * n + "]",
        "types": '{"src": ["a"], "tgt": {"b": 1}}\n{"src": true, "tgt": null}\n5\n"x"\n[]',
        "dots": '{"a": {"b": {"c": "x"}}, "a.b": "y", "": "z"}',
        "unclosed": '{"src": "' + "x" * n,
        "blanks": " " * n + good + "\t" * n,
    }
    what = draw.choice(list(texts))
    return what, texts[what].encode()


def packed(draw: random.Random, suffix: str) -> tuple[str, bytes]:
    """What is hostile, and a compressed file that claims to be text."""
    packs: dict[str, Callable[[bytes], bytes]]
    packs = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": _zst}
    pack = packs[suffix]
    way = draw.choice(("zeros", "one line", "cut", "flipped", "twice", "random", "behind", "empty", "in itself"))
    if way in ("zeros", "one line"):
        n = draw.choice((1 << 20, 1 << 23, 1 << 27 if suffix in ("gz", "zst") else 1 << 23))
        return way, pack((b"\0" if way == "zeros" else b"a ") * n)
    data = pack(b"a line of text\n" * 999)
    if way == "flipped":
        changed = bytearray(data)
        for _ in range(9):
            changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        return way, bytes(changed)
    others = {"cut": data[: draw.randrange(len(data))], "twice": data * 2, "random": data[:6] + draw.randbytes(999)}
    return way, {**others, "behind": data + b"x" * 99, "empty": b"", "in itself": pack(pack(data))}[way]


def _zst(data: bytes) -> bytes:
    from s2s.data.compression import _zstd

    packed: bytes = _zstd().compress(data)
    return packed


def arrow(draw: random.Random, kind: str) -> tuple[str, bytes]:
    """What is hostile, and a file of Parquet, or of Arrow as a file or as a stream."""
    import pyarrow
    from pyarrow import parquet

    n = draw.choice((3, 300))
    rows = pyarrow.table({"src": ["the dog"] * n, "tgt": ["der hund"] * n, "n": list(range(n))})
    target = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(rows, target, compression=draw.choice(("snappy", "gzip", "none", "zstd")))
    else:
        make = draw.choice((pyarrow.ipc.new_file, pyarrow.ipc.new_stream))
        with make(target, rows.schema) as writer:
            writer.write_table(rows)
    return damaged(draw, target.getvalue())


def damaged(draw: random.Random, data: bytes) -> tuple[str, bytes]:
    """A binary file with flipped bits, other lengths, or a part of it."""
    changed, way = bytearray(data), draw.choice(("bits", "lengths", "lengths", "cut", "zeros", "twice"))
    if way == "cut":
        return way, data[: draw.randrange(len(data))]
    if way == "twice":
        return way, data * 2
    for _ in range(draw.choice((1, 3, 30))):
        at = draw.randrange(len(data))
        if way == "bits":
            changed[at] ^= 1 << draw.randrange(8)
        elif way == "zeros":
            changed[at : at + 16] = bytes(len(changed[at : at + 16]))
        else:
            number = struct.pack("<q", draw.choice((-1, 2**31 - 1, 2**31, 2**62, -(2**63), 10**9, 0)))
            size = draw.choice((4, 8))
            at -= at % 4
            changed[at : at + size] = number[: len(changed[at : at + size])]
    return way, bytes(changed[: len(data)])


def tokenizer(draw: random.Random, content: dict[str, Any]) -> tuple[str, bytes]:
    """What is hostile, and a tokenizer.json made of a good one."""
    n = draw.choice((30, 3000, 300_000))
    last = list(content["model"]["vocab"])[-1]
    ways: dict[str, Callable[[], Any]] = {
        "a huge id": lambda: content["model"]["vocab"].update({last: draw.choice((2**31, 2**32 - 1, 10**8))}),
        "a negative id": lambda: content["model"]["vocab"].update({last: -1}),
        "an id twice": lambda: content["model"]["vocab"].update({"twice": 0, "again": 0}),
        "a pattern": lambda: content.update(
            pre_tokenizer={
                "type": "Split",
                "pattern": {"Regex": draw.choice(("(a+)+$", "(?:a|a)*b", "(", "(?=(a+))*", "a{99999}"))},
                "behavior": "Isolated",
                "invert": False,
            }
        ),
        "a long token": lambda: content["model"]["vocab"].update({"x" * n: 5}),
        "many added": lambda: content["added_tokens"].extend(
            {"id": 1000 + i, "content": f"<{i}>", **dict.fromkeys(FLAGS, False)} for i in range(min(n, 3000))
        ),
        "an empty one": lambda: content["added_tokens"].append({"id": 0, "content": "", **dict.fromkeys(FLAGS, False)}),
        "a template": lambda: content.update(
            post_processor={"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {"x": {}}}
        ),
        "types": lambda: content.update({draw.choice(list(content)): draw.choice((5, "x", [], None, {"type": "y"}))}),
        "no model": lambda: content.pop("model"),
    }
    way = draw.choice([*ways, "depth", "cut"])
    if way == "depth":
        return way, b'{"version":' + b"[" * n
    if way == "cut":
        data = json.dumps(content).encode()
        return way, data[: draw.randrange(len(data))]
    ways[way]()
    return way, json.dumps(content).encode()


FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def tensors(draw: random.Random, data: bytes) -> tuple[str, bytes]:
    """What is hostile, and a file of safetensors made of a good one."""
    n_header = struct.unpack("<Q", data[:8])[0]
    header, rest = json.loads(data[8 : 8 + n_header]), data[8 + n_header :]
    name = draw.choice([key for key in header if key != "__metadata__"])
    ways: dict[str, Any] = {
        "shape": {"shape": draw.choice(([2**62, 4], [-1], [2**32, 2**32], [0], [], [1e9], "x"))},
        "offsets": {"data_offsets": draw.choice(([0, 2**62], [-8, 8], [8, 0], [0, len(rest) + 8], [0], None))},
        "type": {"dtype": draw.choice(("F64", "I64", "BOOL", "X", "", 5))},
    }
    way = draw.choice([*ways, "length", "depth", "name", "bytes"])
    if way == "length":
        return way, struct.pack("<Q", draw.choice((2**63, 2**40, 99_999_999, 0, 3))) + data[8:]
    if way == "bytes":
        return damaged(draw, data)
    if way == "depth":
        text = b'{"a":' * draw.choice((30, 100_000))
    elif way == "name":
        text = json.dumps({**header, "../" * 99: header[name], "\0": header[name]}).encode()
    else:
        text = json.dumps({**header, name: {**header[name], **ways[way]}}).encode()
    return way, struct.pack("<Q", len(text)) + text + rest
