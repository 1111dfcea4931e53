"""Models of CTranslate2: any post-norm or pre-norm Transformer, with any positions."""

from __future__ import annotations

__all__ = ["CTranslate2Exporter", "CTranslate2Model", "compute_types", "open_translator"]

import json
import logging
import shutil
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import sentencepiece

from s2s import CheckpointError, ConfigError, Example
from s2s.io import read_json
from s2s_export.checks import foreign_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s import Choice, Task, Vocab
    from s2s_export import ExportInput

logger = logging.getLogger(__name__)
N_POSITIONS = 4096
"""Rows of the written position encodings; CTranslate2 itself computes only sinusoids with its own wavelengths"""
TOKENS = "tokens.json"
GIVEN = ("num_layers", "num_heads", "pre_norm", "activation")
"""Scalars that the constructor of a specification takes"""


class CTranslate2Exporter:
    """A model of CTranslate2, which runs Transformers on CPUs and GPUs in reduced precision."""

    formats = ("ctranslate2",)

    def __init__(self, config: Choice) -> None:
        _library()

    def write(self, model: ExportInput, folder: Path) -> None:
        """model.bin, config.json, vocabularies, the token of each id, and the sentencepiece models."""
        sides, spec = token_names(model), _specification(model)
        vocab, (start, *prefix) = model.vocab, _starting_tokens(model.vocab)
        written = {
            "src": sides[0],
            "tgt": sides[1],
            "positions": _n_positions(spec),
            "eos": sides[1][vocab.eos],
            "end": sides[0][vocab.src_eos],
            "prefix": [sides[1][i] for i in prefix],
            "never": [sides[1][i] for i in vocab.never_output],
        }
        spec.config.decoder_start_token = sides[1][start]
        spec.config.eos_token, spec.config.unk_token = written["eos"], sides[1][vocab.unk]
        spec.config.add_source_eos = written["end"] == written["eos"]
        spec.register_source_vocabulary(sides[0])
        spec.register_target_vocabulary(sides[1])
        spec.validate()
        spec.optimize(quantization=None)
        spec.save(str(folder))
        (folder / TOKENS).write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")
        for side, subwords in zip(("source", "target"), model.subwords or (), strict=False):
            is_model = subwords.library == "sentencepiece"
            shutil.copyfile(subwords.library_file, folder / (f"{side}.spm" if is_model else subwords.library_file.name))

    def read(self, folder: Path, model: ExportInput) -> CTranslate2Model:
        """Load in fp32 with one thread."""
        return CTranslate2Model(folder, intra_threads=1)


class CTranslate2Model:
    """A written model in CTranslate2, with ids in and out."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.source_spm = folder / "source.spm"
        written = _read_tokens(folder / TOKENS)
        self.src: list[str] = written["src"]
        self.tgt: list[str] = written["tgt"]
        self.n_positions: int = written["positions"]
        self.eos: str = written["eos"]
        self.prefix: list[str] = written["prefix"]
        """What an output begins with, behind the token that starts it"""
        self.ends: list[str] = [] if written["end"] == self.eos else [written["end"]]
        """What ends a source, if it is another token than eos, which CTranslate2 adds"""
        self.ids = {token: i for i, token in enumerate(self.tgt)}
        self.forbidden = [[token] for token in written["never"]]
        """Tokens that an output never contains"""
        self.translator = open_translator(folder, **options)

    def translate(self, sources: Sequence[Sequence[int]], max_length: int, **options: Any) -> list[Any]:
        """CTranslate2's results for source ids, of at most so many tokens, eos included."""
        prefix = {"target_prefix": [self.prefix] * len(sources)} if self.prefix else {}
        return self.translator.translate_batch(
            self._sources(sources),
            max_decoding_length=max_length + len(self.prefix),
            **{"min_decoding_length": 0, "max_input_length": 0, "return_end_token": True, **prefix, **options},
        )

    def _sources(self, sources: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[*(self.src[i] for i in ids), *self.ends] for ids in sources]

    def greedy(self, sources: Sequence[list[int]], n: int) -> list[list[int]]:
        """Greedy outputs; ids without eos, in and out."""
        outputs = self.translate(sources, n, beam_size=1, suppress_sequences=self.forbidden)
        return [self.without_eos(result.hypotheses[0])[0] for result in outputs]

    def has_forbidden(self, outputs: Sequence[Sequence[str]]) -> bool:
        """Whether an output contains padding or bos."""
        n_prefix = len(self.prefix)
        return any(token in output[n_prefix:] for output in outputs for (token,) in self.forbidden)

    def without_eos(self, tokens: Sequence[str]) -> tuple[list[int], int]:
        """Ids without eos, and the number of tokens, eos included unless the output was cut off at the limit."""
        tokens = tokens[len(self.prefix) :]
        ended = bool(tokens) and tokens[-1] == self.eos
        try:
            return [self.ids[token] for token in (tokens[:-1] if ended else tokens)], len(tokens)
        except KeyError as error:
            raise CheckpointError(f"the exported model has the token {error}, which {TOKENS} beside it lacks") from None

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Log-probability of each token of the given targets, the last one of eos."""
        tgt = [[*self.prefix, *(self.tgt[i] for i in ids)] for ids in targets]
        scored = self.translator.score_batch(self._sources(sources), tgt, max_input_length=0)
        return [list(result.log_probs)[len(self.prefix) :] for result in scored]

    def check_tokenizer(self, task: Task, lines: Sequence[str]) -> None:
        """Warn if source.spm alone gives other tokens than the task; the format itself takes tokens, not text."""
        if not self.source_spm.is_file():
            return
        subwords = sentencepiece.SentencePieceProcessor(str(self.source_spm))
        inputs = task.encode_inputs([Example(line, "") for line in lines])
        for line, theirs, ids in zip(lines, subwords.encode(list(lines)), inputs, strict=True):
            if theirs != ids:
                logger.warning(
                    "source.spm alone cuts %r into other tokens than the task, which changes text first, as with "
                    "task.lowercase; a program without s2s must change it in the same way",
                    line[:60],
                )
                return


def _read_tokens(path: Path) -> dict[str, Any]:
    """Source and target tokens, the number of positions, and special tokens; CheckpointError if the file has none."""
    try:
        written: dict[str, Any] = read_json(path)
        texts = [written["src"], written["tgt"], written["prefix"], written["never"], [written["eos"], written["end"]]]
        n_positions = written["positions"]
        if not (all(map(_are_texts, texts)) and type(n_positions) is int and n_positions > 0):
            raise TypeError("expected lists of texts and a number of positions")
        return written
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path}: no tokens of an exported model ({error}); run s2s-export again") from None


def _are_texts(tokens: Any) -> bool:
    return isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)


def open_translator(folder: Path, **options: Any) -> Any:
    """A translator, in fp32 by default; raises CheckpointError if the library cannot load the model."""
    library = _library()
    try:
        return library.Translator(str(folder), **{"compute_type": "float32", **options})
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(f"CTranslate2 cannot load {folder}: {' '.join(str(error).split())[:200]}") from None


def compute_types(device: str) -> set[str]:
    """The number formats in which CTranslate2 computes on a device: float32, int8, …"""
    types: set[str] = _library().get_supported_compute_types(device)
    return types


def _library() -> Any:
    try:
        import ctranslate2
    except ImportError:
        raise ConfigError("CTranslate2 is not installed: pip install ctranslate2 (extra export)") from None
    return ctranslate2


def token_names(model: ExportInput) -> tuple[list[str], list[str]]:
    """Source and target tokens in the order of their ids: subwords, or the ids as text if there are none."""
    if model.subwords is not None:
        return list(model.subwords[0].pieces), list(model.subwords[1].pieces)
    sides = [str(i) for i in range(model.vocab.src)], [str(i) for i in range(model.vocab.tgt)]
    return _with_special(sides[0], model.vocab), _with_special(sides[1], model.vocab)


def _with_special(names: list[str], vocab: Vocab) -> list[str]:
    special = {vocab.pad: "<pad>", vocab.unk: "<unk>", vocab.bos: "<s>", vocab.eos: "</s>"}
    return [special.get(i, name) for i, name in enumerate(names)]


def _starting_tokens(vocab: Vocab) -> Sequence[int]:
    if len(vocab.starting_tokens) > 2:
        raise ConfigError(
            f"format=ctranslate2 begins decoding with one or two tokens, this run with {len(vocab.starting_tokens)}"
        )
    return vocab.starting_tokens


def _specification(model: ExportInput) -> Any:
    from ctranslate2.specs import common_spec, transformer_spec

    options, table = foreign_options(model, "ctranslate2"), model.format.names(model.arch)
    names = {name for row in table.tensors for name in row.foreign}
    spec = transformer_spec.TransformerSpec.from_config(
        (options["encoder/num_layers"], options["decoder/num_layers"]),
        options["encoder/num_heads"],
        pre_norm=options["encoder/pre_norm"],
        activation=common_spec.Activation(options["encoder/activation"]),
        layernorm_embedding=any("layernorm_embedding" in name for name in names),
        relative_attention_bias=any(name.endswith("relative_attention_bias") for name in names),
        ffn_glu=any("linear_0_noact" in name for name in names),
        rms_norm=not any(name.endswith("beta") for name in names),
    )
    for name, value in options.items():
        if "/" in name and name.split("/")[-1] not in GIVEN:
            _set(spec, name, np.int32(value) if type(value) is int else value)
    for name, tensor in table.to_foreign(model.weights):
        _set(spec, name, tensor.detach().float().cpu().numpy().copy())
    for name, compute in table.computed.items():
        _set(spec, name, compute(N_POSITIONS).numpy())
    spec.config.layer_norm_epsilon = options["layer_norm_epsilon"]
    return spec


def _n_positions(spec: Any) -> int:
    """Of the shorter table; without tables there is no limit."""
    encodings = [getattr(side, "position_encodings", None) for side in (spec.encoder, spec.decoder)]
    return min((len(one.encodings) for one in encodings if one is not None), default=sys.maxsize)


def _set(spec: Any, name: str, value: Any) -> None:
    """Set a variable by its name, such as encoder/layer_0/ffn/linear_1/weight."""
    *parents, variable = name.split("/")
    for parent in parents:
        members, _, index = parent.rpartition("_")
        spec = getattr(spec, parent) if hasattr(spec, parent) else getattr(spec, members)[int(index)]
    setattr(spec, variable, value)
