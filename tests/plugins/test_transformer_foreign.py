"""The Transformer in other programs' formats and back: tensors equal bit for bit, logits those of the other program."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from s2s.decoding import GreedyConfig
from s2s.errors import CheckpointError
from s2s.foreign import open_tensors
from s2s.registry import Choice
from s2s.task import Vocab
from s2s_export import ExportInput
from s2s_export.ctranslate2 import CTranslate2Exporter, CTranslate2Model
from s2s_export.hugging_face import HuggingFaceExporter
from s2s_transformer import TransformerConfig
from s2s_transformer.ctranslate2 import CTranslate2
from s2s_transformer.marian import Marian
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from s2s.foreign import ForeignFormat

V = 23
VOCAB = Vocab(src=V, tgt=V, joint=True)
SMALL = {"n_encoder_layers": 2, "n_decoder_layers": 1, "d_model": 16, "d_ff": 24, "n_heads": 2, "norm_eps": 1e-5}

T5: dict[str, Any] = {"norm_kind": "rms", "bias": False, "attention_score": "dot", "positions": "relative_bias"}
T5 |= {"scale_embeddings": False, "d_k": 6, "d_v": 6, "n_decoder_layers": 2}


def build(**options: Any) -> Transformer:
    """A model none of whose parameters has a telling value."""
    torch.manual_seed(1)
    model = Transformer(TransformerConfig(**{**SMALL, **options}), VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def write(model: Transformer, folder: Path, form: ForeignFormat) -> None:
    exporter = CTranslate2Exporter(Choice()) if isinstance(form, CTranslate2) else HuggingFaceExporter(Choice())
    exporter.write(ExportInput(model.config, model.state_dict(), form, VOCAB, None, GreedyConfig()), folder)


def assert_read_back(model: Transformer, form: ForeignFormat, config: dict[str, Any], tensors: Any) -> None:
    """The options and all tensors of a model that has been written."""
    read = TransformerConfig(**form.read_options(config, tensors))
    ours, unread = asdict(model.config), {"dropout"}
    assert {name: value for name, value in asdict(read).items() if value != ours[name]}.keys() <= unread
    torch.manual_seed(2)
    other = Transformer(read, VOCAB)
    form.names(read).load(other.state_dict(), tensors)
    assert other.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


@pytest.mark.parametrize(
    "options",
    [{}, {"output_bias": True}, {"scale_embeddings": False, "activation": "silu"}, {"dropout": 0.5}],
    ids=["paper", "bias", "unscaled-silu", "dropout"],
)
def test_marian_is_written_and_read_back(options: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra `export` is not installed")
    model = build(**options)
    write(model, tmp_path, Marian())
    assert_read_back(model, Marian(), json.loads((tmp_path / "config.json").read_text()), open_tensors(tmp_path))


def marian(tmp_path: Path, **options: Any) -> Any:
    """A random MarianMTModel, none of whose parameters has a telling value; it is saved in `tmp_path`."""
    transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
    torch.manual_seed(3)
    sizes = {f"{side}_layers": n for side, n in (("encoder", 3), ("decoder", 2))}
    sizes |= {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_ffn_dim": 40 for side in ("encoder", "decoder")}
    ids = {"pad_token_id": 0, "eos_token_id": 3, "bos_token_id": 2, "decoder_start_token_id": 0}
    sizes |= {"vocab_size": V, "decoder_vocab_size": V, "d_model": 32, "scale_embedding": True, **ids}
    config = transformers.MarianConfig(**{**sizes, "max_position_embeddings": 64, **options})
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
        model.final_logits_bias.normal_()
    model.save_pretrained(tmp_path)
    return model


@pytest.mark.parametrize(
    "options",
    [{}, {"scale_embedding": False}, {"activation_function": "swish"}],
    ids=["gelu", "unscaled", "swish"],
)
@torch.no_grad()
def test_a_random_marian_model_gives_the_same_logits(options: dict[str, Any], tmp_path: Path) -> None:
    theirs, form = marian(tmp_path, **options), Marian()
    tensors = open_tensors(tmp_path)
    ours = Transformer(TransformerConfig(**form.read_options(theirs.config.to_dict(), tensors)), VOCAB).eval()
    form.names(ours.config).load(ours.state_dict(), tensors)
    src = torch.tensor([[5, 6, 7, 22, 3], [9, 4, 3, 0, 0]])
    tgt = torch.tensor([[0, 8, 9, 10], [0, 11, 4, 12]])
    expected = theirs(src, attention_mask=(src != 0).long(), decoder_input_ids=tgt).logits
    logits = ours.project(ours(src, src == 0, tgt))
    assert float((logits - expected).abs().max()) <= 1e-5


def test_sinusoids_in_a_file_are_compared(tmp_path: Path) -> None:
    theirs = marian(tmp_path)
    positions = theirs.model.encoder.embed_positions.weight.detach().clone()
    name = "model.encoder.embed_positions.weight"
    ours = Transformer(
        TransformerConfig(**Marian().read_options(theirs.config.to_dict(), open_tensors(tmp_path))), VOCAB
    )
    table = Marian().names(ours.config)
    table.load(ours.state_dict(), {**open_tensors(tmp_path), name: positions})
    with pytest.raises(CheckpointError, match=f"^'{name}' is not what this model computes"):
        table.load(ours.state_dict(), {**open_tensors(tmp_path), name: positions.roll(1, 0)})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "pre", "activation": "gelu"},
        {"positions": "sinusoid_t2t", "activation": "silu"},
        {"positions": "learned", "max_positions": 30},
        {"positions": "none", "scale_embeddings": False},
        {"positions": "sinusoid_t2t", "position_offset": 2, "norm": "pre"},
        {"share_embeddings": "none", "output_bias": True},
        {"share_embeddings": "target", "norm_eps": 1e-3},
        {"share_embeddings": "inputs", "activation": "gelu_tanh"},
        {**T5, "norm": "pre", "scale_output": True},
        {**T5, "norm": "pre", "gated": True, "activation": "gelu_tanh", "share_embeddings": "inputs"},
        {"d_k": 6, "d_v": 6, "gated": True, "positions": "relative_bias", "bias_buckets": 8, "bias_distance": 20},
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "paper",
)
def test_ctranslate2_is_written_and_read_back(options: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `export` is not installed")
    model = build(**options)
    write(model, tmp_path, CTranslate2())
    variables = read_ctranslate2(tmp_path / "model.bin")
    scalars = {name: tensor.item() for name, tensor in variables.items() if tensor.dim() == 0}
    config = {**json.loads((tmp_path / "config.json").read_text()), **scalars}
    assert_read_back(model, CTranslate2(), config, {n: t for n, t in variables.items() if n not in scalars})


def read_ctranslate2(path: Path) -> dict[str, Tensor]:
    """The variables of a model.bin (version 6), from the description of the format alone."""
    data, at = path.read_bytes(), 0

    def number(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f"<{form}", data, at)
        at += struct.calcsize(form)
        return int(value)

    def text() -> str:
        nonlocal at
        n = number("H")
        at += n
        return data[at - n : at - 1].decode()

    number("I"), text(), number("I")
    variables = {}
    for _ in range(number("I")):
        name, shape = text(), []
        for _ in range(number("B")):
            shape.append(number("I"))
        dtype = (np.float32, np.int8, np.int16, np.int32)[number("B")]
        n = number("I")
        variables[name] = torch.from_numpy(np.frombuffer(data[at : at + n], dtype).reshape(shape).copy())
        at += n
    aliases = [(text(), text()) for _ in range(number("I"))]
    return variables | {alias: variables[name] for alias, name in aliases}


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "pre", "scale_output": True, "output_bias": True},
        {"norm": "pre", "gated": True, "activation": "gelu_tanh", "share_embeddings": "inputs"},
        {"norm": "post", "gated": True, "activation": "silu", "bias": True, "attention_score": "scaled_dot"},
    ],
    ids=["1.0", "1.1", "biased"],
)
@torch.no_grad()
def test_ctranslate2_scores_as_t5_does_at_all_distances(options: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `export` is not installed")
    model = build(**{**T5, **options, "bias_distance": 40})
    write(model, tmp_path, CTranslate2())
    src, tgt = (torch.randint(4, V, (1, n)) for n in (70, 60))
    theirs = CTranslate2Model(tmp_path, intra_threads=1).log_probs(src.tolist(), tgt.tolist())
    source = torch.cat([src, torch.tensor([[VOCAB.src_eos]])], 1)
    target = torch.cat([torch.tensor([[*VOCAB.starting_tokens]]), tgt], 1)
    logits = model.project(model(source, source == VOCAB.pad, target))
    expected = logits.log_softmax(-1).gather(2, torch.tensor([[*tgt[0], VOCAB.eos]])[..., None])[..., 0]
    torch.testing.assert_close(torch.tensor(theirs), expected, atol=1e-4, rtol=0)
