"""What is refused, and what is reported, before the first update."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.small_runs import PLUGIN, letters_config
from harness.sorting_runs import train
from s2s.backend.selection import BackendSelection
from s2s.cli.train import main
from s2s.distributed import World
from s2s.errors import ConfigError, DataError, PluginError
from s2s.model import Seq2Seq
from s2s.plugin import load_plugins
from s2s.training import build
from s2s.training.trial import trial_run

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from s2s.training.trainer import Trainer

LEARNED = ["arch.positions=learned", "arch.max_positions=6", "train.steps=1"]  # sorting has up to 6 digits, and eos


@pytest.mark.parametrize(
    ("max_len", "says"),
    [
        (7, "data.max_len=7, but arch=transformer takes at most 6 tokens here; give data.max_len=6"),
        (6, "a sentence of the development set has 7 tokens, but arch=transformer takes at most 6"),
    ],
)
def test_a_sentence_that_the_model_cannot_take_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], max_len: int, says: str
) -> None:
    assert train(tmp_path, *LEARNED, f"data.max_len={max_len}") == 2
    out, err = capsys.readouterr()
    assert says in err
    assert "update 1" not in out


RATES = """from s2s import Choice, hookimpl

@hookimpl
def s2s_register(registry):
    registry.schedule("mine", Choice, lambda config: lambda step: 0.01 if step < 2 else float("{rate}"))
"""


@pytest.mark.parametrize("rate", ["nan", "-1e-3", "inf"])
def test_a_schedule_that_gives_an_impossible_rate_is_named_before_the_update(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rate: str
) -> None:
    plugin = tmp_path / "rates.py"
    plugin.write_text(RATES.format(rate=rate))
    options = ["task=letters", "arch=tiny", "schedule=mine", "train.steps=3", "train.tokens=9"]
    places = [f"run={tmp_path / 'run'}", f"data.prepared={tmp_path / 'prepared'}"]
    assert main([f"plugins=[{PLUGIN},{plugin}]", *options, *places]) == 2
    said = f"error: schedule=mine gives update 2 the learning rate {float(rate)}; it must be finite and not negative"
    assert said in capsys.readouterr().err


def test_a_missing_development_set_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [f"run={tmp_path / 'run'}", f"data.prepared={tmp_path / 'prepared'}"]
    assert main([f"plugins=[{PLUGIN}]", "task=letters", "arch=tiny", "train.steps=1", "train.tokens=9", *places]) == 0
    assert "no development set is given" in capsys.readouterr().out


def test_what_was_asked_for_is_shown_as_it_can_be_given_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path, "train.steps=1", "valid.score=false", "train.clip=null") == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("config"))
    assert {"arch=transformer_tiny", "valid.score=false", "train.clip=null", "search=greedy"} <= set(line.split("  "))


STRANGER = """
from s2s.distributed.sharding import OneProcess
from s2s.plugin import hookimpl
from s2s.registry import Choice
from s2s.training import Planner

class Apart(OneProcess):
    def __init__(self, *arguments):
        self.arguments = arguments

class Alone:
    def __init__(self, config):
        self.name = config.name

    def share(self, world, dtype):
        return Apart(self.name, world.size, str(dtype))

@hookimpl
def s2s_register(registry):
    registry.add("strategy", "alone", Choice, Alone)

class Bf16(Planner):
    def precision(self, train_step, corpora, directory):
        return "bf16", f"bf16 for {len(corpora)} corpus"

@hookimpl(tryfirst=True)
def s2s_plan(plugins):
    return Bf16(plugins)
"""


def built(folder: Path, *arguments: str, world: World | None = None) -> AbstractContextManager[Trainer]:
    """The trainer of a run of letters, with a plugin that lets each of several processes train by itself."""
    (folder / "stranger.py").write_text(STRANGER)
    plugins = load_plugins([PLUGIN, str(folder / "stranger.py")])
    given = ["train.tokens=25", "train.strategy=alone", f"data.prepared={folder / 'prepared'}", *arguments]
    return trial_run(letters_config(plugins, *given).config, plugins, world or World())


@pytest.mark.parametrize(
    ("forward", "rate"), [(1e13 / 3, 14.0), (3.3e12, 0.0), (None, 0.0)], ids=["long", "short", "not counted"]
)
def test_the_speed_of_the_machine_is_measured_for_a_run_of_1e13_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forward: float | None, rate: float
) -> None:
    """One update of 25 tokens, which is a typical sentence; backward has two operations for each one of forward."""
    lengths = list[tuple[list[int], list[int]]]()
    monkeypatch.setattr(Seq2Seq, "forward_operations", lambda _, src, tgt: lengths.append((src, tgt)) or forward)
    monkeypatch.setattr(build, "matmul_rate", lambda device, dtype: 7.0)
    with built(tmp_path, "train.steps=1", world=World(size=2)) as trainer:
        assert trainer.peak_flops == rate
    assert lengths == [([25], [25])]


@pytest.mark.parametrize(
    ("given", "forward", "n_threads", "of_two"),
    [
        ([], 2e9 - 1, 1, 1),
        ([], 4e9, 2, 1),
        ([], 1e12, 3, 3),
        ([], None, 3, 3),
        (["train.threads=5"], 1.0, 5, 5),
        (["train.micro_tokens=10"], 10e9, 2, 2),
        (["train.micro_tokens=99"], 4e9, 2, 1),
    ],
    ids=["too little", "twice", "as many as there are", "not counted", "given", "a part at once", "all at once"],
)
def test_an_update_has_no_more_threads_than_work_for_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    forward: float | None,
    n_threads: int,
    of_two: int,
) -> None:
    """An update of 25 tokens, which is a typical sentence, on a machine of three cores; also divided between two
    processes."""
    monkeypatch.setattr(Seq2Seq, "forward_operations", lambda _, src, tgt: forward)
    monkeypatch.setattr("s2s.backend.host.usable_cores", lambda: 3)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        with built(tmp_path, "train.steps=1", "data.max_len=9", *given):
            assert torch.get_num_threads() == n_threads
        assert torch.get_num_threads() == 4, "a trial run does not limit the run after it"
        with built(tmp_path, "train.steps=1", "data.max_len=9", *given, world=World(size=2)):
            assert torch.get_num_threads() == of_two
    finally:
        torch.set_num_threads(before)


def test_a_strategy_is_built_for_several_processes_and_one_holds_all_of_the_model(tmp_path: Path) -> None:
    with built(tmp_path, "train.precision=bf16", world=World(size=2)) as trainer:
        assert trainer.train_step.sharding.arguments == ("alone", 2, "torch.bfloat16")  # type: ignore[attr-defined]
    with built(tmp_path) as trainer:
        assert not hasattr(trainer.train_step.sharding, "arguments")
    with pytest.raises(ConfigError, match=r"^train\.strategy=alnoe: no such strategy\. Known: .*alone"):
        built(tmp_path, "train.strategy=alnoe").__enter__()


@pytest.mark.parametrize("names", [("loss",), ("a", "kl", "kl"), ("a", "bleu"), ("chrf", "bleu")])
def test_an_objective_whose_value_has_the_name_of_another_in_the_log_is_refused(names: tuple[str, ...]) -> None:
    objective: Any = SimpleNamespace(extras=names)
    with pytest.raises(PluginError, match=rf"^objective=mine: its extra value '{names[-1]}' has the name of "):
        build.check_names_free(objective, "mine", ["bleu", "ter"])
    build.check_names_free(SimpleNamespace(extras=("a", "kl", "chrf")), "mine", ["bleu", "ter"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["nll", "ppl", "step", "best"])
def test_a_metric_that_has_the_name_of_another_value_in_the_log_is_refused(name: str) -> None:
    objective: Any = SimpleNamespace(extras=())
    with pytest.raises(PluginError, match=rf"^metric '{name}' has the name of another value in the log"):
        build.check_names_free(objective, "mine", ["bleu", name])


@pytest.mark.parametrize(("local_rank", "verifies"), [(0, True), (1, False)])
def test_one_process_of_each_machine_verifies_the_prepared_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local_rank: int, verifies: bool
) -> None:
    prepare, asked = build.prepare, list[bool]()
    monkeypatch.setattr(build, "prepare", lambda *a, **b: asked.append(b["verify"]) or prepare(*a, **b))
    with built(tmp_path, world=World(rank=2, size=4, local_rank=local_rank)):
        assert asked == [verifies]


@pytest.mark.parametrize(("device", "n_calls"), [("cpu", 1), ("meta", 0)])
def test_freed_memory_is_kept_where_the_model_computes_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, device: str, n_calls: int
) -> None:
    calls = list[int]()
    monkeypatch.setattr(build, "keep_freed_memory", partial(calls.append, 1))
    monkeypatch.setattr(build._Builder, "trainer", lambda _: None)
    unused: Any = None
    config = letters_config(load_plugins([PLUGIN])).config
    build.build_trainer(config, unused, World(device=torch.device(device)), unused, unused)
    assert len(calls) == n_calls


@pytest.mark.parametrize("corpora", [[], [("full", 0.0)], [("empty", 1.0)], [("empty", 1.0), ("full", 0.0)]], ids=str)
def test_a_run_needs_a_pair_that_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpora: list[tuple[str, float]]
) -> None:
    prepare, mapped = build.prepare, {"full": ["a pair"], "empty": []}

    def with_these(*arguments: Any, **options: Any) -> Any:
        return replace(prepare(*arguments, **options), train=[(mapped[name], weight) for name, weight in corpora])

    monkeypatch.setattr(build, "prepare", with_these)
    with pytest.raises(DataError, match=r"^task=letters has no training data; give task\.train=…"):
        built(tmp_path).__enter__()


@pytest.mark.parametrize("static", [False, True])
def test_a_model_is_compiled_whole_where_its_batches_have_one_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, static: bool
) -> None:
    options = list[dict[str, bool]]()
    monkeypatch.setattr(Seq2Seq, "compile", lambda _, **given: options.append(given))
    monkeypatch.setattr(BackendSelection, "static_shapes", static)
    with built(tmp_path, "train.compile=true"):
        pass
    assert options == [{"dynamic": not static, "fullgraph": static}]


def test_a_plugin_chooses_the_precision_where_it_is_asked_for(tmp_path: Path) -> None:
    with built(tmp_path, "train.precision=auto") as trainer:
        assert trainer.config.train.precision == trainer.train_step.config.precision == "bf16"
        assert ("data", "bf16 for 1 corpus") in trainer.facts
    with built(tmp_path, "train.precision=fp32") as trainer:
        assert trainer.config.train.precision == "fp32"


@pytest.mark.parametrize(("rank", "shown"), [(0, "a line\n"), (1, "")])
def test_of_several_processes_the_first_one_shows_a_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rank: int, shown: str
) -> None:
    with built(tmp_path, world=World(rank=rank, size=2)) as trainer:
        capsys.readouterr()
        trainer.log.info("a line")
    assert capsys.readouterr().out == shown


def test_without_a_plugin_that_measures_it_a_precision_must_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "plan")
    plugins = load_plugins([PLUGIN])
    given = ["train.precision=auto", f"data.prepared={tmp_path / 'prepared'}"]
    with pytest.raises(ConfigError) as caught:
        trial_run(letters_config(plugins, *given).config, plugins, World()).__enter__()
    assert str(caught.value) == (
        "train.precision=auto: no loaded plugin chooses a value; give fp32 or bf16. "
        "Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: plan."
    )


def test_without_a_plugin_that_measures_memory_batches_are_as_large_as_they_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "plan")
    with built(tmp_path, "train.tokens=30", "train.micro_tokens=10") as trainer:
        assert (trainer.config.train.tokens, trainer.config.train.micro_tokens) == (30, 10)
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, "train.tokens=auto").__enter__()
    assert str(caught.value) == (
        "train.tokens=auto: no loaded plugin chooses a value; give a number. "
        "Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: plan."
    )
