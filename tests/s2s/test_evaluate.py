"""Scores from Python: how references are given, and what is requested of metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import s2s
from s2s import api
from s2s.errors import DataError, S2SError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a metric is called with, in the place of those that are named."""
    calls = list[Any]()

    class Noting:
        name = "noting"

        def scored(self, *arguments: Any) -> str:
            calls.append(arguments)
            return "its score"

    def build(task: Any, registry: Any, metrics: Any, options: Any) -> list[Any]:
        calls.append((task.config.name, metrics, options))
        return [Noting()]

    monkeypatch.setattr(api, "build_metrics", build)
    return calls


@pytest.mark.parametrize(
    ("hyps", "refs", "several"),
    [
        (["a", "b"], ["c", "d"], [["c", "d"]]),
        (["a", "b"], [["c", "d"], ["e", "f"]], [["c", "d"], ["e", "f"]]),
        (["a", "b"], (("c", "d"),), [["c", "d"]]),
        (["a", None], ["c", float("nan")], [["c", ""]]),
        (["a", "b"], [["c", None], ["e", "f"]], [["c", ""], ["e", "f"]]),
        (iter(["a", "b"]), iter(["c", "d"]), [["c", "d"]]),
        (iter(["a", "b"]), (iter(side) for side in ("cd", "ef")), [["c", "d"], ["e", "f"]]),
    ],
    ids=["one", "two", "tuples", "missing", "missing of two", "iterators", "iterators of two"],
)
def test_an_output_has_one_reference_or_several(asked: list[Any], hyps: Any, refs: Any, several: Any) -> None:
    assert s2s.evaluate(hyps, refs, task="translation", metrics="bleu", lowercase=True) == {"noting": "its score"}
    outputs = ["a", "" if isinstance(hyps, list) and None in hyps else "b"]
    assert asked == [("translation", "bleu", {"lowercase": True}), (outputs, several, 1000, 12345)]


@pytest.mark.parametrize(
    ("hyps", "refs", "options", "said"),
    [
        ([], [], {}, "there is nothing to score: no outputs are given"),
        ("ab", ["a", "b"], {}, "outputs are a list of texts, not str"),
        (None, None, {}, "outputs are a list of texts, not NoneType"),
        (["a"], "a", {}, "references are a list of texts, not str"),
        (["a", 3], ["a", "b"], {}, "output 2 is no text, but int"),
        (["a", "b"], [["a", "b"], ["a", 3]], {}, "reference 2 is no text, but int"),
        (["a"], ["a"], {"samples": -1}, "samples=-1 must be a number from 0 up"),
        (["a"], ["a"], {"samples": "x"}, "samples='x' must be a number from 0 up"),
    ],
)
def test_what_cannot_be_scored_is_refused(hyps: Any, refs: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(S2SError) as caught:
        s2s.evaluate(hyps, refs, task="translation", **options)
    assert str(caught.value) == said


def test_intervals_are_of_so_many_samples_with_a_seed(asked: list[Any]) -> None:
    s2s.evaluate(["a"], ["b"], task="translation", samples=0, seed=3)
    assert asked == [("translation", None, {}), (["a"], [["b"]], 0, 3)]


@pytest.mark.parametrize("refs", [["c"], [["c", "d"], ["e"]]])
def test_each_output_needs_its_reference(refs: Any) -> None:
    with pytest.raises(DataError, match=r"^2 outputs and 1 references; give one for each$"):
        s2s.evaluate(["a", "b"], refs, task="translation")


@pytest.mark.parametrize(
    ("options", "path", "given"),
    [
        ({"run": "x"}, "runs/x", ["task=translation", "run=x"]),
        ({"run": "x", "quiet": True}, "runs/x", ["task=translation", "run=x", "--quiet"]),
        ({}, "runs/translation-rnn", ["task=translation"]),
    ],
    ids=str,
)
def test_training_is_that_of_the_command_and_gives_its_directory(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], path: str, given: list[str]
) -> None:
    calls, codes = list[Any](), iter([0, 1])
    composed = SimpleNamespace(
        config=SimpleNamespace(run=options.get("run", "")), chosen={"task": "translation", "arch": "rnn"}
    )
    plugins = SimpleNamespace(hook=SimpleNamespace(s2s_plan=lambda config, plugins: None))
    monkeypatch.setattr(api, "_composed", lambda schema, arguments: (composed, plugins))
    monkeypatch.setattr("s2s.cli.train.train_or_launch", lambda *of: calls.append(of[2:]) or next(codes))
    assert str(s2s.train("task=translation", **options)) == path
    ((flags, arguments),) = calls
    assert (flags.quiet, flags.dry_run, arguments) == (options.get("quiet", False), False, given)
    with pytest.raises(S2SError, match=rf"^training in {path} ended with exit code 1; the log there says why$"):
        s2s.train("task=translation", **options)
