"""The mutants of a module: comparisons, arithmetic, constants, conditions and results, each changed alone."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """One change."""

    line: int
    before: str
    after: str
    source: str
    """Of the whole module"""


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its text; nothing that only types, messages or documentation have."""
    tree = ast.parse(source)
    for node in sorted(_code(tree), key=lambda n: (n.lineno, n.col_offset)):
        for changed in _changes(node):
            before = ast.get_source_segment(source, node)
            if before is None or "\n" in before:  # where lines would move, comments and strings might, too
                continue
            after = ast.unparse(changed)
            whole = _replaced(source, node, f"({after})" if isinstance(node, ast.expr) else after)
            yield Mutant(node.lineno, before, after, whole)


def _code(tree: ast.AST) -> Iterator[ast.expr | ast.Return]:
    """Expressions and results that are computed: no annotations, raised messages, decorators, or constants alone."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params") or isinstance(
            tree, ast.Raise | ast.Assert
        ):
            continue
        if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test):
            continue
        if isinstance(tree, ast.JoinedStr) or (isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr | ast.Return):
                yield child
            if isinstance(child, ast.AST):
                yield from _code(child)


def _changes(node: ast.expr | ast.Return) -> Iterator[ast.expr | ast.Return]:
    """The node with one thing changed."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in SWAPS:
        new.ops[0] = SWAPS[type(new.ops[0])]()  # type: ignore[assignment]
        yield new
    elif isinstance(new, ast.BinOp | ast.BoolOp) and type(new.op) in SWAPS:
        new.op = SWAPS[type(new.op)]()  # type: ignore[assignment]
        yield new
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        yield new.operand
    elif isinstance(new, ast.IfExp):
        new.body, new.orelse = new.orelse, new.body
        yield new
    elif isinstance(new, ast.Constant) and type(new.value) in (bool, int, float):
        new.value = not new.value if isinstance(new.value, bool) else new.value + 1
        yield new
    elif isinstance(new, ast.Return) and new.value is not None and not isinstance(new.value, ast.Constant):
        new.value = ast.Constant(None)
        yield new


def _replaced(source: str, node: ast.expr | ast.Return, text: str) -> str:
    """The source with the text of a node that lies on one line replaced; columns count bytes."""
    lines = source.splitlines(keepends=True)
    line = lines[node.lineno - 1].encode()
    lines[node.lineno - 1] = (line[: node.col_offset] + text.encode() + line[node.end_col_offset :]).decode()
    return "".join(lines)
