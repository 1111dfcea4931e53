"""Marian's binary files: their tensors are those that were written, and damaged ones are refused."""

from __future__ import annotations

import gzip
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from harness.marian_bin import INTGEMM8, bin_file, dequantized, with_alphas
from harness.marian_npz import SSRU, marian_options, random_tensors
from s2s.errors import CheckpointError
from s2s_transformer.marian_bin import BinTensors
from s2s_transformer.marian_files import open_marian

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = marian_options(**SSRU)
TENSORS = random_tensors(OPTIONS)


def matrices(content: bytes, path: Path) -> dict[str, torch.Tensor]:
    path.write_bytes(content)
    return dict(BinTensors(path))


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", ["float32", *INTGEMM8])
def test_tensors_are_those_that_were_written(kind: str, packed: Any, tmp_path: Path) -> None:
    found = matrices(packed(bin_file(OPTIONS, TENSORS, kind)), tmp_path / "m.bin")
    expected = TENSORS if kind == "float32" else dequantized(TENSORS, kind)
    assert found.keys() == {*expected, "special:model.yml"}
    for name, x in expected.items():
        np.testing.assert_array_equal(found[name].numpy(), x, err_msg=name)
    assert (kind == "float32") == all((found[name].numpy() == x).all() for name, x in TENSORS.items())


def test_integers_are_the_rounded_products_of_weights_and_multiplier(tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_bytes(bin_file(OPTIONS, TENSORS, "Firefox"))
    file = BinTensors(tmp_path / "m.bin")
    for name, w in TENSORS.items():
        if m := file.multiplier(name):
            assert m == np.float32(127) / np.abs(w).max()
            again = torch.round(file[name] * m).numpy()
            np.testing.assert_array_equal(again, np.rint(w * np.float32(m)), err_msg=name)


def test_recorded_scales_of_inputs_are_no_tensors_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_bytes(bin_file(OPTIONS, with_alphas(TENSORS), "Firefox"))
    _, tensors = open_marian(tmp_path / "m.bin")
    assert tensors.keys() == TENSORS.keys()


GOOD = bin_file(OPTIONS, TENSORS, "Firefox")
FIRST = 16  # the first header


def changed(at: int, *values: int) -> bytes:
    new = struct.pack(f"<{len(values)}Q", *values)
    return GOOD[:at] + new + GOOD[at + len(new) :]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not begin with version 1"),
        (b"PK" + GOOD, "does not begin with version 1"),
        (GOOD[:20], "cut off"),
        (GOOD[:-1], "cut off"),
        (changed(8, 2**63), "cut off"),
        (changed(FIRST, 2**40), "a name of 1099511627776 bytes"),
        (changed(FIRST + 8, 0x1801), "packed for one kind of processor"),
        (changed(FIRST + 8, 0x999), "packed for one kind of processor"),
        (changed(FIRST + 16, 2**50), "a tensor of 1125899906842624 dimensions"),
        (changed(FIRST + 24, 8), "but has 8 bytes"),
        (changed(FIRST + 24, 2**60), "cut off"),
        (GOOD.replace(b"decoder_l1_context_Wk\0", b"decoder_l1_context_Wo\0"), "is there twice"),
        (GOOD.replace(b"decoder_l1", b"\xff\xfe\xfd\xfcder_l1"), "no model in Marian's binary format"),
        (gzip.compress(GOOD)[:-9], "the gzip file is cut off"),
        (gzip.compress(GOOD + bytes(10_000_000)), "100 times as large"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_damaged_file_is_refused_in_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=said) as caught:
        matrices(content, tmp_path / "m.bin")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_not_positive_is_refused(scale: float, tmp_path: Path) -> None:
    tensors = {"a_Wq": np.ones((2, 2), np.float32)}
    content = bin_file({}, tensors, "Firefox")
    content = content.replace(np.float32(127).tobytes(), np.float32(scale).tobytes())
    with pytest.raises(CheckpointError, match="which is not positive"):
        matrices(content, tmp_path / "m.bin")


def test_no_cut_makes_a_file_that_is_read(tmp_path: Path) -> None:
    for end in range(0, len(GOOD) - 1, 997):
        with pytest.raises(CheckpointError):
            matrices(GOOD[:end], tmp_path / "m.bin")
