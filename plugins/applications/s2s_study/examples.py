"""The examples of a task that a study decodes; as a command, it writes their sources to a file.

python -m s2s_study.examples FILE SPLIT task=parsing task.trees=3000 …
"""

from __future__ import annotations

__all__ = ["examples_of", "main"]

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import Example, UserError, load_plugins
from s2s.compose import compose
from s2s.config import Config
from s2s.io import write_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s import Task


def examples_of(task: Task, evaluate: Mapping[str, Any]) -> list[Example]:
    """The first `sentences` of a `split`, as in `EvaluateConfig`."""
    split = evaluate["split"]
    examples = (pair for name, _ in task.corpora(split) for pair in task.examples(split, name))
    return list(islice((pair for pair in examples if isinstance(pair, Example)), evaluate["sentences"] or None))


def main(argv: Sequence[str] | None = None) -> int:
    """Write the sources of a split, one per line."""
    path, split, *options = sys.argv[1:] if argv is None else argv
    try:
        plugins = load_plugins()
        config = compose(Config, options, plugins).config
        task: Task = plugins.registry.get("task", config.task.name).build(config.task)
        examples = examples_of(task, {"split": split, "sentences": 0})
    except UserError as error:
        print(f"s2s_study.examples: error: {error}", file=sys.stderr)
        return 2
    write_file(Path(path), "".join(f"{example.src}\n" for example in examples))
    return 0


if __name__ == "__main__":
    sys.exit(main())
