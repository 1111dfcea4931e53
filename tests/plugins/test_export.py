"""Exported models give the same outputs: compared symbol by symbol with the model that trains."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.tiny_runs import call, train_tiny
from s2s.checkpoint import directory as checkpoint
from s2s.decoding import GreedyConfig
from s2s.errors import ConfigError
from s2s.registry import Choice
from s2s.task import Vocab
from s2s_export import ExportedModel, ExportInput, export
from s2s_export.ctranslate2 import CTranslate2Exporter
from s2s_export.hugging_face import HuggingFaceExporter
from s2s_transformer import TransformerConfig
from s2s_transformer.ctranslate2 import CTranslate2
from s2s_transformer.marian import Marian
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Sequence


pytest.importorskip("ctranslate2", reason="the extra `export` is not installed")
pytest.importorskip("transformers", reason="the extra `export` is not installed")

EXPORTERS: dict[str, type[CTranslate2Exporter] | type[HuggingFaceExporter]] = {
    "ctranslate2": CTranslate2Exporter,
    "hf": HuggingFaceExporter,
}
FORMATS = {"ctranslate2": CTranslate2, "hf": Marian}
V = 23
SMALL = {"n_encoder_layers": 2, "n_decoder_layers": 1, "d_model": 16, "d_ff": 24, "n_heads": 2}
LEARNS = ["train.steps=150", "arch.d_model=32", "arch.d_ff=64", "schedule.warmup=60", "checkpoint.every=75"]
"""Enough to end its outputs by itself"""
SOURCES = [[4, 5, 6], [7], [8, 1, 9, 10, 22, 4, 4, 11]]
TARGETS = [[9, 4], [], [20, 21, 22, 1, 5, 6, 7, 8, 9]]


def build(**options: Any) -> Transformer:
    """A model none of whose parameters has a telling value."""
    torch.manual_seed(1)
    model = Transformer(TransformerConfig(**{**SMALL, **options}), Vocab(src=V, tgt=V, joint=True)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def written(form: str, folder: Path, **options: Any) -> tuple[Transformer, ExportedModel]:
    model = build(**options)
    folder.mkdir(exist_ok=True)
    exported = ExportInput(model.config, model.state_dict(), FORMATS[form](), model.vocab, None, GreedyConfig())
    EXPORTERS[form](Choice()).write(exported, folder)
    return model, EXPORTERS[form](Choice()).read(folder, exported)


@torch.no_grad()
def log_probs(model: Transformer, src: Sequence[int], tgt: Sequence[int]) -> list[float]:
    """By teacher forcing, one sentence at a time."""
    source = torch.tensor([[*src, 3]])
    hidden = model(source, torch.zeros_like(source, dtype=torch.bool), torch.tensor([[2, *tgt]]))
    wanted = torch.tensor([[*tgt, 3]])
    return model.project(hidden).log_softmax(-1).gather(2, wanted[..., None])[0, :, 0].tolist()


@pytest.mark.parametrize(
    ("form", "options"),
    [
        pytest.param(form, options, id=f"{form}-{'-'.join(map(str, options.values())) or 'paper'}")
        for form, options in [
            ("ctranslate2", {}),
            ("ctranslate2", {"norm": "pre"}),
            ("ctranslate2", {"activation": "gelu", "norm_eps": 1e-3}),
            ("ctranslate2", {"positions": "sinusoid_t2t"}),
            ("ctranslate2", {"positions": "learned", "max_positions": 30}),
            ("ctranslate2", {"positions": "none"}),
            ("ctranslate2", {"positions": "sinusoid_t2t", "position_offset": 2, "norm": "pre"}),
            ("ctranslate2", {"activation": "gelu_tanh", "share_embeddings": "inputs"}),
            ("ctranslate2", {"share_embeddings": "none"}),
            ("ctranslate2", {"share_embeddings": "target", "dropout": 0.5}),
            ("ctranslate2", {"positions": "learned", "position_offset": 2, "embedding_norm": True}),
            ("ctranslate2", {"zero_start": True, "positions": "sinusoid_t2t", "output_bias": True}),
            ("hf", {}),
            ("hf", {"norm": "pre"}),
            ("hf", {"share_embeddings": "none"}),
            ("hf", {"share_embeddings": "target"}),
            ("hf", {"share_embeddings": "inputs"}),
            ("hf", {"norm": "pre", "output_bias": True, "n_encoder_layers": 3}),
            ("hf", {"activation": "gelu"}),
            ("hf", {"d_model": 64, "n_heads": 4}),
        ]
    ],
)
def test_log_probabilities_are_those_of_the_model(form: str, options: dict[str, Any], tmp_path: Path) -> None:
    model, theirs = written(form, tmp_path / "x", **options)
    for found, src, tgt in zip(theirs.log_probs(SOURCES, TARGETS), SOURCES, TARGETS, strict=True):
        assert found == pytest.approx(log_probs(model, src, tgt), abs=1e-4)


@pytest.mark.parametrize(
    ("form", "options", "why"),
    [
        ("hf", {"norm_kind": "rms"}, "norm_kind=rms: MarianMTModel has only layer; format=ctranslate2 may"),
        ("hf", {"positions": "learned"}, "positions=learned: MarianMTModel has only sinusoid"),
        ("hf", {"positions": "sinusoid_t2t"}, "sinusoid_t2t: MarianMTModel has only sinusoid"),
        ("hf", {"positions": "none"}, "none: MarianMTModel has only sinusoid"),
        ("hf", {"d_k": 4}, "heads of width"),
        ("ctranslate2", {"d_k": 4}, "heads of one width"),
        ("ctranslate2", {"d_v": 4}, "heads of one width"),
    ],
)
def test_what_a_format_cannot_express_is_refused_by_name(
    form: str, options: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"format={form}.*{why}"):
        written(form, tmp_path / "x", **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("exported")
    train_tiny(made, *LEARNS)
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("form", EXPORTERS)
def test_a_run_is_exported_after_both_agree(form: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call("s2s-export", ["run=x", f"format={form}", f"output=m/{form}", "sentences=5"], capsys)
    assert code == 0
    assert "greedy outputs are the same" in out
    manifest = json.loads((here / "m" / form / "export.json").read_text())
    assert manifest["checkpoint"] == "step-000150"
    assert manifest["checked"]["max_difference"] <= 1e-4
    assert [path.name for path in (here / "m").glob(".*")] == []


def test_a_pre_norm_run_as_recipes_choose_it_is_exported_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train_tiny(tmp_path, "arch.norm=pre", "train.steps=2")
    for form in EXPORTERS:
        code, out, err = call("s2s-export", ["run=x", f"format={form}", "sentences=3"], capsys)
        assert code == 0, err
        assert "3 sentences: greedy outputs are the same" in out


def test_subwords_of_the_exported_folder_are_the_ids_of_the_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tokeniser alone, as somebody who has no s2s would load it."""
    from transformers import MarianTokenizer

    from s2s_sentencepiece.subwords import Subwords

    assert call("s2s-export", ["run=x", "format=hf", "output=tok", "sentences=2"], capsys)[0] == 0
    line, own = "the old dog eats", Subwords(here / "tok/source.spm")
    tokenizer = MarianTokenizer.from_pretrained(here / "tok")
    assert tokenizer(line).input_ids == [*own.encode([line])[0], own.eos]
    assert tokenizer.decode(tokenizer(line).input_ids, skip_special_tokens=True) == line


def test_a_task_that_lowers_case_is_not_left_to_the_subwords_alone(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Even if no sentence that is compared has a capital."""
    monkeypatch.chdir(tmp_path)
    train_tiny(tmp_path, *LEARNS, "task.lowercase=true")
    (tmp_path / "low.txt").write_text("the old dog eats\n")
    assert call("s2s-export", ["run=x", "output=ct", "input=low.txt"], capsys)[0] == 0
    assert "source.spm alone cuts 'The Old Dog Eats' into other tokens" in caplog.text
    code, _, err = call("s2s-export", ["run=x", "format=hf", "output=hf", "input=low.txt"], capsys)
    assert code == 2
    assert "the task changes text before it cuts it" in err


def test_a_model_that_disagrees_is_not_there(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "TOLERANCE", -1.0)
    code, _, err = call("s2s-export", ["run=x", "output=wrong", "sentences=2"], capsys)
    assert code == 2
    assert "other scores than the run" in err
    assert [path.name for path in here.glob("*wrong*")] == []


def test_another_output_is_refused_too(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from s2s_export.ctranslate2 import CTranslate2Model

    monkeypatch.setattr(CTranslate2Model, "greedy", lambda self, sources, n: [[5] for _ in sources])
    code, _, err = call("s2s-export", ["run=x", "output=wrong", "sentences=2"], capsys)
    assert code == 2
    assert "another output than the run" in err
    assert not (here / "wrong").exists()


def test_a_run_without_an_output_is_not_exported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its weights are finite, and so large that its log-probabilities are not."""
    shutil.copytree(here / "runs/x", here / "runs/huge", symlinks=True)
    step = here / "runs/huge/checkpoints/step-000150"
    groups = checkpoint.load(step).tensors
    shutil.rmtree(step)
    model = {name: torch.full_like(tensor, 1e38) for name, tensor in groups["model"].items()}
    checkpoint.save(step.parent, step.name, {"model": model}, {"step": 150})
    code, _, err = call("s2s-export", ["run=huge", "output=wrong", "sentences=2"], capsys)
    assert code == 2
    assert "the run has no output for" in err
    assert [path.name for path in here.glob("*wrong*")] == []


def test_a_folder_that_is_no_export_is_left_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine").mkdir(exist_ok=True)
    (here / "mine/thesis.tex").write_text("all of it")
    code, _, err = call("s2s-export", ["run=x", "output=mine"], capsys)
    assert code == 2
    assert "no exported model" in err
    assert (here / "mine/thesis.tex").read_text() == "all of it"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["format=onnx"], "no such exporter"),
        (["input=nowhere.txt"], "nowhere.txt"),
        (["run=y"], "no such run"),
        (["sentences=0"], "sentences"),
    ],
)
def test_mistakes_are_told_in_a_line(
    arguments: list[str], why: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call("s2s-export", ["run=x", *arguments], capsys)
    assert code == 2
    assert why in err


@pytest.fixture(scope="module")
def served(folder: Path) -> Path:
    """The folder, with a model for CTranslate2 in the run's directory and sentences in in.txt."""
    from s2s_export.command import main

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["run=x", "sentences=3", "--quiet"]) == 0
    lines = ["the old dog", "", "a cat sees the dog", "cat", "the dog eats the old cat"]
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "in.jsonl").write_text("".join(json.dumps({"src": line}) + "\n" for line in lines))
    return folder


def generate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    code, out, err = call("s2s-generate", ["run=x", "input=in.txt", "threads=1", *arguments], capsys)
    assert code == 0, err
    return out, err


@pytest.mark.parametrize(
    "search", [["search=greedy"], ["search.beam=3", "search.length_penalty=power", "search.stop=first_k"]], ids=str
)
def test_what_ctranslate2_serves_is_what_the_run_says(
    search: list[str], served: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate(capsys, "backend=ctranslate2", *search)[0] == generate(capsys, *search)[0]


def test_n_best_lists_keep_their_order_and_the_paper_s_penalty(
    served: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores of equal outputs must be equal, whatever else each search has found."""
    common = ["input=in.jsonl", "nbest=3", "search.beam=3", "format=jsonl", "fields=[tokens]"]
    rows = []
    for backend in ("ctranslate2", "native"):
        out, err = generate(capsys, f"backend={backend}", *common)
        assert ("approximate" in err) == (backend == "ctranslate2")
        rows.append([json.loads(line)["nbest"] if line else None for line in out.splitlines()])
    n_equal = 0
    for theirs, ours in zip(*rows, strict=True):
        assert (theirs is None) == (ours is None)
        scores = {tuple(c["tokens"]): c["score"] for c in ours or []}
        assert [c["score"] for c in theirs or []] == sorted((c["score"] for c in theirs or []), reverse=True)
        for candidate in theirs or []:
            if tuple(candidate["tokens"]) in scores:
                n_equal += 1
                assert candidate["score"] == pytest.approx(scores[tuple(candidate["tokens"])], abs=2e-4)
    assert n_equal


def test_eight_bits_say_so(served: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = generate(capsys, "backend=ctranslate2", "quantization=int8")
    assert len(out.splitlines()) == 5
    assert "ctranslate2 in int8" in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["search=sample"], "not by search=sample"),
        (["backend=ctranslate"], "neither native nor a registered inference engine. Known: ctranslate2"),
        (["search.beam=4", "search.num_beam_groups=2"], "backend=ctranslate2 has no groups"),
        (["workers=2"], "threads of its own"),
        (["search.min_len=3"], "has no search.min_len=3; give search.min_len=0"),
        (["bad_words=[a]"], "cannot keep to"),
        (["exported=in.txt"], "no exported model"),
        (["format=jsonl", "fields=[log_probs]"], "log_probs"),
        (["checkpoint=step-000075"], "was exported from step-000150"),
    ],
)
def test_what_the_backend_cannot_do_is_refused(
    arguments: list[str], why: str, served: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call("s2s-generate", ["run=x", "input=in.txt", "backend=ctranslate2", *arguments], capsys)
    assert (code, out) == (2, "")
    assert why in err


def test_what_is_asked_of_one_output_is_refused(served: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "asked.jsonl").write_text('{"src": "a", "prefix": "e"}\n')
    asked = ["run=x", "input=asked.jsonl", "format=jsonl", "backend=ctranslate2"]
    code, _, err = call("s2s-generate", asked, capsys)
    assert code == 2
    assert "give backend=native" in err


def test_a_constraint_is_named_and_may_be_left_out(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from s2s_translation.task import Translation

    monkeypatch.setattr(Translation, "constraint", lambda self: object())
    code, _, err = call("s2s-export", ["run=x", "output=free", "sentences=1"], capsys)
    assert code == 2
    assert "cannot express the constraint" in err
    assert call("s2s-export", ["run=x", "output=free", "sentences=1", "constrained=false"], capsys)[0] == 0


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def exchanged(file: Path) -> None:
    """Two tokens of the target vocabulary trade their ids."""
    tokens = json.loads(file.read_text())
    tokens["tgt"][8], tokens["tgt"][9] = tokens["tgt"][9], tokens["tgt"][8]
    file.write_text(json.dumps(tokens, ensure_ascii=False))


def piped(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, flipped) for name in ("model.bin", "config.json", "shared_vocabulary.json", "target.spm")),
        ("tokens.json", exchanged),
        *((name, piped) for name in ("model.bin", "export.json", "tokens.json")),
        ("model.bin", lambda file: file.write_bytes(b"X" * file.stat().st_size)),
        ("model.bin", Path.unlink),
        ("export.json", flipped),
        ("export.json", lambda file: file.write_text("[" * 100_000)),
        ("shared_vocabulary.txt", Path.touch),
    ],
    ids=[
        *("a bit of the weights", "of the options", "of the vocabulary", "of the subwords", "exchanged tokens"),
        *(
            "a pipe for weights",
            "for the manifest",
            "for tokens",
            "other weights",
            "no weights",
            "a bit of the manifest",
        ),
        *("a nested manifest", "a second vocabulary"),
    ],
)
def test_a_damaged_export_is_refused_in_a_line(
    name: str, damage: Any, served: Path, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(served)
    copy = shutil.copytree(served / "runs/x/export/ctranslate2", tmp_path / "export")
    damage(copy / name)
    arguments = ["run=x", "input=in.txt", "threads=1", "backend=ctranslate2", f"exported={copy}"]
    code, out, err = call("s2s-generate", arguments, capsys)
    assert (code, out) == (2, "")
    assert name in err
