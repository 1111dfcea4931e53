"""The encoder as one call, against its layers one by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.packed_models import VARIANTS, model, needs_bytes, sources
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_linear
from s2s_testing import VOCAB

pytestmark = [
    pytest.mark.skipif(not has_linear(), reason=native_library().reason),
    pytest.mark.usefixtures("plugin_operators"),
    pytest.mark.usefixtures("no_gradients"),
]


@pytest.fixture
def no_gradients() -> Any:
    with torch.no_grad():
        yield


def encode(one: Any, src: torch.Tensor, *, fused: bool) -> torch.Tensor:
    """[B, S, D], zeros at padding"""
    pad = src == VOCAB.pad
    if not fused:
        one.encoder[0].register_forward_hook(lambda *_: None)
    hidden: torch.Tensor = one.encode(src, pad).hidden
    assert (one.fused_encoder is not None) is fused
    return hidden.masked_fill(pad[..., None], 0.0)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_the_encoder_in_c_is_its_layers(options: dict[str, Any]) -> None:
    made = options | {"n_encoder_layers": 3}
    found, expected = (encode(model(**made), sources(40), fused=fused) for fused in (True, False))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [VARIANTS["paper"], VARIANTS["T5"], VARIANTS["odd widths"]])
def test_long_sources_are_encoded_as_by_the_layers(options: dict[str, Any]) -> None:
    """More tokens than any vector or block has."""
    src = torch.randint(4, VOCAB.src, (3, 150), generator=torch.Generator().manual_seed(0))
    src[1, 67:], src[2, 1:] = VOCAB.pad, VOCAB.pad
    found, expected = (encode(model(**options), src, fused=fused) for fused in (True, False))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@needs_bytes
def test_the_encoder_in_8_bit_integers_is_its_layers() -> None:
    found, expected = (encode(model("int8", d_model=64), sources(), fused=fused) for fused in (True, False))
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("options", [VARIANTS["paper"], VARIANTS["T5"], VARIANTS["odd widths"]])
def test_a_sentence_has_the_same_bits_whatever_stands_beside_it(options: dict[str, Any]) -> None:
    """Neither the others, nor their number, nor the length of its padding changes it."""
    one, src = model(**options), sources(40)
    together = encode(one, src, fused=True)
    for i in (0, 17, 39):
        n = int((src[i] != VOCAB.pad).sum())
        assert torch.equal(encode(one, src[i : i + 1, :n], fused=True), together[i : i + 1, :n])


@pytest.mark.parametrize("options", [VARIANTS["paper"], VARIANTS["T5"]], ids=["paper", "T5"])
def test_padding_within_a_sentence_is_not_attended_to_and_after_it_is_zero(options: dict[str, Any]) -> None:
    one, src = model(**options), sources(6)
    src[0, 1], src[1, 0], src[2] = VOCAB.pad, VOCAB.pad, VOCAB.pad
    pad = src == VOCAB.pad
    found = one.encode(src, pad).hidden
    after = pad.flip(1).cumprod(1).flip(1).bool()
    assert (found[after] == 0).all()
    assert after[[0, 2]].any(1).all()
    torch.testing.assert_close(
        found.masked_fill(pad[..., None], 0.0), encode(model(**options), src, fused=False), rtol=1e-4, atol=1e-5
    )


def test_an_empty_batch_has_an_empty_memory() -> None:
    assert encode(model(), sources()[:0], fused=True).shape == (0, 9, 32)


def test_what_a_hook_watches_is_computed_by_the_layers() -> None:
    """The maps of attention are recorded by hooks."""
    one, src, seen = model(), sources(), []
    fused = encode(one, src, fused=True)
    hook = one.encoder[0].attention.register_forward_hook(lambda *given: seen.append(given[2]))
    for n_calls in (1, 1):
        found = one.encode(src, src == VOCAB.pad).hidden.masked_fill((src == VOCAB.pad)[..., None], 0.0)
        torch.testing.assert_close(found, fused, rtol=1e-4, atol=1e-5)
        assert len(seen) == n_calls
        hook.remove()


def test_training_and_gradients_take_the_layers() -> None:
    one, src = model(), sources()
    with torch.enable_grad():
        one.encode(src, src == VOCAB.pad)
    one.train()
    one.encode(src, src == VOCAB.pad)
    assert one.fused_encoder is None
