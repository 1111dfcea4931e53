"""A language model trained in the tokens of another run, and added to that run's scores: the real commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.reference_search import next_log_probs
from harness.tiny_runs import SMALL, call, train_tiny
from s2s.errors import DataError, UserError
from s2s.plugin import load_plugins
from s2s.run import Run, find_run
from s2s.run.tokenizer import identity
from s2s.task import Example
from s2s_language_model import LanguageModelConfig
from s2s_language_model.task import LanguageModel
from s2s_testing import assert_task_round_trips

if TYPE_CHECKING:
    from pathlib import Path

LANGUAGE_MODEL = [
    *("task=language_model", "task.train=mono.de", "arch=transformer_lm", "arch.n_layers=1", "arch.d_model=8"),
    *("arch.d_ff=8", "arch.n_heads=2", *(option for option in SMALL if option.startswith(("data.", "train.", "log.")))),
]
GENERATE = ["run=x", "threads=1", "input=in.jsonl", "format=jsonl", "fields=[tokens,log_probs]", "search.max_len_b=5"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run x of the translation task, and lm with its tokens."""
    folder = tmp_path_factory.mktemp("trained")
    train_tiny(folder)
    lines = (folder / "a.de").read_text().splitlines()
    (folder / "mono.de").write_text("".join(f"{line}\n" for line in ["", *lines]))
    sources = (folder / "a.en").read_text().splitlines()[:5]
    (folder / "in.jsonl").write_text("".join(json.dumps({"src": line}) + "\n" for line in sources))
    return folder


@pytest.fixture(autouse=True)
def _here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)


def outputs(capsys: Any, *arguments: str) -> list[dict[str, Any]]:
    code, out, err = call("s2s-generate", [*GENERATE, *arguments], capsys)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_a_language_model_is_trained_and_fused(trained: Path, capsys: Any) -> None:
    """The log-probabilities that are told are the sums, token by token; of weight 0, they are the model's."""
    lm = [*LANGUAGE_MODEL, "task.valid=mono.de", "task.tokenizer=runs/x", "train.steps=4", "run=lm"]
    code, _, err = call("s2s-train", [*lm, "--quiet"], capsys)
    assert code == 0, err
    assert identity(trained / "runs/lm/tokenizer") == identity(trained / "runs/x/tokenizer")
    plugins = load_plugins()
    run, beside = (Run.load(find_run(name), "auto", plugins, torch.device("cpu")) for name in ("x", "lm"))
    for one in outputs(capsys, "fusion=lm", "fusion_weight=0.7"):
        (source,) = run.task.encode_source([one["src"]])
        of_model, of_lm = next_log_probs(run.model, source), next_log_probs(beside.model, [4])
        tokens = [*one["tokens"], 3]
        for i, (token, told) in enumerate(zip(tokens, one["log_probs"], strict=True)):
            expected = of_model(tokens[:i])[token] + 0.7 * of_lm(tokens[:i])[token]
            assert told == pytest.approx(expected, rel=1e-4)
    without, weightless = outputs(capsys), outputs(capsys, "fusion=lm", "fusion_weight=0")
    assert [one["hyp"] for one in weightless] == [one["hyp"] for one in without]
    _, _, err = call("s2s-generate", [*GENERATE, "fusion=lm", "run=[x,x]"], capsys)
    assert err.splitlines()[-1].endswith("an ensemble of 2 models, fused with lm by 0.3")


def test_a_model_that_has_a_source_is_no_language_model(trained: Path, capsys: Any) -> None:
    """Not even where no letter is known, so that all of one length look alike."""
    code, _, err = call("s2s-generate", [*GENERATE, "fusion=x"], capsys)
    assert code == 2
    assert "whose outputs depend on a source" in err


def test_its_sources_say_nothing_and_its_lines_come_back(trained: Path, tmp_path: Path) -> None:
    config = LanguageModelConfig(name="language_model", train="mono.de", tokenizer="x")
    task = LanguageModel(config)
    assert_task_round_trips(task, tmp_path / "tokens")
    assert task.encode_source(["a", "b c"]) == [[4], [4]]
    assert task.vocab.tgt == 40


def test_lines_are_lower_cased_where_the_other_run_does_so(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "joint.model").write_bytes((trained / "runs/x/tokenizer/joint.model").read_bytes())
    (tmp_path / "task.json").write_text('{"lowercase": true}')
    config = LanguageModelConfig(name="language_model", train="mono.de", tokenizer=str(tmp_path))
    task = LanguageModel(config)
    (tmp_path / "learnt").mkdir()
    task.learn(tmp_path / "learnt")
    assert task.encode([Example("", "EIN Hund")]) == task.encode([Example("", "ein hund")])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"tokenizer": ""}, "give both, the text and the run"),
        ({"train": ""}, "give both, the text and the run"),
        ({"tokenizer": "nothing"}, "task.tokenizer=nothing: no such run"),
        ({"train": ["mono.de", "mono.de"]}, "names a file twice"),
    ],
    ids=str,
)
def test_what_is_missing_is_said(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        LanguageModel(
            LanguageModelConfig(**{"name": "language_model", "train": "mono.de", "tokenizer": "x", **options})
        ).dependencies()


def test_another_way_to_read_the_tokeniser_prepares_the_text_again(trained: Path) -> None:
    del trained
    settings = [
        LanguageModel(
            LanguageModelConfig(name="language_model", train="mono.de", tokenizer="runs/x", subword=subword)
        ).dependencies()
        for subword in ("bpe", "unigram")
    ]
    assert settings[0] != settings[1]


def test_a_run_that_writes_no_subwords_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"neither tgt.model nor joint.model is there"):
        LanguageModel(LanguageModelConfig(name="language_model", train="a", tokenizer="x")).load(tmp_path)
