"""What is forecast of a run before it begins."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from s2s.cli.train import main as train
from s2s.compose import compose
from s2s.config import Config
from s2s.data.mapped_corpus import MappedCorpus, MappedCorpusWriter, RaggedIds
from s2s.errors import ConfigError
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_plan.forecast import RARE, Forecast, rare_tokens
from s2s_plan.measured_pace import Pace, times_longer
from s2s_plan.planned_length import decide_steps
from s2s_plan.run_length import parse_duration

if TYPE_CHECKING:
    from pathlib import Path

PLUGINS = load_plugins()


def config(*arguments: str) -> Config:
    return compose(Config, ["task=translation", "arch=transformer_tiny", *arguments], PLUGINS).config


def fine(**changes: Any) -> Forecast:
    values = {"epochs": 20.0, "n_pairs": 5000, "seconds_at_least": 3600.0, "rare": {"joint": (4000, 0.1)}}
    return Forecast(**{**values, **changes})


def test_a_sensible_run_is_not_warned_of() -> None:
    assert list(fine().warnings(config())) == []
    assert list(fine().warnings(config("train.steps=1", "schedule.warmup=1"))) == [], "it has no shorter one"


@pytest.mark.parametrize(
    ("changes", "arguments", "said"),
    [
        ({"epochs": 5000.0}, [], r"5,000 epochs of 5,000 pairs.*train.steps=2,000"),
        ({"rare": {"target": (60_000, 0.8)}}, [], r"80% of the 60,000 tokens of the target vocabulary"),
        ({"seconds_at_least": 86_400.0 * 610}, [], "610 days here at the very least"),
        ({}, ["schedule.warmup=60_000"], r"schedule.warmup=60,000 is more than half of train.steps=100,000"),
    ],
)
def test_what_looks_like_a_mistake_is(changes: dict[str, Any], arguments: list[str], said: str) -> None:
    (warning,) = fine(**changes).warnings(config(*arguments))
    assert re.search(said, warning)


def test_an_update_is_an_epoch_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five pairs are a batch by themselves, however many tokens an update may have."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_text("".join(f"a red {x}\tein rotes {x}\n" for x in "bcdef"))
    arguments = ["task=translation", "task.train=pairs.tsv", "task.vocab_size=24", "arch=transformer_tiny"]
    assert train([*arguments, "train.steps=3", "schedule.warmup=1", "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert "3.0 epochs of 5 pairs" in captured.out
    assert "by heart" not in captured.err


@pytest.mark.parametrize(
    ("epochs", "planned", "n_warnings"), [(100, False, 0), (123, False, 1), (123, True, 0), (151, True, 1)]
)
def test_a_plan_is_not_warned_of_where_its_recipe_only_estimated(epochs: float, planned: bool, n_warnings: int) -> None:
    assert len(list(fine(epochs=epochs).warnings(config(), planned=planned))) == n_warnings


def test_a_small_vocabulary_is_never_too_large() -> None:
    assert list(fine(rare={"joint": (1000, 0.9)}).warnings(config())) == []


def test_a_vocabulary_that_another_run_has_is_not_too_large_for_the_text() -> None:
    assert list(fine(rare={"joint": (60_000, 0.9)}).warnings(config("data.tokenizer=runs/published"))) == []


def test_a_dry_run_says_when_things_come() -> None:
    lines = list(fine().describe(config("train.steps=1000", "valid.every=100", "checkpoint.minutes=2"), 3.6))
    assert lines[0].startswith("20.0 epochs of 5,000 pairs")
    assert lines[1:3] == ["first validation after 00:06:00", "first checkpoint after 00:02:00"]


@pytest.mark.parametrize("joint", [True, False])
def test_rare_tokens_are_those_that_counting_finds(tmp_path: Path, joint: bool) -> None:
    rng, size = np.random.default_rng(1), 60
    sides = [[rng.zipf(1.4, 12).clip(4, size - 1).tolist() for _ in range(200)] for _ in range(2)]
    with MappedCorpusWriter(tmp_path / "c", size, size) as writer:
        writer.append(*map(RaggedIds.from_lists, sides))
    found = rare_tokens(Vocab(src=size, tgt=size, joint=joint), [(MappedCorpus(tmp_path / "c"), 1.0)])
    counts = [Counter(token for sentence in side for token in sentence) for side in sides]
    expected = {"joint": counts[0] + counts[1]} if joint else {"source": counts[0], "target": counts[1]}
    for name, count in expected.items():
        rare = sum(count[token] < RARE for token in range(4, size)) / (size - 4)
        assert found[name] == (size, pytest.approx(rare))
    hashed = Vocab(src=size, tgt=size, unknown=[0.1] * size)
    assert list(rare_tokens(hashed, [(MappedCorpus(tmp_path / "c"), 1.0)])) == ["target"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172_800), ("1.5h", 5400)]
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text, "train.budget") == seconds
    assert config(f"train.budget={text}").train.budget_seconds == seconds


@pytest.mark.parametrize("text", ["half an hour", "30", "0s", "30 m", "m", "500d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"train.budget"):
        config(f"train.budget={text}")


PACES = {
    "quick": Pace(0.01, 0.0),
    "all fit": Pace(0.5, 1.0, 0.01, 200),
    "fewer sentences": Pace(0.5, 2.0, 0.5, 200),
    "slow loss, few sentences": Pace(0.1, 20.0, 0.1, 200),
    "no sentences": Pace(0.1, 8.0, 2.0, 200),
    "slow loss": Pace(2.0, 100.0, 1.0, 200),
}


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
def test_a_budget_is_kept_and_the_first_validation_comes_early(pace: Pace) -> None:
    budget = 1200.0
    found = {d.key: d.value for d in decide_steps(config(), pace, budget).decisions}
    steps, every = found["train.steps"], found["valid.every"]
    n_sentences = found.get("valid.sentences", pace.n_sentences)
    taken = steps * pace.update + -(-steps // every) * (pace.loss + n_sentences * pace.sentence)
    assert taken < 1.1 * budget
    assert steps * pace.update > 0.6 * budget
    assert max(found["schedule.warmup"], found["checkpoint.every"]) <= steps / 10
    assert every <= steps / (2 if pace.loss > 50 else 7 if pace.sentence > 1 else 10)
    assert n_sentences >= min(20, pace.n_sentences), "a score at every validation"


def test_a_few_sentences_are_decoded_where_the_loss_alone_takes_long() -> None:
    """Tatoeba in three minutes on a thread: 2.76 s for the loss of 2,000 pairs, 0.0088 s for a decoded one."""
    found = {d.key: d.value for d in decide_steps(config(), Pace(0.267, 2.76, 0.00882, 500), 180.0).decisions}
    assert "valid.score" not in found
    assert found["valid.sentences"] == 20


def test_the_only_validation_of_a_short_run_decodes_what_it_has_time_for() -> None:
    """Two minutes on a busy machine: 1.5 s for a decoded tree."""
    found = {d.key: d.value for d in decide_steps(config(), Pace(0.8, 6.0, 1.5, 300), 120.0).decisions}
    assert 15 <= found["valid.sentences"] <= 20
    assert found["valid.every"] == found["train.steps"]
    assert "valid.score" not in found
    slow = {d.key: d.value for d in decide_steps(config(), Pace(0.8, 6.0, 100.0, 300), 120.0).decisions}
    assert slow["valid.sentences"] == 1


def test_what_is_decoded_stays_where_the_user_has_said_it() -> None:
    found = {
        d.key for d in decide_steps(config(), PACES["fewer sentences"], 1200.0, user_keys={"valid.sentences"}).decisions
    }
    assert found == {"train.steps", "schedule.warmup", "valid.every", "checkpoint.every"}


def test_warmup_and_intervals_follow_the_length_that_the_user_has_given() -> None:
    """Not the length that the budget allows, which the run does not have."""
    given = config()
    given.train.steps = 40
    found = {
        d.key: d.value
        for d in decide_steps(given, PACES["fewer sentences"], 1200.0, user_keys={"train.steps"}).decisions
    }
    assert found["schedule.warmup"] == 4
    assert max(found["valid.every"], found["checkpoint.every"]) <= 40 // 3


def test_outputs_are_compared_with_references_in_tokens() -> None:
    """Not in words: an untrained model may put all of an output into one."""
    assert times_longer([30, 30], [10, 10]) == 3
    assert times_longer([1, 0], [10, 10]) == 1
