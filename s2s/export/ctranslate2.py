"""Models of CTranslate2: any post-norm or pre-norm Transformer, whatever its positions are."""

from __future__ import annotations

__all__ = ["FORBIDDEN", "CTranslate2", "Served", "open_translator"]

import json
import shutil
from typing import TYPE_CHECKING, Any

import torch

from s2s.errors import ConfigError
from s2s.export.neutral import Linear, Norm, exported_in_full

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.export import Unwritten
    from s2s.export.neutral import Layer, Stack, Weights
    from s2s.registry import Choice
    from s2s.task import Task, Vocab

N_POSITIONS = 4096
"""Positions that are written down; CTranslate2 computes none for other wavelengths than its own"""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU"}
SYMBOLS = "symbols.json"
FORBIDDEN = [["<pad>"], ["<s>"]]
"""Never written here, nor by a model that has learnt anything"""


class CTranslate2:
    """The format."""

    def __init__(self, config: Choice) -> None:
        _library()

    def write(self, model: Unwritten, folder: Path) -> None:
        """model.bin, config.json, vocabularies, which symbols stand for which ids, and what cuts text into them."""
        weights, sides = model.weights, symbols(model)
        exported_in_full(weights, "ctranslate2")
        if weights.activation not in ACTIVATIONS:
            raise ConfigError(f"format=ctranslate2 has no activation {weights.activation}, only relu and gelu")
        spec = _specification(weights)
        spec.config.decoder_start_token, spec.config.add_source_eos = "<s>", True
        spec.config.layer_norm_epsilon = weights.eps
        spec.register_source_vocabulary(sides[0])
        spec.register_target_vocabulary(sides[1])
        spec.validate()
        spec.optimize(quantization=None)
        spec.save(str(folder))
        written = {"src": sides[0], "tgt": sides[1], "positions": n_positions(weights)}
        (folder / SYMBOLS).write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")

        for name, subwords in zip(("source.spm", "target.spm"), model.subwords or (), strict=False):
            shutil.copyfile(subwords.path, folder / name)

    def read(self, folder: Path) -> Served:
        """In fp32 with one thread, where sums are as exact as here."""
        return Served(folder, intra_threads=1)


class Served:
    """A written model in CTranslate2, spoken to in ids."""

    def __init__(self, folder: Path, **options: Any) -> None:
        written = json.loads((folder / SYMBOLS).read_text(encoding="utf-8"))
        self.src, self.tgt, self.n_positions = written["src"], written["tgt"], int(written["positions"])
        self.ids = {symbol: i for i, symbol in enumerate(self.tgt)}
        self.translator = open_translator(folder, **options)

    def translate(self, sources: Sequence[Sequence[int]], **options: Any) -> list[Any]:
        """What CTranslate2 answers."""
        return self.translator.translate_batch(
            [[self.src[i] for i in ids] for ids in sources],
            **{"min_decoding_length": 0, "max_input_length": 0, "return_end_token": True, **options},
        )

    def greedy(self, sources: Sequence[list[int]], n: int) -> list[list[int]]:
        """The most probable symbol at every step; ids without eos, in and out."""
        found = self.translate(sources, beam_size=1, max_decoding_length=n, suppress_sequences=FORBIDDEN)
        return [self.without_end(result.hypotheses[0])[0] for result in found]

    def has_forbidden(self, outputs: Sequence[Sequence[str]]) -> bool:
        """Whether padding or bos stands in one of them."""
        return any(symbol in output for output in outputs for (symbol,) in FORBIDDEN)

    def without_end(self, symbols: Sequence[str]) -> tuple[list[int], int]:
        """Ids without eos, and how many symbols there were, counting eos where it came before the limit."""
        ended = bool(symbols) and symbols[-1] == "</s>"
        return [self.ids[symbol] for symbol in (symbols[:-1] if ended else symbols)], len(symbols)

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Of each symbol of given targets, and last of eos."""
        src = [[self.src[i] for i in ids] for ids in sources]
        tgt = [[self.tgt[i] for i in ids] for ids in targets]
        return [list(result.log_probs) for result in self.translator.score_batch(src, tgt, max_input_length=0)]

    def refuse_other_ids(self, task: Task, lines: Sequence[str]) -> None:
        """The format has no tokeniser: it is given symbols."""


def open_translator(folder: Path, **options: Any) -> Any:
    """A translator, whose arithmetic is 32-bit where nothing else is said."""
    return _library().Translator(str(folder), **{"compute_type": "float32", **options})


def _library() -> Any:
    try:
        import ctranslate2
    except ImportError:
        raise ConfigError("CTranslate2 is not installed: pip install 's2s-toolkit[export]'") from None
    return ctranslate2


def symbols(model: Unwritten) -> tuple[list[str], list[str]]:
    """Of source and target in the order of their ids: the subwords, or where there are none the ids themselves."""
    if model.subwords is None:
        sides = [str(i) for i in range(model.vocab.src)], [str(i) for i in range(model.vocab.tgt)]
    else:
        sides = list(model.subwords[0].pieces), list(model.subwords[1].pieces)
    return _with_special(sides[0], model.vocab), _with_special(sides[1], model.vocab)


def _with_special(names: list[str], vocab: Vocab) -> list[str]:
    special = {vocab.pad: "<pad>", vocab.unk: "<unk>", vocab.bos: "<s>", vocab.eos: "</s>"}
    return [special.get(i, name) for i, name in enumerate(names)]


def n_positions(weights: Weights) -> int:
    """Positions that are written."""
    return min(N_POSITIONS, weights.longest or N_POSITIONS)


def _specification(weights: Weights) -> Any:
    from ctranslate2.specs import common_spec, transformer_spec

    spec = transformer_spec.TransformerSpec.from_config(
        (len(weights.encoder.layers), len(weights.decoder.layers)),
        weights.n_heads,
        pre_norm=weights.pre_norm,
        activation=getattr(common_spec.Activation, ACTIVATIONS[weights.activation]),
    )
    spec.encoder.embeddings[0].weight = _array(weights.encoder.table)
    spec.decoder.embeddings.weight = _array(weights.decoder.table)
    _linear(spec.decoder.projection, weights.softmax)
    for side, stack in ((spec.encoder, weights.encoder), (spec.decoder, weights.decoder)):
        side.scale_embeddings = True
        side.position_encodings.encodings = _array(stack.positions(n_positions(weights)))
        _stack(side, stack)
    return spec


def _stack(side: Any, stack: Stack) -> None:
    for to, layer in zip(side.layer, stack.layers, strict=True):
        _layer(to, layer)
    if stack.norm is not None:
        _norm(side.layer_norm, stack.norm)


def _layer(to: Any, layer: Layer) -> None:
    own, cross = layer.attention, layer.cross
    _attention(to.self_attention, [(own.q, own.k, own.v), (own.out,)], layer.attention_norm)
    if cross is not None and layer.cross_norm is not None:
        _attention(to.attention, [(cross.q,), (cross.k, cross.v), (cross.out,)], layer.cross_norm)
    _linear(to.ffn.linear_0, layer.inner)
    _linear(to.ffn.linear_1, layer.out)
    _norm(to.ffn.layer_norm, layer.feed_forward_norm)


def _attention(to: Any, products: list[tuple[Linear, ...]], norm: Norm) -> None:
    """CTranslate2 computes the maps of one input as one product."""
    for target, maps in zip(to.linear, products, strict=True):
        biases = [torch.zeros(m.weight.size(0)) if m.bias is None else m.bias for m in maps]
        _linear(target, Linear(torch.cat([m.weight for m in maps]), torch.cat(biases)))
    _norm(to.layer_norm, norm)


def _linear(to: Any, linear: Linear) -> None:
    to.weight = _array(linear.weight)
    if linear.bias is not None:
        to.bias = _array(linear.bias)


def _norm(to: Any, norm: Norm) -> None:
    to.gamma, to.beta = _array(norm.weight), _array(norm.bias)


def _array(x: torch.Tensor) -> Any:
    return x.detach().float().cpu().numpy().copy()
