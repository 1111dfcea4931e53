"""What a study decodes, and on what its results depend outside of its jobs: examples and the files of the data.

python -m s2s_study.examples FILE SPLIT task=parsing task.trees=3000 …  writes the sources of a split to a file
"""

from __future__ import annotations

__all__ = ["InputCheck", "examples_of", "inputs_of", "main"]

import hashlib
import json
import sys
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, Example, UserError, load_plugins
from s2s.compose import compose
from s2s.config import Config
from s2s.data import FileStamp
from s2s.io import write_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s import Plugins, Task
    from s2s_study.job_spec import Job


def examples_of(task: Task, evaluate: Mapping[str, Any]) -> list[Example]:
    """The first `sentences` of a `split`, as in `EvaluateConfig`."""
    split = evaluate["split"]
    examples = (pair for name, _ in task.corpora(split) for pair in task.examples(split, name))
    return list(islice((pair for pair in examples if isinstance(pair, Example)), evaluate["sentences"] or None))


def inputs_of(task: Task, evaluate: Mapping[str, Any], stamps: Mapping[str, FileStamp]) -> dict[str, Any]:
    """Stamps of the training and development files when they were read, and the hash of the decoded examples, for
    JSON."""
    named = _files(task)  # preparation reads test sets, too, of which the examples tell more than files
    files = {str(Path(name).absolute()): asdict(stamp) for name, stamp in stamps.items()}
    kept = {name: stamp for name, stamp in files.items() if name in named}
    return {"files": kept, "examples": _digest(task, evaluate)}


class InputCheck:
    """Refuses results whose data have changed since; a file edited in place leaves the options of a job unchanged."""

    def __init__(self, plugins: Plugins, folder: Path) -> None:
        self.plugins, self.folder = plugins, folder
        self.unchanged: dict[str, bool] = {}
        """A file and its stamp -> whether it still has these contents"""
        self.digests: dict[str, str] = {}
        """A task and the examples of it that are decoded -> their hash"""

    def __call__(self, job: Job, config: Config) -> None:
        """Raise ConfigError if the job has a result of other data; a file that is gone cannot be compared."""
        inputs = (job.result(self.folder) or {}).get("inputs")
        if inputs is None:
            return
        changed = [name for name, stamp in inputs["files"].items() if not self._is_unchanged(name, stamp)]
        gone = [name for name in inputs["files"] if not Path(name).is_file()]
        if not gone:
            changed += sorted(_files(self._task(config)).symmetric_difference(inputs["files"]))
        if not changed and not gone and self._examples(job, config) != inputs["examples"]:
            changed = [f"{job.evaluate['split']} split"]
        if changed:
            raise ConfigError(
                f"rows: {job.row}: its result is of other data than there are now ({changed[0]} has changed): put them "
                "back, or give another output=FOLDER for a study of the new ones"
            )

    def _is_unchanged(self, name: str, stamp: dict[str, Any]) -> bool:
        key = json.dumps([name, stamp])
        if key not in self.unchanged:
            path = Path(name)
            self.unchanged[key] = not path.is_file() or FileStamp(**stamp).has_contents(path)
        return self.unchanged[key]

    def _task(self, config: Config) -> Task:
        task: Task = self.plugins.registry.get("task", config.task.name).build(config.task)
        return task

    def _examples(self, job: Job, config: Config) -> str:
        key = repr((config.task, job.evaluate))
        if key not in self.digests:
            self.digests[key] = _digest(self._task(config), job.evaluate)
        return self.digests[key]


def _files(task: Task) -> set[str]:
    """The training and development files that the task names now: a folder may have others than before."""
    return {str(Path(file).absolute()) for file in task.dependencies().files}


def _digest(task: Task, evaluate: Mapping[str, Any]) -> str:
    """Hash of the examples' sources and targets."""
    pairs = [[example.src, example.tgt] for example in examples_of(task, evaluate)]
    return hashlib.sha256(json.dumps(pairs, default=str).encode()).hexdigest()


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
