"""recipe=auto for trees: the experiment that was measured on a treebank of that size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from s2s.cli.train import main
from s2s.compose import compose, flatten
from s2s.config import Config
from s2s.io.json_files import read_record
from s2s.plugin import load_plugins
from s2s_plan import Hardware

if TYPE_CHECKING:
    from pathlib import Path

PLUGINS = load_plugins()
CPU = Hardware("cpu", 1, 1, 1e11, 5e10, 20 * 2**30)
SMALL = ["task=parsing", "task.trees=60", "train.threads=1", "log.tensorboard=false", "run=x"]


@pytest.mark.parametrize(
    ("n_trees", "experiment"),
    [
        (100, "wsj_sample"), (2_998, "wsj_sample"), (14_326, "genia"), (25_947, "craft"), (43_000, "treebanks"),
        (11_000_000, ""),
    ],
)  # fmt: skip
def test_a_treebank_gets_what_was_measured_on_one_of_its_size(n_trees: int, experiment: str) -> None:
    config = compose(Config, ["task=parsing"], PLUGINS).config.task
    assert PLUGINS.registry.get("task", "parsing").build(config).recommended_experiment(n_trees) == experiment


@pytest.mark.parametrize("experiment", ["wsj_sample", "genia", "craft"])
def test_a_recommended_experiment_gives_the_options_of_the_named_one(experiment: str) -> None:
    given = ["task.train=a.mrg", "task.valid=b.mrg"]
    named = compose(Config, [f"experiment={experiment}", *given], PLUGINS)
    advised = compose(Config, ["task=parsing", *given], PLUGINS, experiment=experiment)
    assert flatten(advised.config) == flatten(named.config)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that need not be measured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("s2s_plan.planning.measure", lambda *_: CPU)


def test_trees_get_the_guide_by_default(tmp_path: Path) -> None:
    small = [*SMALL, "valid.sentences=4", "search.max_len_b=5"]  # a model that has learnt nothing writes long trees
    assert main([*small, "train.steps=2"]) == 0
    resolved = (tmp_path / "runs/x/resolved.yaml").read_text()
    assert re.search(r"linear: in_order +# preset experiment=wsj_sample", resolved)
    assert re.search(r"guide: stack +# preset arch=rnn_parsing", resolved)
    decisions = {one["key"]: one["reason"] for one in read_record(tmp_path / "runs/x/plan.json")["decisions"]}
    assert decisions["experiment"] == "recommended by the task for 60 pairs"
    assert "evalb" in (tmp_path / "runs/x/train.log").read_text(), "validation shows F1"
    assert main([*small, "train.steps=3"]) == 0, "the same command goes on with the same plan"


@pytest.mark.parametrize(
    ("given", "guided"),
    [("arch.n_heads=2", False), ("task.word_ends=number", False), ("arch.d_model=32", True), ("search=greedy", True)],
)
def test_options_that_exclude_the_experiment_win(given: str, guided: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that fit it change it."""
    assert main([*SMALL, given, "--print-config"]) == 0
    shown = capsys.readouterr().out
    assert ("guide: stack" in shown) is ("preset experiment=wsj_sample" in shown) is guided
    assert re.search(rf"{given.rpartition('.')[2].split('=')[0]}|name: greedy", shown)
