"""The memory that importing a model takes: that of its weights in fp32, and no second copy of them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file

import s2s
from harness.published import opus_mt
from s2s_import.command import main as import_model

if TYPE_CHECKING:
    from pathlib import Path

WIDE = {"d_model": 640, "encoder_ffn_dim": 2560, "decoder_ffn_dim": 2560, "encoder_layers": 4, "decoder_layers": 4}


CODE = """
import pathlib, re, sys
from s2s_import.command import main
assert main(sys.argv[1:]) == 0
print(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
"""


def peak(folder: Path, name: str) -> int:
    """Bytes of the largest resident memory of s2s-import, mapped files included; that of wait4 would be this process's,
    if it is larger."""
    command = [sys.executable, "-c", CODE, f"model={name}", f"run={name}-run", "--quiet"]
    return 1024 * int(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_weights_in_16_bits_stay_so_in_the_run(
    dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opus_mt(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    theirs = {name: x.to(dtype) for name, x in load_file(file).items()}
    save_file(theirs, file, {"format": "pt"})
    assert import_model(["model=model", "run=ours", "--quiet"]) == 0
    saved = load_file(tmp_path / "runs" / "ours" / "checkpoints" / "step-000000" / "model.safetensors")
    assert {x.dtype for x in saved.values()} == {dtype}
    ours = s2s.load("ours", matmul="torch").model.state_dict()  # other products keep weights in forms of their own
    assert all(torch.equal(ours[name], x.float()) for name, x in saved.items())
    embeddings = ours["embeddings.shared"], theirs["model.shared.weight"].float()  # whose columns are in another order
    assert torch.equal(*(x.sort(dim=1).values for x in embeddings))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory in other ways")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_an_import_holds_the_weights_once(dtype: torch.dtype, tmp_path: Path) -> None:
    opus_mt(tmp_path / "small")
    n_weights = sum(p.numel() for p in opus_mt(tmp_path / "large", **WIDE).parameters())
    file = tmp_path / "large" / "model.safetensors"
    save_file({name: x.to(dtype) for name, x in load_file(file).items()}, file, {"format": "pt"})
    more = peak(tmp_path, "large") - peak(tmp_path, "small")
    assert 1.0 < more / (4 * n_weights) < 1.5
    runs = (tmp_path / "runs" / "large-run" / "checkpoints").glob("*/model.safetensors")
    assert next(runs).stat().st_size < 1.01 * file.stat().st_size + 1e5
