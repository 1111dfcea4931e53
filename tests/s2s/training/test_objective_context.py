"""What an objective can use: searches and metrics as they work by themselves, and models of other runs."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.search_calls import find
from harness.small_runs import CPU, build, letters_config, letters_plugins, make_run
from s2s.batch import make_batch
from s2s.checkpoint import directory as checkpoint
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.distributed import World
from s2s.distributed.sharding import OneProcess
from s2s.errors import ConfigError
from s2s.run import run_path
from s2s.training.objective_context import OtherRuns, RunContext

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from s2s.model import Seq2Seq

PLUGINS = letters_plugins()
PAIRS = [([4, 5, 6], [4]), ([5, 4], [5]), ([6], [6])]


class Noting(OneProcess):
    """Counts how often a model is put together."""

    n_unsharded = 0

    @contextmanager
    def unsharded(self, model: Any) -> Iterator[None]:
        self.n_unsharded += 1
        yield


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunContext:
    monkeypatch.chdir(tmp_path)
    task = PLUGINS.registry.get("task", "letters").build(letters_config(PLUGINS).config.task)
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    task.learn(folder)
    return RunContext(task, 1, CPU, PLUGINS, Noting(), folder, OtherRuns(tmp_path, World(), PLUGINS))


@pytest.fixture
def model(tmp_path: Path) -> Seq2Seq:
    torch.manual_seed(0)
    return build(letters_config(PLUGINS), PLUGINS, tmp_path / "other")


@pytest.mark.parametrize(("spec", "beam"), [("beam", 4), ({"name": "beam", "beam": 2}, 2)], ids=str)
def test_a_search_finds_what_it_finds_by_itself(context: RunContext, model: Seq2Seq, spec: Any, beam: int) -> None:
    batch = make_batch(PAIRS, context.vocab)
    decode, own = context.search(spec, "objective.search"), BeamSearch(BeamConfig(beam=beam))
    model.train()
    for nbest in (1, 2):
        found = decode(model, batch, nbest) if nbest > 1 else decode(model, batch)
        model.eval()
        expected = find(own, model, batch.src, batch.src_pad, context.vocab, nbest=nbest)
        model.train()
        assert found == [[one.tokens for one in of] for of in expected]
        assert [len(of) for of in found] == [nbest] * 3
    assert model.training


def test_the_model_is_put_together_in_training_as_validation_has_done_it(context: RunContext, model: Seq2Seq) -> None:
    decode, strategy = context.search("greedy", "objective.search"), context.sharding
    for training in (True, False):
        decode(model.train(training), make_batch(PAIRS, context.vocab))
        assert strategy.n_unsharded == 1  # type: ignore[attr-defined]


def test_a_search_that_draws_draws_anew_from_the_generator_of_torch(context: RunContext, model: Seq2Seq) -> None:
    decode, batch = context.search("sample", "objective.search"), make_batch(PAIRS * 5, context.vocab)
    torch.manual_seed(7)
    first, second = decode(model, batch), decode(model, batch)
    torch.manual_seed(7)
    assert decode(model, batch) == first != second


@pytest.mark.parametrize("spec", [5, None, {}, {"beam": 2}, {"name": 3}], ids=str)
def test_a_search_has_a_name(context: RunContext, spec: Any) -> None:
    with pytest.raises(ConfigError, match=r"^objective\.search=.*: give a name, or a name with options: \{name: "):
        context.search(spec, "objective.search")


def test_an_option_that_a_search_lacks_is_named_where_it_was_given(context: RunContext) -> None:
    with pytest.raises(ConfigError, match=r"^objective\.search\.bem: no such option\. Did you mean 'beam'\?$"):
        context.search({"name": "beam", "bem": 3}, "objective.search")


def test_a_metric_has_the_options_of_the_task_unless_it_is_given_others(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    hyps, refs = ["the cat sat", "A dog"], ["the cat sat down", "a dog"]
    monkeypatch.setattr(context.task, "metric_options", {"lowercase": True, "of_another": 1})
    for given, lowercase in (("chrf", True), ({"name": "chrf", "lowercase": False}, False)):
        metric = context.metric(given, "objective.metric")
        entry = PLUGINS.registry.get("metric", "chrf")
        own = entry.build(entry.config(name="chrf", lowercase=lowercase))
        assert metric(hyps, refs) == [float(next(iter(one.values()))) for one in own.per_sentence(hyps, [refs])]
        assert metric.higher_is_better is own.higher_is_better is True


def test_the_model_of_another_run_is_frozen(context: RunContext) -> None:
    weights = make_run(run_path("x"), PLUGINS, [1, 2])
    for name, step in (("x", 2), ("x@step-000001", 1)):
        loaded = context.load_run(name, "objective.teacher")
        assert torch.equal(loaded.embed.weight, weights[step]["embed.weight"])  # type: ignore[union-attr, arg-type]
        assert not loaded.training
        assert not any(p.requires_grad for p in loaded.parameters())


@pytest.mark.parametrize("names", ["xy", "yx"])
def test_a_resumed_run_reads_the_checkpoints_with_which_it_began(context: RunContext, names: str) -> None:
    """Not those of updates that the other runs have made since."""
    begun = {}
    for run, step in (("x", 1), ("y", 2)):
        make_run(run_path(run), PLUGINS, [step])
        begun[run] = _embedding(context.load_run(run, "objective.teachers"))
        _save_again(run_path(run), 3)
    _has_begun(context.other_runs.directory)
    resumed = replace(context, other_runs=replace(context.other_runs, loaded={}))
    for name in names:
        assert torch.equal(_embedding(resumed.load_run(name, "objective.teachers")), begun[name])


def test_a_run_that_begins_anew_reads_the_newest_checkpoint(context: RunContext) -> None:
    """One that has no checkpoint of its own."""
    make_run(run_path("x"), PLUGINS, [1])
    first = context.load_run("x", "objective.teachers")
    _save_again(run_path("x"), 2)
    assert not torch.equal(_embedding(context.load_run("x", "objective.teachers")), _embedding(first))


def test_a_checkpoint_that_was_replaced_since_is_refused(context: RunContext) -> None:
    make_run(run_path("x"), PLUGINS, [1])
    context.load_run("x", "objective.teachers")
    _has_begun(context.other_runs.directory)
    _save_again(run_path("x"), 1)
    with pytest.raises(ConfigError, match=r"^objective\.teachers=x: .*step-000001 has changed since this run began"):
        context.load_run("x", "objective.teachers")


def test_ranks_must_read_the_same_checkpoint(context: RunContext) -> None:
    class OfTwo(World):
        def all_gather(self, value: Any) -> list[Any]:
            return [value, "another"]

    make_run(run_path("x"), PLUGINS, [1])
    context = replace(context, other_runs=OtherRuns(context.other_runs.directory, OfTwo(), PLUGINS))
    with pytest.raises(ConfigError, match=r"^the ranks found different checkpoints of objective\.teachers=x, such as"):
        context.load_run("x", "objective.teachers")


def _embedding(model: Seq2Seq) -> torch.Tensor:
    weight: torch.Tensor = model.embed.weight  # type: ignore[union-attr, assignment]
    return weight


def _save_again(run: Path, step: int) -> None:
    """Save a checkpoint of other weights, in place of one that the run has of the same step."""
    folder = run / "checkpoints"
    weights = checkpoint.load(checkpoint.steps(folder)[-1]).tensors["model"]
    others = {name: torch.randn_like(tensor) for name, tensor in weights.items()}
    checkpoint.save(folder, checkpoint.step_name(step), {"model": others}, {"step": step})


def _has_begun(run: Path) -> None:
    checkpoint.save(run / "checkpoints", checkpoint.step_name(1), {"model": {"x": torch.zeros(1)}}, {"step": 1})


def test_another_run_must_have_the_same_tokeniser(context: RunContext) -> None:
    make_run(run_path("x"), PLUGINS, [1])
    (context.tokenizer / "letters.txt").write_text("acb")
    with pytest.raises(ConfigError, match=r"^objective\.teacher=x: its vocabulary is not that of this run; train both"):
        context.load_run("x", "objective.teacher")


def test_another_run_must_have_the_same_vocabulary(context: RunContext, tmp_path: Path) -> None:
    """As of a task that reads its tokeniser otherwise."""
    make_run(run_path("x"), PLUGINS, [1])
    other = tmp_path / "longer"
    other.mkdir()
    (other / "letters.txt").write_text("abcd")
    context.task.load(other)
    with pytest.raises(ConfigError, match="its vocabulary is not that of this run"):
        context.load_run("x", "objective.teacher")


def test_another_run_must_be_there(context: RunContext) -> None:
    with pytest.raises(
        ConfigError, match=r"^objective\.teacher=x: no such run.*\(the objective needs this run whenever"
    ):
        context.load_run("x", "objective.teacher")


def test_outputs_are_written_as_text_source_by_source(context: RunContext) -> None:
    batch = make_batch(PAIRS, context.vocab)
    assert context.texts(batch, [[[4, 5]], [[6], [4]], [[]]]) == [["ab"], ["c", "a"], [""]]
    with pytest.raises(ValueError, match="argument"):
        context.texts(batch, [[[4]]])
