"""Published models as runs: the same outputs as the program they come from, and no need of its files afterwards."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import torch

import s2s
from harness.published import LINES, opus_mt
from s2s.cli.generate import main as generate
from s2s.cli.train import main as train
from s2s.errors import CheckpointError, ConfigError, DataError
from s2s_export.command import main as export
from s2s_import.command import main as import_model
from s2s_tokenizers import MarianConfig
from s2s_tokenizers.marian import MarianKind

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_operators: str) -> Path:
    """A cache of its own, and a working folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "s2s" / "models"


def greedy_of_transformers(folder: Path, lines: list[str]) -> list[str]:
    """What transformers translates them to, one after the other."""
    transformers = pytest.importorskip("transformers", reason="the extra `export` is not installed")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    outputs = []
    for line in lines:
        with torch.no_grad():
            ids = model.generate(**tokenizer([line], return_tensors="pt"), num_beams=1, max_length=24)
        outputs.append(tokenizer.batch_decode(ids, skip_special_tokens=True)[0])
    return outputs


@pytest.mark.parametrize("joint", [True], ids=["joint"])
def test_a_folder_of_transformers_translates_as_there(joint: bool, tmp_path: Path) -> None:
    opus_mt(tmp_path / "opus-mt-en-de", joint=joint)
    model = s2s.load("opus-mt-en-de")
    ours = model.translate(LINES["src"], search={"name": "greedy", "max_len_a": 0, "max_len_b": 22})
    assert ours == greedy_of_transformers(tmp_path / "opus-mt-en-de", LINES["src"])
    assert len(set(ours)) > 1


def test_ids_and_texts_are_those_of_its_own_tokeniser(tmp_path: Path) -> None:
    opus_mt(tmp_path / "opus", tags=(">>de<<",))
    theirs = pytest.importorskip("transformers").MarianTokenizer.from_pretrained(tmp_path / "opus")
    theirs.punc_normalizer = str  # which normalises only where sacremoses is installed
    task = s2s.load("opus").task
    sources = [*LINES["src"], *(f">>de<< {line}" for line in LINES["src"][:3])]
    assert task.encode_source(sources) == [ids[:-1] for ids in theirs(sources).input_ids]
    pairs = task.encode([s2s.Example("a", line) for line in LINES["tgt"]])
    assert [list(pair.tgt) for pair in pairs] == [ids[:-1] for ids in theirs(text_target=LINES["tgt"]).input_ids]
    assert [task.detokenize(pair.tgt, "") for pair in pairs] == LINES["tgt"]


def test_a_model_of_several_targets_is_asked_by_fields_or_by_the_tag_of_a_text(tmp_path: Path) -> None:
    opus_mt(tmp_path / "opus", tags=(">>deu<<", ">>fra<<"))
    model, lines = s2s.load("opus"), LINES["src"][:8]
    assert model.task.directions()[1] == ("en", "fr", {"src_lang": "en", "tgt_lang": "fra"})
    expected = greedy_of_transformers(tmp_path / "opus", [f">>fra<< {line}" for line in lines])
    greedy = {"name": "greedy", "max_len_a": 0, "max_len_b": 22}
    assert model.translate([{"src": line, "tgt_lang": "fr"} for line in lines], search=greedy) == expected
    assert model.translate([f">>fra<< {line}" for line in lines], search=greedy) == expected
    both = model.translate([f">>fra<< {lines[0]}\n{lines[1]}"], search=greedy, split=True)
    assert both == ["\n".join(expected[:2])], "the tag holds for all sentences of a text"
    assert expected != greedy_of_transformers(tmp_path / "opus", [f">>deu<< {line}" for line in lines])
    with pytest.raises(DataError, match=r"tgt_lang is missing: into which language\? Give one of de, fr"):
        model.translate("the dog")


def test_symbols_of_a_task_are_tokens_of_the_folder(tmp_path: Path) -> None:
    opus_mt(tmp_path / "opus", tags=(">>de<<",))
    kind = MarianKind(MarianConfig(folder=str(tmp_path / "opus")))
    kind.learn([], tmp_path / "copy", 0, symbols=(">>de<<",), option="task.vocab_size")
    assert kind.load(tmp_path / "copy").id_of(">>de<<") == 2
    with pytest.raises(ConfigError, match=r"task.subword=marian has no tokens for >>fr<<; choose another tokeniser"):
        kind.learn([], tmp_path / "other", 0, symbols=(">>fr<<", ">>de<<"), option="task.vocab_size")
    assert not (tmp_path / "other").exists()


def translated(*arguments: str, path: Path) -> str:
    """What s2s-generate writes for a few lines."""
    (path / "in.txt").write_text("".join(f"{line}\n" for line in LINES["src"][:5]))
    assert generate(["input=in.txt", "output=out.txt", "overwrite=true", *arguments, "--quiet"]) == 0
    return (path / "out.txt").read_text()


def test_a_model_is_imported_once_until_its_files_change(tmp_path: Path, cache: Path) -> None:
    opus_mt(tmp_path / "opus")
    first = translated("model=opus", path=tmp_path)
    assert first == translated("run=opus", path=tmp_path)
    assert len(list(cache.glob("opus-*"))) == 1
    opus_mt(tmp_path / "opus", activation_function="relu")
    assert translated("model=opus", path=tmp_path) != first
    assert len(list(cache.glob("opus-*"))) == 2


def test_an_imported_run_stands_alone_and_is_tuned(tmp_path: Path) -> None:
    opus_mt(tmp_path / "opus")
    (tmp_path / "opus" / "README.md").write_text("license: cc-by-4.0")
    expected = translated("model=opus", path=tmp_path)
    assert import_model(["model=opus", "run=mine", "--quiet"]) == 0
    shutil.rmtree(tmp_path / "opus")
    assert translated("run=mine", path=tmp_path) == expected
    assert (tmp_path / "runs" / "mine" / "README.md").read_text() == "license: cc-by-4.0"
    for side in ("src", "tgt"):
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in LINES[side][:24]))
    tuned = ["train.init_from=mine", "task.train=[train.src,train.tgt]", "run=tuned", "train.steps=3", "--quiet"]
    assert train([*tuned, "train.check=false"]) == 0
    assert translated("run=tuned", path=tmp_path)


def test_weights_and_tokeniser_come_back_byte_for_byte(tmp_path: Path) -> None:
    opus_mt(tmp_path / "opus")
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES["src"][:5]))
    assert export(["run=opus", "format=hf", "output=back", "input=in.txt", "--quiet"]) == 0
    for name in ("source.spm", "target.spm", "model.safetensors"):
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "opus" / name).read_bytes(), name
    tables = [json.loads((tmp_path / folder / "vocab.json").read_text()) for folder in ("back", "opus")]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"model_type": "gpt2"}', "model_type=gpt2 is no family that is read here; known: "),
        ('{"model_type": "marian"}', "has no files of a tokeniser that is read here"),
        ('{"model_type": ', "config.json is not readable"),
        ("[]", "is no JSON object"),
    ],
    ids=["unknown", "no-tokeniser", "cut", "a-list"],
)
def test_a_folder_that_cannot_be_read_says_what_is_wrong(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "config.json").write_text(content)
    assert import_model(["model=some", "run=mine"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tokenizer_config.json", "tokenizer_config.json is a link that leads nowhere"),
        ("../secret.json", "tokenizer_config.json is a link to a file elsewhere, which is not read"),
    ],
    ids=["circle", "elsewhere"],
)
def test_a_link_out_of_the_folder_is_refused(
    target: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opus_mt(tmp_path / "opus")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "opus" / "tokenizer_config.json").unlink(missing_ok=True)
    (tmp_path / "opus" / "tokenizer_config.json").symlink_to(target)
    capsys.readouterr()
    assert import_model(["model=opus", "run=mine"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_folder_that_is_no_model_says_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"is no run directory.* a folder of Hugging Face's transformers"):
        s2s.load("empty")


def test_a_pruned_vocabulary_leaves_outputs_of_its_texts_as_they_are(tmp_path: Path) -> None:
    """The scores are renormalised over fewer tokens; the logits of those that are left are the same."""
    model = opus_mt(tmp_path / "opus")
    (tmp_path / "some.txt").write_text("".join(f"{line}\n" for line in [LINES["src"][0], LINES["tgt"][0]]))
    assert import_model(["model=opus", "run=whole", "--quiet"]) == 0
    assert import_model(["model=opus", "run=pruned", "vocab=[some.txt]", "--quiet"]) == 0
    whole, pruned = (s2s.load(name, matmul="torch") for name in ("whole", "pruned"))  # others free the weights
    pieces = {name: one.task.vocabulary("src") for name, one in (("whole", whole), ("pruned", pruned))}
    assert len(pieces["pruned"]) < len(pieces["whole"])
    rows = [list(pieces["whole"]).index(piece) for piece in pieces["pruned"]]
    for line in LINES["src"][:1]:
        ids = [one.task.encode_source([line])[0] for one in (whole, pruned)]
        assert [rows[i] for i in ids[1]] == ids[0]
        logits = []
        for one, src in zip((whole, pruned), ids, strict=True):
            batch = s2s.make_batch([(src, src[:3])], one.task.vocab)
            with torch.no_grad():
                logits.append(one.model.project(one.model(*batch.inputs)))
        torch.testing.assert_close(logits[1], logits[0][..., rows], atol=1e-6, rtol=0)
    removed = (len(pieces["whole"]) - len(rows)) * (model.config.d_model + 1)  # a row of the matrix, and of the bias
    n_weights = [sum(p.numel() for p in one.model.parameters()) for one in (whole, pruned)]
    assert n_weights[0] - n_weights[1] == removed
    outside = "zebra §"
    assert pruned.task.encode_source([outside])
    assert pruned.translate(outside, search={"max_len_b": 5})
