"""The public surface is one list, and small: every name on it exists, and what s2s ships imports nothing else."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import s2s
from harness.folders import ROOT
from s2s.hooks import Hooks

if TYPE_CHECKING:
    from pathlib import Path

MAX_NAMES = 276

SOURCES = sorted(p for folder in ("plugins", "tasks", "examples") for p in (ROOT / folder).rglob("*.py"))


def imported(path: Path) -> list[tuple[str, str]]:
    """Module and name of every import from s2s, wherever in the file it stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "s2s":
            found += [(str(node.module), alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "s2s"]
    return found


@pytest.mark.parametrize("name", s2s.PUBLIC)
def test_every_public_name_exists(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert [public for public in module.__all__ if not hasattr(module, public)] == []


@pytest.mark.parametrize("name", [name for name in s2s.PUBLIC if name != "s2s"])
def test_no_module_hides_a_public_name(name: str) -> None:
    """Importing a module sets it as an attribute of its package, in place of what is found lazily."""
    folder = ROOT / name.replace(".", "/")
    below = {path.stem for path in folder.glob("*")}
    package = importlib.import_module(name)
    hidden = below & set(package.__all__)
    assert [each for each in hidden if not isinstance(getattr(package, each), ModuleType)] == []


def test_a_name_that_is_not_public_is_no_attribute_of_a_package() -> None:
    with pytest.raises(AttributeError, match=r"module 's2s' has no attribute 'BeamSearch'"):
        s2s.BeamSearch  # noqa: B018


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_s2s_ships_imports_public_names_only(path: Path) -> None:
    for module, name in imported(path):
        assert module in s2s.PUBLIC, f"{module} is not in s2s.PUBLIC"
        assert not name or name in importlib.import_module(module).__all__, f"{module}.__all__ has no {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_s2s_ships_uses_public_names_of_modules_only(path: Path) -> None:
    """Of a module that another one exports, such as `s2s.backend.operators`, the names in its `__all__` are public."""
    modules = {}
    for module, name in imported(path):
        if isinstance(value := getattr(importlib.import_module(module), name or "__name__", None), ModuleType):
            modules[name] = value
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            assert node.attr in module.__all__, f"{module.__name__}.__all__ has no {node.attr}"


def test_there_are_few_public_names() -> None:
    """Each is a promise; the number may go down."""
    assert sum(len(importlib.import_module(name).__all__) for name in s2s.PUBLIC) <= MAX_NAMES


HOOKS = sorted(name for name in dir(Hooks) if name.startswith("s2s_"))


def test_there_are_few_hooks() -> None:
    assert len(HOOKS) <= 10


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_types(hook: str) -> None:
    annotations = {name: str(hint) for name, hint in getattr(Hooks, hook).__annotations__.items()}
    parameters = set(inspect.signature(getattr(Hooks, hook)).parameters) - {"self"}
    assert annotations.keys() == parameters | {"return"}
    assert [hint for hint in annotations.values() if re.search(r"\bAny\b", hint)] == []


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_two_implementers(hook: str) -> None:
    """In what s2s ships, or among the plugins of strangers in docs and tests."""
    folders = [ROOT / name for name in ("s2s", "plugins", "tasks", "docs", "examples", "tests")]
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md")]
    implementer = re.compile(rf"@(s2s\.)?hookimpl(\(.*\))?\n *def {hook}\(")
    n_implementers = sum(len(implementer.findall(path.read_text(encoding="utf-8"))) for path in paths)
    assert n_implementers >= 2
