"""Hostile files of models: pickles with code, archives that unpack to much, headers and numbers that no model has."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load, save

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from torch import Tensor

BOMB = b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + i, 98 + i, b", ".join([b"*%c" % (97 + i)] * 9)) for i in range(12)
)
"""YAML whose aliases stand for 9 ** 13 values"""
HUGE = (2**31 - 1, 2**31, 2**40, 2**62, 10**30)
YML = "special:model.yml.npy"


class Code:
    """What a pickle executes when it is read."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """All tensors of a file."""
    return load(file.read_bytes())


def pickled(draw: random.Random, weights: dict[str, Tensor], canary: Path) -> tuple[str, bytes]:
    """What is hostile, and a file as torch.save writes it."""
    name = draw.choice(list(weights))
    touch = f"open({str(canary)!r}, 'w').close()"
    ways: dict[str, Any] = {
        "system": {**weights, name: Code(os.system, f"touch {canary}")},
        "eval": {**weights, name: Code(eval, touch)},
        "exec in args": {"args": Code(exec, touch), "model": weights},
        "a class": {"cfg": Code(getattr, "".__class__, "__base__"), "model": weights},
        "no tensors": {**weights, name: "text"},
        "names": {5: weights[name]},
        "nested": {"model": {"model": weights}},
        "one": weights[name],
        "huge": {**weights, name: Code(torch.zeros, 2**40)},
        "shape": {**weights, name: torch.zeros(3)},
        "missing": {key: value for key, value in weights.items() if key != name},
        "expanded": {**weights, name: torch.zeros(1).expand(2**34)},
    }
    way = draw.choice([*ways, "plain", "bomb", "cut", "deep", "not a pickle"])
    if way == "plain":
        return way, pickle.dumps(Code(os.system, f"touch {canary}"))
    if way == "deep":
        return way, b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b"."
    if way == "not a pickle":
        return way, draw.randbytes(999)
    target = io.BytesIO()
    is_zip = draw.random() < 0.7 or way == "bomb"
    torch.save(ways.get(way, weights), target, _use_new_zipfile_serialization=is_zip)
    content = target.getvalue()
    if way == "bomb":
        return way, _with_member(content, "archive/data/0", bytes(1 << 28))
    if way == "cut":
        return way, content[: draw.randrange(len(content))]
    return f"{way}{'' if is_zip else ', without zip'}", content


def numbers(draw: random.Random, content: dict[str, Any]) -> str:
    """Replace a number of a configuration, in place."""
    names = [name for name, value in content.items() if isinstance(value, int | float) and not isinstance(value, bool)]
    name = draw.choice(names)
    content[name] = draw.choice((*HUGE, -1, 0, -(2**40), 1e300, 0.5, "5", True, None, [1], 10_000_000))
    return f"{name}={content[name]}"


def tensors(draw: random.Random, file: bytes) -> tuple[str, bytes]:
    """What is hostile, and safetensors with other tensors than the model has."""
    weights = load(file)
    name = draw.choice(list(weights))
    tensor = weights[name]
    ways: dict[str, Any] = {
        "transposed": {**weights, name: tensor.t().contiguous() if tensor.dim() == 2 else tensor[:0]},
        "empty": {**weights, name: tensor[:0]},
        "a number": {**weights, name: torch.tensor(1.0)},
        "more dimensions": {**weights, name: tensor[None, None].clone()},
        "missing": {key: value for key, value in weights.items() if key != name},
        "unknown": {**weights, f"{name}.more": tensor.clone()},
        "integers": {**weights, name: tensor.long()},
        "not finite": {**weights, name: tensor * torch.nan},
        "complex": {**weights, name: tensor.to(torch.complex64)},
        "none": {},
    }
    way = draw.choice([*ways, "a header of 2^60", "the same bytes", "twice"])
    if way == "a header of 2^60":
        return way, struct.pack("<Q", 2**60) + file[8:]
    if way == "twice":
        n_header = struct.unpack("<Q", file[:8])[0]
        header = file[8 : 8 + n_header].rstrip()
        entry = json.dumps({name: json.loads(header)[name]})[1:-1].encode()
        header = header[:-1] + b"," + entry + b"}"
        return way, struct.pack("<Q", len(header)) + header + file[8 + n_header :]
    if way == "the same bytes":
        n_header = struct.unpack("<Q", file[:8])[0]
        content = json.loads(file[8 : 8 + n_header])
        others = [key for key in content if key not in ("__metadata__", name)]
        content[name] = content[draw.choice(others)]
        text = json.dumps(content).encode()
        return way, struct.pack("<Q", len(text)) + text + file[8 + n_header :]
    return way, save(ways[way])


def archive(draw: random.Random, file: bytes) -> tuple[str, bytes]:
    """What is hostile, and a model.npz."""
    with zipfile.ZipFile(io.BytesIO(file)) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    name = draw.choice([one for one in members if one != YML])
    array = np.load(io.BytesIO(members[name]))
    ways: dict[str, Any] = {
        "objects": _npy(np.array([Code(os.system, "true")], dtype=object)),
        "shape": _npy(array[:, :-1]),
        "empty": _npy(array[:0]),
        "flat": _npy(array.ravel()),
        "text": b"text",
        "header": _header("(99999999999,)"),
        "negative": _header("(-1, -1)"),
        "code": _header("().__class__"),
        "a dictionary": _header("{'a': " * 99 + "1" + "}" * 99),
        "not finite": _npy(array * np.float32(np.nan)),
        "zeros": bytes(1 << 28),
        "many zeros": _npy(np.zeros((1 << 14, 1 << 14), np.float32)),
    }
    options = {
        "bomb": BOMB,
        "deep": b"[" * 100_000,
        "python": b"!!python/object/apply:os.system ['true']",
        "a list": b"[]",
        "depth": b"enc-depth: 999999999\n",
        "width": _changed(members[YML], {b"dim-emb: 12": b"dim-emb: 1073741824"}),
        "layers": _changed(members[YML], {b"enc-depth: 1": b"enc-depth: 1000000"}),
        "heads": _changed(members[YML], {b"transformer-heads: 3": b"transformer-heads: 0"}),
        "not text": b"\xff\xfe\xfd",
    }
    way = draw.choice([*ways, *options, "twice", "missing", "no options", "folder", "unknown", "stored"])
    if way in ways:
        members[name] = ways[way]
    elif way in options:
        text = options[way] + b"\0" * 9
        members[YML] = _npy(np.frombuffer(text, np.int8)) if way not in ("width", "layers", "heads") else options[way]
    elif way == "missing":
        del members[name]
    elif way == "no options":
        del members[YML]
    elif way == "unknown":
        members["decoder_l9_self_Wq.npy"] = members[name]
    elif way == "folder":
        members["../../canary.npy"] = members.pop(name)
    content = _zip(members)
    return way, _with_member(content, name, members[name]) if way == "twice" else content


def options(draw: random.Random) -> tuple[str, bytes]:
    """What is hostile, and options of Marian beside a model."""
    texts = {
        "bomb": BOMB,
        "deep": b"[" * 100_000,
        "python": b"!!python/object/apply:os.system ['true']",
        "beam": b"beam-size: 1000000000\n",
        "words": b"beam-size: many\nnormalize: [1]\n",
        "negative": b"beam-size: -5\nnormalize: -.inf\n",
        "vocabs": b"vocabs: [../../secret.txt, /etc/passwd]\n",
        "no list": b"vocabs: {a: b}\n",
        "bytes": b"\xff\xfe\0\0",
        "long": b"a: " + b"x" * 10_000_000,
    }
    what = draw.choice(list(texts))
    return what, texts[what]


def unigram(draw: random.Random, content: dict[str, Any]) -> tuple[str, bytes]:
    """What is hostile, and a tokenizer.json of a unigram model made of a good one."""
    vocab = content["model"]["vocab"]
    at = draw.randrange(len(vocab))
    ways: dict[str, Any] = {
        "a score": lambda: vocab.__setitem__(at, [vocab[at][0], draw.choice((1e308, None, "x", -1e400))]),
        "twice": lambda: vocab.append(vocab[at]),
        "empty": lambda: vocab.__setitem__(at, ["", 0.0]),
        "long": lambda: vocab.__setitem__(at, ["x" * 300_000, 0.0]),
        "many": lambda: vocab.extend([f"t{i}", -9.0] for i in range(50_000)),
        "no unk": lambda: content["model"].update(unk_id=draw.choice((None, 10**9, -1))),
        "a huge id": lambda: content["added_tokens"].append(
            {**content["added_tokens"][0], "id": 2**32 - 1, "content": "<x>"}
        ),
        "a pattern": lambda: content.update(
            normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+(b+)+$"}, "content": "x" * 1000}
        ),
        "a charsmap": lambda: content.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA" * 99}),
        "sequences": lambda: content.update(normalizer=_nested(2000)),
    }
    way = draw.choice(list(ways))
    ways[way]()
    return way, json.dumps(content).encode()


def _nested(depth: int) -> Any:
    """Not as deep as json itself would refuse."""
    inner: Any = {"type": "NFC"}
    for _ in range(min(depth, 300)):
        inner = {"type": "Sequence", "normalizers": [inner]}
    return inner


def _npy(array: Any) -> bytes:
    written = io.BytesIO()
    np.save(written, array, allow_pickle=True)
    return written.getvalue()


def _header(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(48)


def _changed(member: bytes, changes: dict[bytes, bytes]) -> bytes:
    text = np.load(io.BytesIO(member)).tobytes().rstrip(b"\0")
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return _npy(np.frombuffer(text + b"\0" * 9, np.int8))


def _zip(members: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return written.getvalue()


def _with_member(file: bytes, name: str, content: bytes) -> bytes:
    """An archive with one more member, perhaps of a name that it has already."""
    import warnings

    written = io.BytesIO(file)
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(written, "a", zipfile.ZIP_DEFLATED) as target:
        target.writestr(name, content)
    return written.getvalue()
