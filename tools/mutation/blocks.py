"""The blocks of a module's functions, and modules that note which of their blocks are entered."""

from __future__ import annotations

import ast
import builtins
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

NOTE = "__entered__"
"""The built-in function that noting modules call"""


def blocks(tree: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Each sequence of statements in a function, named `qualified name#number` in the order of the text.

    They are its body, and those of its conditions, loops and handlers; what is in no function is in no block.
    """
    counts: dict[str, int] = {}
    for function, body in _sequences(tree, ""):
        counts[function] = counts.get(function, -1) + 1
        yield f"{function}#{counts[function]}", body


def _sequences(tree: ast.AST, outside: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    inside = _qualified(tree, outside)
    for _, value in ast.iter_fields(tree):
        children = value if isinstance(value, list) else [value]
        if inside and not inside.endswith(".") and children and isinstance(children[0], ast.stmt):
            yield inside, children
        for child in children:
            if isinstance(child, ast.AST):
                yield from _sequences(child, inside)


def _qualified(node: ast.AST, outside: str) -> str:
    """The qualified name as Python gives it, with a dot at the end for a class."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        within = f"{outside}.<locals>." if outside and not outside.endswith(".") else outside
        return f"{within}{node.name}" + ("." if isinstance(node, ast.ClassDef) else "")
    return outside


def noting(source: str, module: str) -> ast.Module:
    """A module that calls `__entered__("module:block")` at the start of each block; its lines keep their numbers."""
    tree = ast.parse(source)
    for name, body in list(blocks(tree)):
        is_docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        note = ast.parse(f"{NOTE}({f'{module}:{name}'!r})").body[0]
        for node in ast.walk(note):
            ast.copy_location(node, body[0])
        body.insert(int(is_docstring), note)
    return tree


def note_blocks(root: Path, folders: tuple[str, ...], note: Callable[[str], object]) -> None:
    """From now on, this process calls `note` for each block that is entered in modules of these folders."""
    setattr(builtins, NOTE, note)
    prefixes, original = tuple(f"{root / folder}/" for folder in folders), SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        path = loader.get_filename(name)
        if not path.startswith(prefixes):
            return original(loader, name)
        tree = noting(Path(path).read_text(encoding="utf-8"), str(Path(path).relative_to(root)))
        return compile(tree, path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]
