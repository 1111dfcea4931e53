"""What there is to know of s2s on a GPU, in half an hour: one command, one file of JSON to post, one page.

    python benchmarks/gpu.py [by=NAME] [device=auto] [minutes=30] [out=build/gpu] [size=full] [only=NAME,…]
                             [plugins=FILE]

Stages, in the order of their worth: the machine, numbers against float64 on the CPU, training against plain loops, a
run to a score, decoding against peers, several devices. Each is a process with a time limit, whose result is written at
once to `out`/results.json: one that crashes or takes too long costs a row. Stop it at any time: the same command goes
on, and does again only what did not succeed for want of time. What does not fit into `minutes` is left out, and made
by the same command with more of them. only=train,score: stages whose names begin so; a failed one that is named is
tried again. size=small: every stage with the smallest models, for a test on any machine, also with device=cpu. plugins:
a local plugin with the device, of which numbers, the score and several devices are made, without peers. by: who runs
it, for the record.

Peers are compared where they are installed: transformers, and CTranslate2 with CUDA.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.io.atomic import write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parent
LEAST_SECONDS = 20.0
"""A stage is not begun in less time than that"""
ARCHS = [
    *("transformer_tiny", "transformer_modern_tiny", "transformer_base", "t5_small", "bart_base", "opus_mt"),
    *("rnn_tiny", "gnmt", "bahdanau", "luong", "bytenet_tiny", "convs2s_tiny", "neural_gpu_tiny", "mixture_tiny"),
    "moe_lstm_tiny",
]
DONE = ("done", "skipped", "failed", "took too long")


@dataclass(frozen=True)
class Options:
    """The options of this script, as the top of the file describes them."""

    device: str = "auto"
    minutes: float = 30.0
    out: str = "build/gpu"
    size: str = "full"
    only: str = ""
    plugins: str = ""
    by: str = ""

    @property
    def identity(self) -> dict[str, str]:
        """What all results of one file have in common."""
        return {"device": self.device, "size": self.size, "plugins": self.plugins}

    def selects(self, name: str) -> bool:
        """Whether a stage is to be run."""
        return not self.only or name.startswith(tuple(self.only.split(",")))


@dataclass(frozen=True)
class Stage:
    """A script that prints one line of JSON at its end, or writes lines of it to `file`."""

    command: list[str]
    seconds: float
    """Time limit"""
    file: str = ""


@dataclass
class Results:
    """The contents of results.json."""

    options: dict[str, str]
    by: str
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name: state, seconds, date, and result, or why there is none"""

    def seconds(self) -> float:
        """Time that all stages took so far, in any number of calls."""
        return sum(stage["seconds"] for stage in self.stages.values())


def main(arguments: Sequence[str]) -> int:
    """Run all stages that are missing; 1 if one failed, 2 for a mistake in the arguments."""
    try:
        options = parse(arguments)
        results = begun(options)
    except ValueError as error:
        print(f"gpu.py: error: {error}", file=sys.stderr)
        return 2
    out = Path(options.out)
    for name, stage in stages(options).items():
        if not options.selects(name) or (is_done(results.stages.get(name)) and not is_asked(name, options, results)):
            continue
        left = 60 * options.minutes - results.seconds()
        if left < LEAST_SECONDS:
            results.stages[name] = {"state": "no time left", "seconds": 0.0}
        else:
            print(f"{name}, at most {min(left, stage.seconds):.0f} s", flush=True)
            results.stages[name] = run(name, stage, out, min(left, stage.seconds), cut=left < stage.seconds)
        write(results, out)
    write(results, out)
    print(f"written  {out / 'results.json'}, which is to be posted, and {out / 'results.md'}")
    return int(any(stage["state"] in ("failed", "took too long") for stage in results.stages.values()))


def parse(arguments: Sequence[str]) -> Options:
    """Raises ValueError for what is no option."""
    given = dict(argument.partition("=")[::2] for argument in arguments)
    defaults = asdict(Options())
    if unknown := given.keys() - defaults.keys():
        raise ValueError(f"{min(unknown)}: no such option; there are {', '.join(defaults)}")
    if given.get("size", "full") not in ("full", "small"):
        raise ValueError(f"size={given['size']}: expected full or small")
    try:
        minutes = float(given.get("minutes", defaults["minutes"]))
    except ValueError:
        raise ValueError(f"minutes={given['minutes']}: expected a number") from None
    return Options(**{**given, "minutes": minutes})  # type: ignore[arg-type]


def begun(options: Options) -> Results:
    """The results so far, to which those of this call are added."""
    file = Path(options.out) / "results.json"
    if not file.exists():
        return Results(options.identity, options.by)
    try:
        results = Results(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} is not what this script writes ({error}); give another out=FOLDER") from None
    if results.options != options.identity:
        raise ValueError(f"{file} was begun with {results.options}; give the same, or another out=FOLDER")
    results.by = options.by or results.by
    return results


def is_done(stage: dict[str, Any] | None) -> bool:
    """Whether a stage has ended by itself, or by its own limit."""
    return stage is not None and stage["state"] in DONE


def is_asked(name: str, options: Options, results: Results) -> bool:
    """Whether a stage that did not succeed has been named, to be tried again."""
    return bool(options.only) and results.stages[name]["state"] in ("failed", "took too long")


def stages(options: Options) -> dict[str, Stage]:
    """All stages, in order."""
    small, device = options.size == "small", [f"device={options.device}", f"plugins={options.plugins}"]
    check = [sys.executable, str(HERE / "gpu_checks.py")]
    train = [sys.executable, str(HERE / "train.py"), "corpus=synthetic", device[0], "--peer"]
    decode = [sys.executable, str(HERE / "decode.py"), device[0], "peer=auto", "cases=mt"]
    sizes = ["tokens=64", "rounds=1", "precision=fp32"] if small else ["tokens=4096", "rounds=10", "precision=bf16"]
    amount = ["batches=1,8", "repeats=1"] if small else ["batches=1,8,32,64", "repeats=3"]
    found = {"machine": Stage([*check, "machine", *device], 120)}
    for arch in ARCHS[:1] if small else ARCHS:
        found[f"numerics {arch}"] = Stage([*check, "numerics", *device, f"arch={arch}"], 150)
    learners = ("tiny",) if small else ("base", "big")
    found[f"train {learners[0]}"] = Stage([*train, f"arch={learners[0]}", *sizes], 300)
    folder = Path(options.out).resolve()
    place = [f"out={folder}", f"size={options.size}"]
    found["score"] = Stage([*check, "score", *device, *place], 480)
    for size in ("tiny",) if small else ("base", "big"):
        for kind in ("none",) if small else ("none", "bf16"):
            name = f"decode {size}" + ("" if kind == "none" else f" {kind}")
            file = str(folder / f"{name.replace(' ', '_')}.jsonl")
            command = [*decode, f"sizes={size}", f"quantization={kind}", *amount, f"out={file}"]
            found[name] = Stage(command, 240, file)
    for arch in learners[1:]:
        found[f"train {arch}"] = Stage([*train, f"arch={arch}", *sizes], 300)
    for strategy in ("ddp", "fsdp"):
        found[f"scaling {strategy}"] = Stage([*check, "scaling", *device, *place, f"strategy={strategy}"], 240)
    return {name: stage for name, stage in found.items() if not (options.plugins and "plugins" not in str(stage))}


def run(name: str, stage: Stage, out: Path, seconds: float, *, cut: bool) -> dict[str, Any]:
    """Run a stage; what it printed is kept in a log. cut: the limit is that of the whole, not the stage's own."""
    log, began = out / "logs" / f"{name.replace(' ', '_')}.log", time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            stage.command, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True, cwd=HERE.parent
        )
        try:
            printed, state = process.communicate(timeout=seconds)[0], "failed"
        except subprocess.TimeoutExpired:
            printed, state = "", "no time left" if cut else "took too long"
        finally:
            end(process)
        file.write(printed)
    row = {"seconds": round(time.monotonic() - began, 1), "date": datetime.now(UTC).isoformat(timespec="seconds")}
    found = result(stage, printed)
    if process.returncode == 0 and found:
        return {"state": "skipped" if "skipped" in found else "done", **row, "result": found}
    last = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()][-1:]
    return {"state": state, **row, "why": f"exit code {process.returncode}: {''.join(last)[:300]}", "result": found}


def end(process: subprocess.Popen[str]) -> None:
    """End a stage with all processes that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()


def result(stage: Stage, printed: str) -> Any:
    """What a stage has written, also if it was stopped; None if that is nothing."""
    lines = printed.splitlines()[-1:]
    if stage.file:
        file = Path(stage.file)
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    try:
        found = [json.loads(line) for line in lines]
    except ValueError:
        return None
    return found if stage.file else next(iter(found), None)


def write(results: Results, out: Path) -> None:
    """The file and the page, each replaced as a whole."""
    from gpu_page import page

    out.mkdir(parents=True, exist_ok=True)
    write_file(out / "results.json", json.dumps(asdict(results), indent=1) + "\n")
    write_file(out / "results.md", page(asdict(results)))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the stage is ended, too
    sys.exit(main(sys.argv[1:]))
