"""What is compared in decoding: this engine, with each lever off, and its peers, all on the same weights.

A peer is a function from a model and a vocabulary to a `Decode`; add one to `PEERS`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from s2s import kernels
from s2s.decoding import BeamConfig
from s2s.decoding.queue import Queue, Source
from s2s.decoding.search import BeamSearch
from s2s.nn.packed import pack
from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

SIZES = {
    "tiny": (TransformerConfig(n_encoder_layers=2, n_decoder_layers=2, d_model=64, d_ff=256, n_heads=4), 4000),
    "small": (TransformerConfig(n_encoder_layers=3, n_decoder_layers=3, d_model=256, d_ff=1024, n_heads=4), 8000),
    "base": (TransformerConfig(), 37000),
}


@dataclass(frozen=True)
class Work:
    """What is to be decoded."""

    sources: Sequence[Sequence[int]]
    """Ids, without eos"""
    n_out: int | None
    """Symbols of each output, without eos; None: until the model ends, at most as many as the source and 50"""
    beam: int
    batch: int
    """Sentences at once"""


Decode = Callable[[Work], list[list[int]]]
"""The best outputs, without eos"""


def build(size: str, seed: int = 0) -> tuple[Transformer, Vocab]:
    """A random model that never ends by itself, so that all engines write outputs of one length.

    The last norm lifts the first number of every hidden state, and eos alone answers to it.
    """
    config, n_symbols = SIZES[size]
    vocab = Vocab(src=n_symbols, tgt=n_symbols, joint=True)
    torch.manual_seed(seed)
    model = Transformer(config, vocab).eval()
    with torch.no_grad():
        table = model.embeddings.get_parameter("shared")
        model.decoder[-1].around_feed_forward.norm.bias[0] = 10.0
        table[:, 0] = 0.0
        table[vocab.eos, 0] = -10.0
    return model, vocab


def ours(model: Transformer, vocab: Vocab, quantization: Any = "none", off: str = "") -> Decode:
    """This engine; `off` names a lever: matmul, kernels, queue."""
    pack(model, "torch" if off == "matmul" else "onednn", quantization)

    def decode(work: Work) -> list[list[int]]:
        a, b = (1.0, 50) if work.n_out is None else (0.0, work.n_out)
        penalty: Any = {"alpha": 1.0, "length_penalty": "power"} if work.n_out is None else {"alpha": 0.0}
        search = BeamSearch(BeamConfig(beam=work.beam, max_len_a=a, max_len_b=b, **penalty))
        sources = [Source(i, [*ids, vocab.eos]) for i, ids in enumerate(work.sources)]
        if work.n_out is None:
            sources.sort(key=lambda source: -len(source.ids))
        outputs: list[list[int]] = [[]] * len(sources)
        n_tokens = work.batch * max(1, sum(len(source.ids) for source in sources) // len(sources))
        batches = [sources[i : i + work.batch] for i in range(0, len(sources), work.batch)]
        queues = [Queue(batch, 10**9) for batch in batches] if off == "queue" else [Queue(sources, n_tokens)]
        serves = (lambda *_: False) if off == "kernels" else kernels.serves
        with mock.patch.object(kernels, "serves", serves):
            for queue in queues:
                for found in search.stream(model, queue, vocab, torch.device("cpu")):
                    for place, hypotheses in found:
                        outputs[place] = hypotheses[0].tokens
        return outputs

    return decode


def ctranslate2(model: Transformer, vocab: Vocab, quantization: str = "none") -> Decode:
    """CTranslate2 with one thread, which per CPU second is its best on one core or more."""
    os.environ.setdefault("CT2_FORCE_CPU_ISA", "AVX512")
    import ctranslate2 as ct2

    names = [str(i) for i in range(vocab.tgt)]
    with tempfile.TemporaryDirectory() as folder:
        _specification(model, names, vocab, quantization).save(folder)
        compute = "int8" if quantization == "int8" else "float32"
        translator = ct2.Translator(folder, inter_threads=1, intra_threads=1, compute_type=compute)

    def decode(work: Work) -> list[list[int]]:
        length: dict[str, Any] = {"min_decoding_length": 0, "max_decoding_length": 300, "length_penalty": 1.0}
        if work.n_out is not None:
            n = work.n_out + 1  # as many steps as with eos
            length = {"min_decoding_length": n, "max_decoding_length": n, "length_penalty": 0.0}
        sources = [[names[i] for i in ids] for ids in work.sources]
        found = translator.translate_batch(sources, beam_size=work.beam, max_batch_size=work.batch, **length)
        return [[int(name) for name in result.hypotheses[0]][: work.n_out] for result in found]

    return decode


def _specification(model: Transformer, names: list[str], vocab: Vocab, quantization: str) -> Any:
    """The same weights, for CTranslate2; the model must be as yet unpacked, post-norm, with sinusoids."""
    from ctranslate2.specs import common_spec, transformer_spec

    config, special = model.config, {vocab.unk: "<unk>", vocab.bos: "<s>", vocab.eos: "</s>"}
    n_layers = (config.n_encoder_layers, config.n_decoder_layers)
    spec = transformer_spec.TransformerSpec.from_config(
        n_layers, config.n_heads, pre_norm=False, activation=common_spec.Activation.RELU
    )
    array = lambda t: t.detach().numpy().copy()  # noqa: E731

    def linear(to: Any, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        to.weight = array(weight)
        if bias is not None:
            to.bias = array(bias)

    def norm(to: Any, around: Any) -> None:
        to.gamma, to.beta = array(around.norm.weight), array(around.norm.bias)

    table = model.embeddings.get_parameter("shared")
    assert model.src_positions is not None
    sides: list[Any] = [spec.encoder, spec.decoder]
    sides[0].embeddings[0].weight = sides[1].embeddings.weight = array(table)
    linear(sides[1].projection, table)
    for side in sides:
        side.scale_embeddings = True
        side.position_encodings.encodings = array(model.src_positions(torch.arange(1024), torch.float))
    for side, layers in ((sides[0], list[Any](model.encoder)), (sides[1], list[Any](model.decoder))):
        for to, layer in zip(side.layer, layers, strict=True):
            attention = to.self_attention
            linear(attention.linear[0], layer.attention.qkv.weight, layer.attention.qkv.bias)
            linear(attention.linear[1], layer.attention.out.weight, layer.attention.out.bias)
            norm(attention.layer_norm, layer.around_attention)
            if side is sides[1]:
                for target, source in zip(to.attention.linear, ("q", "kv", "out"), strict=True):
                    part = getattr(layer.cross_attention, source)
                    linear(target, part.weight, part.bias)
                norm(to.attention.layer_norm, layer.around_cross_attention)
            linear(to.ffn.linear_0, layer.feed_forward.inner.weight, layer.feed_forward.inner.bias)
            linear(to.ffn.linear_1, layer.feed_forward.out.weight, layer.feed_forward.out.bias)
            norm(to.ffn.layer_norm, layer.around_feed_forward)
    spec.config.layer_norm_epsilon, spec.config.add_source_eos = config.norm_eps, True
    tokens = [special.get(i, name) for i, name in enumerate(names)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.decoder_start_token = "<s>"
    spec.validate()
    spec.optimize(quantization="int8" if quantization == "int8" else None)
    return spec


PEERS = {"ctranslate2": ctranslate2}
