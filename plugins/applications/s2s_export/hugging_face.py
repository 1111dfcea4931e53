"""Folders of Hugging Face's transformers, of the first family that can express the run."""

from __future__ import annotations

__all__ = ["HuggingFaceExporter", "HuggingFaceModel"]

import logging
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from s2s import ConfigError, DataError, Example
from s2s_export.checks import foreign_options
from s2s_export.generation_settings import generation_settings, unwritten_options
from s2s_export.tokenizer_files import write_tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s import Choice, Task, Vocab
    from s2s_export import ExportInput

logger = logging.getLogger(__name__)
N_POSITIONS = 4096
"""Positions for which the model computes sinusoids when it is loaded"""
CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
"""By model_type, where one format has several"""
PLAIN = {
    "num_beams": 1,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "do_sample": False,
    "repetition_penalty": 1.0,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "renormalize_logits": False,
}
"""Greedy search without penalties, whatever the settings in the folder say"""


class HuggingFaceExporter:
    """A folder that transformers loads as AutoModelForSeq2SeqLM and AutoTokenizer."""

    formats = ("marian", "m2m_100", "bart", "mbart", "t5")

    def __init__(self, config: Choice) -> None:
        _library()

    def write(self, model: ExportInput, folder: Path) -> None:
        """config.json, model.safetensors, generation_config.json and, with subwords, the tokeniser's files."""
        transformers = _library()
        transformers.AutoConfig.for_model(**_config(model)).save_pretrained(folder)
        settings = {**_special(model), **generation_settings(model.search, model.vocab)}
        transformers.GenerationConfig(**settings).save_pretrained(folder)
        if names := unwritten_options(model.search, model.vocab):
            logger.warning("transformers has no counterpart of %s, and decodes without", ", ".join(names))
        table = model.format.names(model.arch)
        zeros = {name: torch.zeros(1, model.vocab.tgt) for name in table.zeros}
        tensors = {**zeros, **dict(table.to_foreign(model.weights))}
        plain = {name: tensor.detach().float().cpu().contiguous().clone() for name, tensor in tensors.items()}
        save_file(plain, folder / "model.safetensors", {"format": "pt"})
        if model.subwords is not None:
            write_tokenizer(model.subwords, N_POSITIONS, folder)

    def read(self, folder: Path, model: ExportInput) -> HuggingFaceModel:
        """Load the model and, if there is one, the tokeniser."""
        return HuggingFaceModel(folder, model.vocab)


class HuggingFaceModel:
    """A written model in transformers, with ids in and out."""

    def __init__(self, folder: Path, vocab: Vocab) -> None:
        transformers = _library()
        self.vocab = vocab
        self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        has_tokenizer = (folder / "tokenizer_config.json").is_file()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder) if has_tokenizer else None

    @torch.no_grad()
    def greedy(self, sources: Sequence[list[int]], n: int) -> list[list[int]]:
        """Greedy outputs; ids without eos, in and out."""
        return [self._greedy(ids, n) for ids in sources]

    def _greedy(self, ids: list[int], n: int) -> list[int]:
        start, eos = len(self.vocab.starting_tokens), self.vocab.eos
        source = torch.tensor([[*ids, self.vocab.src_eos]])
        tokens = self.model.generate(source, **PLAIN, max_new_tokens=n + start - 1)[0, start:].tolist()
        return tokens[: tokens.index(eos)] if eos in tokens else tokens

    @torch.no_grad()
    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Log-probability of each token of the given targets, the last one of eos."""
        start, eos = list(self.vocab.starting_tokens), self.vocab.eos
        scores = []
        for src, tgt in zip(sources, targets, strict=True):
            source, target = torch.tensor([[*src, self.vocab.src_eos]]), torch.tensor([[*start, *tgt]])
            logits = self.model(source, decoder_input_ids=target).logits[0, len(start) - 1 :]
            scores.append(logits.log_softmax(-1).gather(1, torch.tensor([*tgt, eos])[:, None])[:, 0].tolist())
        return scores

    def check_tokenizer(self, task: Task, lines: Sequence[str]) -> None:
        """Raise DataError if the tokeniser gives other ids than the task."""
        if self.tokenizer is None:
            return
        inputs = task.encode_inputs([Example(line, "") for line in lines])
        for line, ids in zip(lines, inputs, strict=True):
            theirs = self.tokenizer(line).input_ids
            if theirs != [*ids, task.vocab.src_eos]:
                raise DataError(
                    f"format=hf: its tokeniser cuts {line[:60]!r} into other tokens than the task: {theirs[:8]} "
                    f"instead of {ids[:8]}; the task changes text before it cuts it, which "
                    f"{type(self.tokenizer).__name__} cannot"
                )


def _library() -> Any:
    try:
        import transformers
    except ImportError:
        raise ConfigError("transformers is not installed: pip install transformers (extra export)") from None
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _config(model: ExportInput) -> dict[str, Any]:
    """config.json; raises ConfigError for padding whose id a family needs to be another one."""
    vocab, options = model.vocab, foreign_options(model, "hf", "; format=ctranslate2 may express it")
    if options.get("pad_token_id", vocab.pad) != vocab.pad:
        raise ConfigError(
            f"format=hf: {model.format.title} needs padding to be the token {options['pad_token_id']}, not "
            f"{vocab.pad}; format=ctranslate2 may express it"
        )
    kind = options["model_type"]
    sizes = {"vocab_size": vocab.src, "max_position_embeddings": N_POSITIONS, "dtype": "float32"}
    if kind == "marian":
        sizes["decoder_vocab_size"] = vocab.tgt
    return {"architectures": [CLASSES.get(kind, model.format.title)], **sizes, **options, **_special(model)}


def _special(model: ExportInput) -> dict[str, Any]:
    """Special ids; without forced_eos_token_id=None, Marian writes id 0 when an output reaches its length limit."""
    vocab, before = model.vocab, model.subwords[0].before if model.subwords else ()
    is_bart = model.format.model_types[:1] == ("bart",)  # whose sources begin with bos
    bos = before[0] if is_bart and before else vocab.bos
    ids = {"pad_token_id": vocab.pad, "bos_token_id": bos, "eos_token_id": vocab.eos}
    start, *forced = vocab.starting_tokens
    if len(forced) > 1:
        raise ConfigError(f"format=hf begins decoding with two tokens at most, but this run with {1 + len(forced)}")
    forced_bos = forced[0] if forced else None
    return {**ids, "decoder_start_token_id": start, "forced_bos_token_id": forced_bos, "forced_eos_token_id": None}
