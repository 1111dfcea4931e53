"""The tables of the reference against the functions and classes themselves."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import re
from functools import cache
from typing import Any

import pytest

import s2s.api
from harness.folders import ROOT
from s2s.trained_model import TrainedModel

griffe: Any = pytest.importorskip("griffe", reason="griffe comes with the extra docs")
EXTENSION = ROOT / "docs" / "site" / "parameters.py"
METHODS = [name for name, value in vars(TrainedModel).items() if inspect.isfunction(value) and name[0] != "_"]
CALLED = [*(f"api.{name}" for name in s2s.api.__all__), *(f"trained_model.TrainedModel.{name}" for name in METHODS)]
"""What a program calls"""
STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


@cache
def package() -> Any:
    return griffe.load("s2s", search_paths=[str(ROOT)], extensions=griffe.load_extensions(str(EXTENSION)))


def rows(name: str) -> dict[str, list[str]]:
    """Name -> type, default and meaning, in the table of what is called s2s.`name`."""
    lines = [line.strip("| ") for line in package()[name].docstring.value.splitlines() if line.startswith("| `")]
    cells = [[cell.strip(" `") for cell in re.findall(r"(?:`[^`]*`|[^|`])+", line)] for line in lines]
    return {first: rest for first, *rest in cells}


def named(name: str) -> Any:
    module, *attributes = name.split(".")
    found: Any = importlib.import_module(f"s2s.{module}")
    for attribute in attributes:
        found = getattr(found, attribute)
    return found


@pytest.mark.parametrize("name", [*CALLED, "registry.Registry.add", "batch.make_batch", "model.Seq2Seq.step"])
def test_a_function_has_a_row_for_each_parameter_with_its_default_and_meaning(name: str) -> None:
    parameters = [one for one in inspect.signature(named(name)).parameters.values() if one.name != "self"]
    found = rows(name)
    assert list(found) == [STARS.get(one.kind, "") + one.name for one in parameters]
    for parameter, (kind, default, meaning) in zip(parameters, found.values(), strict=True):
        assert kind.replace('"', "'") == str(parameter.annotation).replace('"', "'")
        assert meaning, parameter.name
        if parameter.kind not in STARS:
            required = parameter.default is parameter.empty
            assert default == "required" if required else ast.literal_eval(default) == parameter.default


def test_a_method_without_a_meaning_has_that_of_its_class_or_base() -> None:
    assert rows("registry.Registry.arch")["config"] == rows("registry.Registry.add")["config"]
    assert rows("model.Seq2Seq.attention_maps")["pad"] == rows("model.Seq2Seq.encode")["pad"]
    assert rows("nn.kv_cache.KVCacheState.select")["rows"] == rows("model.State.select")["rows"]
    assert len(rows("model.State.select")["rows"]) == 3, "type, default and meaning"


@pytest.mark.parametrize("name", ["batch.Batch", "trained_model.PairAttention", "registry.Entry"])
def test_a_data_class_has_a_row_for_each_field(name: str) -> None:
    assert list(rows(name)) == [field.name for field in dataclasses.fields(named(name))]
    assert not any(field in package()[name].members for field in rows(name)), "no paragraphs beside the table"


def test_a_meaning_ends_with_its_paragraph_or_before_the_next_parameter() -> None:
    spec = importlib.util.spec_from_file_location("parameters", EXTENSION)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = "What is returned; c: at\nthe end.\n\na: one, with b. b: two: of\nthem.\n\n`d`: three.\n\nNote: this stays."
    assert module.described(text, ["a", "b", "c", "d"]) == (
        "What is returned.\n\nNote: this stays.",
        {"a": "one, with b.", "b": "two: of\nthem.", "c": "at\nthe end.", "d": "three."},
    )
