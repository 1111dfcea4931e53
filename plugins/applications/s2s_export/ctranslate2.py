"""Models of CTranslate2: any post-norm or pre-norm Transformer, with any positions."""

from __future__ import annotations

__all__ = ["CTranslate2Exporter", "CTranslate2Model", "compute_types", "open_translator"]

import json
import logging
import shutil
from typing import TYPE_CHECKING, Any

import sentencepiece
import torch

from s2s import ConfigError
from s2s.intermediate import LayerNorm, Linear
from s2s.io import read_json
from s2s_export.checks import check_heads_and_scale, starting_token

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s import Choice, Task, Vocab
    from s2s.intermediate import IntermediateModel, Layer, Stack
    from s2s_export import ExportInput

logger = logging.getLogger(__name__)
N_POSITIONS = 4096
"""Rows of the written position encodings; CTranslate2 itself computes only sinusoids with its own wavelengths"""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU"}
TOKENS = "tokens.json"


class CTranslate2Exporter:
    """`format=ctranslate2`."""

    def __init__(self, config: Choice) -> None:
        _library()

    def write(self, given: ExportInput, folder: Path) -> None:
        """model.bin, config.json, vocabularies, the token of each id, and the sentencepiece models."""
        model, sides = given.model, token_names(given)
        check_heads_and_scale(model, "ctranslate2")
        if model.activation not in ACTIVATIONS:
            raise ConfigError(f"format=ctranslate2 has no activation {model.activation}, only relu and gelu")
        spec = _specification(model)
        spec.config.decoder_start_token = sides[1][starting_token(given.vocab, "ctranslate2")]
        spec.config.add_source_eos = True
        spec.config.layer_norm_epsilon = model.eps
        spec.register_source_vocabulary(sides[0])
        spec.register_target_vocabulary(sides[1])
        spec.validate()
        spec.optimize(quantization=None)
        spec.save(str(folder))
        written = {"src": sides[0], "tgt": sides[1], "positions": n_positions(model)}
        (folder / TOKENS).write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")

        for name, subwords in zip(("source.spm", "target.spm"), given.subwords or (), strict=False):
            shutil.copyfile(subwords.path, folder / name)

    def read(self, folder: Path) -> CTranslate2Model:
        """Load in fp32 with one thread."""
        return CTranslate2Model(folder, intra_threads=1)


class CTranslate2Model:
    """A written model in CTranslate2, with ids in and out."""

    def __init__(self, folder: Path, **options: Any) -> None:
        written = read_json(folder / TOKENS)
        self.source_spm = folder / "source.spm"
        self.src, self.tgt, self.n_positions = written["src"], written["tgt"], int(written["positions"])
        self.ids = {token: i for i, token in enumerate(self.tgt)}
        self.forbidden = [[token] for token in ("<pad>", "<s>") if token in self.ids]
        """Tokens that an output never contains"""
        self.translator = open_translator(folder, **options)

    def translate(self, sources: Sequence[Sequence[int]], **options: Any) -> list[Any]:
        """CTranslate2's results for source ids."""
        return self.translator.translate_batch(
            [[self.src[i] for i in ids] for ids in sources],
            **{"min_decoding_length": 0, "max_input_length": 0, "return_end_token": True, **options},
        )

    def greedy(self, sources: Sequence[list[int]], n: int) -> list[list[int]]:
        """Greedy outputs; ids without eos, in and out."""
        found = self.translate(sources, beam_size=1, max_decoding_length=n, suppress_sequences=self.forbidden)
        return [self.without_eos(result.hypotheses[0])[0] for result in found]

    def has_forbidden(self, outputs: Sequence[Sequence[str]]) -> bool:
        """Whether an output contains padding or bos."""
        return any(token in output for output in outputs for (token,) in self.forbidden)

    def without_eos(self, tokens: Sequence[str]) -> tuple[list[int], int]:
        """Ids without eos, and the number of tokens, eos included unless the output was cut off at the limit."""
        ended = bool(tokens) and tokens[-1] == "</s>"
        return [self.ids[token] for token in (tokens[:-1] if ended else tokens)], len(tokens)

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Log-probability of each token of the given targets, the last one of eos."""
        src = [[self.src[i] for i in ids] for ids in sources]
        tgt = [[self.tgt[i] for i in ids] for ids in targets]
        return [list(result.log_probs) for result in self.translator.score_batch(src, tgt, max_input_length=0)]

    def check_tokenizer(self, task: Task, lines: Sequence[str]) -> None:
        """Warn if source.spm alone gives other tokens than the task; the format itself takes tokens, not text."""
        if not self.source_spm.is_file():
            return
        subwords = sentencepiece.SentencePieceProcessor(str(self.source_spm))
        for line, theirs, ids in zip(lines, subwords.encode(list(lines)), task.encode_source(lines), strict=True):
            if theirs != ids:
                logger.warning(
                    "source.spm alone cuts %r into other tokens than the task, which changes text first, as with "
                    "task.lowercase; a program without s2s must change it in the same way",
                    line[:60],
                )
                return


def open_translator(folder: Path, **options: Any) -> Any:
    """A translator, in fp32 by default."""
    return _library().Translator(str(folder), **{"compute_type": "float32", **options})


def compute_types(device: str) -> set[str]:
    """The number formats in which CTranslate2 computes on a device: float32, int8, …"""
    found: set[str] = _library().get_supported_compute_types(device)
    return found


def _library() -> Any:
    try:
        import ctranslate2
    except ImportError:
        raise ConfigError("CTranslate2 is not installed: pip install 's2s-toolkit[export]'") from None
    return ctranslate2


def token_names(given: ExportInput) -> tuple[list[str], list[str]]:
    """Source and target tokens in the order of their ids: subwords, or the ids as text if there are none."""
    if given.subwords is None:
        sides = [str(i) for i in range(given.vocab.src)], [str(i) for i in range(given.vocab.tgt)]
    else:
        sides = list(given.subwords[0].pieces), list(given.subwords[1].pieces)
    return _with_special(sides[0], given.vocab), _with_special(sides[1], given.vocab)


def _with_special(names: list[str], vocab: Vocab) -> list[str]:
    special = {vocab.pad: "<pad>", vocab.unk: "<unk>", vocab.bos: "<s>", vocab.eos: "</s>"}
    return [special.get(i, name) for i, name in enumerate(names)]


def n_positions(model: IntermediateModel) -> int:
    """Rows of the written position encodings."""
    return min(N_POSITIONS, model.max_positions or N_POSITIONS)


def _specification(model: IntermediateModel) -> Any:
    from ctranslate2.specs import common_spec, transformer_spec

    spec = transformer_spec.TransformerSpec.from_config(
        (len(model.encoder.layers), len(model.decoder.layers)),
        model.n_heads,
        pre_norm=model.pre_norm,
        activation=getattr(common_spec.Activation, ACTIVATIONS[model.activation]),
    )
    spec.encoder.embeddings[0].weight = _array(model.encoder.embeddings)
    spec.decoder.embeddings.weight = _array(model.decoder.embeddings)
    _linear(spec.decoder.projection, model.softmax)
    for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        side.scale_embeddings = True
        side.position_encodings.encodings = _array(stack.positions(n_positions(model)))
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


def _attention(to: Any, projections: list[tuple[Linear, ...]], norm: LayerNorm) -> None:
    """CTranslate2 concatenates the projections of one input."""
    for target, maps in zip(to.linear, projections, strict=True):
        biases = [torch.zeros(m.weight.size(0)) if m.bias is None else m.bias for m in maps]
        _linear(target, Linear(torch.cat([m.weight for m in maps]), torch.cat(biases)))
    _norm(to.layer_norm, norm)


def _linear(to: Any, linear: Linear) -> None:
    to.weight = _array(linear.weight)
    if linear.bias is not None:
        to.bias = _array(linear.bias)


def _norm(to: Any, norm: LayerNorm) -> None:
    to.gamma, to.beta = _array(norm.weight), _array(norm.bias)


def _array(x: torch.Tensor) -> Any:
    return x.detach().float().cpu().numpy().copy()
