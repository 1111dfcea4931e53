"""Folders of Hugging Face that hold a MarianMTModel, or with pre-norm a PegasusForConditionalGeneration, and
MarianTokenizer if the task has subwords."""

from __future__ import annotations

__all__ = ["MarianExporter", "MarianModel"]

import json
import shutil
from typing import TYPE_CHECKING, Any

import torch

from s2s import ConfigError, DataError
from s2s_export.checks import foreign_options, starting_token

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s import Choice, Task, Vocab
    from s2s.data import Tokenizer
    from s2s_export import ExportInput

N_POSITIONS = 4096
"""Positions for which the model computes sinusoids when it is loaded"""


class MarianExporter:
    """A folder that transformers loads as AutoModelForSeq2SeqLM."""

    format = "marian"

    def __init__(self, config: Choice) -> None:
        _library()

    def write(self, model: ExportInput, folder: Path) -> None:
        """config.json, model.safetensors, generation_config.json and, with subwords, the tokeniser's files."""
        transformers = _library()
        config = transformers.AutoConfig.for_model(**_config(model))
        marian = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
        _fill(marian, model)
        marian.generation_config = transformers.GenerationConfig(**_generation(model.vocab))
        marian.save_pretrained(folder)
        if model.subwords is not None:
            _write_tokenizer(model.subwords, folder)

    def read(self, folder: Path) -> MarianModel:
        """Load the model and, if there is one, the tokeniser."""
        return MarianModel(folder)


class MarianModel:
    """A written model in transformers, with ids in and out."""

    def __init__(self, folder: Path) -> None:
        transformers = _library()
        self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        has_tokenizer = (folder / "source.spm").is_file()
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder) if has_tokenizer else None

    @torch.no_grad()
    def greedy(self, sources: Sequence[list[int]], n: int) -> list[list[int]]:
        """Greedy outputs; ids without eos, in and out."""
        return [self._greedy(ids, n) for ids in sources]

    def _greedy(self, ids: list[int], n: int) -> list[int]:
        eos = self.model.config.eos_token_id
        source = torch.tensor([[*ids, eos]])
        tokens = self.model.generate(source, num_beams=1, do_sample=False, max_new_tokens=n)[0, 1:].tolist()
        return tokens[: tokens.index(eos)] if eos in tokens else tokens

    @torch.no_grad()
    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Log-probability of each token of the given targets, the last one of eos."""
        bos, eos = self.model.config.decoder_start_token_id, self.model.config.eos_token_id
        scores = []
        for src, tgt in zip(sources, targets, strict=True):
            logits = self.model(torch.tensor([[*src, eos]]), decoder_input_ids=torch.tensor([[bos, *tgt]])).logits
            scores.append(logits[0].log_softmax(-1).gather(1, torch.tensor([*tgt, eos])[:, None])[:, 0].tolist())
        return scores

    def check_tokenizer(self, task: Task, lines: Sequence[str]) -> None:
        """Raise DataError if the tokeniser gives other ids than the task."""
        if self.tokenizer is None:
            return
        for line, ids in zip(lines, task.encode_source(lines), strict=True):
            theirs = self.tokenizer(line).input_ids
            if theirs != [*ids, task.vocab.eos]:
                raise DataError(
                    f"format=hf: its tokeniser cuts {line[:60]!r} into other tokens than the task: {theirs[:8]} "
                    f"instead of {ids[:8]}; the task changes text before it cuts it, which MarianTokenizer cannot"
                )


def _library() -> Any:
    try:
        import transformers
    except ImportError:
        raise ConfigError("transformers is not installed: pip install transformers (extra export)") from None
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


@torch.no_grad()
def _fill(marian: Any, model: ExportInput) -> None:
    """Copy the weights into the model."""
    table, parameters = model.format.names(model.arch), marian.state_dict()
    for name, tensor in table.to_foreign(model.weights):
        parameters.pop(name).copy_(tensor)
    copies = {name for names in table.tensors if not names.is_written for name in names.foreign}
    assert not parameters.keys() - table.computed.keys() - {*table.zeros, *copies}, parameters.keys()


def _config(model: ExportInput) -> dict[str, Any]:
    vocab, options = model.vocab, foreign_options(model, "hf", "; format=ctranslate2 may express it")
    sizes = {"vocab_size": vocab.src, "decoder_vocab_size": vocab.tgt, "max_position_embeddings": N_POSITIONS}
    return {**options, **sizes, **_special(vocab)}


def _special(vocab: Vocab) -> dict[str, Any]:
    """Special ids; without forced_eos_token_id=None, Marian writes id 0 when an output reaches its length limit."""
    ids = {"pad_token_id": vocab.pad, "bos_token_id": vocab.bos, "eos_token_id": vocab.eos}
    return {**ids, "decoder_start_token_id": starting_token(vocab, "marian"), "forced_eos_token_id": None}


def _generation(vocab: Vocab) -> dict[str, Any]:
    """As in s2s, outputs never contain `Vocab.never_output`."""
    return {
        **_special(vocab),
        "bad_words_ids": [[token] for token in vocab.never_output],
        "max_length": 512,
        "num_beams": 1,
    }


def _write_tokenizer(sides: tuple[Tokenizer, Tokenizer], folder: Path) -> None:
    """MarianTokenizer's files: the sentencepiece models, and the id of every token."""
    for name, subwords in zip(("source.spm", "target.spm"), sides, strict=True):
        shutil.copyfile(subwords.library_file, folder / name)
    is_separate = sides[0].pieces != sides[1].pieces
    for name, subwords in zip(("vocab.json", "target_vocab.json")[: 1 + is_separate], sides, strict=False):
        ids = {piece: i for i, piece in enumerate(subwords.pieces)}
        (folder / name).write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    special = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>", "bos_token": "<s>"}
    settings = {"tokenizer_class": "MarianTokenizer", "model_max_length": N_POSITIONS, "separate_vocabs": is_separate}
    settings |= special
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
