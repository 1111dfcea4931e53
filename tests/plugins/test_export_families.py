"""Published models that go out again as they came in, or tuned: the same files, ids and outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch

import s2s
from harness.published import LINES
from harness.published_families import FAMILIES, published
from s2s.cli.generate import main as generate
from s2s_export.command import main as export
from s2s_import.command import main as import_model
from s2s_report.command import main as report

if TYPE_CHECKING:
    from pathlib import Path

transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
GREEDY = {"name": "greedy", "max_len_a": 0, "max_len_b": 18}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_operators: str) -> None:
    """A cache of its own, and a working folder with some sentences."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES["src"][:6]))


def imported(name: str, *options: str) -> None:
    languages = [f"languages=[{','.join(FAMILIES[name].languages)}]"] if FAMILIES[name].languages else []
    assert import_model([f"model={name}", "run=ours", "--quiet", *languages, *options]) == 0


def outputs_of_transformers(folder: Path, n_start: int) -> list[str]:
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    outputs = []
    for line in LINES["src"][:6]:
        with torch.no_grad():
            ids = model.generate(**tokenizer([line], return_tensors="pt"), num_beams=1, max_new_tokens=17 + n_start)
        outputs += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return [text.strip() for text in outputs]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_goes_out_as_it_came_in(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published(name, tmp_path / name)
    imported(name)
    assert export(["run=ours", "format=hf", "output=back", "input=in.txt"]) == 0, capsys.readouterr().err
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (
        tmp_path / name / "model.safetensors"
    ).read_bytes()
    ours = s2s.load("ours").translate(LINES["src"][:6], search=GREEDY)
    assert outputs_of_transformers(tmp_path / "back", len(FAMILIES[name].start)) == [text.strip() for text in ours]


@pytest.mark.parametrize("name", ["nllb", "t5"])
def test_a_pruned_family_goes_out(name: str, tmp_path: Path) -> None:
    published(name, tmp_path / name)
    imported(name, "vocab=[in.txt]")
    assert export(["run=ours", "format=hf", "output=back", "input=in.txt", "--quiet"]) == 0
    assert (tmp_path / "back" / "model.safetensors").stat().st_size < (
        tmp_path / name / "model.safetensors"
    ).stat().st_size
    ours = s2s.load("ours").translate(LINES["src"][:6], search=GREEDY)
    assert outputs_of_transformers(tmp_path / "back", len(FAMILIES[name].start)) == [text.strip() for text in ours]


@pytest.mark.parametrize("name", ["bart", "nllb", "mbart", "t5", "madlad"])
def test_ctranslate2_gives_the_same_outputs_and_scores(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `export` is not installed")
    published(name, tmp_path / name)
    imported(name)
    assert export(["run=ours", "format=ctranslate2", "input=in.txt", "--quiet"]) == 0, capsys.readouterr().err
    written = []
    for backend in ("native", "ctranslate2"):
        search = [
            "search=beam",
            "search.beam=3",
            "search.length_penalty=power",
            "search.max_len_a=0",
            "search.max_len_b=9",
        ]
        arguments = [
            "run=ours",
            "input=in.txt",
            f"output={backend}",
            f"backend={backend}",
            "format=jsonl",
        ]
        assert generate([*arguments, *search, "--quiet"]) == 0, capsys.readouterr().err
        written.append([json.loads(line) for line in (tmp_path / backend).read_text().splitlines()])
    ours, theirs = ([one["hyp"] for one in lines] for lines in written)
    assert ours == theirs
    scores = [torch.tensor([one["score"] for one in lines]) for lines in written]
    torch.testing.assert_close(*scores, atol=2e-4, rtol=0)


def test_licence_and_card_of_the_source_go_out_with_it(tmp_path: Path) -> None:
    published("t5", tmp_path / "t5")
    (tmp_path / "t5" / "README.md").write_text("---\nlicense: apache-2.0\n---\n# T5\n")
    (tmp_path / "t5" / "LICENSE").write_text("You may.")
    imported("t5")
    assert export(["run=ours", "format=hf", "output=back", "input=in.txt", "--quiet"]) == 0
    back = tmp_path / "back"
    assert (back / "README.source.md").read_text() == (tmp_path / "t5" / "README.md").read_text()
    assert (back / "LICENSE").read_text() == "You may."
    card = (back / "README.md").read_text()
    assert card.startswith("---\nlicense: apache-2.0\n")
    assert report(["run=ours", "output=report", "--quiet"]) == 0
    assert "ours: Its weights are those of T5ForConditionalGeneration" in (tmp_path / "report.md").read_text()
    assert "Its weights are those of T5ForConditionalGeneration of Hugging Face's transformers" in card
