"""Words that names, docstrings and messages avoid, and what to write instead."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest

from harness.folders import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = {
    r"nobody|somebody|anybody|whoever": "name who it is, or use the passive",
    r"wants?|wished|tells?|told(?! apart)|knows?|thinks?|believes?|said|asked (?!for)": "code is no person",
    r"of before": "previous",
    r"goes on|went on": "continues, continued",
    r"hardly|in vain|by heart": "rarely, without effect, overfits",
    r"means nothing|is no error|gets to where": "say what is accepted or ignored",
    r"newcomers?|strangers?": "newly admitted …, third parties",
    r"give more than nothing|a file that stays": "the range; a regular file",
}
"""In docstrings and messages: a pattern, and what to write instead"""
NAMES = {
    r"found|given|own|wanted|made|there|drawn": "the noun for what it holds: scores, config, expected, requested",
    r"of_\w+": "a noun: parameter_state, precision_facts",
    r"refuse_\w+": "check_…",
    r"trg\w*|num_\w+": "tgt, n_…",
}
"""Public functions, classes, parameters and attributes"""
GRAMMAR = "plugins/data/s2s_synthetic_corpus/"
"""Its docstrings quote sentences, and `of_thing` is a kind of phrase"""
CONSTRUCTORS = {"of_treebank", "of_corpus", "of_sentences", "of_record", "of_runs", "of_rules"}
"""Class methods, read with their class: `Grammar.of_treebank`"""
ON_DISK = {"s2s/data/manifest.py made", "plugins/decoding/s2s_search/__init__.py num_beam_groups"}
"""Names that users have in files: the manifest of prepared data, and an option named after Hugging Face's"""
FILES = [path for top in ("s2s", "plugins", "tasks") for path in sorted((ROOT / top).rglob("*.py"))]


class Text(NamedTuple):
    """A string or name of a source file."""

    location: str
    text: str


@cache
def trees() -> dict[str, ast.Module]:
    every = {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    return {name: tree for name, tree in every.items() if not name.startswith(GRAMMAR)}


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Of modules, classes, functions and fields: every string that is a statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def messages(tree: ast.AST) -> Iterator[ast.Constant]:
    """The texts of errors, warnings and log lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name.endswith("Error") or name in ("warn", "warning", "info"):
                yield from (c for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str))


def public_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Functions and classes, their parameters and annotated attributes, unless a name or its owner begins with _."""
    queue: list[ast.AST] = [tree]
    while queue:
        for node in ast.iter_child_nodes(queue.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith(
                "_"
            ):
                yield node.lineno, node.name
                if isinstance(node, ast.ClassDef):
                    queue.append(node)
                else:
                    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                    yield from ((arg.lineno, arg.arg) for arg in every if not arg.arg.startswith("_"))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.lineno, node.target.id


@cache
def texts() -> list[Text]:
    return [
        Text(f"{name}:{constant.lineno}", str(constant.value))
        for name, tree in trees().items()
        for constant in {id(c): c for c in (*docstrings(tree), *messages(tree))}.values()
    ]


@cache
def names() -> list[Text]:
    return [
        Text(f"{file}:{line}", name)
        for file, tree in trees().items()
        for line, name in public_names(tree)
        if name not in CONSTRUCTORS and f"{file} {name}" not in ON_DISK
    ]


@pytest.mark.parametrize(("pattern", "instead"), TEXT.items())
def test_texts_are_plain(pattern: str, instead: str) -> None:
    word = re.compile(rf"\b(?:{pattern})\b")
    hits = [f"{text.location}: {hit[0]}" for text in texts() if (hit := word.search(text.text))]
    assert not hits, f"write instead: {instead}"


@pytest.mark.parametrize(("pattern", "instead"), NAMES.items())
def test_public_names_are_nouns_and_verbs(pattern: str, instead: str) -> None:
    hits = [f"{name.location}: {name.text}" for name in names() if re.fullmatch(pattern, name.text)]
    assert not hits, f"write instead: {instead}"


def test_all_kinds_of_text_are_read() -> None:
    tree = ast.parse(
        '"""A module."""\nclass A:\n    """B."""\n    given: int\n    """C."""\n'
        "    def of_x(self, own): raise ValueError(f'no {x} in vain')\n    def _p(self, found): ...\n"
    )
    assert [c.value for c in docstrings(tree)] == ["A module.", "B.", "C."]
    assert [c.value for c in messages(tree)] == ["no ", " in vain"]
    assert {name for _, name in public_names(tree)} == {"A", "given", "of_x", "self", "own"}
