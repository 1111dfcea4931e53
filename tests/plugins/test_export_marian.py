"""Models of Marian that go out again, and runs that Marian can express."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sentencepiece
import yaml

import s2s
from harness.marian_npz import PRE, SSRU, marian_options, random_tensors, written
from harness.published import LINES
from harness.tiny_runs import train_tiny
from s2s_export.command import main as export
from s2s_import.command import main as import_model

if TYPE_CHECKING:
    from pathlib import Path

ALL = {"tied-embeddings": False, "tied-embeddings-all": True}
UNTIED = {"tied-embeddings": False}
SPECIAL = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_operators: str) -> None:
    """A cache of its own, and a working folder with some sentences."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES["src"][:4]))


def vocabulary(path: Path, lines: list[str], size: int) -> int:
    """As Marian learns one; its number of tokens."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, hard_vocab_limit=False, minloglevel=2,
        **SPECIAL,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    return int(sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size())


def members(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


@pytest.mark.parametrize(
    ("changes", "joint"),
    [(ALL, True), (PRE, False), (SSRU, False), ({**SSRU, **PRE, **ALL}, True), (UNTIED, False)],
    ids=["all-tied", "pre", "ssru", "ssru-pre", "untied"],
)
def test_a_model_of_marian_goes_out_as_it_came_in(changes: dict[str, Any], joint: bool, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    if joint:
        sizes = [vocabulary(folder / "vocab.spm", [*LINES["src"], *LINES["tgt"]], 60)] * 2
    else:
        sizes = [
            vocabulary(folder / "source.spm", LINES["src"], 50),
            vocabulary(folder / "target.spm", LINES["tgt"], 60),
        ]
    options = marian_options(**changes)
    written(options, folder / "model.npz", random_tensors(options, *sizes))
    assert import_model(["model=model", "run=ours", "--quiet"]) == 0
    assert export(["run=ours", "format=marian", "output=back", "input=in.txt", "--quiet"]) == 0
    before, after = members(folder / "model.npz"), members(tmp_path / "back" / "model.npz")
    texts = [yaml.safe_load(each.pop("special:model.yml").tobytes().rstrip(b"\0")) for each in (before, after)]
    assert {name: texts[1][name] for name in options if name in texts[1]} == {
        name: value for name, value in texts[0].items() if name in texts[1]
    }
    assert before.keys() == after.keys()
    assert [name for name in before if before[name].tobytes() != after[name].tobytes()] == []
    for name in ("vocab.spm",) if joint else ("source.spm", "target.spm"):
        assert (tmp_path / "back" / name).read_bytes() == (folder / name).read_bytes()


def test_a_run_with_the_options_of_marian_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_tiny(tmp_path, "arch.positions=sinusoid_t2t", "arch.zero_start=true")
    (tmp_path / "few.txt").write_text("the old dog eats\na cat sees the dog\n")
    assert export(["run=x", "format=marian", "output=back", "input=few.txt"]) == 0, capsys.readouterr().err
    search = {"name": "greedy", "max_len_a": 0, "max_len_b": 8}
    lines = (tmp_path / "few.txt").read_text().splitlines()
    assert s2s.load("back").translate(lines, search=search) == s2s.load("x").translate(lines, search=search)


def test_what_marian_cannot_express_is_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_tiny(tmp_path)
    capsys.readouterr()
    assert export(["run=x", "format=marian", "sentences=2"]) == 2
    error = capsys.readouterr().err
    assert "format=marian: arch.zero_start=false: Marian has only true" in error
    assert error.count("\n") == 1
