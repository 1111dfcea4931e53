"""One encoder, a decoder for each kind of source: the contract, and what each decoder would do alone."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from s2s.batch import Batch, make_batch
from s2s.checkpoint.tensors import read_tensors, write_tensors
from s2s.compose import compose
from s2s.config import Config
from s2s.errors import UserError
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_multidecoder import MultiDecoderConfig
from s2s_testing import check_arch

if TYPE_CHECKING:
    from s2s_multidecoder.model import MultiDecoder

VOCAB = Vocab(src=19, tgt=19, tags=2)
SIZES = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 16, "n_heads": 2, "dropout": 0.0}
CONFIG = MultiDecoderConfig(
    name="multidecoder", d_model=16, of={"name": "transformer", "share_embeddings": "target", **SIZES}
)
FIRST, SECOND = ([4, 9, 10], [9, 10]), ([5, 11], [12, 13, 14])


def built() -> MultiDecoder:
    torch.manual_seed(1)
    return load_plugins().registry.get("arch", "multidecoder").build(CONFIG, VOCAB)


def gradients(model: torch.nn.Module, batch: Batch, chunk: int = 2) -> dict[str, Tensor | None]:
    model.zero_grad()
    LabelSmoothed(LabelSmoothedConfig(name="smoothed", chunk=chunk))(model, batch).loss.backward()
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def test_it_keeps_the_contract_of_an_architecture() -> None:
    check_arch(load_plugins().registry.get("arch", "multidecoder"), CONFIG, VOCAB)


def test_what_encodes_is_shared_and_what_decodes_is_not() -> None:
    first, second = (dict(model.named_parameters()) for model in built().models)
    shared = {name for name, p in first.items() if second[name] is p}
    assert shared == {n for n in first if n.startswith(("encoder", "embeddings.src"))}
    assert all(not torch.equal(p, second[n]) for n, p in first.items() if n not in shared and p.dim() > 1)


@pytest.mark.parametrize("kind", [0, 1])
def test_each_sentence_is_decoded_as_its_decoder_alone_would(kind: int) -> None:
    model = built().eval()
    pair = (FIRST, SECOND)[kind]
    mixed, alone = make_batch([FIRST, SECOND], VOCAB), make_batch([pair], VOCAB)
    found = model.project(model(*mixed.inputs))[kind, : len(pair[1]) + 1]
    inner: Any = model.models[kind]
    torch.testing.assert_close(found, inner.project(inner(*alone.inputs))[0])


def test_each_sentence_is_aligned_by_its_decoder() -> None:
    model = built().eval()
    mixed = make_batch([FIRST, SECOND, FIRST], VOCAB)
    found = model.attention(mixed.src, mixed.src_pad, mixed.tgt_in)
    assert found is not None
    for row, kind, pair in zip(found, (0, 1, 0), (FIRST, SECOND, FIRST), strict=True):
        alone, inner = make_batch([pair], VOCAB), model.models[kind]
        expected = inner.attention(alone.src, alone.src_pad, alone.tgt_in)[0]
        torch.testing.assert_close(row[: expected.size(0), : expected.size(1)], expected)


@pytest.mark.parametrize("chunk", [0, 2], ids=["whole", "in chunks"])
def test_the_encoders_gradient_is_the_sum_over_decoders(chunk: int) -> None:
    model = built()
    alone = [copy.deepcopy(inner) for inner in model.models]
    first, second = (
        gradients(inner, make_batch([pair], VOCAB), chunk) for inner, pair in zip(alone, (FIRST, SECOND), strict=True)
    )
    together = gradients(model, make_batch([FIRST, SECOND], VOCAB), chunk)
    for name, gradient in first.items():
        other = second[name]
        assert gradient is not None
        assert other is not None
        if f"models.1.{name}" in together:
            torch.testing.assert_close(together[f"models.0.{name}"], gradient)
            torch.testing.assert_close(together[f"models.1.{name}"], other)
        else:
            torch.testing.assert_close(together[f"models.0.{name}"], gradient + other)


def test_a_decoder_that_a_batch_does_not_use_gets_no_gradient() -> None:
    found = gradients(built(), make_batch([SECOND], VOCAB))
    assert found["models.1.embeddings.tgt"] is not None
    assert all(g is None for name, g in found.items() if name.startswith("models.0.decoder."))


def test_shared_weights_are_stored_once_and_come_back_shared(tmp_path: Any) -> None:
    model, other = built(), built()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    write_tensors(tmp_path / "w.safetensors", model.state_dict())
    stored = (tmp_path / "w.safetensors").stat().st_size
    assert stored < 1.1 * sum(p.nbytes for p in model.parameters()) + 8000
    other.load_state_dict(read_tensors(tmp_path / "w.safetensors"))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))
    assert other.models[1].get_parameter("embeddings.src") is other.models[0].get_parameter("embeddings.src")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["arch.of={d_ff: 8}"], "arch.of must name an architecture"),
        (["arch.of.name=transformer", "train.strategy=fsdp"], "use ddp"),
        (["arch.of.name=transformer"], "needs a task with several kinds"),
        (["arch.of.d_model=8"], "give it as arch.d_model"),
        (["arch.of.name=transfromer"], "Did you mean 'transformer'?"),
        (["arch.of={name: transformer, d_f: 8}"], "arch.of.d_f: no such option. Did you mean 'd_ff'?"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], said: str) -> None:
    vocab = Vocab(src=9, tgt=9) if "needs" in said else VOCAB
    with pytest.raises(UserError) as caught:
        build(arguments, vocab)
    assert said in str(caught.value)


def build(arguments: list[str], vocab: Vocab) -> MultiDecoder:
    plugins = load_plugins()
    others = ["task=multitask", "task.tasks.p.name=parsing", "arch=multidecoder"]
    config = compose(Config, [*others, *arguments], plugins).config
    return plugins.hook.s2s_build_model(config=config, vocab=vocab, registry=plugins.registry)
