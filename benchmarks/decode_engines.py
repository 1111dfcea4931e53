"""The engines compared in decoding: ours, with each lever off, and its peers, all on the same weights.

A peer is a function from a model and a vocabulary to a `Decode`; add one to `PEERS`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from omegaconf import OmegaConf

from decode_marian import marian
from s2s.backend import Operator, device_of
from s2s.backend.linear import LinearBackend, prepack
from s2s.batch import make_batch
from s2s.decoding import BeamConfig, GreedyConfig, SearchRequest, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.decoding.shortlist import Shortlist
from s2s.generation.acceleration import capture_steps
from s2s.plugin import load_plugins
from s2s.registry import Choice
from s2s.task import Vocab
from s2s_export import ExportInput
from s2s_export.ctranslate2 import CTranslate2Exporter, token_names
from s2s_export.hugging_face import HuggingFaceExporter
from s2s_transformer import TransformerConfig
from s2s_transformer.ctranslate2 import CTranslate2
from s2s_transformer.marian import Marian
from s2s_transformer.model import Transformer
from s2s_transformer.t5 import T5

if TYPE_CHECKING:
    from s2s.foreign import ForeignFormat

ARCHS = Path(__file__).parents[1] / "configs" / "arch"


def preset(name: str) -> TransformerConfig:
    """The options of a preset of a Transformer."""
    options: Any = OmegaConf.to_container(OmegaConf.load(ARCHS / f"{name}.yaml"))
    return TransformerConfig(**{option: value for option, value in options.items() if option != "name"})


SIZES = {
    "tiny": (TransformerConfig(n_encoder_layers=2, n_decoder_layers=2, d_model=64, d_ff=256, n_heads=4), 4000),
    "width128": (
        TransformerConfig(n_encoder_layers=4, n_decoder_layers=4, d_model=128, d_ff=256, n_heads=4),
        10000,
    ),
    "small": (TransformerConfig(n_encoder_layers=3, n_decoder_layers=3, d_model=256, d_ff=1024, n_heads=4), 8000),
    "base": (TransformerConfig(), 37000),
    "big": (TransformerConfig(d_model=1024, d_ff=4096, n_heads=16), 37000),
    "opus_mt": (preset("opus_mt"), 58101),
    "m2m_418m": (preset("m2m_100_418m"), 128112),
    "nllb_600m": (preset("m2m_100_418m"), 256206),
    "t5_small": (preset("t5_small"), 32128),
    "student": (preset("marian_student_tiny"), 32000),
}
"""Options and tokens; the last five are published models', with random weights"""


@dataclass(frozen=True)
class Work:
    """A decoding workload."""

    sources: Sequence[Sequence[int]]
    """Source ids, without eos"""
    n_out: int | None
    """Tokens of each output, without eos; None: until eos, at most the source length plus 50"""
    beam: int
    batch: int
    """Sentences per batch"""


Decode = Callable[[Work], list[list[int]]]
"""The best outputs, without eos"""


def build(size: str, seed: int = 0) -> tuple[Transformer, Vocab]:
    """A random model that never predicts eos, so that the outputs of all engines have the same length: its logit is 0,
    which hundreds of other tokens exceed.
    """
    load_plugins()  # with them come the functions in C
    config, n_symbols = SIZES[size]
    vocab = Vocab(src=n_symbols, tgt=n_symbols, joint=True)
    if config.zero_start:  # Marian's
        vocab = replace(vocab, pad=n_symbols - 1, bos=n_symbols - 1, eos=0, unk=1)
    torch.manual_seed(seed)
    model = Transformer(config, vocab).eval()
    with torch.no_grad():
        model.embeddings.get_parameter("shared")[vocab.eos] = 0.0
    return model, vocab


def random_shortlist(vocab: Vocab, n: int, seed: int = 0) -> Shortlist:
    """A lexical shortlist with the first n tokens, eos among them, and n random ones for each source token."""
    tokens = torch.randint(vocab.tgt, (vocab.src * n,), generator=torch.Generator().manual_seed(seed))
    return Shortlist(torch.arange(n), n * torch.arange(vocab.src + 1), tokens)


def ours(
    model: Transformer,
    vocab: Vocab,
    quantization: Any = "none",
    off: str = "",
    device: str = "cpu",
    shortlist: Shortlist | None = None,
) -> Decode:
    """s2s; `off` names an optimisation to disable: matmul, native, kernels, queue or stream."""
    matmul: dict[str, LinearBackend] = {"matmul": "torch", "native": "onednn"}
    there = torch.device(device)
    if there.type == "cpu":
        prepack(model, matmul.get(off, "native"), quantization)
    else:
        model = model.to(there)
        if device_of(there).supports_graphs:
            capture_steps([model])
    dtype = torch.bfloat16 if quantization == "bf16" and there.type != "cpu" else torch.float32

    @cache
    def search_for(beam: int, n_out: int | None) -> BeamSearch:
        """Made once, as by commands and servers."""
        a, b = (1.0, 50) if n_out is None else (0.0, n_out)
        penalty: Any = {"alpha": 0.0}
        if n_out is None:
            penalty = {"alpha": 1.0, "length_penalty": "power", "stop": "first_k"}  # as CTranslate2 stops
        return BeamSearch(BeamConfig(beam=beam, max_len_a=a, max_len_b=b, **penalty))

    def decode(work: Work) -> list[list[int]]:
        search = search_for(work.beam, work.n_out)
        sources = [SourceSentence(i, [*ids, vocab.eos]) for i, ids in enumerate(work.sources)]
        if work.n_out is None:
            sources.sort(key=lambda source: -len(source.ids))
        outputs: list[list[int]] = [[]] * len(sources)
        n_tokens = -(-work.batch * sum(len(source.ids) for source in sources) // len(sources))
        batches = [sources[i : i + work.batch] for i in range(0, len(sources), work.batch)]
        queues = [FixedQueue(batch, 10**9) for batch in batches] if off == "queue" else [FixedQueue(sources, n_tokens)]
        without: Any = {
            "kernels": partial(patch.object, Operator, "use_implementations", False),
            "stream": partial(patch.object, BeamSearch, "admit_whole", lambda _search, _run, sentences: sentences),
        }
        with without.get(off, nullcontext)(), torch.no_grad(), device_of(there).autocast(dtype):
            for queue in queues:
                request = SearchRequest(model=model, vocab=vocab, queue=queue, device=there, shortlist=shortlist)
                for found in search(request):
                    for result in found:
                        outputs[result.index] = result.hypotheses[0].tokens
        return outputs

    return decode


def ctranslate2(model: Transformer, vocab: Vocab, quantization: str = "none", device: str = "cpu") -> Decode:
    """CTranslate2 with one thread, which gives its highest rate per CPU second on any number of cores."""
    kind, _, index = device.partition(":")
    if kind == "cpu" and "avx512f" in Path("/proc/cpuinfo").read_text(
        encoding="utf-8"
    ):  # which it uses of itself on Intel's alone
        os.environ.setdefault("CT2_FORCE_CPU_ISA", "AVX512")
    import ctranslate2 as ct2

    with tempfile.TemporaryDirectory() as folder:
        if model.config.positions == "relative_bias":
            write_t5(model, vocab, Path(folder))
        else:
            CTranslate2Exporter(Choice()).write(_export_input(CTranslate2(), model, vocab), Path(folder))
        compute = {"none": "float32", "bf16": "bfloat16", "int8": "int8"}[quantization]
        place = {"device": kind, "device_index": int(index or 0)}
        translator = ct2.Translator(folder, **place, inter_threads=1, intra_threads=1, compute_type=compute)
    names = token_names(_export_input(CTranslate2(), model, vocab))[0]
    ids = {name: i for i, name in enumerate(names)}

    def decode(work: Work) -> list[list[int]]:
        length: dict[str, Any] = {"min_decoding_length": 0, "max_decoding_length": 300, "length_penalty": 1.0}
        if work.n_out is not None:
            n = work.n_out + 1  # as many steps as with eos
            length = {"min_decoding_length": n, "max_decoding_length": n, "length_penalty": 0.0}
        sources = [[names[i] for i in source] for source in work.sources]
        sizes = {"max_batch_size": work.batch, "max_input_length": 0}  # by default it cuts sources to 1,024 tokens
        found = translator.translate_batch(sources, beam_size=work.beam, **sizes, **length)
        return [[ids[name] for name in result.hypotheses[0]][: work.n_out] for result in found]

    return decode


def write_t5(model: Transformer, vocab: Vocab, folder: Path) -> None:
    """A T5 for CTranslate2, by its own converter of transformers' models."""
    from ctranslate2.converters.transformers import T5Loader
    from transformers import T5Config, T5ForConditionalGeneration

    there = T5ForConditionalGeneration(T5Config(**T5().write_options(model.config), vocab_size=vocab.tgt))
    tensors = dict(T5().names(model.config).to_foreign(model.state_dict()))
    there.load_state_dict(tensors, strict=False)  # one matrix has several names there
    given = _export_input(T5(), model, vocab)
    names, spec = token_names(given)[0], T5Loader().get_model_spec(there)
    spec.config.decoder_start_token, spec.config.add_source_eos = names[vocab.bos], True
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(folder))


def hf(model: Transformer, vocab: Vocab, quantization: str = "none", device: str = "cpu") -> Decode:
    """Hugging Face's `generate` in batches of similar length; fp32, and beside a CPU bf16, too."""
    if quantization not in (("none",) if device == "cpu" else ("none", "bf16")):
        raise SystemExit(f"peer=hf has no {quantization} on {device}")
    with tempfile.TemporaryDirectory() as folder:
        exporter, exported = HuggingFaceExporter(Choice()), _export_input(Marian(), model, vocab)
        exporter.write(exported, Path(folder))
        marian = exporter.read(Path(folder), exported).model.to(device)
    if quantization == "bf16":
        marian = marian.to(torch.bfloat16)

    def decode(work: Work) -> list[list[int]]:
        least, most = (0, 300) if work.n_out is None else (work.n_out + 1, work.n_out + 1)
        options: dict[str, Any] = {
            "min_new_tokens": least,
            "max_new_tokens": most,
            "num_beams": work.beam,
            "length_penalty": float(work.n_out is None),
        }
        order = sorted(range(len(work.sources)), key=lambda i: -len(work.sources[i]))
        outputs: list[list[int]] = [[]] * len(order)
        for start in range(0, len(order), work.batch):
            places = order[start : start + work.batch]
            batch = make_batch([(work.sources[i], []) for i in places], vocab).to(torch.device(device))
            found = marian.generate(batch.src, attention_mask=(~batch.src_pad).long(), **options)
            for place, row in zip(places, found[:, 1:].tolist(), strict=True):
                ends = row.index(vocab.eos) if vocab.eos in row else len(row)
                outputs[place] = row[:ends][: work.n_out]
        return outputs

    return decode


def _export_input(form: ForeignFormat, model: Transformer, vocab: Vocab) -> ExportInput:
    """The same weights before prepacking, exported as by s2s-export."""
    return ExportInput(model.config, model.state_dict(), form, vocab, None, GreedyConfig())


PEERS: dict[str, Callable[..., Decode]] = {"ctranslate2": ctranslate2, "hf": hf, "marian": marian, "s2s": ours}
