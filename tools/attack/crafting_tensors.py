"""The ways to craft the files of tensors in a checkpoint, with a manifest that matches them."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from harness.corrupt_optimizer import OPTIM_CHANGES, vouch_again

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

RUN = "runs/x"


def saved_steps(folder: Path) -> list[Path]:
    """Those of the run, the newest last."""
    return sorted((folder / RUN / "checkpoints").glob("step-*"))


def tensors(draw: random.Random, folder: Path) -> str:
    """The header of a file of tensors is another, and the manifest right."""
    step = saved_steps(folder)[-1]
    file = step / draw.choice(("model.safetensors", "optim.safetensors"))
    data = file.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    name = draw.choice([key for key in header if key != "__metadata__"])
    ways: dict[str, Callable[[], Any]] = {
        "dtype": lambda: header[name].update(dtype=draw.choice(["F64", "I8", "BF16", "BOOL", "F8_E4M3", "U64", "XX"])),
        "shape": lambda: header[name].update(shape=draw.choice([[], [0], [2**62, 2**62], [-1], [1] * 500, "x", None])),
        "offsets": lambda: header[name].update(data_offsets=draw.choice([[0, 0], [0, 2**63], [9, 1], [-1, 4], None])),
        "gone": lambda: header.pop(name),
        "named": lambda: header.update({draw.choice(["../x", "", "a" * 10**5, "\x00"]): header.pop(name)}),
        "aliases": lambda: header.update(
            {"__metadata__": {"aliases": draw.choice(['{"a": "nix"}', "[]", "5", "[" * 10**5, "{}"])}}
        ),
        "metadata": lambda: header.update({"__metadata__": draw.choice([{}, {"aliases": "x"}, {"format": "np"}])}),
    }
    way = draw.choice(list(ways))
    ways[way]()
    raw = json.dumps(header).encode()
    length = draw.choice([len(raw)] * 6 + [2**63, 2**40, 0, len(data) * 2])
    file.write_bytes(struct.pack("<Q", length) + raw + data[8 + n :])
    vouch_again(step)
    return f"{file.name}: {way} of {name}, header of {length}"


def numbers(draw: random.Random, folder: Path) -> str:
    """Weights or moments are NaN, infinite or random bytes, and the manifest right."""
    step = saved_steps(folder)[-1]
    file = step / draw.choice(("model.safetensors", "optim.safetensors"))
    data = file.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    body, way = len(data) - 8 - n, draw.choice(("nan", "inf", "random", "zero"))
    value = {"nan": float("nan"), "inf": float("inf"), "zero": 0.0}.get(way)
    filling = draw.randbytes(body) if value is None else struct.pack("<f", value) * (body // 4 + 1)
    file.write_bytes(data[: 8 + n] + filling[:body])
    vouch_again(step)
    return f"{file.name}: {way}"


def moments(draw: random.Random, folder: Path) -> str:
    """The optimizer's state is one that nothing can step with, and the manifest right."""
    step, way = saved_steps(folder)[-1], draw.choice(list(OPTIM_CHANGES))
    place = OPTIM_CHANGES[way](step)
    vouch_again(step)
    return f"optimizer: {way}, {place}"


def cut(draw: random.Random, folder: Path) -> str:
    """A file of tensors ends early, or has more behind it, and the manifest is right."""
    step = saved_steps(folder)[-1]
    file = step / draw.choice(("model.safetensors", "optim.safetensors"))
    data = file.read_bytes()
    n = draw.choice((0, 1, 7, 8, 9, len(data) // 2, len(data) - 4, len(data) - 1, len(data) + 1, len(data) + 4096))
    file.write_bytes(data[:n].ljust(n, b"\0"))
    vouch_again(step)
    return f"{file.name}: {n} of {len(data)} bytes"
