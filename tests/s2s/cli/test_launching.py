"""s2s-train in this process, or in those that a plugin starts."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from s2s.cli import train as command
from s2s.cli.command import Options
from s2s.config import Config, TrainConfig
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

ARGUMENTS = ["task=x", "--quiet"]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """Trainings in this process, which end with code 7, in the place of real ones."""
    calls = list[Options]()
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(command, "train", lambda composed, plugins, options: calls.append(options) or 7)
    monkeypatch.setattr(command, "check_files", lambda config, plugins: None)
    return calls


@dataclass(kw_only=True)
class NamedStrategy(TrainConfig):
    """The options of a plugin with strategies."""

    strategy: str = "mine"


def launched(code: int | None, train: TrainConfig) -> tuple[int, list[Any]]:
    """The exit code, and with which arguments a strategy was called, whose processes end with this code."""
    calls = list[Any]()
    registry = Registry()
    strategy = SimpleNamespace(launch=lambda train, arguments: calls.append(arguments) or code)
    registry.add("strategy", "mine", Choice, lambda _: strategy)
    plugins: Any = SimpleNamespace(registry=registry)
    composed: Any = SimpleNamespace(config=Config(train=train))
    return command.train_or_launch(composed, plugins, Options(quiet=True), ARGUMENTS), calls


@pytest.mark.parametrize("code", [0, 75])
def test_where_a_strategy_starts_processes_their_exit_code_counts(trained: list[Options], code: int) -> None:
    assert launched(code, NamedStrategy()) == (code, [ARGUMENTS])
    assert trained == []


def test_otherwise_this_process_trains(trained: list[Options]) -> None:
    assert launched(None, NamedStrategy()) == (7, [ARGUMENTS])
    assert launched(0, TrainConfig()) == (7, []), "no plugin has added train.strategy"
    assert trained == 2 * [Options(quiet=True)]


def test_what_torchrun_has_started_starts_no_others(trained: list[Options], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert launched(0, NamedStrategy()) == (7, [])
    assert len(trained) == 1


@pytest.mark.parametrize(("dry_run", "code"), [(True, 3), (False, 4)])
def test_training_joins_the_others_and_leaves_them_also_after_an_error(
    monkeypatch: pytest.MonkeyPatch, dry_run: bool, code: int
) -> None:
    closed, joined = list[bool](), list[Any]()
    world = SimpleNamespace(close=lambda: closed.append(True), size=1)

    def join(train: TrainConfig, registry: Any) -> Any:
        joined.append((train, registry))
        return world

    @contextmanager
    def handling(self: Any) -> Iterator[Any]:
        yield self

    monkeypatch.setattr(command, "join", join)
    monkeypatch.setattr("s2s.cli.train.StopSignal.handling", handling)
    monkeypatch.setattr("s2s.training.session.dry_run", lambda composed, plugins, world: 3)
    monkeypatch.setattr("s2s.training.session.run_training", lambda composed, plugins, world, stop, *, quiet: 3 + quiet)
    composed: Any = SimpleNamespace(config=Config(train=TrainConfig(device="cpu", timeout=5.0)))
    plugins: Any = SimpleNamespace(registry="the registry")
    assert command.train(composed, plugins, Options(dry_run=dry_run, quiet=True)) == code
    assert (joined, closed) == ([(composed.config.train, "the registry")], [True])
    monkeypatch.setattr("s2s.training.session.run_training", lambda *_, quiet: 1 / 0)
    monkeypatch.setattr("s2s.training.session.dry_run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command.train(composed, plugins, Options(dry_run=dry_run))
    assert len(closed) == 2


def test_a_configuration_is_printed_as_a_planner_completes_it() -> None:
    planner = SimpleNamespace(configure=lambda composed, world: (composed, world))
    plugins: Any = SimpleNamespace(hook=SimpleNamespace(s2s_plan=lambda config, plugins: planner))
    composed: Any = SimpleNamespace(config="as given")
    assert command._shown(composed, plugins) == (composed, None)


@pytest.mark.parametrize(("argv", "arguments"), [(["a", "b"], ["a", "b"]), (None, ["c", "d"])])
def test_the_arguments_are_those_of_the_call_or_of_the_process(
    monkeypatch: pytest.MonkeyPatch, argv: list[str] | None, arguments: list[str]
) -> None:
    """They go on to processes that a plugin starts; without any, `run_command` reads those of the process itself."""
    calls = list[Any]()
    monkeypatch.setattr("sys.argv", ["s2s-train", "c", "d"])
    monkeypatch.setattr(command, "train_or_launch", lambda *of: calls.append(of) or 5)
    monkeypatch.setattr(command, "run_command", lambda schema, main, given, shown: (given, main(schema, 1, 2)))
    assert command.main(argv) == (argv, 5)
    assert calls == [(Config, 1, 2, arguments)]
