"""Test files for `make test-quick`: those named after what has changed since main, then a fixed set of quick ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIXED = (
    *("tests/s2s/test_layers.py", "tests/s2s/test_plugin.py", "tests/s2s/test_public_surface.py"),
    *("tests/s2s/test_registry.py", "tests/s2s/test_batch.py", "tests/s2s/test_vocab.py", "tests/test_project.py"),
    *("tests/s2s/compose/test_selection.py", "tests/s2s/compose/test_references.py"),
    *("tests/s2s/decoding/test_beam_search.py", "tests/s2s/nn/test_loss.py"),
)
"""One or two files of each layer"""
MOST = 12
"""Changed files beyond this many are left to `make test`"""


def main() -> None:
    """Print the files, one a line."""
    near = dict.fromkeys(test for file in changed(ROOT) for test in related(file))
    print("\n".join(dict.fromkeys([*list(near)[:MOST], *FIXED])))


def changed(root: Path, base: str = "main") -> list[str]:
    """Python files that differ from `base`, committed or not; none without git, or without that branch."""
    commands = (
        ["git", "diff", "--name-only", "--diff-filter=d", f"{base}...HEAD"],
        ["git", "diff", "--name-only", "--diff-filter=d", "HEAD"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    lines: list[str] = []
    for command in commands:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        lines += done.stdout.splitlines() if done.returncode == 0 else []
    return [line for line in dict.fromkeys(lines) if line.endswith(".py")]


def related(file: str, root: Path = ROOT) -> list[str]:
    """The file itself if it is a test; else the tests of its name, in the folder that mirrors its own."""
    path = Path(file)
    if path.parts[0] == "tests":
        return [file] if path.name.startswith("test_") else []
    if path.parts[0] == "s2s":
        patterns = [f"{path.parent}/test_{path.stem}*.py"]
    elif path.parts[0] in ("plugins", "tasks"):
        package = path.parts[2 if path.parts[0] == "plugins" else 1].removesuffix(".py")
        name = package.removeprefix("s2s_")
        patterns = [f"{path.parts[0]}/{package}/test_*.py", f"{path.parts[0]}/test_{name}*.py"]
    else:
        return []
    return sorted(str(test.relative_to(root)) for pattern in patterns for test in (root / "tests").glob(pattern))


if __name__ == "__main__":
    sys.exit(main())
