"""The plugin of the page about ports: a stranger's importer of a foreign checkpoint, with public names alone."""

from __future__ import annotations

import ast
import re
import shutil
from typing import TYPE_CHECKING

import pytest
import torch

import s2s
from harness.folders import ROOT
from harness.tiny_runs import SMALL, call, write_corpus
from s2s.checkpoint.directory import load

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (ROOT / "docs" / "playbooks" / "port_a_model.md").read_text(encoding="utf-8")
((NAME, CODE),) = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
V = 40
OPTIONS = ["arch.norm_eps=1e-5", "arch.activation=silu", "arch.output_bias=true"]


def save_marian(folder: Path, **options: int) -> None:
    """A random MarianMTModel of the size of `SMALL`."""
    transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
    torch.manual_seed(5)
    ends = {"layers": 1, "attention_heads": 2, "ffn_dim": 8}
    sizes = {f"{side}_{end}": n for side in ("encoder", "decoder") for end, n in ends.items()}
    ids = {"pad_token_id": 0, "eos_token_id": 3, "bos_token_id": 2, "decoder_start_token_id": 0}
    sizes |= {"vocab_size": V, "decoder_vocab_size": V, "d_model": 8, "max_position_embeddings": 32, **ids, **options}
    config = transformers.MarianConfig(**sizes, activation_function="swish", scale_embedding=True)
    model = transformers.MarianMTModel(config)
    model.final_logits_bias.normal_()
    model.save_pretrained(folder)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    (tmp_path / NAME).write_text(CODE, encoding="utf-8")
    return tmp_path


def train(*arguments: str) -> list[str]:
    plugin = [f"plugins=[{NAME}]", "train.from_marian=marian"]
    return [*plugin, *SMALL, "run=x", "train.steps=0", "--quiet", *arguments]


def test_the_plugin_is_short_and_imports_public_names_alone() -> None:
    assert len(CODE.splitlines()) < 60
    for node in ast.walk(ast.parse(CODE)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "s2s":
            assert node.module in s2s.PUBLIC
    assert "environ" not in CODE


def test_a_run_starts_from_a_foreign_checkpoint(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_marian(here / "marian")
    code, _, err = call("s2s-train", train(*OPTIONS), capsys)
    assert code == 0, err
    first = load(here / "runs/x/checkpoints/step-000000").tensors["model"]
    from transformers import MarianMTModel

    theirs = MarianMTModel.from_pretrained(here / "marian").state_dict()
    assert torch.equal(first["embeddings.bias"], theirs["final_logits_bias"][0])
    assert torch.equal(first["encoder.0.feed_forward.inner.bias"], theirs["model.encoder.layers.0.fc1.bias"])
    qkv = torch.cat([theirs[f"model.decoder.layers.0.self_attn.{name}_proj.bias"] for name in "qkv"])
    assert torch.equal(first["decoder.0.attention.qkv.bias"], qkv)
    shutil.rmtree(here / "marian")  # a resumed run has weights of its own
    code, _, err = call("s2s-train", train(*OPTIONS, "train.steps=2"), capsys)
    assert code == 0, err
    last = load(here / "runs/x/checkpoints/step-000002").tensors["model"]
    assert not torch.equal(last["embeddings.bias"], first["embeddings.bias"])


@pytest.mark.parametrize(
    ("options", "size", "error"),
    [
        ([], {}, "give arch.norm_eps=1e-05 arch.activation=silu arch.output_bias=true"),
        (OPTIONS, {"encoder_layers": 2}, "give arch.n_encoder_layers=2"),
        (OPTIONS, {"vocab_size": 41, "decoder_vocab_size": 41}, "'model.shared.weight' is [41, 8]"),
    ],
    ids=["options", "layers", "vocabulary"],
)
def test_what_does_not_fit_is_named(
    options: list[str], size: dict[str, int], error: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_marian(here / "marian", **size)
    code, _, err = call("s2s-train", train(*options), capsys)
    assert code == 2
    assert error in err
