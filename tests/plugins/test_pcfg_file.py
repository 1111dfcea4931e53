"""The file of a grammar: whatever else it holds is refused in one line."""

from __future__ import annotations

import io
import math
import os
import random
import struct
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from s2s.backend.memory import AvailableMemory
from s2s.errors import DataError
from s2s_pcfg import grammar_file
from s2s_pcfg.command import main
from s2s_pcfg.grammar_file import write_arrays
from s2s_pcfg.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TREES = [
    "(TOP (S (NP (D the) (N dog)) (VP (V sees) (NP (D a) (A old) (N cat)))))",
    "(TOP (S (VP (V see))))",
    "(TOP (FRAG (NP (N cats)) (. .)))",
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar in a file."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "trees.mrg").write_text("".join(f"{tree}\n" for tree in TREES))
    arguments = [f"task.train={folder}/trees.mrg", f"output={folder}/g.npz", "splits=1", "iterations=2", "--quiet"]
    assert main(["train", *arguments]) == 0
    return folder / "g.npz"


def changed(name: str, index: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][index] = value

    return change


def replaced(**others: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    return lambda arrays: arrays.update({name: other(arrays[name]) for name, other in others.items()})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (changed("p_binary", (0, 0, 0, 0), math.nan), "no probabilities"),
        (changed("coarse_p_root", 0, -0.5), "no probabilities"),
        (changed("p_lexical", (0, 0), math.inf), "no probabilities"),
        (replaced(p_root=lambda p: p / 2), "does not sum to 1"),
        (changed("binary", (0, 0), -1), "none of a symbol"),
        (changed("lexical", (0, 1), 10**6), "none of a symbol or word"),
        (changed("unary", 0, [2**62, 0]), "none of a symbol"),
        (changed("n_substates", 0, 0), "out of range"),
        (changed("n_substates", 0, 2**40), "out of range"),
        (replaced(binary=lambda a: a[[0, *range(len(a) - 1)]]), "a rule twice"),
        (replaced(symbols=lambda a: a[[0, *range(len(a) - 1)]]), "a name twice"),
        (changed("symbols", 0, "a\nb"), "no label"),
        (replaced(p_binary=lambda a: a.astype("float32")), "has the type float32"),
        (replaced(binary=lambda a: a.astype(float)), "has the type float64"),
        (replaced(words=lambda a: np.arange(len(a))), "has the type int64"),
        (replaced(by_tags=lambda _: np.array(3)), "has the type int64"),
        (replaced(p_unary=lambda a: a[1:]), "has the shape"),
        (replaced(p_root=lambda a: a[..., None]), "has the shape"),
        (replaced(known=lambda a: a.reshape(1, -1)), "has the shape"),
        (lambda arrays: arrays.pop("known"), "other names"),
        (lambda arrays: arrays.update(more=np.zeros(3)), "other names"),
        (replaced(known=lambda a: a.astype(object)), "pickle"),
    ],
)
def test_a_grammar_of_wrong_arrays_is_refused(
    change: Any, why: str, saved: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(saved) as file:
        arrays = {name: array for name, array in file.items() if name != "sha256"}
    change(arrays)
    write_arrays(tmp_path / "g.npz", arrays)
    (tmp_path / "in.txt").write_text("the dog\n")
    assert main(["parse", f"grammar={tmp_path}/g.npz", f"input={tmp_path}/in.txt"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err
    assert len(err.splitlines()) == 1


def test_every_damaged_byte_of_a_grammar_is_found(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    before = Parser(saved, 1e-5).parse(["the", "dog"])
    draw, n_found = random.Random(1), 0
    for _ in range(150):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (tmp_path / "g.npz").write_bytes(data[: draw.choice([len(data), len(data), draw.randrange(len(data))])])
        try:
            assert Parser(tmp_path / "g.npz", 1e-5).parse(["the", "dog"]) == before  # a time, or another unused field
        except DataError:
            n_found += 1
    assert n_found > 100


def test_a_grammar_that_needs_too_much_memory_is_not_unpacked(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(saved) as file:
        arrays = dict(file)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    declared = struct.pack("<L", zipfile.ZipFile(buffer).getinfo("known.npy").file_size)
    (tmp_path / "g.npz").write_bytes(buffer.getvalue().replace(declared, b"\xfe\xff\xff\xff"))
    monkeypatch.setattr(grammar_file, "available_memory", lambda: AvailableMemory(1 << 30, "here"))
    with pytest.raises(DataError, match=r"unpacks to [\d,]+ bytes, and here"):
        Parser(tmp_path / "g.npz", 1e-5)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_grammar_that_is_no_file_is_refused(make: Any, tmp_path: Path, capsys: Any) -> None:
    make(tmp_path / "g.npz")
    assert main(["parse", f"grammar={tmp_path}/g.npz", "input=/dev/null"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
