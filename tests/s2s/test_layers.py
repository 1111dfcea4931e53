"""A module imports only lower layers, no files form a circle, plugins import only s2s, and nothing is unpickled."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from harness.folders import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


LAYERS = (
    "errors lasting lazy tensors",
    "command_options text text_lists",
    "registry io",
    "config vocab",
    "task",
    "batch corpus",
    "model",
    "backend",
    "objective foreign",
    "observer",
    "hooks",
    "deferred",
    "plugin_index",
    "plugin",
    "compose",
    "nn data decoding optim metrics checkpoint distributed log",
    "run",
    "generation",
    "training",
    "cli trained_model",
    "api __main__",
)
"""Names under s2s/, lowest first: a module imports lower layers and its own package, be it for types alone."""

INERT_PICKLES = "plugins/architectures/s2s_transformer/fairseq_files.py"
"""Reads pickles by an unpickler that makes records of all classes: test_transformer_fairseq.py runs hostile ones"""
LAYER = {name: height for height, names in enumerate(LAYERS) for name in names.split()}
SOURCES = sorted(path for folder in ("s2s", "plugins", "tasks") for path in (ROOT / folder).rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules that are imported anywhere in the code, for types alone as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parsed(path: Path) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path == ROOT / "s2s" / "hooks.py":  # its hooks are of all layers, whose types it names
        tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE" in ast.unparse(node.test))]
    return tree


def home(path: Path) -> str:
    return path.relative_to(ROOT / "s2s").parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if p.is_relative_to(ROOT / "s2s")], ids=lambda p: str(p.relative_to(ROOT))
)
def test_a_module_imports_only_lower_layers(path: Path) -> None:
    own = home(path)
    if own == "__init__":
        return
    assert own in LAYER, f"{own} has no layer: give it one in LAYERS, and in docs/architecture.md"
    for name in imports(parsed(path)):
        parts = name.split(".")
        if parts[0] != "s2s" or len(parts) == 1 or parts[1] == own or parts[1] not in LAYER:
            continue
        assert LAYER[parts[1]] < LAYER[own], f"{own} (layer {LAYER[own]}) imports {name} (layer {LAYER[parts[1]]})"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_plugins_and_tasks_import_s2s_alone_and_s2s_none_of_them(path: Path) -> None:
    shipped = {p.parent.name for pattern in ("plugins/*/*", "tasks/*") for p in ROOT.glob(f"{pattern}/__init__.py")}
    own = next((part for part in path.relative_to(ROOT).parts if part.startswith("s2s_")), "s2s")
    foreign = {name.split(".")[0] for name in imports(parsed(path))} & shipped - {own}
    assert not foreign


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_is_unpickled_or_evaluated(path: Path) -> None:
    if path.relative_to(ROOT).as_posix() == INERT_PICKLES:
        return
    tree = parsed(path)
    roots = {name.split(".")[0] for name in imports(tree)}
    assert not roots & {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called, given = ast.unparse(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords}
        assert not re.search(r"(broadcast|gather|scatter|send|recv)_object", called), "object collectives unpickle"
        assert called not in ("eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load")
        assert given.get("weights_only") != "False"
        assert called != "torch.load" or given.get("weights_only") == "True"
        assert given.get("allow_pickle", "False") == "False"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[next(i for i, part in enumerate(parts) if part.startswith("s2s")) :])


def import_graph(paths: Iterable[Path]) -> dict[str, set[str]]:
    """Module -> modules among `paths` that it imports, be it for types alone; without the faces of packages."""
    files = {module_name(path): path for path in paths if path.name != "__init__.py"}
    edges = {}
    for module, path in files.items():
        names = set(imports(parsed(path)))
        edges[module] = ({*names, *(name.rpartition(".")[0] for name in names)} & files.keys()) - {module}
    return edges


def circles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    """Groups of modules that reach one another."""

    def reach(module: str) -> set[str]:
        seen, front = set[str](), {module}
        while front := set().union(*(edges[m] for m in front)) - seen:
            seen |= front
        return seen

    reached = {module: reach(module) for module in edges}
    return {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in edges
        if module in reached[module]
    }


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(import_graph(SOURCES)) == set()


def test_a_circle_of_types_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    package = tmp_path / "plugins" / "s2s_example"
    package.mkdir(parents=True)
    for name, imported in (("first", "second"), ("second", "third"), ("third", "first"), ("outside", "first")):
        text = f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from s2s_example.{imported} import X\n"
        (package / f"{name}.py").write_text(text)
    found = circles(import_graph(package.glob("*.py")))
    assert found == {frozenset({"s2s_example.first", "s2s_example.second", "s2s_example.third"})}


def test_configs_hold_yaml_only() -> None:
    files = [path for path in (ROOT / "configs").rglob("*") if path.is_file()]
    assert files
    assert {path.suffix for path in files} == {".yaml"}


def test_every_layer_has_a_module() -> None:
    there = {home(path) for path in SOURCES if path.is_relative_to(ROOT / "s2s")}
    assert LAYER.keys() <= there, "LAYERS names what is gone"
