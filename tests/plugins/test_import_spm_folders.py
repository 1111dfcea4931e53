"""Folders without a tokenizer.json: texts have the ids that transformers' own tokenisers give them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file

import s2s
from harness.spm_folders import KINDS, lines_of_scripts, spm_folder
from s2s_export.command import main as export_run
from s2s_import.command import main as import_model
from s2s_import.tokenizers import text_options
from s2s_tokenizers import HuggingFaceConfig, MarianConfig
from s2s_tokenizers.hugging_face import HuggingFaceKind
from s2s_tokenizers.marian import MarianKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from s2s.data import Tokenizer

SIZES = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
SIZES |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64}


def imported(folder: Path, config: Mapping[str, Any], languages: tuple[str, ...]) -> Tokenizer:
    """What an import makes of the folder's files."""
    empty = folder.with_name(f"{folder.name}-made")
    empty.mkdir()
    subword = dict(text_options(folder, config, languages, {}).take_over(empty)["subword"])
    is_marian = subword.pop("name") == "marian"
    kind = MarianKind(MarianConfig(**subword)) if is_marian else HuggingFaceKind(HuggingFaceConfig(**subword))
    kind.learn([], empty / "learnt", 0, option="task.vocab_size")
    return kind.load(empty / "learnt")


def weights_of(folder: Path) -> dict[str, bytes]:
    """Name -> values, without the sinusoids, which Pegasus has in its files and which are computed."""
    tensors = load_file(folder / "model.safetensors")
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items() if "embed_positions" not in name}


def compare(name: str, folder: Path, n_lines: int) -> None:
    """Ids of texts, and of what stands around them, are the same."""
    transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
    kind = KINDS[name]
    config = spm_folder(folder, kind)
    ours = imported(folder, config, kind.languages)
    theirs = getattr(transformers, kind.tokenizer_class).from_pretrained(folder)
    lines = lines_of_scripts(n_lines)
    if kind.model_type == "m2m_100":  # M2M-100 has no <mask>, and transformers 5 gives that of NLLB a code's id
        lines = [line for line in lines if "<mask>" not in line]
    expected = theirs(lines, add_special_tokens=False).input_ids
    for line, ids, theirs_ids in zip(lines, ours.encode(lines), expected, strict=True):
        assert ids == theirs_ids, repr(line)
    assert len({token for ids in expected for token in ids}) > 300
    for token in ("</s>", "<pad>", "<unk>", "<mask>", "<extra_id_7>", "<mask_1>", "<unk_5>", "de_DE", "__de__"):
        is_shifted = name == "nllb" and token == "<mask>"
        if not is_shifted and (i := theirs.convert_tokens_to_ids(token)) not in (None, theirs.unk_token_id):
            assert ours.id_of(token) == i, token
    assert ours.size == config["vocab_size"]
    if name not in ("m2m-100", "nllb"):  # of which transformers 5 writes no tokenizer.json, and one without codes
        theirs.save_pretrained(folder.parent / "saved")
        saved = imported(folder.parent / "saved", config, kind.languages)
        assert saved.encode(lines[:300]) == ours.encode(lines[:300])


@pytest.mark.parametrize("name", KINDS)
def test_ids_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path / name, 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_ids_of_ten_thousand_lines_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path / name, 10_000)


@pytest.mark.parametrize("name", ["m2m-100", "pegasus"])
def test_a_model_without_tokenizer_json_translates_as_in_transformers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
    monkeypatch.chdir(tmp_path)
    kind = KINDS[name]
    config = {**spm_folder(tmp_path / "model", kind), **SIZES, "vocab_size": 1200, "scale_embedding": True}
    torch.manual_seed(2)
    model = transformers.AutoModelForSeq2SeqLM.from_config(transformers.AutoConfig.for_model(**config)).eval()
    with torch.no_grad():
        for weight_name, weight in model.named_parameters():
            weight.add_(0.3 * torch.randn_like(weight) * ("embed_positions" not in weight_name))
    model.save_pretrained(tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    first = {"forced_bos_token_id": tokenizer.get_lang_id("de")} if name == "m2m-100" else {}
    languages = [f"languages=[{','.join(kind.languages)}]"] if kind.languages else []
    assert import_model(["model=model", "run=ours", "--quiet", *languages]) == 0
    ours = s2s.load("runs/ours")
    lines = [
        line for line in lines_of_scripts(120)[70:] if ours.task.src.covers(line) and line.strip(" ").isprintable()
    ]
    theirs = []
    for line in lines:
        ids = tokenizer([line], return_tensors="pt").input_ids
        never = [[config["pad_token_id"]]]
        outputs = model.generate(ids, num_beams=1, max_new_tokens=8, do_sample=False, bad_words_ids=never, **first)
        text = tokenizer.batch_decode(outputs, skip_special_tokens=True)[0]
        theirs.append(re.sub("__[a-z]+__", "", text).strip())  # codes of languages
    greedy = {"name": "greedy", "max_len_a": 0, "max_len_b": 7}
    assert ours.translate(lines, search=greedy) == theirs
    assert len(set(theirs)) > 2
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
    assert export_run(["run=ours", "format=hf", "output=back", "input=lines", "--quiet"]) == 0
    assert weights_of(tmp_path / "back") == weights_of(tmp_path / "model")
    back = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert type(back).__name__ == type(tokenizer).__name__ or name == "pegasus"
    written = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back").eval()
    for line, text in zip(lines, theirs, strict=True):
        assert back(line).input_ids == tokenizer(line).input_ids
        outputs = written.generate(**back([line], return_tensors="pt"), max_new_tokens=7 + len(first))
        assert back.batch_decode(outputs, skip_special_tokens=True)[0].strip() == text
