"""Families with a tokenizer.json: the same greedy outputs as in transformers, whole and pruned."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

import s2s
from harness.published import LINES
from harness.published_families import FAMILIES, Family, published
from s2s.cli.generate import main as generate
from s2s.cli.train import main as train
from s2s_import.command import main as import_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor

GREEDY: dict[str, Any] = {"name": "greedy", "max_len_a": 0, "max_len_b": 12}
SOURCES = LINES["src"][:6]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_operators: str) -> None:
    """A working folder with a cache of its own; functions in C are compiled before, once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


class Reference:
    """The model in transformers, with the tokens around texts put there by hand."""

    def __init__(self, name: str, folder: Path) -> None:
        self.family = FAMILIES[name]
        self.model, self.tokenizer = published(name, folder)
        self.into(self.family)

    def into(self, family: Family) -> None:
        """Take the tokens of another direction."""
        self.family, self.start = family, self.ids(family.start)
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
        first = self.ids(["<s>"] if self.start[0] != self.eos and "<s>" in self.family.special else [])
        never = list({self.model.config.pad_token_id, *first} - {self.eos})
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
    compare_logits(ours, reference, {})


def compare_logits(ours: s2s.TrainedModel, reference: Reference, fields: dict[str, str]) -> None:
    """They are the same for a source with the tokens of its languages, and any target."""
    target = list(range(5, 12))
    for line in SOURCES:
        example = ours._example({"src": line, **fields})
        start = ours.task.vocab.started(ours.task.forced_tokens(example))
        assert list(start) == reference.start
        batch = s2s.make_batch([(ours.task.encode_inputs([example])[0], target)], ours.task.vocab, [start])
        with torch.no_grad():
            logits = ours.model.project(ours.model(*batch.inputs))[0, len(start) - 1 :]
        theirs = reference.logits(line, target)
        torch.testing.assert_close(logits, theirs, atol=1e-5 * max(1.0, float(theirs.abs().max())), rtol=0)


SHORT = {"eng_Latn": "en", "deu_Latn": "de", "en_XX": "en", "de_DE": "de"}


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.languages])
def test_a_model_of_several_languages_translates_between_all_of_them(name: str, tmp_path: Path) -> None:
    """Each input in its own direction, by the model's codes or by short ones."""
    reference = Reference(name, tmp_path / name)
    assert import_model([f"model={name}", "run=all", "--quiet"]) == 0
    ours, forward = s2s.load("all"), reference.family
    src, tgt = forward.languages
    short = {code: SHORT.get(code, code) for code in forward.languages}
    assert {(a, b) for a, b, _ in ours.task.directions()} == {(short[src], short[tgt]), (short[tgt], short[src])}
    expected: dict[tuple[str, str], list[str]] = {}
    for a, b in ((src, tgt), (tgt, src)):
        codes = {src: a, tgt: b, f"<2{tgt}>": f"<2{b}>"}
        own = [" ".join(codes.get(token, token) for token in part.split()) for part in (forward.source, *forward.start)]
        reference.into(forward._replace(source=own[0], start=own[1:]))
        expected[a, b] = [reference.greedy(line).strip() for line in SOURCES]
        compare_logits(ours, reference, {"src_lang": a, "tgt_lang": short[b]})
    inputs = [{"src": line, "src_lang": a, "tgt_lang": b} for line in SOURCES for a, b in expected]
    outputs = ours.translate(inputs, search=GREEDY)
    assert outputs == [text for texts in zip(*expected.values(), strict=True) for text in texts]


@pytest.mark.parametrize("name", ["nllb", "mbart"])
def test_a_pruned_model_keeps_the_tokens_of_all_languages(name: str, tmp_path: Path) -> None:
    published(name, tmp_path / name)
    (tmp_path / "some.txt").write_text(f"{SOURCES[0]}\n")
    assert import_model([f"model={name}", "run=whole", "--quiet"]) == 0
    assert import_model([f"model={name}", "run=pruned", "vocab=[some.txt]", "--quiet"]) == 0
    pruned, whole = s2s.load("pruned"), s2s.load("whole")
    assert pruned.task.vocab.tgt < whole.task.vocab.tgt
    fields = dict(zip(("src_lang", "tgt_lang"), reversed(FAMILIES[name].languages), strict=True))
    (one,), (other,) = (
        model.task.encode_inputs([model._example({"src": SOURCES[0], **fields})]) for model in (pruned, whole)
    )
    assert [pruned.task.vocabulary("src")[i] for i in one] == [whole.task.vocabulary("src")[i] for i in other]
    assert pruned.translate({"src": "zebra", **fields}) is not None


def test_a_model_of_all_languages_is_tuned_on_files_with_short_names(tmp_path: Path) -> None:
    published("mbart", tmp_path / "mbart")
    for language, side in (("en", "src"), ("de", "tgt")):
        (tmp_path / f"mine.{language}").write_text("".join(f"{line}\n" for line in LINES[side][:24]))
    tuned = ["train.init_from=mbart", "task.train=[mine.en,mine.de]", "run=tuned", "train.steps=2", "--quiet"]
    assert train([*tuned, "train.check=false", "train.init_weight=1"]) == 0
    task = s2s.load("tuned").task
    assert [name for name, _ in task.corpora("train")] == ["mine/en_XX-de_DE", "mine/de_DE-en_XX"]
    example = next(iter(task.examples("train", "mine/de_DE-en_XX")))
    assert isinstance(example, s2s.Example)
    (pair,) = task.encode([example])
    batch = s2s.make_batch([pair], task.vocab)
    names = [str(name) for name in task.vocabulary("src")]
    assert [names[i] for i in batch.src[0, -2:].tolist()] == ["</s>", "de_DE"]
    assert names[int(batch.tgt_in[0, 0])] == "en_XX"
    assert batch.tgt_out[0].tolist() == [*batch.tgt_in[0, 1:].tolist(), task.vocab.eos]


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
        example = pruned._example(line)
        (src,) = pruned.task.encode_inputs([example])
        target, start = src[1:4], pruned.task.vocab.started(pruned.task.forced_tokens(example))
        batch = s2s.make_batch([(src, target)], pruned.task.vocab, [start])
        with torch.no_grad():
            logits = pruned.model.project(pruned.model(*batch.inputs))[0, len(reference.start) - 1 :]
        theirs = reference.logits(line, [rows[i] for i in target])[:, rows]
        torch.testing.assert_close(logits, theirs, atol=1e-5, rtol=0)
    assert pruned.translate("zebra §", search={"max_len_b": 5}) is not None


def test_a_model_of_several_languages_asks_for_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published("nllb", tmp_path / "nllb")
    assert import_model(["model=nllb", "run=wrong", "languages=[eng_Latn,deu]"]) == 2
    assert "languages: the model has no token for deu. Known: deu_Latn, eng_Latn." in capsys.readouterr().err
    assert import_model(["model=nllb", "run=ours", "--quiet"]) == 0
    (tmp_path / "in.txt").write_text("the dog\n")
    for fields, message in {
        "": "in.txt:1: tgt_lang is missing: into which language? Give one of de, en",
        "input_fields.tgt_lang=fr": "in.txt:1: tgt_lang=fr: the model has no such language",
    }.items():
        assert generate(["run=ours", "input=in.txt", *filter(None, [fields])]) == 2
        assert message in capsys.readouterr().err


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


def test_the_first_screen_tells_settings_and_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published("nllb", tmp_path / "nllb")
    capsys.readouterr()
    assert import_model(["model=nllb", "run=ours", "languages=[eng_Latn,deu_Latn]"]) == 0
    expected = (
        "its own settings: beam 1, length penalty 1, at most 18 tokens; sources are read as eng_Latn TEXT </s>; "
        "outputs begin behind </s> deu_Latn; from eng_Latn into deu_Latn\n"
    )
    assert f"note     {expected}" in capsys.readouterr().out
    (tmp_path / "in.txt").write_text("the old dog\n")
    assert generate(["run=ours", "input=in.txt", "output=out.txt"]) == 0
    assert f"note     {expected}" in capsys.readouterr().err
