"""s2s from Python gives what the commands give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import s2s
from harness.tiny_runs import SMALL, call, train_tiny
from s2s.compose import arguments_of
from s2s.config import Config, GenerateConfig
from s2s.generation import Input

if TYPE_CHECKING:
    from collections.abc import Iterator

SRC = ["the old cat sees a dog", "", "a dog", "the cat eats the old dog"]
REF = ["der alte kater sieht ein hund", "ein", "ein hund", "der kater isst der alter hund"]
SHORT = "search.max_len_b=5"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train_tiny(folder)
    (folder / "in.jsonl").write_text("".join(json.dumps({"src": line}) + "\n" for line in SRC))
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in SRC))
    (folder / "ref.txt").write_text("".join(f"{line}\n" for line in REF))
    return folder


@pytest.fixture(autouse=True)
def _here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)


@pytest.fixture(scope="module")
def model(trained: Path) -> s2s.TrainedModel:
    return s2s.load(trained / "runs" / "x", SHORT, threads=1, device="cpu", matmul="torch")


def by_command(command: str, arguments: list[str], capsys: Any) -> list[dict[str, Any]]:
    code, out, err = call(command, arguments, capsys)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("of_models", "options"),
    [
        ({}, {"nbest": 3}),
        ({"run": ["x", "x"], "checkpoint": ["last", "step-000002"]}, {"search": {"alpha": 1.0, "beam": 2}}),
        ({"precision": "bf16"}, {"search": {"name": "greedy", "min_len": 2}}),
        ({}, {"fields": ["align", "pieces"], "mbr": {"name": "chrf", "word_order": 2}, "nbest": 2}),
    ],
    ids=["nbest", "ensemble", "bf16", "mbr"],
)
def test_outputs_are_those_of_the_command(of_models: dict[str, Any], options: dict[str, Any], capsys: Any) -> None:
    own = {"run": "x", "threads": 1, "matmul": "torch", **of_models}
    fields = [*options.get("fields", []), "tokens", "log_probs"]
    given = arguments_of(GenerateConfig, {**own, **options, "fields": fields})
    expected = by_command("s2s-generate", [*given, SHORT, "input=in.jsonl", "format=jsonl"], capsys)
    found = list(s2s.load(own.pop("run"), SHORT, **own).generate(SRC, **options))
    for output, line in zip(found, expected, strict=True):
        assert (output.hyp, output.tokens) == (line["hyp"], line["tokens"])
        assert output.best.log_probs == pytest.approx(line["log_probs"], abs=1e-4)  # which it writes in four digits
        assert [one.hyp for one in output.nbest] == [one["hyp"] for one in line.get("nbest", [line])]
        assert [f"{i}-{j}" for i, j in output.best.align] == line.get("align", [])


def test_a_text_gives_a_text_and_several_give_several(model: s2s.TrainedModel) -> None:
    outputs = [output.hyp for output in model.generate(SRC)]
    assert model.translate(SRC) == outputs
    assert model.translate(SRC[0]) == outputs[0]
    two = model.translate(SRC[0], nbest=2)
    assert (len(two), two[0]) == (2, outputs[0])


def test_an_option_of_the_call_comes_before_that_of_loading(model: s2s.TrainedModel) -> None:
    lengths = [len(next(model.generate([SRC[0]], search={"max_len_b": n, "max_len_a": 0})).tokens) for n in (1, 2, 4)]
    assert lengths == [1, 2, 4]


def test_endless_inputs_are_read_as_far_as_the_buffer_goes(model: s2s.TrainedModel) -> None:
    n_read = 0

    def endless() -> Iterator[str]:
        nonlocal n_read
        while True:
            n_read += 1
            yield "a dog"

    outputs = model.generate(endless(), buffer_size=2)
    assert [next(outputs).hyp for _ in range(3)] == [model.translate("a dog")] * 3
    assert n_read == 4


def test_an_input_says_how_its_output_begins(model: s2s.TrainedModel) -> None:
    (output,) = model.generate([Input("a dog", prefix="ein hund")])
    assert output.hyp.startswith("ein hund")


def test_scores_are_those_of_the_command(model: s2s.TrainedModel, capsys: Any) -> None:
    options = ["src=in.txt", "ref=ref.txt", "format=json", "per_sentence=true"]
    code, out, err = call("s2s-score", ["model=x", *options], capsys)
    assert code == 0, err
    expected = [one["log_prob"] for one in json.loads(out)["scores"][0]["sentences"]]
    found = model.score(SRC, REF)
    assert [one.log_prob for one in found] == pytest.approx(expected, rel=1e-5)
    assert model.score(SRC[0], REF[0]).log_prob == pytest.approx(expected[0], rel=1e-5)


def test_a_score_is_the_sum_that_the_search_has_found(model: s2s.TrainedModel) -> None:
    best = next(model.generate(["a dog"], search={"alpha": 0.0})).best
    again = model.score("a dog", best.hyp)
    if again.tokens == best.tokens:  # else the text has another, likelier segmentation
        assert again.log_probs == pytest.approx(best.log_probs, abs=1e-4)
    assert again.log_prob < 0


def test_evaluation_is_that_of_the_command(model: s2s.TrainedModel, capsys: Any) -> None:
    options = ["task=translation", "hyp=in.txt", "ref=ref.txt", "samples=20", "format=json", "lowercase=true"]
    code, out, err = call("s2s-score", options, capsys)
    assert code == 0, err
    found = s2s.evaluate(SRC, REF, task="translation", samples=20, lowercase=True)
    for name, score in found.items():
        assert f'"{name}"' in out
        assert score.signature in out
        assert str(score.value)[:8] in out
    own = model.evaluate(SRC, REF, samples=0)
    assert own["chrf"].value == s2s.evaluate(model.translate(SRC), REF, task="translation", samples=0)["chrf"].value


def test_attention_has_every_kind_layer_and_head(model: s2s.TrainedModel) -> None:
    found = model.attention("a dog", "ein hund")
    assert [(one.kind, one.layer, one.queries, one.keys) for one in found.maps] == [
        ("encoder", 1, "src", "src"),
        ("decoder", 1, "tgt", "tgt"),
        ("cross", 1, "tgt", "src"),
    ]
    n = {"src": len(found.src), "tgt": len(found.tgt)}
    for one in found.maps:
        assert one.weights.shape == (2, n[one.queries], n[one.keys])
    assert ("".join(found.src), "".join(found.tgt)) == ("▁a▁dog</s>", "▁ein▁hund</s>")
    (pair,) = model.task.encode([s2s.Example("a dog", "ein hund")])
    batch = s2s.make_batch([pair], model.task.vocab)
    with torch.no_grad():
        mean = model.model.attention(batch.src, batch.src_pad, batch.tgt_in, 1)
    assert mean is not None
    torch.testing.assert_close(found.maps[2].weights.mean(0), mean[0])


def test_attention_is_by_default_that_of_the_own_output(model: s2s.TrainedModel) -> None:
    found = model.attention("a dog")
    assert found.tgt[:-1] == next(model.generate(["a dog"], fields=["pieces"])).best.pieces


def test_training_gives_the_directory_and_goes_on_where_it_was(trained: Path) -> None:
    options = {"train": {"steps": 2}, "run": "by_python", "quiet": True}
    assert s2s.train(*SMALL, "schedule.warmup=2", **options).name == "by_python"
    path = s2s.train(*SMALL, "schedule.warmup=2", **{**options, "train": {"steps": 4}})
    assert json.loads((path / "status.json").read_bytes())["steps"] == 4
    assert isinstance(s2s.load(path, SHORT, threads=1, matmul="torch").translate("a dog"), str)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"device": "cpu"}, "device: it concerns the models; give it to s2s.load"),
        ({"output": "x"}, "output: inputs are given, and outputs returned, as texts"),
        ({"serch": 1}, "serch: no such option. Did you mean 'search'?"),
        ({"search": {"beams": 1}}, "search.beam"),
    ],
    ids=["models", "files", "misspelt", "misspelt below"],
)
def test_an_option_that_means_nothing_is_refused(
    model: s2s.TrainedModel, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(s2s.ConfigError, match=complaint):
        model.translate("a dog", **options)


def test_as_many_references_as_outputs_are_asked_for(model: s2s.TrainedModel) -> None:
    for wrong in (lambda: s2s.evaluate(SRC, REF[1:], task="translation"), lambda: model.score(SRC, REF[1:])):
        with pytest.raises(s2s.DataError, match=r"4 .* and 3 .*; give one for each"):
            wrong()


def test_options_are_written_as_on_the_command_line() -> None:
    given = {"run": "010", "task": {"name": "translation", "train": {"web": {"files": ["a.en", "a.de"]}}}, "seed": 3}
    written = ["run='010'", "task=translation", "task.train={web: {files: [a.en, a.de]}}", "seed=3"]
    assert arguments_of(Config, given) == written


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.device("cpu"), "cpu"),
        (torch.device("cuda", 1), "cuda:1"),
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (np.bool_(True), "true"),
        (np.str_("x"), "x"),
        (np.array(["a", "b"]), "[a, b]"),
        (torch.tensor(3), "3"),
        (Path("runs/x"), "runs/x"),
    ],
    ids=str,
)
def test_values_of_libraries_are_options_too(value: object, text: str) -> None:
    assert arguments_of(Config, {"run": value}) == [f"run={text}"]


@pytest.mark.parametrize("value", [torch.float32, object(), bytes])
def test_a_value_that_is_no_option_is_refused_by_its_type(value: object) -> None:
    with pytest.raises(s2s.ConfigError, match=r"^run: a value of type [\w.]+: give text, a number"):
        arguments_of(Config, {"run": value})


def test_an_argument_is_text() -> None:
    wrong: Any = 3
    for function in (lambda: s2s.load("x", wrong), lambda: s2s.train(wrong), lambda: s2s.plugins(wrong)):
        with pytest.raises(s2s.ConfigError, match=r"^3: an argument is text, as on the command line"):
            function()


def test_plugins_are_what_can_be_chosen() -> None:
    found = s2s.plugins()
    assert {"beam", "greedy", "sample"} <= set(found["search"])
    assert "demo" in found["experiment"]
