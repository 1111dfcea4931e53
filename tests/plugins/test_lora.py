"""Low-rank adaptation: what is computed, what learns, and what is left when the adapters are merged."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from harness.tiny_runs import SMALL, call, train_tiny, write_corpus
from s2s.backend.linear import deterministic_backend, prepack
from s2s.checkpoint.directory import load
from s2s.cli import train
from s2s.errors import ConfigError
from s2s.plugin import load_plugins
from s2s_lora import LoRAConfig
from s2s_lora.adapters import merged_weights
from s2s_testing import (
    VOCAB,
    assert_attention_maps,
    assert_causal,
    assert_ignores_padding,
    assert_saves_everything,
    assert_state_joins,
    assert_state_reorders,
    assert_step_is_decode,
)
from s2s_testing.incremental import batch_of

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.model import Seq2Seq

OF = {"name": "transformer", "d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}


def built(of: Any = None, **options: Any) -> Seq2Seq:
    """A model whose adapters are no longer zero."""
    torch.manual_seed(1)
    entry = load_plugins().registry.get("arch", "lora")
    model: Seq2Seq = entry.build(LoRAConfig(name="lora", of=of or {**OF, "dropout": 0.0}, **options), VOCAB)
    for name, parameter in model.named_parameters():
        if name.endswith("lora_b"):
            nn.init.normal_(parameter, std=0.1)
    return model.eval()


def merged(model: Seq2Seq, **options: Any) -> Seq2Seq:
    """The adapted architecture, with the adapters in its weights."""
    registry = load_plugins().registry
    config = LoRAConfig(name="lora", of=OF, **options)
    arch, weights = registry.get("merged_weights", "lora").build(config, model.state_dict())
    plain: Seq2Seq = registry.get("arch", arch.name).build(arch, VOCAB)
    plain.load_state_dict(weights)
    return plain.eval()


def logits(model: Seq2Seq) -> torch.Tensor:
    batch = batch_of(VOCAB)
    with torch.no_grad():
        return model.project(model(batch.src, batch.src_pad, batch.tgt_in))


def test_it_computes_what_the_model_with_the_summed_weights_does() -> None:
    model = built(rank=3, alpha=6.0)
    plain = load_plugins().registry.get("arch", "transformer")
    other = plain.build(plain.config(**{**OF, "dropout": 0.0}), VOCAB).eval()
    state = model.state_dict()
    summed = {name: t.double() for name, t in state.items() if "lora" not in name}
    for name in [name for name in state if name.endswith("lora_a")]:
        b = state[name.replace("lora_a", "lora_b")].double()
        summed[name.replace("lora_a", "weight")] += 6.0 / 3 * b @ state[name].double()
    other.load_state_dict({name: t.float() for name, t in summed.items()})
    torch.testing.assert_close(logits(model), logits(other), atol=1e-5, rtol=1e-5)


def test_it_begins_as_the_model_that_it_adapts() -> None:
    torch.manual_seed(1)
    entry = load_plugins().registry.get("arch", "lora")
    model = entry.build(LoRAConfig(name="lora", of=OF), VOCAB).eval()
    before = logits(model)
    assert torch.equal(logits(merged(model)), before)


def test_merged_weights_compute_the_same() -> None:
    options = {"rank": 3, "alpha": 6.0}
    model = built(**options)
    torch.testing.assert_close(logits(merged(model, **options)), logits(model), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("match", ["", "attention"])
def test_the_adapters_alone_learn_and_only_those_that_are_asked_for(match: str) -> None:
    model = built(match=match)
    learn = {name for name, p in model.named_parameters() if p.requires_grad}
    assert learn == {name for name, _ in model.named_parameters() if "lora" in name}
    assert any("feed_forward" in name for name in learn) == (not match)
    batch = batch_of(VOCAB)
    model.project(model(batch.src, batch.src_pad, batch.tgt_in)).square().sum().backward()
    assert all((p.grad is not None) == (name in learn) for name, p in model.named_parameters())


@pytest.mark.parametrize("check", [
    assert_causal, assert_ignores_padding, assert_attention_maps, assert_step_is_decode, assert_state_reorders,
    assert_state_joins,
])  # fmt: skip
def test_it_keeps_the_contract(check: Any) -> None:
    check(built(), VOCAB)


def test_its_state_is_complete() -> None:
    assert_saves_everything(built(), built(rank=8), VOCAB)


def test_prepacked_for_decoding_it_computes_the_same() -> None:
    model = built()
    before = logits(model)
    torch.testing.assert_close(logits(model), before, atol=1e-5, rtol=1e-5)
    prepack(model, deterministic_backend(model), "none")
    torch.testing.assert_close(logits(model), before, atol=1e-5, rtol=1e-5)
    assert_step_is_decode(model, VOCAB)


def tuning(run: str, init_from: str) -> list[str]:
    """Arguments that tune a run of `train_tiny` with adapters of rank 2."""
    arch = {key: value for key, _, value in (option.removeprefix("arch.").partition("=") for option in SMALL)}
    sizes = ("d_model", "d_ff", "n_heads", "n_encoder_layers", "n_decoder_layers")
    of = ", ".join(f"{key}: {arch[key]}" for key in sizes)
    data = [option for option in SMALL if not option.startswith("arch")]
    options = ["arch=lora", f"arch.of={{name: transformer_tiny, {of}}}", "arch.rank=2", "schedule.lr=0.05"]
    return [*data, *options, f"train.init_from={init_from}", "train.steps=4", f"run={run}", "--quiet"]


@pytest.mark.parametrize("again", ["adapted", "plain"])
def test_a_run_begins_with_the_weights_of_an_adapted_one(
    again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    train_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert train.main(tuning("tuned", "x")) == 0, capsys.readouterr().err
    arguments = tuning("again", "tuned") if again == "adapted" else [*SMALL, "train.init_from=tuned", "run=again"]
    assert train.main([*arguments, "train.steps=0"]) == 0, capsys.readouterr().err
    runs = tmp_path / "runs"
    tuned = load(runs / "tuned" / "checkpoints" / "step-000004").tensors["model"]
    taken = load(runs / "again" / "checkpoints" / "step-000000").tensors["model"]
    for name, tensor in merged_weights(LoRAConfig(rank=2), tuned).items():
        torch.testing.assert_close(taken[name], tensor, msg=name)
    assert any(not torch.equal(taken[name], tensor) for name, tensor in tuned.items() if name in taken)


def test_a_run_is_tuned_and_decodes_and_its_base_is_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    train_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert train.main([a for a in tuning("tuned", "x") if a != "--quiet"]) == 0, capsys.readouterr().err
    paths = [tmp_path / "runs" / run / "checkpoints" / "step-000004" for run in ("x", "tuned")]
    before, after = (load(path).tensors["model"] for path in paths)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    n = {
        is_adapter: sum(t.numel() for name, t in after.items() if ("lora" in name) is is_adapter)
        for is_adapter in (False, True)
    }
    assert f"{n[False] + n[True]:,} parameters, lora; {n[True]:,} are trained" in capsys.readouterr().out
    assert any(after[name].any() for name in after if name.endswith("lora_b"))
    (tmp_path / "in.jsonl").write_text(json.dumps({"src": "the cat"}) + "\n")
    common = ["input=in.jsonl", "format=jsonl", "search.max_len_b=3", "threads=1"]
    lines = [call("s2s-generate", [*common, f"run={run}"], capsys) for run in ("x", "tuned")]
    scores = [json.loads(out)["score"] for _, out, _ in lines]
    assert scores[0] != scores[1]
    code, _, err = call("s2s-average", ["run=tuned", "last=2"], capsys)
    assert code == 0, err
    steps = [load(paths[1].with_name(f"step-00000{n}")).tensors["model"] for n in (2, 4)]
    mean = load(paths[1].with_name("average")).tensors["model"]
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, (steps[0][name] + steps[1][name]) / 2, msg=name)
    code, out, err = call("s2s-generate", [*common, "run=tuned", "checkpoint=average"], capsys)
    assert json.loads(out)["hyp"] is not None, err


def test_without_a_trained_run_it_is_refused_before_anything_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    data = [option for option in SMALL if not option.startswith("arch")]
    for flags in ([], ["--dry-run"], ["--print-config"]):
        assert train.main([*data, "arch=lora", "arch.of=transformer_tiny", *flags]) == 2
        assert capsys.readouterr().err == (
            "s2s-train: error: arch=lora adapts a trained run; name it, as in train.init_from=runs/base\n"
        )
    assert not (tmp_path / "runs").exists()


def test_another_architecture_than_that_of_the_trained_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """By default arch.of is that of the run; the message has the option to give, as it is written in a shell."""
    train_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    arguments = [a for a in tuning("tuned", "x") if not a.startswith("arch.of")]
    assert train.main([*arguments, "arch.of=transformer_tiny"]) == 2
    err = capsys.readouterr().err
    (option,) = re.findall(r"give the arch\.\* options of that run, '?(arch\.of='\{.*?\}')", err)
    assert train.main([*arguments, *shlex.split(option)]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"of": 3}, "arch.of: name the architecture"),
        ({"of": "lora"}, "arch.of=lora: adapters have no adapters"),
        ({"rank": 0}, "arch.rank=0"),
        ({"match": "nothing"}, "arch.match=nothing"),
    ],
)
def test_what_cannot_be_adapted_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        built(**options)
