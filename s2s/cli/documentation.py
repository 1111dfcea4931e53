"""Options as searchable text: value, type, default, origin, and the docstring under the field."""

from __future__ import annotations

__all__ = ["WIDTH", "describe", "docs", "summary"]

import ast
import inspect
import itertools
import textwrap
from dataclasses import is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from s2s.compose.options import type_text
from s2s.compose.yaml12 import to_text
from s2s.registry import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from s2s.compose.options import Option
    from s2s.registry import Entry

WIDTH = 79
"""Columns of explanations; longer lines are no easier to read"""


def describe(options: Iterable[Option], values: Mapping[str, tuple[Any, str]], title: str) -> str:
    """A block of lines for each option; `values` has value and origin of options that are not at their default."""
    lines = [title]
    for option in options:
        default = "(required)" if option.required else to_text(option.default)
        value, origin = values.get(option.key, (option.default, "default"))
        if origin == "default":
            lines.append(f"  {option.key} = {default}  [{type_text(option.hint)}]")
        else:
            changed = f"(default {default}; {origin})"
            lines.append(f"  {option.key} = {to_text(value)}  [{type_text(option.hint)}]  {changed}")
        doc = " ".join(docs(option.owner).get(option.field.name, "").split())
        lines += textwrap.wrap(doc, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(lines) + "\n"


def docs(config: type) -> dict[str, str]:
    """The docstring under every field, including those of base classes; empty if there is no source."""
    docstrings: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if is_dataclass(base):
            docstrings |= _own_docs(base)
    return docstrings


def summary(entry: Entry) -> str:
    """What the documentation of its options begins with; that of what it builds, if it has no options of its own."""
    documented: Any = entry.config
    if documented is Choice:
        try:
            documented = entry.load()
        except ImportError:  # a package that only this entry needs
            return ""
    return " ".join((documented.__doc__ or "").strip().partition("\n\n")[0].split())


@cache
def _own_docs(config: type) -> dict[str, str]:
    """Found once in a process: the source of a class is searched for in its whole module."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(config)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    return {
        item.target.id: inspect.cleandoc(below.value.value)
        for item, below in itertools.pairwise(body)
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }
