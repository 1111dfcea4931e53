"""Families with a tokenizer.json: the same greedy outputs as in transformers, whole and pruned."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

import s2s
from harness.published import LINES
from harness.published_families import FAMILIES, published
from s2s_import.command import main as import_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor

GREEDY: dict[str, Any] = {"name": "greedy", "max_len_a": 0, "max_len_b": 12}
SOURCES = LINES["src"][:6]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


class Reference:
    """The model in transformers, with the tokens around texts put there by hand."""

    def __init__(self, name: str, folder: Path) -> None:
        self.family = FAMILIES[name]
        self.model, self.tokenizer = published(name, folder)
        self.start = self.ids(self.family.start)
        self.eos = self.model.config.eos_token_id

    def ids(self, tokens: Sequence[str]) -> list[int]:
        return [self.tokenizer.token_to_id(token) for token in tokens]

    @torch.no_grad()
    def logits(self, line: str, target: list[int]) -> Tensor:
        """[T, V], behind each starting token but the first and each of the target"""
        before, after = (self.ids(part.split()) for part in self.family.source.split("TEXT"))
        source = [*before, *self.tokenizer.encode(line, add_special_tokens=False).ids, *after]
        decoder_input = torch.tensor([[*self.start, *target]])
        logits: Tensor = self.model(input_ids=torch.tensor([source]), decoder_input_ids=decoder_input).logits[0]
        return logits[len(self.start) - 1 :]

    def greedy(self, line: str) -> str:
        output: list[int] = []
        never = list({self.model.config.pad_token_id, self.start[0]} - {self.eos})
        while len(output) < GREEDY["max_len_b"]:
            logits = self.logits(line, output)[-1]
            logits[never] = -torch.inf
            if (token := int(logits.argmax())) == self.eos:
                break
            output.append(token)
        shown = [token for token in output if token not in self.ids(self.family.codes)]
        text: str = self.tokenizer.decode(shown, skip_special_tokens=False)
        return text


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_translates_as_in_transformers(name: str, tmp_path: Path) -> None:
    reference = Reference(name, tmp_path / name)
    languages = [f"languages=[{','.join(FAMILIES[name].languages)}]"] if FAMILIES[name].languages else []
    assert import_model([f"model={name}", "run=ours", "--quiet", *languages]) == 0
    ours = s2s.load("ours")
    assert ours.task.vocab.src == reference.model.config.vocab_size
    assert ours.translate(SOURCES, search=GREEDY) == [reference.greedy(line).strip() for line in SOURCES]
    target = list(range(5, 12))
    for line in SOURCES:
        batch = s2s.make_batch([(ours.task.encode_inputs([s2s.Example(line, "")])[0], target)], ours.task.vocab)
        with torch.no_grad():
            logits = ours.model.project(ours.model(*batch.inputs))[0, len(reference.start) - 1 :]
        theirs = reference.logits(line, target)
        torch.testing.assert_close(logits, theirs, atol=1e-5 * max(1.0, float(theirs.abs().max())), rtol=0)


@pytest.mark.parametrize("name", ["bart", "nllb", "t5"])
def test_a_pruned_family_computes_the_same_logits(name: str, tmp_path: Path) -> None:
    reference = Reference(name, tmp_path / name)
    (tmp_path / "some.txt").write_text("".join(f"{line}\n" for line in SOURCES[:2]))
    languages = [f"languages=[{','.join(FAMILIES[name].languages)}]"] if FAMILIES[name].languages else []
    assert import_model([f"model={name}", "run=pruned", "vocab=[some.txt]", "--quiet", *languages]) == 0
    pruned = s2s.load("pruned")
    pieces = pruned.task.vocabulary("src")
    rows = [reference.tokenizer.token_to_id(str(piece)) for piece in pieces]
    assert len(rows) < reference.model.config.vocab_size - 5
    for line in SOURCES[:2]:
        (src,) = pruned.task.encode_inputs([s2s.Example(line, "")])
        target = src[1:4]
        batch = s2s.make_batch([(src, target)], pruned.task.vocab)
        with torch.no_grad():
            logits = pruned.model.project(pruned.model(*batch.inputs))[0, len(reference.start) - 1 :]
        theirs = reference.logits(line, [rows[i] for i in target])[:, rows]
        torch.testing.assert_close(logits, theirs, atol=1e-5, rtol=0)
    assert pruned.translate("zebra §", search={"max_len_b": 5}) is not None


def test_a_model_of_several_languages_asks_for_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published("nllb", tmp_path / "nllb")
    assert import_model(["model=nllb", "run=ours"]) == 2
    assert "s2s-import model=nllb languages=[SOURCE,TARGET] makes a run of one direction" in capsys.readouterr().err
    assert import_model(["model=nllb", "run=ours", "languages=[eng_Latn,xyz]"]) == 2
    assert "languages: the model has no token for xyz" in capsys.readouterr().err


SPOILT: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "no-model": ("tokenizer.json", lambda content: content.pop("model")),
    "a-list": ("tokenizer.json", lambda content: content.update(model={"type": "BPE", "vocab": {"a": [1]}})),
    "no-ids": ("tokenizer.json", lambda content: content.update(added_tokens=[{"content": "x"}])),
    "no-size": ("config.json", lambda content: content.pop("vocab_size")),
    "a-word": ("generation_config.json", lambda content: content.update(num_beams="many")),
}


@pytest.mark.parametrize(("name", "spoil"), SPOILT.values(), ids=SPOILT)
def test_files_with_other_contents_are_refused_in_one_line(
    name: str, spoil: Callable[[Any], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published("bart", tmp_path / "bart")
    content = json.loads((tmp_path / "bart" / name).read_text())
    spoil(content)
    (tmp_path / "bart" / name).write_text(json.dumps(content))
    capsys.readouterr()
    assert import_model(["model=bart", "run=ours"]) == 2
    error = capsys.readouterr().err
    assert "bart: its files are not as transformers writes them" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()
