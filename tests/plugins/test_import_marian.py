"""Marian's model.npz with its vocabularies: outputs are those of Marian's equations."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
import sentencepiece
import torch

import s2s
from harness.marian_bin import IntegerEquations, bin_file, dequantized, with_alphas
from harness.marian_npz import PRE, SSRU, Equations, marian_options, random_tensors, written
from harness.published import LINES
from s2s_cpu.linear_backends import has_int8
from s2s_import.command import main as import_model
from s2s_import.marian_vocabularies import Vocabulary

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = 10


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def vocabulary(path: Path, lines: list[str]) -> sentencepiece.SentencePieceProcessor:
    """As Marian learns one: </s> and <unk> first, and no other special token."""
    model = io.BytesIO()
    special = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
        **special,
    )
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def greedy(model: Equations, source: list[int]) -> list[int]:
    output: list[int] = []
    while len(output) < LONGEST and (token := int(model.log_probs([*source, 0], output)[-1].argmax())) != 0:
        output.append(token)
    return output


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "separate"])
@pytest.mark.parametrize("changes", [{}, PRE, SSRU], ids=["post", "pre", "ssru"])
def test_a_model_of_marian_translates_by_its_equations(changes: dict[str, Any], joint: bool, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    if joint:
        src = tgt = vocabulary(folder / "vocab.spm", [*LINES["src"], *LINES["tgt"]])
    else:
        src, tgt = vocabulary(folder / "source.spm", LINES["src"]), vocabulary(folder / "target.spm", LINES["tgt"])
    tied = {"tied-embeddings": not joint, "tied-embeddings-all": joint}
    options = marian_options(**changes, **tied)
    tensors = random_tensors(options, len(src), len(tgt))
    written(options, folder / "model.npz", tensors)
    (folder / "model.npz.decoder.yml").write_text("beam-size: 3\nnormalize: 0.6\n")
    for name in ("model.npz.optimizer.npz", "model.npz.best-cross-entropy.npz", "model.iter500.npz"):
        (folder / name).write_bytes(b"of the trainer")
    ours = s2s.load("model")
    assert (ours.config.search.beam, ours.config.search.alpha, ours.config.search.length_penalty) == (3, 0.6, "power")
    theirs = Equations(options, tensors)
    expected = [tgt.decode(greedy(theirs, src.encode(line))) for line in LINES["src"][:8]]
    found = ours.translate(LINES["src"][:8], search={"name": "greedy", "max_len_a": 0, "max_len_b": LONGEST})
    assert found == [text.replace(" ⁇ ", "⁇").strip() for text in expected]
    assert any(expected)


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "separate"])
def test_a_folder_of_firefox_translates_by_its_equations(joint: bool, tmp_path: Path) -> None:
    folder = tmp_path / "ende"
    folder.mkdir()
    sides = {"vocab": [*LINES["src"], *LINES["tgt"]]} if joint else {"srcvocab": LINES["src"], "trgvocab": LINES["tgt"]}
    vocabs = [vocabulary(folder / f"{name}.ende.spm", lines) for name, lines in sides.items()]
    src, tgt = vocabs[0], vocabs[-1]
    for file in [*folder.iterdir()]:
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    options = marian_options(**SSRU, **{"tied-embeddings": not joint, "tied-embeddings-all": joint})
    tensors = random_tensors(options, len(src), len(tgt))
    content = bin_file(options, with_alphas(tensors), "Firefox")
    (folder / "model.ende.intgemm.alphas.bin.gz").write_bytes(gzip.compress(content))
    (folder / "metadata.json").write_text(json.dumps({"sourceLanguage": "en", "targetLanguage": "de"}))
    ours = s2s.load("ende", quantization="none")
    search = ours.config.search
    assert (search.beam, search.max_len_a, search.stop) == (1, 2.0, "first_k")  # the most probable token until eos
    assert (ours.config.task.src_lang, ours.config.task.tgt_lang) == ("en", "de")
    theirs = Equations(options, dequantized(tensors, "Firefox"))
    expected = [tgt.decode(greedy(theirs, src.encode(line))) for line in LINES["src"][:8]]
    found = ours.translate(LINES["src"][:8], search={"name": "greedy", "max_len_a": 0, "max_len_b": LONGEST})
    assert found == [text.replace(" ⁇ ", "⁇").strip() for text in expected]
    assert any(expected)


@pytest.mark.skipif(not has_int8(), reason="no linear maps in 8-bit integers here")
@pytest.mark.parametrize("joint", [True, False], ids=["joint", "separate"])
def test_a_model_in_integers_is_computed_in_integers_with_the_scales_of_its_file(joint: bool, tmp_path: Path) -> None:
    n = len(vocabulary(tmp_path / "vocab.spm", [*LINES["src"], *LINES["tgt"]]))
    options = marian_options(**SSRU, **{"tied-embeddings": not joint, "tied-embeddings-all": joint})
    tensors = with_alphas(random_tensors(options, n, n))
    (tmp_path / "model.alphas.bin").write_bytes(bin_file(options, tensors, "Firefox"))
    ours, in_fp32 = s2s.load("model.alphas.bin"), s2s.load("model.alphas.bin", quantization="none")
    assert "in 8-bit integers, by the scales of the model's file" in ours.description
    theirs = IntegerEquations(options, tensors)
    for src, tgt in (([5, 9, 3, 0], [7, 2, 30, 11]), ([4, 0], [6]), ([*range(20, 3, -1), 0], [*range(9, 30)])):
        expected = torch.from_numpy(theirs.log_probs(src, tgt)).float()
        found, other = (log_probs(model, src, tgt)[:, :n] for model in (ours, in_fp32))
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
        assert (other - expected).abs().max() > 1e-2


def log_probs(model: s2s.TrainedModel, src: list[int], tgt: list[int]) -> torch.Tensor:
    """[T, V] after each token of the target, from before the first"""
    source, target = torch.tensor([src]), torch.tensor([[model.task.vocab.bos, *tgt]])
    with torch.no_grad():
        hidden = model.model(source, torch.zeros_like(source, dtype=torch.bool), target)
        return model.model.project(hidden).log_softmax(-1)[0]


def test_options_beside_a_binary_model_say_how_it_is_decoded(tmp_path: Path) -> None:
    n = len(vocabulary(tmp_path / "vocab.spm", LINES["src"]))
    options = marian_options(**SSRU, **{"tied-embeddings": False, "tied-embeddings-all": True})
    (tmp_path / "model.intgemm.bin").write_bytes(bin_file(options, random_tensors(options, n, n), "Marian"))
    (tmp_path / "config.yml").write_text("models: [/there/model.intgemm.bin]\nbeam-size: 4\nnormalize: 0.8\n")
    (tmp_path / "config.other.yml").write_text("models: [other.bin]\nbeam-size: 7\n")
    search = s2s.load("model.intgemm.bin").config.search
    assert (search.beam, search.alpha) == (4, 0.8)


YAML_FORMS = {
    "plain": lambda tokens: "".join(f"{token}: {i}\n" for i, token in enumerate(tokens)),
    "quoted": lambda tokens: "".join(f"{json.dumps(token)}: {i}\n" for i, token in enumerate(tokens)),
    "json": lambda tokens: json.dumps({token: i for i, token in enumerate(tokens)}, indent=1),
    "reversed": lambda tokens: "".join(f"'{token}':   {i}\r\n" for i, token in reversed([*enumerate(tokens)])),
    "on two lines": lambda tokens: "---\n" + "".join(f"? {token}\n: {i}\n" for i, token in enumerate(tokens)),
}


ODD = ["null", "~", "yes", "1e3", "a:b", ":", "#", "- x", "[", "%", "12:30"]  # YAML reads them as something else


@pytest.mark.parametrize("form", YAML_FORMS.values(), ids=YAML_FORMS)
def test_tokens_in_yaml_are_what_is_written(form: Any, tmp_path: Path) -> None:
    tokens = ["</s>", "<unk>", *ODD, "▁the", "\u3000", '"', "'s", "\\"][: None if form is YAML_FORMS["quoted"] else -3]
    (tmp_path / "v.yml").write_text(form(tokens), encoding="utf-8", newline="")
    assert Vocabulary(tmp_path / "v.yml", tmp_path / "source.spm").tokens() == tokens


def test_ids_of_a_vocabulary_in_yaml_are_used(tmp_path: Path) -> None:
    folder = tmp_path / "opus"
    folder.mkdir()
    src, tgt = vocabulary(folder / "source.spm", LINES["src"]), vocabulary(folder / "target.spm", LINES["tgt"])
    pieces = {*map(src.id_to_piece, range(len(src))), *map(tgt.id_to_piece, range(len(tgt)))} - {"</s>", "<unk>"}
    tokens = ["</s>", "<unk>", *sorted(pieces)]
    (folder / "opus.vocab.yml").write_text(YAML_FORMS["plain"](tokens), encoding="utf-8")
    options = marian_options(**{"tied-embeddings": False, "tied-embeddings-all": True})
    tensors = random_tensors(options, len(tokens), len(tokens))
    written(options, folder / "opus.model1.npz.best-perplexity.npz", tensors)
    vocabs = "[/proj/opus.vocab.yml, /proj/opus.vocab.yml]"
    (folder / "decoder.yml").write_text(f"relative-paths: true\nvocabs: {vocabs}\nbeam-size: 2\nnormalize: 1\n")
    ours = s2s.load("opus")
    ids = {token: i for i, token in enumerate(tokens)}
    theirs = Equations(options, tensors)
    for line in LINES["src"][:4]:
        output = greedy(theirs, [ids.get(piece, 1) for piece in src.encode(line, out_type=str)])
        expected = "".join("⁇" if i == 1 else tokens[i] for i in output).replace("▁", " ").strip()
        assert ours.translate(line, search={"name": "greedy", "max_len_a": 0, "max_len_b": LONGEST}) == expected


LIST = "vocab.yml"
SPOILT: dict[str, tuple[dict[str, str], str]] = {
    "beam": ({"decoder.yml": "beam-size: many"}, "beam-size=many"),
    "bpe": ({LIST: "</s>: 0\n<unk>: 1\n", "source.bpe": "", "vocab.spm": ""}, "is in BPE, which is not read"),
    "doubled": ({LIST: "</s>: 0\n<unk>: 1\na: 2\na: 3\n"}, "vocab.yml: line 4 names 'a' again"),
    "same-id": ({LIST: "</s>: 0\n<unk>: 1\na: 1\n"}, "an id for each token"),
    "no-eos": ({LIST: "a: 0\nb: 1\n"}, "it needs </s>"),
    "far-id": ({LIST: "</s>: 0\n<unk>: 99999999999\n"}, "an id for each token"),
    "no-id": ({LIST: "</s>: 0\n<unk>\n"}, "vocab.yml: line 2 is no token with its id"),
    "no-list": ({LIST: "{ a"}, "vocab.yml is no JSON"),
    "words": ({LIST: '{"a": "b"}'}, "ids that are no numbers"),
}


def put(folder: Path, files: dict[str, str]) -> None:
    """Files beside the model; an empty one is removed where it is there."""
    for name, content in files.items():
        path = folder / name
        path.unlink() if path.exists() and not content else path.write_text(content)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "vocab.spm").unlink(), "has no vocabularies that are read beside it"),
        (lambda folder: (folder / "vocab.spm").write_bytes(b"no"), "vocab.spm is no model of sentencepiece"),
        (lambda folder: vocabulary_of_s2s(folder / "vocab.spm"), "begins with </s> and <unk>"),
        (lambda folder: (folder / "other.npz").write_bytes(b""), "has 2 models, such as model.npz: name one"),
        (lambda folder: (folder / "model.npz").write_bytes(b"no"), "model.npz is no .npz file"),
        (lambda folder: (folder / "model.npz.decoder.yml").write_text("a: [b"), "decoder.yml is not readable"),
        (lambda folder: (folder / "decoder.yml").write_text("a: " + "x" * 2**20), "options at most 262,144"),
        *((lambda folder, files=files: put(folder, files), message) for files, message in SPOILT.values()),
    ],
    ids=["no-vocabulary", "no-model", "other-ids", "two", "no-archive", "no-yaml", "long-yaml", *SPOILT],
)
def test_what_is_not_read_is_named_in_one_line(
    spoil: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    n = len(vocabulary(folder / "vocab.spm", LINES["src"]))
    options = marian_options(**{"tied-embeddings": False, "tied-embeddings-all": True})
    written(options, folder / "model.npz", random_tensors(options, n, n))
    spoil(folder)
    assert import_model(["model=model", "run=ours"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def vocabulary_of_s2s(path: Path) -> None:
    """Of other special ids."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES["src"]), model_writer=model, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    path.write_bytes(model.getvalue())
