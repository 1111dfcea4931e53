"""Published families: random models of transformers, read and written back; the file decides, not its configuration."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

from s2s.errors import CheckpointError, ConfigError
from s2s.foreign import open_tensors
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.huggingface import M2M100, Bart, MBart
from s2s_transformer.marian import Marian
from s2s_transformer.model import Transformer
from s2s_transformer.t5 import T5

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

    from s2s.foreign import ForeignFormat

transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")

V = 37
SIDES = ("encoder", "decoder")
BART_SIZES = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 24, "vocab_size": V, "max_position_embeddings": 19}
BART_SIZES |= {f"{side}_attention_heads": 3 for side in SIDES} | {f"{side}_ffn_dim": 20 for side in SIDES}
BART_IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
MARIAN_IDS = {"pad_token_id": V - 1, "eos_token_id": 0, "decoder_start_token_id": V - 1}
T5_SIZES = {"num_layers": 2, "num_decoder_layers": 1, "d_model": 24, "d_kv": 5, "d_ff": 20, "num_heads": 3}
T5_SIZES |= {"vocab_size": V, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 6}
T5_SIZES |= {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "initializer_factor": 0.3}
T5_1_1 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
SEPARATE = {"share_encoder_decoder_embeddings": False, "vocab_size": 23, "decoder_vocab_size": V}
SEPARATE |= {"pad_token_id": 22, "decoder_start_token_id": 22}


class Case(NamedTuple):
    form: type[ForeignFormat]
    model: str
    """The class of transformers"""
    options: dict[str, Any]
    untied: bool = False
    """The file has a matrix of its own for the softmax."""


CASES = {
    "marian": Case(Marian, "MarianMTModel", {**BART_SIZES, **MARIAN_IDS, "scale_embedding": True}),
    "marian-separate": Case(Marian, "MarianMTModel", {**BART_SIZES, **MARIAN_IDS, **SEPARATE}),
    "marian-untied": Case(Marian, "MarianMTModel", {**BART_SIZES, **MARIAN_IDS, "activation_function": "swish"}, True),
    "marian-separate-untied": Case(Marian, "MarianMTModel", {**BART_SIZES, **MARIAN_IDS, **SEPARATE}, True),
    "pegasus": Case(Marian, "PegasusForConditionalGeneration", {**BART_SIZES, "activation_function": "relu"}),
    "m2m_100": Case(M2M100, "M2M100ForConditionalGeneration", {**BART_SIZES, **BART_IDS}),
    "m2m_100-other-pad": Case(
        M2M100,
        "M2M100ForConditionalGeneration",
        {**BART_SIZES, **BART_IDS, "pad_token_id": 3},
    ),
    "bart": Case(Bart, "BartForConditionalGeneration", {**BART_SIZES, **BART_IDS}),
    "bart-tanh": Case(
        Bart, "BartForConditionalGeneration", {**BART_SIZES, **BART_IDS, "activation_function": "gelu_new"}
    ),
    "bart-untied": Case(Bart, "BartForConditionalGeneration", {**BART_SIZES, **BART_IDS}, True),
    "plbart": Case(Bart, "PLBartForConditionalGeneration", {**BART_SIZES, **BART_IDS, "scale_embedding": True}),
    "mbart": Case(MBart, "MBartForConditionalGeneration", {**BART_SIZES, **BART_IDS, "scale_embedding": True}),
    "t5-1.0": Case(T5, "T5ForConditionalGeneration", T5_SIZES),
    "t5-1.1": Case(T5, "T5ForConditionalGeneration", T5_SIZES | T5_1_1, True),
    "t5-1.1-tied": Case(T5, "T5ForConditionalGeneration", T5_SIZES | T5_1_1),
    "t5-heads": Case(T5, "T5ForConditionalGeneration", {**T5_SIZES, "d_kv": 8, "feed_forward_proj": "gated-silu"}),
    "t5-gelu": Case(T5, "T5ForConditionalGeneration", {**T5_SIZES, "feed_forward_proj": "gelu"}),
    "mt5": Case(T5, "MT5ForConditionalGeneration", {**T5_SIZES, "feed_forward_proj": "gated-gelu"}, True),
}
EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@torch.no_grad()
def saved(case: Case, folder: Path, **how: Any) -> Any:
    """A random model of transformers, none of whose parameters has a telling value, saved in `folder` and loaded."""
    torch.manual_seed(3)
    kind = getattr(transformers, case.model)
    model = kind(kind.config_class(**case.options)).eval()
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name or case.form in (Bart, MBart):
            parameter.add_(0.3 * torch.randn_like(parameter))
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.normal_()
    model.save_pretrained(folder, **how)
    if case.untied:
        tensors = load_file(folder / "model.safetensors")
        save_file(
            {**tensors, "lm_head.weight": 0.3 * torch.randn(V, 24)}, folder / "model.safetensors", {"format": "pt"}
        )
    return kind.from_pretrained(folder).eval()


def vocab(config: Mapping[str, Any]) -> Vocab:
    ids = {"pad": config["pad_token_id"], "eos": config["eos_token_id"], "unk": 4}
    start = (config.get("decoder_start_token_id") or 0,)
    sizes = {"src": config["vocab_size"], "tgt": config.get("decoder_vocab_size") or config["vocab_size"]}
    if config["model_type"] == "marian" and config["share_encoder_decoder_embeddings"]:
        sizes["tgt"] = sizes["src"]
    return Vocab(**sizes, **ids, bos=start[0], starting_tokens=start, joint=sizes["src"] == sizes["tgt"])


def read(case: Case, folder: Path) -> Transformer:
    """The model here of what is in `folder`"""
    form, config, tensors = case.form(), json.loads((folder / "config.json").read_text()), open_tensors(folder)
    assert config["model_type"] in form.model_types
    ours = Transformer(TransformerConfig(**form.read_options(config, tensors)), vocab(config)).eval()
    form.names(ours.config).load(ours.state_dict(), tensors)
    return ours


def sentences(words: Vocab) -> tuple[Tensor, Tensor]:
    """Sources and targets of several lengths, padded"""
    torch.manual_seed(5)
    special = {words.pad, words.eos, *words.starting_tokens}
    sides = []
    for n_tokens, lengths in ((words.src, (15, 9, 4, 1)), (words.tgt, (3, 15, 1, 8))):
        free = torch.tensor([token for token in range(n_tokens) if token not in special])
        rows = [free[torch.randint(len(free), (n,))] for n in lengths]
        sides.append(rows)
    eos, start = torch.tensor([words.eos]), torch.tensor(words.starting_tokens)
    src, tgt = [torch.cat([row, eos]) for row in sides[0]], [torch.cat([start, row]) for row in sides[1]]
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(src, True, words.pad), pad(tgt, True, words.pad)


@EACH
@torch.no_grad()
def test_logits_are_those_of_transformers(case: Case, tmp_path: Path) -> None:
    theirs = saved(case, tmp_path)
    ours = read(case, tmp_path)
    src, tgt = sentences(ours.vocab)
    pad = src == ours.vocab.pad
    expected = theirs(src, attention_mask=(~pad).long(), decoder_input_ids=tgt).logits
    difference = (ours.project(ours(src, pad, tgt)) - expected).abs()
    is_real = (tgt != ours.vocab.pad) | (torch.arange(tgt.size(1)) == 0)
    assert float(difference[is_real].max()) <= 1e-5


@EACH
@torch.no_grad()
def test_greedy_outputs_are_those_of_transformers(case: Case, tmp_path: Path) -> None:
    theirs = saved(case, tmp_path)
    ours = read(case, tmp_path)
    words, n = ours.vocab, 12
    src, _ = sentences(words)
    pad = src == words.pad
    settings = transformers.GenerationConfig(
        max_new_tokens=n + 1, min_new_tokens=n + 1, num_beams=1, do_sample=False, pad_token_id=words.pad,
        eos_token_id=words.eos, decoder_start_token_id=words.starting_tokens[0], bad_words_ids=[[words.pad]],
    )  # fmt: skip
    expected = theirs.generate(src, attention_mask=(~pad).long(), generation_config=settings)[:, 1 : n + 1]
    state, token, outputs = ours.start(ours.encode(src, pad)), torch.full((len(src), 1), words.starting_tokens[0]), []
    for _ in range(n):
        logits, state = ours.step(token, state)
        logits[..., [words.pad, words.eos]] = -torch.inf
        token = logits.argmax(-1)
        outputs.append(token)
    assert torch.equal(torch.cat(outputs, dim=1), expected)


@EACH
def test_weights_are_written_back_byte_for_byte(case: Case, tmp_path: Path) -> None:
    theirs = saved(case, tmp_path)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        theirs.to(dtype).save_pretrained(tmp_path)
        file = dict(open_tensors(tmp_path))
        ours = read(case, tmp_path)
        table = case.form().names(ours.config)
        written = {name: tensor.to(dtype) for name, tensor in table.to_foreign(ours.state_dict())}
        copies = {name for row in table.tensors if row.optional and row.is_written for name in row.foreign}
        assert written.keys() - copies == file.keys() - table.computed.keys()
        for name, tensor in written.items():
            assert torch.equal(file["model.shared.weight" if name in copies else name], tensor), name


@EACH
def test_options_are_written_and_read_back(case: Case, tmp_path: Path) -> None:
    saved(case, tmp_path)
    ours, form = read(case, tmp_path), case.form()
    options = form.write_options(ours.config)
    assert asdict(TransformerConfig(**form.read_options(options, open_tensors(tmp_path)))) == asdict(ours.config)
    config = getattr(transformers, case.model).config_class(**{**case.options, **options}).to_dict()
    assert asdict(TransformerConfig(**form.read_options(config, open_tensors(tmp_path)))) == asdict(ours.config)


def assert_same(ours: Transformer, others: Transformer) -> None:
    assert ours.config == others.config
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, others.state_dict()[name]), name


@EACH
def test_a_file_in_parts_or_pickled_is_the_same(case: Case, tmp_path: Path) -> None:
    theirs = saved(case, tmp_path)
    ours, config = read(case, tmp_path), (tmp_path / "config.json").read_bytes()
    tensors = dict(open_tensors(tmp_path))
    for kind in ("parts", "pickled", "legacy", "pickled parts"):
        folder = tmp_path / kind
        folder.mkdir()
        (folder / "config.json").write_bytes(config)
        if kind == "parts":
            theirs.save_pretrained(folder, max_shard_size="9KB")
            assert (folder / "model.safetensors.index.json").is_file()
        elif kind == "pickled parts":
            halves = list(tensors)[::2], list(tensors)[1::2]
            names = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
            for half, name in zip(halves, names, strict=True):
                torch.save({tensor: tensors[tensor] for tensor in half}, folder / name)
            where = {tensor: name for half, name in zip(halves, names, strict=True) for tensor in half}
            (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": where}))
        else:
            new = kind == "pickled"
            torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=new)
        assert_same(read(case, folder), ours)


@pytest.mark.parametrize(
    ("name", "copies"),
    [
        ("marian", ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"]),
        ("m2m_100", ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"]),
        ("bart", ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"]),
        ("t5-1.0", ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"]),
        ("t5-1.1", ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]),
    ],
)
def test_copies_of_older_files_are_read_with_or_without_the_shared_matrix(
    name: str, copies: list[str], tmp_path: Path
) -> None:
    saved(CASES[name], tmp_path)
    ours, tensors = read(CASES[name], tmp_path), dict(open_tensors(tmp_path))
    shared = next(key for key in tensors if key.endswith("shared.weight"))
    for kept in ([shared, *copies], copies, copies[:1], copies[1:2]):
        matrix = tensors[shared]
        file = {key: tensor for key, tensor in tensors.items() if key != shared}
        save_file(file | {key: matrix.clone() for key in kept}, tmp_path / "model.safetensors", {"format": "pt"})
        assert_same(read(CASES[name], tmp_path), ours)


def test_a_copy_that_differs_is_named(tmp_path: Path) -> None:
    saved(CASES["bart"], tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    changed = {"model.decoder.embed_tokens.weight": tensors["model.shared.weight"] + 1}
    save_file(tensors | changed, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="differs from"):
        read(CASES["bart"], tmp_path)


@pytest.mark.parametrize("name", ["bart", "mbart", "m2m_100"])
def test_files_of_the_model_without_softmax_are_read(name: str, tmp_path: Path) -> None:
    """Their names have no prefix, and some have the version of the program that trained them."""
    saved(CASES[name], tmp_path)
    tensors, ours = load_file(tmp_path / "model.safetensors"), read(CASES[name], tmp_path)
    file = {key.removeprefix("model."): tensor for key, tensor in tensors.items()}
    file |= {f"{side}.version": torch.tensor([3.0]) for side in SIDES}
    save_file(file, tmp_path / "model.safetensors", {"format": "pt"})
    assert_same(read(CASES[name], tmp_path), ours)


def test_sinusoids_of_early_files_are_compared(tmp_path: Path) -> None:
    theirs = saved(CASES["m2m_100"], tmp_path)
    ours, tensors = read(CASES["m2m_100"], tmp_path), load_file(tmp_path / "model.safetensors")
    name, weights = "model.encoder.embed_positions.weights", theirs.model.encoder.embed_positions.weights
    table = M2M100().names(ours.config)
    for dtype in (torch.float32, torch.float16):
        table.load(ours.state_dict(), {**tensors, name: weights.to(dtype)})
    with pytest.raises(CheckpointError, match=f"^'{name}' is not what this model computes"):
        table.load(ours.state_dict(), {**tensors, name: weights.roll(1, 0)})


@pytest.mark.parametrize(
    ("keys", "untied", "scales"),
    [
        ({"tie_word_embeddings": True}, False, True),
        ({}, False, True),
        ({"tie_word_embeddings": False}, True, False),
        ({"tie_word_embeddings": True}, True, False),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, False, False),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, True, False),
        ({"tie_word_embeddings": True, "model_type": "mt5"}, False, False),
    ],
)
def test_the_file_of_a_t5_decides(keys: dict[str, Any], untied: bool, scales: bool, tmp_path: Path) -> None:
    saved(CASES["t5-1.0"], tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for key in ("tie_word_embeddings", "scale_decoder_outputs"):
        config.pop(key, None)
    tensors = load_file(tmp_path / "model.safetensors")
    if untied:
        tensors["lm_head.weight"] = torch.randn(V, 24)
    options = T5().read_options({**config, **keys, "feed_forward_proj": "gated-gelu"}, tensors)
    assert (options["share_embeddings"], options["scale_output"]) == ("inputs" if untied else "shared", scales)
    assert not options["gated"]  # whatever the configuration says


def test_a_t5_of_version_1_has_a_table_that_was_never_used(tmp_path: Path) -> None:
    saved(CASES["t5-1.0"], tmp_path)
    ours, tensors = read(CASES["t5-1.0"], tmp_path), load_file(tmp_path / "model.safetensors")
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    T5().names(ours.config).load(ours.state_dict(), {**tensors, unused: torch.randn(8, 3)})


PAPER_OPTIONS = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 8, "d_ff": 8, "n_heads": 2}


@pytest.mark.parametrize("form", [Marian, Bart, MBart, M2M100, T5])
@pytest.mark.parametrize(
    "options",
    [
        {"decoder_self_attention": "ssru"},
        {"zero_start": True},
        {"positions": "rotary"},
        {"positions": "learned", "scale_positions": True},
        {"n_kv_heads": 1},
        {"bias": False},
        {"share_embeddings": "none", "norm": "pre"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_what_a_family_lacks_is_named(form: type[ForeignFormat], options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^arch\.\w+="):
        form().write_options(TransformerConfig(**PAPER_OPTIONS, **options))


def test_every_family_is_registered() -> None:
    registry = load_plugins().registry
    formats = [registry.get("foreign_format", name).load() for name in registry.names("foreign_format")]
    types = {model_type: form for form in formats for model_type in form.model_types}
    expected = {"marian": Marian, "pegasus": Marian, "m2m_100": M2M100, "bart": Bart, "plbart": Bart, "mbart": MBart}
    assert types == {**expected, "t5": T5, "mt5": T5}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"weight_map": {"a": "../model-1.safetensors"}}', "is no file in this folder"),
        ('{"weight_map": {"a": "/etc/passwd"}}', "is no file in this folder"),
        ('{"weight_map": {"a": "."}}', "is no file in this folder"),
        ('{"weight_map": {"a": ""}}', "is no file in this folder"),
        ('{"weight_map": {"a": "x\\u0000y"}}', "is no file in this folder"),
        ('{"weight_map": {"a": 1}}', "is no file in this folder"),
        ('{"weight_map": {"a": ["b"]}}', "is no index"),
        ('{"weight_map": []}', "is no index"),
        ("{}", "is no index"),
        ("[", "is no index"),
        ("[" * 100_000, "is no index"),
    ],
    ids=["parent", "absolute", "folder", "empty", "nul", "number", "list", "no map", "no key", "cut", "deep"],
)
@pytest.mark.parametrize("kind", ["model.safetensors", "pytorch_model.bin"])
def test_an_index_of_something_else_is_refused(kind: str, content: str, said: str, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "model-1.safetensors")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / f"{kind}.index.json").write_text(content)
    with pytest.raises(CheckpointError, match=said) as caught:
        open_tensors(inner)
    assert "\n" not in str(caught.value)


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    parts = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for part in parts:
        save_file({"a": torch.zeros(1)}, tmp_path / part)
    with pytest.raises(CheckpointError, match=f"^'a' is in both {parts[0]} and {parts[1]}"):
        open_tensors(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": parts[0], "b": parts[1]}}))
    with pytest.raises(CheckpointError, match=r"^'a' is in both"):
        open_tensors(tmp_path)


@pytest.mark.parametrize("content", [[torch.zeros(1)], {"a": {"b": torch.zeros(1)}}, {1: torch.zeros(1)}, {}])
def test_a_pickle_of_anything_else_is_refused(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "pytorch_model.bin")
    if content == {}:
        assert not open_tensors(tmp_path)
        return
    with pytest.raises(CheckpointError):
        open_tensors(tmp_path)
