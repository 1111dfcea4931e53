"""Checkpoints of fairseq: those of models that transformers has too, and pickles that would execute something."""

from __future__ import annotations

import builtins
import os
import pickle
import zipfile
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
import torch

from s2s.errors import CheckpointError
from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.fairseq import Fairseq
from s2s_transformer.fairseq_files import open_fairseq
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

V, D, HEADS, F, LONGEST = 29, 24, 3, 20, 19
SIDES = ("encoder", "decoder")
M2M = {"model": "M2M100", **{f"{side}_normalize_before": True for side in SIDES}}
BART = {"model": "Bart", "activation_fn": "gelu", "layernorm_embedding": True, "no_scale_embedding": True}
BART |= {f"{side}_learned_pos": True for side in SIDES}
CASES: dict[str, dict[str, Any]] = {
    "pre-norm": {**M2M, "share_all_embeddings": True},
    "learned": {**BART, "share_all_embeddings": True},
    "untied": {**M2M, "untied": True},
}


def theirs(case: dict[str, Any]) -> Any:
    """A random model of transformers with the same equations"""
    transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
    torch.manual_seed(3)
    sizes = {"encoder_layers": 2, "decoder_layers": 1, "d_model": D, "vocab_size": V}
    sizes |= {f"{side}_attention_heads": HEADS for side in SIDES} | {f"{side}_ffn_dim": F for side in SIDES}
    kind = getattr(transformers, f"{case['model']}ForConditionalGeneration")
    model = kind(kind.config_class(**sizes, max_position_embeddings=LONGEST, pad_token_id=1)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        if case.get("untied"):
            model.lm_head.weight = torch.nn.Parameter(torch.randn(V, D))
    return model


def options(case: dict[str, Any]) -> dict[str, Any]:
    sizes = {"encoder_layers": 2, "decoder_layers": 1}
    for side in SIDES:
        sizes |= {f"{side}_embed_dim": D, f"{side}_ffn_embed_dim": F, f"{side}_attention_heads": HEADS}
    return {"arch": "transformer", **sizes, **{key: x for key, x in case.items() if key not in ("model", "untied")}}


def tensors(model: Any, *, old: bool = False) -> dict[str, torch.Tensor]:
    """Under fairseq's names of today, or of 2019"""
    named = {name.removeprefix("model."): x for name, x in model.state_dict().items() if name != "final_logits_bias"}
    shared, out = named.pop("shared.weight"), named.pop("lm_head.weight")
    named |= {f"{side}.embed_tokens.weight": shared for side in SIDES}
    if not old:
        named |= {f"{side}.version": torch.tensor([3.0]) for side in SIDES}
        return {**named, "decoder.output_projection.weight": out}
    for name in [name for name in named if "q_proj" in name]:
        parts = [named.pop(name.replace("q_proj.", f"{part}_proj.")) for part in "qkv"]
        named[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    norms = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}
    for name in [name for name in named if ".layers." in name and "_layer_norm" in name]:
        side, _, layer, norm, kind = name.split(".")
        number = norms[side].index(norm.removesuffix("_layer_norm"))
        named[f"{side}.layers.{layer}.layer_norms.{number}.{kind}"] = named.pop(name)
    named |= {f"{side}.embed_positions._float_tensor": torch.zeros(1) for side in SIDES}
    return named if torch.equal(shared, out) else {**named, "decoder.embed_out": out}


def read(path: Path) -> Transformer:
    found, there = open_fairseq(path)
    form, vocab = Fairseq(), Vocab(src=V, tgt=V, pad=1, bos=2, eos=2, unk=3, joint=True)
    ours = Transformer(TransformerConfig(**form.read_options(found, there)), vocab).eval()
    form.names(ours.config).load(ours.state_dict(), there)
    return ours


def in_args(found: dict[str, Any], model: Any) -> dict[str, Any]:
    return {"args": Namespace(**found), "model": tensors(model, old=True), "extra_state": {"epoch": 3}}


def in_config(found: dict[str, Any], model: Any) -> dict[str, Any]:
    return {"args": None, "cfg": {"model": Namespace(**found), "task": None}, "model": tensors(model)}


def in_omegaconf(found: dict[str, Any], model: Any) -> dict[str, Any]:
    omegaconf = pytest.importorskip("omegaconf")
    return {"cfg": omegaconf.OmegaConf.create({"model": found}), "model": tensors(model)}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("form", [in_args, in_config, in_omegaconf])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@torch.no_grad()
def test_logits_are_those_of_the_same_model_in_transformers(
    case: dict[str, Any], form: Callable[..., dict[str, Any]], zipped: bool, tmp_path: Path
) -> None:
    model = theirs(case)
    torch.save(form(options(case), model), tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    ours = read(tmp_path / "m.pt")
    src, tgt = torch.tensor([[5, 6, 28, 7, 2], [9, 2, 1, 1, 1]]), torch.tensor([[2, 8, 4], [2, 11, 28]])
    expected = model(src, attention_mask=(src != 1).long(), decoder_input_ids=tgt).logits
    assert float((ours.project(ours(src, src == 1, tgt)) - expected).abs().max()) <= 1e-5


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_read_is_written_back(case: dict[str, Any], tmp_path: Path) -> None:
    model, form = theirs(case), Fairseq()
    torch.save(in_config(options(case), model), tmp_path / "m.pt")
    ours, (_, there) = read(tmp_path / "m.pt"), open_fairseq(tmp_path / "m.pt")
    table = form.names(ours.config)
    back = dict(table.to_foreign(ours.state_dict()))
    assert back.keys() == there.keys() - set(table.ignored)
    assert all(torch.equal(there[name], tensor) for name, tensor in back.items())
    assert asdict(TransformerConfig(**form.read_options(form.write_options(ours.config), back))) == asdict(ours.config)


class Runs:
    """Calls a function when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> Any:
        return self.function, self.arguments


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_nothing_in_a_file_is_executed(zipped: bool, tmp_path: Path) -> None:
    case, mark = CASES["pre-norm"], tmp_path / "executed"
    file = in_args(options(case), theirs(case))
    file["args"].hook = Runs(os.system, f"touch {mark}")
    file["extra_state"] = [
        Runs(exec, f"open({str(mark)!r}, 'w')"),
        Runs(builtins.open, str(mark), "w"),
        Runs(eval, "1 / 0"),
        Runs(setattr, Namespace, "hook", 1),
        Runs(pickle.loads, pickle.dumps(Runs(os.system, f"touch {mark}"))),
    ]
    torch.save(file, tmp_path / "m.pt", _use_new_zipfile_serialization=zipped)
    read(tmp_path / "m.pt")
    assert not mark.exists()
    assert not hasattr(Namespace, "hook")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"args": None, "model": {"a": torch.zeros(1)}}, "it has options neither"),
        ({"args": Namespace(), "model": {"a": 1}}, "it has no tensors"),
        ({"args": Namespace(), "model": [torch.zeros(1)]}, "it has no tensors"),
        ([], "it has no tensors"),
        ({"args": Namespace(), "model": {}}, "the configuration has no encoder_layers"),
        ({"args": Namespace(adaptive_softmax_cutoff="1,2"), "model": {}}, "adaptive_softmax_cutoff=1,2 is not read"),
    ],
    ids=["no options", "no tensors", "list", "other", "no sizes", "adaptive"],
)
def test_what_is_no_transformer_of_fairseq_is_named(content: Any, said: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "m.pt")
    with pytest.raises(CheckpointError, match=said) as caught:
        read(tmp_path / "m.pt")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"text", b"\x80\x02}q\x00.", b"PK\x03\x04" + b"\x00" * 40, b"\x80\x04" + b"(" * 99]
)
def test_a_damaged_file_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match="is no checkpoint of fairseq") as caught:
        open_fairseq(tmp_path / "m.pt")
    assert "\n" not in str(caught.value)


def test_a_tensor_outside_of_its_numbers_and_a_program_are_refused(tmp_path: Path) -> None:
    storage = torch.zeros(4)
    inside = Runs(torch._utils._rebuild_tensor_v2, storage._typed_storage(), 0, (2, 99), (99, 1), False, {})
    torch.save({"args": Namespace(), "model": {"a": inside}}, tmp_path / "m.pt")
    with pytest.raises(CheckpointError, match="outside of its 4 numbers"):
        open_fairseq(tmp_path / "m.pt")
    with zipfile.ZipFile(tmp_path / "program.pt", "w") as program:
        program.writestr("program/constants.pkl", pickle.dumps(()))
    with pytest.raises(CheckpointError, match="is a program of TorchScript"):
        open_fairseq(tmp_path / "program.pt")
