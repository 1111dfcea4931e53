"""Adapters for each kind of source: what mixed batches compute, what learns, and a run of several languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from harness.tiny_runs import SMALL, WORDS, call, write_corpus
from s2s.backend.linear import deterministic_backend, prepack
from s2s.batch import make_batch
from s2s.checkpoint.directory import load
from s2s.cli import train
from s2s.errors import ConfigError
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_lora import LoRAPerTagConfig
from s2s_testing import (
    assert_attention_maps,
    assert_ignores_padding,
    assert_state_joins,
    assert_state_reorders,
    assert_step_is_decode,
)

if TYPE_CHECKING:
    from s2s.model import Seq2Seq

VOCAB = Vocab(src=19, tgt=19, joint=True, tags=3)
SIZES = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.0}
CONFIG = LoRAPerTagConfig(name="lora_per_tag", of={"name": "transformer", **SIZES}, rank=3, alpha=6.0)
PAIRS = [([5, 9, 10], [9, 10]), ([4, 11], [12, 13, 14]), ([5, 8, 7, 9], [15]), ([4, 9, 10], [9, 10])]
"""The second and the fourth are of the first kind, the others of the second, none of the third"""


def built() -> Any:
    """A model whose adapters are no longer zero."""
    torch.manual_seed(1)
    model: Seq2Seq = load_plugins().registry.get("arch", "lora_per_tag").build(CONFIG, VOCAB)
    for name, parameter in model.named_parameters():
        if name.endswith("lora_b"):
            nn.init.normal_(parameter, std=0.1)
    return model.eval()


def plain(model: Any, kind: int) -> Seq2Seq:
    """The Transformer alone with W + (alpha / r) B A of one kind, summed in float64."""
    of = load_plugins().registry.get("arch", "transformer")
    other: Seq2Seq = of.build(of.config(**{"name": "transformer", **SIZES}), VOCAB)
    weights = {n: t.double() for n, t in model.models[kind].state_dict().items()}
    for name in [name for name in weights if name.endswith("lora_a")]:
        linear = name.removesuffix("lora_a")
        weights[f"{linear}weight"] += 6.0 / 3 * weights[f"{linear}lora_b"] @ weights[name]
    other.load_state_dict({name: t.float() for name, t in weights.items() if "lora" not in name})
    return other.eval()


def logits(model: Any, pairs: Any = PAIRS) -> Tensor:
    batch = make_batch(pairs, VOCAB)
    with torch.no_grad():
        return model.project(model(*batch.inputs))


def test_each_sentence_of_a_mixed_batch_is_computed_with_the_summed_weights_of_its_kind() -> None:
    model = built()
    mixed = logits(model)
    for row, (src, tgt) in zip(mixed, PAIRS, strict=True):
        alone = logits(plain(model, src[0] - VOCAB.tag_ids.start), [(src, tgt)])[0]
        torch.testing.assert_close(row[: len(tgt) + 1], alone, atol=1e-5, rtol=1e-5)
    kinds = [logits(plain(model, kind), [PAIRS[1]]) for kind in (0, 1)]
    assert not torch.allclose(*kinds, atol=1e-3)


def test_prepacked_for_decoding_it_computes_the_same() -> None:
    model = built()
    before = logits(model)
    prepack(model, deterministic_backend(model), "none")
    torch.testing.assert_close(logits(model), before, atol=1e-5, rtol=1e-5)
    assert_step_is_decode(model, VOCAB)


def test_what_is_adapted_is_the_same_and_only_adapters_learn() -> None:
    model = built()
    first, *others = (dict(one.named_parameters()) for one in model.models)
    for other in others:
        assert {name for name, p in first.items() if other[name] is p} == {n for n in first if "lora" not in n}
    assert {n for n, p in model.named_parameters() if p.requires_grad} == {
        name for name, _ in model.named_parameters() if "lora" in name
    }


def test_only_adapters_of_kinds_in_the_batch_get_a_gradient_and_each_that_of_its_sentences() -> None:
    model = built()
    batch = make_batch(PAIRS, VOCAB)
    hidden = model(*batch.inputs)
    model.project(hidden)[~batch.tgt_pad].square().sum().backward()
    found = {name: p.grad for name, p in model.named_parameters() if "lora" in name}
    assert all((gradient is None) == name.startswith("models.2.") for name, gradient in found.items())
    alone = built()
    batch = make_batch([PAIRS[1], PAIRS[3]], VOCAB)
    alone.project(alone(*batch.inputs))[~batch.tgt_pad].square().sum().backward()
    for name, p in alone.named_parameters():
        if name.startswith("models.0.") and p.requires_grad:
            torch.testing.assert_close(p.grad, found[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("check", [
    assert_ignores_padding, assert_attention_maps, assert_step_is_decode, assert_state_reorders, assert_state_joins,
])  # fmt: skip
def test_it_keeps_the_contract(check: Any) -> None:
    check(built(), VOCAB)


def test_merged_it_is_a_model_for_each_kind() -> None:
    model, registry = built(), load_plugins().registry
    arch, weights = registry.get("merged_weights", "lora_per_tag").build(CONFIG, model.state_dict())
    merged = registry.get("arch", arch.name).build(arch, VOCAB)
    merged.load_state_dict(weights)
    torch.testing.assert_close(logits(merged.eval()), logits(model), atol=1e-5, rtol=1e-5)


def test_without_tags_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="arch=lora_per_tag needs a task whose sources begin with tags"):
        load_plugins().registry.get("arch", "lora_per_tag").build(CONFIG, Vocab(src=9, tgt=9, joint=True))


def test_a_run_of_several_languages_is_tuned_and_decodes_mixed_inputs_as_single_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.fr").write_text((tmp_path / "a.en").read_text().upper())
    (tmp_path / "b.en").write_text((tmp_path / "a.en").read_text())
    data = ["task=multilingual", "task.train=[[a.en,a.de],[b.en,b.fr]]", "task.directions=[en-mul]"]
    options = [*data, "task.vocab_size=60", *SMALL[3:], "run=many", "train.steps=4", "--quiet"]
    assert train.main(options) == 0, capsys.readouterr().err
    tune = ["train.init_from=many", "arch=lora_per_tag", "arch.rank=2", "schedule.lr=0.5", "train.init_replay=0"]
    assert train.main([*tune, data[1], "train.steps=4", "run=tuned"]) == 0, capsys.readouterr().err
    after = load(tmp_path / "runs/tuned/checkpoints/step-000004").tensors["model"]
    before = load(tmp_path / "runs/many/checkpoints/step-000004").tensors["model"]
    for kind in (0, 1):
        assert all(torch.equal(after[f"models.{kind}.{name}"], tensor) for name, tensor in before.items())
    n_trained = sum(tensor.numel() for name, tensor in after.items() if "lora" in name)
    n = n_trained + sum(tensor.numel() for tensor in before.values())
    assert f"{n:,} parameters, lora_per_tag; {n_trained:,} are trained" in capsys.readouterr().out
    inputs = [{"src": word, "tgt_lang": language} for word in WORDS for language in ("de", "fr")]
    outputs = [scored(inputs, capsys), *(scored(inputs[i::2], capsys) for i in (0, 1))]
    mixed, single = outputs[0], [one for pair in zip(*outputs[1:], strict=True) for one in pair]
    assert [one["hyp"] for one in mixed] == [one["hyp"] for one in single]
    assert [one["score"] for one in mixed] == pytest.approx([one["score"] for one in single], abs=1e-4)


def scored(inputs: list[dict[str, str]], capsys: Any) -> list[dict[str, Any]]:
    """The outputs of the tuned run."""
    Path("in.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in inputs))
    options = ["input=in.jsonl", "format=jsonl", "search.max_len_b=3", "threads=1", "run=tuned"]
    code, out, err = call("s2s-generate", options, capsys)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]
