"""From options to a generator: what the run determines, what the call does, and what its outputs depend on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.small_runs import build, letters_config, letters_plugins
from s2s.compose import compose
from s2s.config import GenerateConfig, Mark
from s2s.decoding import BeamConfig, GreedyConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.errors import ConfigError
from s2s.generation import build as loading
from s2s.generation.build import load, load_for_decoding
from s2s.generation.models import Models
from s2s.generation.options import provenance, resolve_candidates
from s2s.registry import Choice

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.plugin import Plugins

CPU = ["device=cpu", "matmul=torch"]
MINE = ["backend=mine", "matmul=auto"]


@pytest.fixture
def plugins() -> Plugins:
    return letters_plugins()


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugins: Plugins) -> Models:
    """A run of the letters plugin that searches with a beam of 3, in the place of what the options name."""
    composed = letters_config(plugins, "search.beam=3")
    model = build(composed, plugins, tmp_path / "prepared").eval()
    task = plugins.registry.get("task", "letters").build(composed.config.task)
    task.load(tmp_path / "prepared")
    of_run = {"config": composed.config, "sources": None, "shortlist": None, "passed_over": ()}
    run: Any = SimpleNamespace(task=task, model=model, **of_run)
    models = Models(run, tmp_path, model, [model], {"checkpoint": "of x"}, "")
    monkeypatch.setattr(loading, "load_models", lambda config, plugins, device: models)
    return models


def generator(plugins: Plugins, *arguments: str) -> Any:
    """What these options load."""
    schema = plugins.registry.with_options(GenerateConfig)
    return load(compose(schema, ["run=x", *CPU, *arguments], plugins), plugins)


@pytest.mark.parametrize(
    ("arguments", "beam", "alpha"), [([], 3, 0.6), (["search.alpha=1"], 3, 1.0), (["search.beam=2"], 2, 0.6)]
)
def test_a_search_is_that_of_the_run_but_for_what_is_given(
    models: Models, plugins: Plugins, arguments: list[str], beam: int, alpha: float
) -> None:
    search = generator(plugins, *arguments).generator.search.search
    assert type(search) is BeamSearch
    assert (search.config.beam, search.config.alpha) == (beam, alpha)


def test_a_loaded_run_decodes_and_says_what_computes(models: Models, plugins: Plugins) -> None:
    found = generator(plugins)
    assert found.provenance["input"] == "-"
    assert found.provenance["search"]["beam"] == 3
    assert found.description.startswith("cpu, ")
    assert [output.src for output in found.generator(["abc", ""])] == ["abc", ""]
    assert not found.description.endswith("; ")


def test_what_several_models_are_is_said_after_what_computes(
    models: Models, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "load_models", lambda *_: models._replace(description="2 models"))
    assert generator(plugins).description.endswith("; 2 models")


@pytest.mark.parametrize(
    ("max_len", "arguments", "longest"), [(256, [], 1024), (5000, [], 5000), (5000, ["max_source=7"], 7)], ids=str
)
def test_what_the_run_was_trained_on_is_not_too_long(
    models: Models, plugins: Plugins, max_len: int, arguments: list[str], longest: int
) -> None:
    models.first.config.data.max_len = max_len
    assert generator(plugins, *arguments).generator.config.max_source == longest


def test_options_of_models_are_those_of_loading_and_others_those_of_the_call(models: Models, plugins: Plugins) -> None:
    schema = plugins.registry.with_options(GenerateConfig)
    ready = load_for_decoding(compose(schema, ["run=x", *CPU, "nbest=3"], plugins).config, plugins)
    later = compose(schema, ["run=y", "matmul=auto", "nbest=2", "search.beam=5"], plugins)
    config = ready.generator(later).generator.config
    assert (config.run, config.matmul, config.nbest) == ("x", "torch", 2)


class Engine:
    """An inference engine that notes what it was built from."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def describe(self) -> str:
        return "an engine"


def test_an_inference_engine_gets_all_that_it_is_built_from(models: Models, plugins: Plugins) -> None:
    plugins.registry.add("inference_engine", "mine", Choice, Engine)
    found = generator(plugins, *MINE, "search=greedy")
    given = found.generator.search.search.given
    assert found.description == "an engine"
    assert (given.directory, given.run, given.device) == (models.directory, models.first, torch.device("cpu"))
    assert (given.config.backend, type(given.search)) == ("mine", GreedyConfig)
    assert given.constraint is models.first.task.constraint()


def test_an_engine_is_one_that_is_registered_and_serves_one_model(
    models: Models, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins.registry.add("inference_engine", "mine", Choice, Engine)
    with pytest.raises(
        ConfigError, match=r"^backend=my: neither native nor a registered inference engine\. Known: .*mine"
    ):
        generator(plugins, "backend=my")
    for option, given in (("matmul", ["backend=mine"]), ("graph", [*MINE, "graph=false"])):
        with pytest.raises(ConfigError) as caught:
            generator(plugins, *given)
        assert str(caught.value) == f"backend=mine does not read {option}; leave it out, or give backend=native"
    both = models._replace(members=[models.model] * 2, description="two models")
    monkeypatch.setattr(loading, "load_models", lambda *_: both)
    with pytest.raises(ConfigError) as caught:
        generator(plugins, *MINE)
    assert str(caught.value) == "backend=mine serves one model, not two models; give backend=native"


def test_a_run_must_be_given(plugins: Plugins) -> None:
    with pytest.raises(ConfigError, match=r"^run: which model\? Give run=NAME, a run directory, or run=last$"):
        load_for_decoding(GenerateConfig(), plugins)


@pytest.mark.parametrize(("options", "inside", "after"), [([], 1, 5), (["threads=3"], 3, 3), (["threads=1"], 1, 1)])
def test_linear_maps_are_chosen_with_one_thread_unless_others_are_asked_for(
    models: Models, plugins: Plugins, monkeypatch: pytest.MonkeyPatch, options: list[str], inside: int, after: int
) -> None:
    """Functions in C have one thread; a program that has loaded a model keeps the threads that it had."""
    before, found = torch.get_num_threads(), list[int]()
    monkeypatch.setattr(loading, "accelerate", lambda *_: str(found.append(torch.get_num_threads())))
    torch.set_num_threads(5)
    try:
        generator(plugins, *options)
        assert (found, torch.get_num_threads()) == ([inside], after)
    finally:
        torch.set_num_threads(before)


def test_threads_are_as_before_after_a_mistake(
    models: Models, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConfigError("no")

    before = torch.get_num_threads()
    monkeypatch.setattr(loading, "accelerate", refuse)
    torch.set_num_threads(5)
    try:
        with pytest.raises(ConfigError):
            generator(plugins)
        assert torch.get_num_threads() == 5
    finally:
        torch.set_num_threads(before)


def test_a_process_takes_the_device_of_its_number_on_the_machine(
    models: Models, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[tuple[str, str, int]]()
    monkeypatch.setattr(loading, "pick_device", lambda *of: asked.append(of) or torch.device("cpu"))
    generator(plugins)
    monkeypatch.setenv("LOCAL_RANK", "3")
    generator(plugins)
    assert asked == [("cpu", "device", 0), ("cpu", "device", 3)]


@dataclass(kw_only=True)
class Reranked(GenerateConfig):
    """With an option that chooses among the outputs of the search."""

    mbr: str = field(default="chrf", metadata=Mark.RERANKS)


class Beam(Choice):
    """A search with a beam."""

    name, beam = "beam", 4


@pytest.mark.parametrize(
    ("given", "search", "candidates"),
    [
        ({}, Beam(), 4),
        ({"candidates": 3}, Beam(), 3),
        ({"candidates": 4}, Beam(), 4),
        ({"candidates": 9}, Choice(name="sample"), 9),
        ({"nbest": 2}, Choice(name="sample"), 1),
    ],
    ids=str,
)
def test_candidates_are_as_many_as_the_beam_holds(given: dict[str, Any], search: Choice, candidates: int) -> None:
    assert resolve_candidates(Reranked(**given), search).candidates == candidates


@pytest.mark.parametrize(
    ("given", "search", "message"),
    [
        ({"candidates": 5}, Beam(), "candidates=5 are more than search.beam=4 finds; give search.beam=N"),
        ({}, Choice(name="greedy"), "mbr=chrf chooses among outputs, and search=greedy gives one; give candidates=N"),
    ],
    ids=str,
)
def test_there_must_be_something_to_choose_from(given: dict[str, Any], search: Choice, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_candidates(Reranked(**given), search)
    assert str(caught.value) == message


def test_without_a_choice_among_candidates_the_options_stay() -> None:
    config = GenerateConfig(nbest=1)
    assert resolve_candidates(config, Choice(name="greedy")) is config


def test_the_bytes_of_a_file_depend_on_input_weights_search_device_and_options_but_not_on_names(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a")
    config = GenerateConfig(run="x", input=str(tmp_path / "in"), output="out", nbest=2, format="tsv", threads=5)
    found = provenance(config, {"checkpoint": "of x"}, Choice(name="greedy"), "cpu")
    assert found["input"] == hashlib.sha256(b"a").hexdigest()
    assert found["search"] == {"name": "greedy"}
    assert (found["checkpoint"], found["device"], found["nbest"], found["format"]) == ("of x", "cpu", 2, "tsv")
    assert not {"run", "output", "threads"} & set(found)
    stream = provenance(replace(config, output="-"), {"checkpoint": "of x"}, Choice(name="greedy"), "cpu")
    assert stream == found | {"input": str(tmp_path / "in")}, "a file that nothing continues is not read twice"
    (tmp_path / "in").unlink()
    assert provenance(config, {}, Choice(), "cpu")["input"] == str(tmp_path / "in")


@dataclass(kw_only=True)
class WithFile(GenerateConfig):
    """An option that names a file."""

    words: str = field(default="", metadata=Mark.ADDED | Mark.NAMES_FILE)


def test_the_bytes_of_a_file_depend_on_what_a_named_file_contains_not_on_its_name(tmp_path: Path) -> None:
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).write_text(text)
    a, b, c = (
        provenance(WithFile(run="x", output="out", words=str(tmp_path / name)), {}, Choice(), "cpu") for name in "abc"
    )
    assert a == b
    assert a != c
    assert "words" not in provenance(WithFile(run="x", output="out"), {}, Choice(), "cpu")


FIRST_RECORD = {
    "input": "-",
    "checkpoint": "c",
    "device": "cpu",
    "raw": False,
    "input_format": "auto",
    "format": "text",
    "search": {
        "name": "beam",
        "max_len_a": 1.0,
        "max_len_b": 50,
        "ban_unk": False,
        "beam": 4,
        "alpha": 0.6,
        "length_penalty": "gnmt",
        "stop": "best",
    },
    "nbest": 1,
    "fields": [],
    "tokens": 0,
    "buffer_size": 2000,
    "max_source": 1024,
    "too_long": "split",
    "constrained": True,
    "candidates": 0,
    "precision": "fp32",
    "matmul": "auto",
    "quantization": "none",
    "backend": "native",
}
"""What commit 7f2d3dd8 recorded of an output that was made with the defaults"""


def test_an_option_that_was_added_is_recorded_only_if_it_is_given() -> None:
    """Otherwise nothing that an earlier version began could be continued.

    `raw` has another default since then: what was begun without it is continued with raw=false, as the error says.
    """
    weights = {"checkpoint": "c"}
    beam, none = BeamConfig(name="beam"), {"quantization": "none"}  # what is loaded makes of quantization=auto
    assert provenance(GenerateConfig(run="x", raw=False, **none), weights, beam, "cpu") == FIRST_RECORD
    assert provenance(GenerateConfig(run="x", **none), weights, beam, "cpu") == {**FIRST_RECORD, "raw": None}
    config = GenerateConfig(run="x", raw=False, input_fields={"language": "de"}, transforms=[{"name": "bias"}], **none)
    found = provenance(config, weights, BeamConfig(name="beam", temperature=0.5, repetition_penalty=2.0), "cpu")
    assert found == FIRST_RECORD | {
        "input_fields": {"language": "de"},
        "transforms": [{"name": "bias"}],
        "search": {**FIRST_RECORD["search"], "temperature": 0.5, "repetition_penalty": 2.0},  # type: ignore[dict-item]
    }
