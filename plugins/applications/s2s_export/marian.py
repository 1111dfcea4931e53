"""Models of Hugging Face: MarianMTModel, which is post-norm and has the paper's sinusoids.

It concatenates sines and cosines, whereas the paper interleaves them. The dimensions of a hidden state have no order,
so permuting every weight that reads or writes it gives the same model, bit for bit.
Shapes: D = d_model, V vocabulary size.
"""

from __future__ import annotations

__all__ = ["MarianExporter", "MarianModel"]

import json
import shutil
from typing import TYPE_CHECKING, Any

import torch

from s2s import ConfigError, DataError
from s2s_export.checks import check_heads_and_scale, starting_token

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

    from s2s import Choice, Task, Vocab
    from s2s.data import Tokenizer
    from s2s.intermediate import Attention, IntermediateModel, LayerNorm, Linear
    from s2s_export import ExportInput

N_POSITIONS = 4096
"""Positions for which the model computes sinusoids when it is loaded"""


class MarianExporter:
    """`format=hf`."""

    def __init__(self, config: Choice) -> None:
        _library()

    def write(self, given: ExportInput, folder: Path) -> None:
        """config.json, model.safetensors, generation_config.json and, with subwords, the tokeniser's files."""
        model, vocab = given.model, given.vocab
        check_heads_and_scale(model, "hf")
        order = _dimension_order(model)
        transformers = _library()
        config = transformers.MarianConfig(**_config(model, vocab))
        marian = transformers.MarianMTModel(config).eval()
        missing, unexpected = marian.load_state_dict(dict(_state(model, order)), strict=False)
        tied = ("embed_tokens.weight", "embed_positions.weight", "lm_head.weight")
        assert not unexpected, unexpected
        assert all(name.endswith(tied) for name in missing), missing
        marian.generation_config = transformers.GenerationConfig(**_generation(vocab))
        marian.save_pretrained(folder)
        if given.subwords is not None:
            _write_tokenizer(given.subwords, folder)

    def read(self, folder: Path) -> MarianModel:
        """Load the model and, if there is one, the tokeniser."""
        return MarianModel(folder)


class MarianModel:
    """A written model in transformers, with ids in and out."""

    def __init__(self, folder: Path) -> None:
        transformers = _library()
        self.model = transformers.MarianMTModel.from_pretrained(folder).eval()
        has_tokenizer = (folder / "source.spm").is_file()
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder) if has_tokenizer else None

    @torch.no_grad()
    def greedy(self, sources: Sequence[list[int]], n: int) -> list[list[int]]:
        """Greedy outputs; ids without eos, in and out."""
        return [self._greedy(ids, n) for ids in sources]

    def _greedy(self, ids: list[int], n: int) -> list[int]:
        eos = self.model.config.eos_token_id
        source = torch.tensor([[*ids, eos]])
        found = self.model.generate(source, num_beams=1, do_sample=False, max_new_tokens=n)[0, 1:].tolist()
        return found[: found.index(eos)] if eos in found else found

    @torch.no_grad()
    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Log-probability of each token of the given targets, the last one of eos."""
        bos, eos = self.model.config.decoder_start_token_id, self.model.config.eos_token_id
        found = []
        for src, tgt in zip(sources, targets, strict=True):
            logits = self.model(torch.tensor([[*src, eos]]), decoder_input_ids=torch.tensor([[bos, *tgt]])).logits
            found.append(logits[0].log_softmax(-1).gather(1, torch.tensor([*tgt, eos])[:, None])[:, 0].tolist())
        return found

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
        raise ConfigError("transformers is not installed: pip install 's2s-toolkit[export]'") from None
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _dimension_order(model: IntermediateModel) -> Tensor:
    """The permutation [D] from our hidden states to Marian's; raises ConfigError for what Marian cannot express."""
    why = "; format=ctranslate2 can express it"
    if model.pre_norm:
        raise ConfigError(f"format=hf: MarianMTModel is post-norm, but this model is pre-norm{why}")
    tables = model.encoder.embeddings, model.decoder.embeddings, model.softmax.weight
    if len({table.data_ptr() for table in tables}) > 1 or model.softmax.bias is not None:
        raise ConfigError(f"format=hf: embeddings of source, target and softmax must be one matrix without bias{why}")
    d = model.d_model
    n = min(64, model.max_positions or 64)
    interleaved = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])
    wanted = _sinusoids(n, d)
    for order in (torch.arange(d), interleaved):
        ours = [stack.positions(n)[:, order] for stack in (model.encoder, model.decoder)]
        if d % 2 == 0 and model.max_positions is None and all(torch.allclose(p, wanted, atol=1e-5) for p in ours):
            return order
    raise ConfigError(
        "format=hf: MarianMTModel has the paper's sinusoids (section 3.5) alone, but this model has learned positions, "
        f"none, or sinusoids of other wavelengths{why}"
    )


def _sinusoids(n: int, d: int) -> Tensor:
    """Marian's positions, [n, D]: the paper's, all sines before all cosines."""
    wave = 10_000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * wave
    return torch.cat([angle.sin(), angle.cos()], dim=-1).float()


def _config(model: IntermediateModel, vocab: Vocab) -> dict[str, Any]:
    sides = {"encoder": model.encoder, "decoder": model.decoder}
    sizes = {f"{name}_layers": len(stack.layers) for name, stack in sides.items()}
    sizes |= {f"{name}_attention_heads": model.n_heads for name in sides}
    sizes |= {f"{name}_ffn_dim": stack.layers[0].inner.weight.size(0) for name, stack in sides.items()}
    return {
        "vocab_size": vocab.tgt,
        "decoder_vocab_size": vocab.tgt,
        "d_model": model.d_model,
        "activation_function": model.activation,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "max_position_embeddings": N_POSITIONS,
        **sizes,
        **_special(vocab),
    }


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


def _state(model: IntermediateModel, order: Tensor) -> Any:
    """Marian's parameters by their names."""
    yield "model.shared.weight", model.encoder.embeddings[:, order]
    yield "final_logits_bias", torch.zeros(1, model.softmax.weight.size(0))
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        for i, layer in enumerate(stack.layers):
            at = f"model.{name}.layers.{i}"
            yield from _attention(f"{at}.self_attn", layer.attention, layer.attention_norm, order)
            if layer.cross is not None and layer.cross_norm is not None:
                yield from _attention(f"{at}.encoder_attn", layer.cross, layer.cross_norm, order)
            yield from _reads_hidden(f"{at}.fc1", layer.inner, order)
            yield from _writes_hidden(f"{at}.fc2", layer.out, order)
            yield from _norm(f"{at}.final_layer_norm", layer.feed_forward_norm, order)


def _attention(at: str, attention: Attention, norm: LayerNorm, order: Tensor) -> Any:
    for name in ("q", "k", "v"):
        yield from _reads_hidden(f"{at}.{name}_proj", getattr(attention, name), order)
    yield from _writes_hidden(f"{at}.out_proj", attention.out, order)
    yield from _norm(f"{at}_layer_norm", norm, order)


def _reads_hidden(at: str, linear: Linear, order: Tensor) -> Any:
    """A linear map whose input is the hidden state."""
    yield f"{at}.weight", linear.weight[:, order]
    yield f"{at}.bias", _bias(linear)


def _writes_hidden(at: str, linear: Linear, order: Tensor) -> Any:
    """A linear map whose output is the hidden state."""
    yield f"{at}.weight", linear.weight[order]
    yield f"{at}.bias", _bias(linear)[order]


def _norm(at: str, norm: LayerNorm, order: Tensor) -> Any:
    yield f"{at}.weight", norm.weight[order]
    yield f"{at}.bias", norm.bias[order]


def _bias(linear: Linear) -> Tensor:
    return torch.zeros(linear.weight.size(0)) if linear.bias is None else linear.bias


def _write_tokenizer(sides: tuple[Tokenizer, Tokenizer], folder: Path) -> None:
    """MarianTokenizer's files: the sentencepiece models, and the id of every token."""
    for name, subwords in zip(("source.spm", "target.spm"), sides, strict=True):
        shutil.copyfile(subwords.path, folder / name)
    ids = {piece: i for i, piece in enumerate(sides[0].pieces)}
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    special = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>", "bos_token": "<s>"}
    settings = {"tokenizer_class": "MarianTokenizer", "model_max_length": N_POSITIONS, **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
