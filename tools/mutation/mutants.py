"""The mutants of a module: comparisons, arithmetic, constants, conditions and results, each changed one at a time."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, NamedTuple

from mutation.blocks import blocks

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
    block: str
    """The block that it is in, such as "Lock.hold#0"; "" in no function"""


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its text; nothing that only types, messages or documentation have."""
    tree, lines = ast.parse(source), source.splitlines(keepends=True)
    names = {id(statement): name for name, body in blocks(tree) for statement in body}
    for node, block in sorted(_code(tree, "", names), key=lambda found: (found[0].lineno, found[0].col_offset)):
        for changed in _changes(node):
            if node.end_lineno != node.lineno:  # where lines would move, comments and strings might, too
                continue
            line, after = lines[node.lineno - 1].encode(), ast.unparse(changed)
            before = line[node.col_offset : node.end_col_offset].decode()  # columns count bytes
            text = f"({after})" if isinstance(node, ast.expr) else after
            whole = _replaced(lines, node.lineno - 1, line[: node.col_offset], text, line[node.end_col_offset :])
            yield Mutant(node.lineno, before, after, whole, block)


def _code(tree: ast.AST, inside: str, names: dict[int, str]) -> Iterator[tuple[ast.expr | ast.Return, str]]:
    """Expressions and results that are computed, with the block that they are in.

    No annotations, raised messages, decorators, or constants alone.
    """
    inside = names.get(id(tree.body[0] if isinstance(tree, ast.FunctionDef) else tree), inside)
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
            if isinstance(child, ast.Return):
                yield child, names[id(child)]
            if isinstance(child, ast.expr):
                yield child, inside
            if isinstance(child, ast.AST):
                yield from _code(child, inside, names)


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


def _replaced(lines: list[str], number: int, before: bytes, text: str, after: bytes) -> str:
    """The source with another line of this number."""
    return "".join([*lines[:number], before.decode() + text + after.decode(), *lines[number + 1 :]])


def exported(source: str) -> list[str]:
    """The names in a module's `__all__`, or [] if it has none."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)]
    return []
