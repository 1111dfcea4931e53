"""Rows of a study that other programs fill: commands that write an output for every source.

In a command, {src} is a file of sources, one per line, {hyp} the file that it must write, {task} a configuration file
with the row's task, {folder} the folder of this row and seed, {output} that of the study, {seed} the seed; `python` is
the interpreter that runs the study.
"""

from __future__ import annotations

__all__ = ["evaluate_commands", "run_commands"]

import itertools
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import DataError, load_plugins
from s2s.compose import compose, to_yaml
from s2s.config import Config
from s2s.data import FileStamp
from s2s.io import read_manifest, write_file, write_manifest
from s2s.metrics import build_metrics
from s2s_study.examples import examples_of, inputs_of
from s2s_study.job_spec import scores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from s2s import Task
    from s2s_study.job_spec import Job

ENDED, HYP = "ended.json", "hyp.txt"


def run_commands(job: Job, call: Callable[[list[str]], int]) -> int:
    """Run all commands that have not succeeded before; the exit code of the first that fails, or 0."""
    folder = Path(job.runs[0])
    folder.mkdir(parents=True, exist_ok=True)
    config, task = _task_of(job)
    sources = [str(example.src) for example in examples_of(task, job.evaluate)]
    files = {"task.yaml": to_yaml({"task": config.task}), "src.txt": "".join(f"{line}\n" for line in sources)}
    _write_given(folder, {name: text.encode() for name, text in files.items()})
    inputs, ended = _ended(folder, job)
    if not ended:  # as they are before the first command reads them
        stamps = {str(file): FileStamp.read(file) for file in task.dependencies().files}
        inputs = inputs_of(task, job.evaluate, stamps)
    for command in job.commands[len(ended) :]:
        began = time.monotonic()
        code = call(_arguments(command, job, folder))
        if code:
            return code
        ended.append([command, time.monotonic() - began])
        is_last = len(ended) == len(job.commands) and (folder / HYP).is_file()
        write_manifest(folder / ENDED, {"inputs": inputs, "commands": ended}, [HYP] if is_last else [])
    return 0


def evaluate_commands(job: Job) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Outputs and references, and the result in the form of `evaluation.evaluate`."""
    folder = Path(job.runs[0])
    config, task = _task_of(job)
    refs = [example.tgt for example in examples_of(task, job.evaluate)]
    inputs, ended = _ended(folder, job)
    hyps = (folder / HYP).read_text(encoding="utf-8").split("\n")[:-1]
    if len(hyps) != len(refs):
        raise DataError(f"{folder / HYP}: {len(hyps):,} lines for {len(refs):,} sources; give one for each")
    metrics = build_metrics(task, load_plugins(job.plugins).registry)
    values, scores = scores_of(metrics, hyps, refs, job.samples)
    values["hours"] = sum(seconds for _, seconds in ended) / 3600
    machine = f"1 x cpu ({platform.machine()}), Python {platform.python_version()}"
    facts = {"values": values, "scores": scores, "checkpoint": "", "config": to_yaml(config), "machine": machine}
    return {"hyps": hyps, "refs": refs}, {**facts, "inputs": inputs}


def _write_given(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what the commands read; if it has changed, what they made of it before is removed first."""
    paths = {folder / name: data for name, data in files.items()}
    if all(path.is_file() and path.read_bytes() == data for path, data in paths.items()):
        return
    for name in (ENDED, HYP):
        (folder / name).unlink(missing_ok=True)
    for path, data in paths.items():
        write_file(path, data)


def _task_of(job: Job) -> tuple[Config, Task]:
    plugins = load_plugins(job.plugins)
    config = compose(Config, job.train[:1], plugins).config
    task: Task = plugins.registry.get("task", config.task.name).build(config.task)
    return config, task


def _arguments(command: str, job: Job, folder: Path) -> list[str]:
    files = {"src": folder / "src.txt", "hyp": folder / "hyp.txt", "task": folder / "task.yaml", "folder": folder}
    names = {**files, "output": folder.parent.parent, "seed": job.seed}
    words = []
    for word in shlex.split(command):
        for name, value in names.items():
            word = word.replace(f"{{{name}}}", str(value))
        words.append(word)
    return [sys.executable, *words[1:]] if words[:1] == ["python"] else words


def _ended(folder: Path, job: Job) -> tuple[dict[str, Any], list[list[Any]]]:
    """The inputs before the first command, and the leading commands that have succeeded, each with its seconds.

    Nothing has, if the file that says so is damaged, or the outputs have been changed since.
    """
    try:
        read = read_manifest(folder / ENDED)
        pairs = zip(read["commands"], job.commands, strict=False)
        same = itertools.takewhile(lambda pair: pair[0][0] == pair[1], pairs)
        return read["inputs"], [command_seconds for command_seconds, _ in same]
    except (OSError, ValueError):
        return {}, []
