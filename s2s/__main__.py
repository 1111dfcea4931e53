"""`python -m s2s`: the commands, and `python -m s2s train …`, which is `s2s-train …`."""

from __future__ import annotations

__all__ = ["main"]

import ast
import importlib.util
import sys
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.cli.failures import guard
from s2s.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "s2s-"


def main(argv: list[str]) -> int:
    """List the commands, or run the one that `argv` names first; returns the exit code."""
    commands = {point.name.removeprefix(PREFIX): point for point in _commands()}
    if not argv or argv[0] in ("--help", "-h"):
        return guard("s2s", lambda: _list(commands))
    name = argv[0].removeprefix(PREFIX)
    if name not in commands:
        print(f"s2s: error: no command '{argv[0]}'.{did_you_mean(name, commands)}", file=sys.stderr)
        return 2
    sys.argv = [f"{PREFIX}{name}", *argv[1:]]
    code: int = commands[name].load()()
    return code


def _list(commands: Mapping[str, EntryPoint]) -> int:
    print("python -m s2s COMMAND …, or s2s-COMMAND …, each with --help:\n")
    print("\n".join(f"  {PREFIX}{name:<12}{_summary(point)}" for name, point in sorted(commands.items())))
    return 0


def _commands() -> list[EntryPoint]:
    return [point for point in distribution("s2s-toolkit").entry_points if point.group == "console_scripts"]


def _summary(point: EntryPoint) -> str:
    """The first sentence about a command, from its module, which is parsed without being imported."""
    spec = importlib.util.find_spec(point.module)
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return text.partition(": ")[2] or text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
