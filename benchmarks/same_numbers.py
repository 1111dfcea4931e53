"""Losses, weights and outputs of small runs with one seed, which a refactoring must not change.

    python benchmarks/same_numbers.py > before.txt    # on the tree before the change
    python benchmarks/same_numbers.py | diff before.txt -
    python benchmarks/same_numbers.py tiny 'parsing*'    # these runs of small_runs.py, and those that they need

A line for each run: some losses, and digests of all logged figures at full precision and of its checkpoints. A line
for each command: digests of its output and of files that it writes. Compare only runs of one machine; another one sums
in another order. `--keep FOLDER` keeps the runs, and

    python benchmarks/same_numbers.py --resume-from FOLDER

on both trees compares what they make of runs trained by the older one: the same commands, then some more updates.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import forked
from small_runs import INPUTS, RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COMMON = {
    "s2s-train": "train.threads=1 train.device=cpu train.tokens=1500 valid.every=0 valid.score=false seed=3 "
    "log.every=1 log.tensorboard=false",
    "s2s-generate": "run={run} input=input.txt threads=1 device=cpu matmul=exact format=tsv search.max_len_b=20",
    "s2s-average": "run={run}",
    "s2s-export": "run={run} sentences=8",
}
"""Command -> options for every call, before those of the call"""
LOGGED = ("step", "loss", "nll", "gnorm", "bleu", "f1")
MORE_STEPS = 4


def main() -> int:
    options = parser().parse_args()
    with workplace(options.keep, options.resume_from) as folder:
        names = selected(options.runs)
        works = [show_resumed(folder, name) if options.resume_from else show(folder, name) for name in names]
    return not all(works)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", nargs="*", help="names or patterns; none: all runs")
    where = options.add_mutually_exclusive_group()
    where.add_argument("--keep", type=Path, metavar="FOLDER", help="where to run; it must not exist")
    where.add_argument("--resume-from", type=Path, metavar="FOLDER", help="kept runs, which stay as they are")
    return options


@contextmanager
def workplace(keep: Path | None, kept: Path | None) -> Iterator[Path]:
    """The folder in which the commands are called, with their inputs."""
    with tempfile.TemporaryDirectory() as name:
        folder = (keep or Path(name) / "here").resolve()
        if kept:
            shutil.copytree(kept / "runs", folder / "runs", symlinks=True)
        folder.mkdir(parents=True, exist_ok=kept is not None)
        for file, text in INPUTS.items():
            (folder / file).write_text(text, encoding="utf-8")
        yield folder


def selected(patterns: Sequence[str]) -> list[str]:
    """The runs that a pattern matches, and those that they need, in the order of the table."""
    chosen = {name for name in RUNS if not patterns or any(fnmatch(name, pattern) for pattern in patterns)}
    if not chosen:
        sys.exit(f"no such run: {' '.join(patterns)}; there are {', '.join(RUNS)}")
    needed = {other for name in chosen for other in RUNS[name].needs}
    return [name for name in RUNS if name in chosen | needed]


def show(folder: Path, name: str) -> bool:
    """Train a run, then call its commands; False: one of them has failed."""
    return train(folder, name, f"{COMMON['s2s-train']} run={name} {RUNS[name].train}") and call_all(folder, name)


def show_resumed(folder: Path, name: str) -> bool:
    """Call the commands of a kept run, then train it further; False: one of them has failed."""
    steps = max(record.get("step", 0) for record in log(folder / "runs" / name)) + MORE_STEPS
    works = call_all(folder, name)
    return train(folder, name, f"runs/{name}/config.yaml train.steps={steps}") and works


def train(folder: Path, name: str, arguments: str) -> bool:
    """Call s2s-train and print its losses and digests."""
    done = forked.run(folder, f"s2s-train {arguments}", RUNS[name].environment)
    print(name, *([failure(done)] if done.code else figures(folder / "runs" / name)), flush=True)
    return not done.code


def call_all(folder: Path, name: str) -> bool:
    """Call the commands of a run."""
    works = [call(folder, name, line) for line in RUNS[name].commands]
    return all(works)


def call(folder: Path, name: str, line: str) -> bool:
    """Call a command and print digests of its output and of the files that it writes."""
    typed, _, pattern = line.partition(" -> ")
    before, _, after = typed.partition("s2s-")
    command, _, arguments = f"s2s-{after}".partition(" ")
    common = COMMON.get(command, "").format(run=name)
    done = forked.run(folder, f"{command} {common} {arguments}", dict(pair.split("=") for pair in before.split()))
    files = [digest(path.read_bytes()) for path in sorted(folder.glob(pattern)) if path.is_file()] if pattern else []
    shown = [failure(done)] if done.code else [f"{len(done.out)} characters", digest(done.out.encode()), *files]
    print(f"{name}: {line}:", *shown, flush=True)
    return not done.code and bool(files) == bool(pattern)


def failure(done: forked.Done) -> str:
    """Exit status and last line of a command that has failed."""
    return f"exit status {done.code}: {(done.err.splitlines() or [''])[-1]}"


def figures(run: Path) -> list[str]:
    """Some losses, and digests of the log and of all checkpoints."""
    # A checkpoint is done when the disk is, and warnings are about versions.
    timeless = [record for record in log(run) if record["kind"] not in ("saved", "warning")]
    logged = [{key: record[key] for key in LOGGED if key in record} for record in timeless]
    losses = [f"{record['loss']:.4f}" for record in logged if "loss" in record]
    checkpoints = b"".join(path.read_bytes() for path in sorted(run.glob("checkpoints/*/*.safetensors")))
    return [*losses[:4], *losses[-2:], digest(json.dumps(logged).encode()), digest(checkpoints)]


def log(run: Path) -> list[dict[str, Any]]:
    """The records of a run's log."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
