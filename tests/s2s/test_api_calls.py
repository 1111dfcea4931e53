"""What s2s from Python passes on, with stand-ins for the models, the training and the metrics."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import s2s
import s2s.api
import s2s.cli.train
import s2s.trained_model
from s2s.cli.command import Options
from s2s.errors import S2SError
from s2s.plugin import load_plugins

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    ("run", "written"),
    [("x", "run=x"), (Path("runs/x"), "run=runs/x"), (["x", Path("y")], "run=[x, y]"), (("x",), "run=[x]")],
    ids=["name", "path", "list", "tuple"],
)
def test_a_run_is_loaded_with_options_as_on_the_command_line(
    run: Any, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s2s.trained_model, "TrainedModel", lambda given, plugins: (given, plugins.registry))
    given, registry = s2s.api.load(run, "search.beam=8", device="cpu")  # type: ignore[misc]
    assert given == ["search.beam=8", written, "device=cpu"]
    assert "beam" in registry.names("search")


def test_a_module_of_ones_own_is_loaded_with_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    monkeypatch.setattr(s2s.trained_model, "TrainedModel", lambda _, plugins: plugins.loaded)
    assert str(tmp_path / "mine.py") in s2s.api.load("x", plugins=[str(tmp_path / "mine.py")])  # type: ignore[operator]


@pytest.mark.parametrize(("options", "name"), [({"run": "mine"}, "mine"), ({}, "translation-transformer_tiny")])
@pytest.mark.parametrize(("quiet", "flags"), [(None, []), (False, []), (True, ["--quiet"])])
def test_training_takes_options_and_says_where_the_run_is(
    options: dict[str, Any], name: str, quiet: bool | None, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(s2s.cli.train, "train_or_launch", lambda *given: calls.append(given) or 0)
    own = {} if quiet is None else {"quiet": quiet}
    path = s2s.api.train("task=translation", arch="transformer_tiny", train={"steps": 7}, **options, **own)
    ((composed, _, flags_of_command, arguments),) = calls
    assert path.name == name
    assert composed.config.train.steps == 7
    assert flags_of_command == Options(quiet=bool(quiet))
    given = [f"run={value}" for value in options.values()]
    assert arguments == ["task=translation", "arch=transformer_tiny", "train.steps=7", *given, *flags]


def test_a_training_that_fails_is_an_error_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s2s.cli.train, "train_or_launch", lambda *_: 75)
    with pytest.raises(S2SError, match=r"^training in .*mine ended with exit code 75; the log there says why"):
        s2s.api.train("task=translation", "arch=transformer_tiny", run="mine")


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What two metrics are asked; the options with which they are built come first."""
    calls: list[Any] = []

    def build(task: Any, registry: Any, names: Any, options: Any) -> list[Any]:
        calls.append((task.config.name, names, options))
        return [Stand("a"), Stand("b")]

    class Stand(SimpleNamespace):
        def __init__(self, name: str) -> None:
            super().__init__(name=name)

        def scored(self, *given: Any) -> str:
            calls.append(given)
            return f"score of {self.name}"

    monkeypatch.setattr(s2s.api, "build_metrics", build)
    return calls


@pytest.mark.parametrize(
    ("hyps", "refs", "several"),
    [
        (["x", "y"], ["r", "s"], [["r", "s"]]),
        (["x", "y"], (["r", "s"], ["t", "u"]), [["r", "s"], ["t", "u"]]),
    ],
    ids=["one reference", "two"],
)
def test_every_metric_gets_all_references(hyps: list[str], refs: Any, several: Any, scored: list[Any]) -> None:
    found = s2s.api.evaluate(hyps, refs, task="translation", metrics=["a", "b"], lowercase=True)
    assert found == {"a": "score of a", "b": "score of b"}
    assert scored == [("translation", ["a", "b"], {"lowercase": True}), *2 * [(hyps, several, 1000, 12345)]]


def test_samples_and_seed_of_the_bootstrap_may_be_given(scored: list[Any]) -> None:
    s2s.api.evaluate(["x"], ["r"], task={"name": "translation"}, samples=0, seed=3)
    assert scored == [("translation", None, {}), *2 * [(["x"], [["r"]], 0, 3)]]


@pytest.mark.parametrize("refs", [["r"], [["r", "s"], ["t"]]], ids=["one reference", "the second of two"])
def test_each_output_has_its_references(refs: Sequence[Any], scored: list[Any]) -> None:
    with pytest.raises(s2s.DataError, match=r"^2 outputs and 1 references; give one for each$"):
        s2s.api.evaluate(["x", "y"], refs, task="translation")
    assert scored == []


def test_plugins_and_presets_are_listed_by_group() -> None:
    registry = load_plugins().registry
    found = s2s.api.plugins()
    assert {*registry.groups, "experiment"} <= set(found)
    assert found["search"] == registry.names("search")
    assert "demo" in found["experiment"]
