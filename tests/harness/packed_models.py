"""Small Transformers whose linear maps are prepacked for functions in C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest
import torch
from torch import Tensor

from s2s.backend.linear import prepack
from s2s.decoding.shortlist import Shortlist
from s2s_cpu import beam_search_steps, stream
from s2s_cpu.prepacked import has_int8_linear
from s2s_testing import VOCAB
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from s2s.task import Vocab

needs_bytes = pytest.mark.skipif(not has_int8_linear(), reason="no AVX2")

T5 = {"positions": "relative_bias", "attention_score": "dot", "norm_kind": "rms", "norm": "pre", "bias": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "odd widths": {"d_k": 5, "d_v": 19, "d_ff": 70, "n_heads": 3},
    "wide": {"d_model": 96, "d_ff": 200, "n_heads": 4},
    "an inner layer wider than attention": {"d_model": 32, "d_ff": 1000},
    "no positions": {"positions": "none", "share_embeddings": "none"},
    "bias, unscaled": {"positions": "learned", "output_bias": True, "scale_embeddings": False},
    "Marian": {"activation": "silu", "output_bias": True, "positions": "sinusoid_t2t", "zero_start": True},
    "BART": {"activation": "gelu", "embedding_norm": True, "positions": "learned", "position_offset": 2},
    "T5": T5 | {"bias_buckets": 6, "bias_distance": 7, "d_k": 12, "scale_output": True},
    "T5 1.1": T5 | {"bias_buckets": 4, "bias_distance": 3, "gated": True, "activation": "gelu_tanh", "d_ff": 70},
    "SSRU": {"decoder_self_attention": "ssru", "zero_start": True},
    "SSRU, pre-norm": {"decoder_self_attention": "ssru", "norm": "pre", "d_model": 40, "positions": "relative_bias"},
    "gated": {"gated": True, "activation": "silu", "norm_kind": "rms"},
}

SEARCH_OPTIONS: list[dict[str, Any]] = [
    {"beam": 1},
    {"beam": 4, "stop": "first_k", "alpha": 0.0},
    {"beam": 4, "stop": "heuristic", "length_penalty": "power", "alpha": 1.0},
    {"beam": 6, "stop": "exact", "alpha": 2.0, "length_penalty": "power"},
    {"beam": 12, "ban_unk": True},
    {"beam": 4, "temperature": 0.7, "max_len_a": 0.0, "max_len_b": 40},
    {"beam": 2, "max_len_a": 0.0, "max_len_b": 1},
]
"""Of beam search, with outputs that end and outputs that are cut"""


def model(quantization: Literal["none", "bf16", "int8"] = "none", vocab: Vocab = VOCAB, **options: Any) -> Transformer:
    """Packed for functions in C, with biases and norms that are not those of an untrained model."""
    torch.manual_seed(3)
    sizes = {"n_encoder_layers": 1, "n_decoder_layers": 2, "d_model": 32, "d_ff": 48, "n_heads": 2}
    made = Transformer(TransformerConfig(**(sizes | options)), vocab).eval()
    for parameter in made.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape)
    prepack(made, "native", quantization)
    return made


def sources(n: int = 4) -> Tensor:
    """[n, 9], of different lengths"""
    draw = torch.Generator().manual_seed(2)
    src = torch.randint(4, VOCAB.src, (n, 9), generator=draw)
    return src.masked_fill(torch.arange(9) > torch.randint(1, 9, (n, 1), generator=draw), VOCAB.pad)


def source_rows(n: int) -> list[list[int]]:
    """The same without padding, each with eos."""
    return [[*row[row != VOCAB.pad].tolist(), VOCAB.eos] for row in sources(n)]


def shortlist(n_always: int = 5, seed: int = 1, vocab: Vocab = VOCAB) -> Shortlist:
    """The first target tokens, and up to three for each source token but the last ones."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, 4, (vocab.src - 3,), generator=generator)
    tokens = torch.randint(0, vocab.tgt, (int(counts.sum()),), generator=generator)
    return Shortlist(torch.arange(n_always), torch.cat([torch.zeros(1), counts.cumsum(0)]).long(), tokens)


class StepsCall(NamedTuple):
    """A call in C of a beam search's steps."""

    n_sentences: int
    n_steps: int


def recorded_steps(monkeypatch: pytest.MonkeyPatch) -> list[StepsCall]:
    """A list to which every such call is added from now on."""
    calls, steps = list[StepsCall](), beam_search_steps.run_steps

    def recorded(*given: Any) -> Any:
        found = steps(*given)
        calls.append(StepsCall(len(given[1].sentence), found[0]))
        return found

    monkeypatch.setattr(beam_search_steps, "run_steps", recorded)
    return calls


def recorded_stream_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list to which the name of every function in C is added that is called for a stream from now on, but for that
    which frees it."""
    names, call = list[str](), stream.call

    def recorded(name: str, *arguments: Any) -> None:
        if name != "s2s_stream_free":
            names.append(name.removeprefix("s2s_stream_"))
        call(name, *arguments)

    monkeypatch.setattr(stream, "call", recorded)
    return names
