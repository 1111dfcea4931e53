"""What a run takes over from the run of train.init_from, and what it adds to its vocabulary and text."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.docs_commands import commands
from harness.tiny_runs import SMALL, train_tiny, write_corpus
from s2s.checkpoint import directory as checkpoint
from s2s.cli.train import main
from s2s.compose import compose
from s2s.config import Config
from s2s.data.tokenizer import tokenizer_kind
from s2s.errors import ConfigError
from s2s.plugin import load_plugins
from s2s.run import Run

PLUGINS = load_plugins()
FROM = ["train.init_from=x", "train.steps=2", "run=y", "log.tensorboard=false", "valid.score=false", "--quiet"]
OWN = ["task.train=[b.en,b.de]", "task.valid=[b.en,b.de]"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run x, and text with words that it has not seen."""
    train_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    for side, dog, long in (("en", "dog", "catdogcat"), ("de", "hund", "katerhund")):
        lines = (tmp_path / f"a.{side}").read_text().replace(dog, long).splitlines()[:30]
        (tmp_path / f"b.{side}").write_text("\n".join(lines) + "\n")
    return tmp_path


def composed(*arguments: str) -> Config:
    return compose(Config, arguments, PLUGINS).config


def weights(run: str) -> dict[str, torch.Tensor]:
    return checkpoint.load(Path("runs", run, "checkpoints", "step-000000")).tensors["model"]


def test_the_run_and_the_text_are_enough(here: Path) -> None:
    """Task, model and vocabulary are those of the run; the rate is low, and falls."""
    assert main([*FROM, *OWN]) == 0
    old, new = (Run.load_task(Path("runs", run), PLUGINS) for run in ("x", "y"))
    assert new[0].arch == old[0].arch
    assert new[0].task.vocab_size == 40  # type: ignore[attr-defined]
    assert new[0].train.tokens == old[0].train.tokens
    assert new[0].schedule.name == "cosine"
    assert 0 < new[0].schedule.lr < 0.01  # type: ignore[attr-defined]
    assert new[1].vocabulary("src") == old[1].vocabulary("src")
    assert new[0].task.train == ["b.en", "b.de"]  # type: ignore[attr-defined]
    assert new[0].recipe.name == "fine_tuning"
    assert new[0].valid.patience == 5


def test_without_a_name_the_run_is_called_after_the_other(here: Path) -> None:
    assert composed("train.init_from=x", *OWN).run == "x-tuned"


@pytest.mark.parametrize(
    ("given", "key", "expected"),
    [
        (["task=translation"], "task.vocab_size", 40),
        (["task=translation", "task.lowercase=false"], "task.vocab_size", 40),
        (["arch=transformer"], "arch.d_model", 8),
        (["arch=transformer", "arch.d_ff=16"], "arch.d_ff", 16),
        (["arch=transformer_tiny"], "arch.d_model", composed("task=translation", "arch=transformer_tiny").arch.d_model),
        (["train.tokens=500"], "train.tokens", 500),
        (["schedule=constant", "schedule.lr=1e-4"], "schedule.lr", 1e-4),
        (["schedule.lr=1e-4"], "schedule.name", "cosine"),
        (["objective=risk_tuning"], "schedule.name", "constant"),
        (["arch=lora"], "schedule.name", "constant"),
        (["task.vocab_size=30", "train.init_vocab=new"], "task.vocab_size", 30),
        (["task.subword=bpe"], "data.tokenizer", "runs/x"),
        ([], "data.tokenizer", "runs/x"),
        (["train.init_vocab=new"], "data.tokenizer", ""),
        (["train.init_vocab=extend"], "data.new_tokens", 1000),
        (["train.init_vocab=extend", "data.new_tokens=7"], "data.new_tokens", 7),
        (["train.init_replay=0.3"], "data.replay_share", 0.3),
        ([], "data.replay_share", 0.8),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_given_wins_and_the_rest_is_the_runs(here: Path, given: list[str], key: str, expected: object) -> None:
    value: Any = composed("train.init_from=x", *OWN, *given)
    for name in key.split("."):
        value = getattr(value, name)
    assert value == expected


def test_adapters_adapt_the_architecture_of_the_run(here: Path) -> None:
    of = composed("train.init_from=x", "arch=lora", *OWN).arch.of  # type: ignore[attr-defined]
    assert (of["name"], of["d_model"], of["d_ff"]) == ("transformer", 8, 8)
    assert main([*FROM, *OWN, "arch=lora"]) == 0
    assert composed("train.init_from=y", *OWN, "run=z").arch.name == "lora"


@pytest.mark.parametrize(
    "option", ["task.vocab_size=30", "task.subword=unigram", "task.joint=false", "task.lowercase=true"]
)
def test_an_option_of_another_vocabulary_is_refused_in_one_line(here: Path, option: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^{option.partition('=')[0]}=\w+: train.init_from=x keeps .*init_vocab=new$"
    ):
        composed("train.init_from=x", *OWN, option)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["train.init_vocab=new", "train.init_replay=0.2"], "train.init_replay needs the old vocabulary"),
        (["train.init_replay=1.5"], "train.init_replay=1.5"),
        (["train.init_vocab=none"], "train.init_vocab"),
    ],
)
def test_options_that_contradict_each_other_are_refused(here: Path, options: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        composed("train.init_from=x", *OWN, *options)


def test_without_another_run_nothing_is_taken_of_it() -> None:
    for option in ("train.init_vocab=extend", "train.init_replay=0.2", "train.init_weight=0.5"):
        with pytest.raises(ConfigError, match=r"give train\.init_from=RUN, too"):
            composed(*SMALL, option)


def test_the_same_command_continues_once_the_other_run_is_gone(here: Path) -> None:
    """Unless its text is mixed in."""
    more = [*OWN, "checkpoint.every=1", "train.init_replay=0"]
    assert main([*FROM, *more]) == 0
    shutil.rmtree("runs/x")
    assert main([*[a for a in FROM if "steps" not in a], *more, "train.steps=3"]) == 0
    assert Path("runs/y/checkpoints/step-000003").is_dir()


def test_new_tokens_come_behind_the_old_ones_and_begin_as_the_mean_of_their_pieces(here: Path) -> None:
    assert main([*[a for a in FROM if "steps" not in a], *OWN, "train.init_vocab=extend", "train.steps=0"]) == 0
    old, new = (Run.load_task(Path("runs", run), PLUGINS)[1] for run in ("x", "y"))
    before, tokens = list(old.vocabulary("src") or ()), list(new.vocabulary("src") or ())
    assert tokens[: len(before)] == before
    assert len(tokens) > len(before)
    theirs = checkpoint.load(Path("runs/x/checkpoints/step-000004")).tensors["model"]["embeddings.shared"]
    rows = weights("y")["embeddings.shared"]
    torch.testing.assert_close(rows[: len(before)], theirs)
    begins_words = [i for i in range(len(before), len(tokens)) if str(tokens[i]).startswith("▁")]
    assert begins_words
    for i in begins_words:
        pieces = old.encode_source([str(tokens[i]).replace("▁", " ")])[0]
        torch.testing.assert_close(rows[i], theirs[pieces].mean(dim=0))


def test_the_commands_of_the_page_run_after_a_run_of_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As typed, but for fewer updates."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, 60)
    for name in ("general", "dev", "medical", "meddev"):
        for side in ("en", "de"):
            (tmp_path / f"{name}.{side}").write_text((tmp_path / f"a.{side}").read_text())
    page = [command for command in commands() if command.page == "docs/fine_tuning.md"]
    assert len(page) == 4
    assert sum("arch=lora" in command.text for command in page) == 1
    for command in page:
        words = shlex.split(command.text)
        first = ["recipe=auto", "recipe.hours=1e-6"] if "run=general" in words else []
        code = main([*words[1:], *first, "train.steps=2", "log.tensorboard=false", "--quiet"])
        assert code == 0, (command.text, capsys.readouterr().err)


@pytest.mark.parametrize("name", ["bpe", "unigram", "char", "word", "characters", "whitespace"])
def test_every_kind_that_learns_can_be_extended(name: str, tmp_path: Path) -> None:
    kind, path = tokenizer_kind(name, PLUGINS.registry), tmp_path / "model"
    old_text = ["the dog sees a cat", "a cat eats the fish", "dogs see cats and fish"] * 5
    new_text = ["ωμέγα dogfish ωμέγα catfish"] * 12
    kind.learn(old_text, path, 12 if name == "word" else 22, option="x")
    old = kind.load(path)
    kind.extend(new_text, path, 9)
    new = kind.load(path)
    assert new.pieces[: old.size] == old.pieces
    assert old.size < new.size <= old.size + 9
    used = {i for ids in new.encode(new_text) for i in ids}
    assert any(i >= old.size for i in used)
    assert sum(map(len, new.encode(old_text))) <= sum(map(len, old.encode(old_text)))
    if name in ("bpe", "unigram", "char", "characters"):
        assert [new.decode(ids) for ids in new.encode(old_text)] == old_text


def test_the_fewest_tokens_spell_another(tmp_path: Path) -> None:
    kind, path = tokenizer_kind("whitespace", PLUGINS.registry), tmp_path / "words"
    kind.learn(["a ab abc b c cd d"], path, 20, option="x")
    words = kind.load(path)
    assert [words.pieces[i] for i in words.split("abcd")] in (["ab", "cd"], ["abc", "d"])
    assert words.split("abx") == []
    assert words.split("") == []


def test_the_text_of_the_other_run_is_mixed_in(here: Path) -> None:
    """By its share of the pairs of an epoch."""
    assert main([*FROM, *OWN, "train.init_replay=0.25", "train.steps=40"]) == 0
    assert "replay of runs/x: 100 pairs, 25% of an epoch" in Path("runs/y/train.log").read_text()
    lines = map(json.loads, Path("runs/y/log.jsonl").read_text().splitlines())
    updates = [record for record in lines if record["kind"] == "update"]
    epoch = [record["pairs"] for record in updates if record["epoch"] == 0]
    assert sum(epoch) == pytest.approx(40, abs=3), "30 pairs of its own, 10 of the other's"


def test_replay_of_a_run_with_another_vocabulary_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [*SMALL, "task.vocab_size=30", "data.replay=x", "data.replay_share=0.5", "run=z", "--quiet"]
    assert main(given) == 2
    assert "data.replay=x: its vocabulary is not the beginning of this run's" in capsys.readouterr().err


def test_a_folder_without_a_tokeniser_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "data.tokenizer=runs/nowhere", "run=z", "--quiet"]) == 2
    assert "data.tokenizer=runs/nowhere" in capsys.readouterr().err
