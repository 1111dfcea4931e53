"""Rows of a study that other programs fill: commands that write an output for every source.

In a command, {src} is a file of sources, one per line, {hyp} the file that it must write, {task} a configuration file
with the row's task, {folder} the folder of this row and seed, {output} that of the study, {seed} the seed; `python` is
the interpreter that runs the study.
"""

from __future__ import annotations

__all__ = ["evaluate_commands", "run_commands"]

import itertools
import json
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
from s2s.io import write_file
from s2s.metrics import build_metrics
from s2s_study.examples import examples_of, inputs_of
from s2s_study.job_spec import scores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from s2s import Task
    from s2s_study.job_spec import Job


def run_commands(job: Job, call: Callable[[list[str]], int]) -> int:
    """Run all commands that have not succeeded before; the exit code of the first that fails, or 0."""
    folder = Path(job.runs[0])
    folder.mkdir(parents=True, exist_ok=True)
    config, task = _task_of(job)
    sources = [str(example.src) for example in examples_of(task, job.evaluate)]
    files = {"task.yaml": to_yaml({"task": config.task}), "src.txt": "".join(f"{line}\n" for line in sources)}
    _write_given(folder, {name: text.encode() for name, text in files.items()})
    if not (folder / "inputs.json").is_file():  # as they are before the first command reads them
        stamps = {str(file): FileStamp.read(file) for file in task.dependencies().files}
        write_file(folder / "inputs.json", json.dumps(inputs_of(task, job.evaluate, stamps)))
    ended = _ended(folder, job)
    for command in job.commands[len(ended) :]:
        began = time.monotonic()
        code = call(_arguments(command, job, folder))
        if code:
            return code
        ended.append((command, time.monotonic() - began))
        write_file(folder / "ended.json", json.dumps(ended))
    return 0


def evaluate_commands(job: Job) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Outputs and references, and the result in the form of `evaluation.evaluate`."""
    folder = Path(job.runs[0])
    config, task = _task_of(job)
    refs = [example.tgt for example in examples_of(task, job.evaluate)]
    hyps = (folder / "hyp.txt").read_text(encoding="utf-8").split("\n")[:-1]
    if len(hyps) != len(refs):
        raise DataError(f"{folder / 'hyp.txt'}: {len(hyps):,} lines for {len(refs):,} sources; give one for each")
    metrics = build_metrics(task, load_plugins(job.plugins).registry)
    values, scores = scores_of(metrics, hyps, refs, job.samples)
    values["hours"] = sum(seconds for _, seconds in _ended(folder, job)) / 3600
    machine = f"1 x cpu ({platform.machine()}), Python {platform.python_version()}"
    facts = {"values": values, "scores": scores, "checkpoint": "", "config": to_yaml(config), "machine": machine}
    inputs = json.loads((folder / "inputs.json").read_bytes())
    return {"hyps": hyps, "refs": refs}, {**facts, "inputs": inputs}


def _write_given(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what the commands read; if it has changed, what they made of it before is removed first."""
    paths = {folder / name: data for name, data in files.items()}
    if all(path.is_file() and path.read_bytes() == data for path, data in paths.items()):
        return
    for name in ("ended.json", "hyp.txt", "inputs.json"):
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


def _ended(folder: Path, job: Job) -> list[tuple[str, float]]:
    """The leading commands of the job that have already succeeded, with the seconds of each."""
    path = folder / "ended.json"
    commands = [(command, seconds) for command, seconds in json.loads(path.read_bytes())] if path.is_file() else []
    same = itertools.takewhile(lambda pair: pair[0][0] == pair[1], zip(commands, job.commands, strict=False))
    return [command_seconds for command_seconds, _ in same]
