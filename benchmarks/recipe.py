"""The scores of configurations on a corpus in the same time: recipe=auto and those chosen by a person.

    python benchmarks/recipe.py FOLDER NAME TIME [clock=cpu] [pairs=5000] [tests=500] [option=value …]
    python benchmarks/recipe.py tatoeba/en-de auto 10m
    python benchmarks/recipe.py tatoeba/en-de mine 10m arch=transformer_small train.tokens=2048

FOLDER contains train.en train.de (or .gz), dev.en dev.de, test.en test.de. The test set is translated and scored as in
the README, and one line of JSON is written: NAME, plan, times, scores. pairs, tests: use only the first of the training
pairs and of the test set. clock=cpu: the run's clock is the CPU time of its process, so that the result of a single
thread does not depend on other load of the machine.
"""

from __future__ import annotations

import gzip
import json
import queue  # noqa: F401  its timeouts keep the clock of the wall
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

SIDES = ("en", "de")


def lines(path: Path) -> list[str]:
    """The lines of a text file, gzipped or not."""
    packed = path.with_name(path.name + ".gz")
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return content.decode().splitlines()


def outcome(run: Path, data: Path, tests: int | None) -> dict[str, Any]:
    """Scores on the test set, with figures from the run's plan and log."""
    import s2s
    from s2s.io import read_record

    began = time.process_time()
    outputs = [str(output) for output in s2s.load(run).translate(lines(data / "test.en")[:tests])]
    scores = s2s.evaluate(outputs, lines(data / "test.de")[:tests], task="translation")
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    valid = [record["step"] for record in records if record.get("kind") == "valid"]
    saved = [record["step"] for record in records if record.get("kind") == "saved"]
    operations = sum(record.get("flops") or 0 for record in records if record.get("kind") == "update")
    status = json.loads((run / "status.json").read_text())
    plan = read_record(run / "plan.json")
    return {
        "steps": status["steps"],
        "10^12 operations": round(operations / 1e12, 1),
        "first validation": valid[:1],
        "first checkpoint": saved[:1],
        "plan": {decision["key"]: decision["value"] for decision in plan["decisions"]},
        "seconds of generation": round(time.process_time() - began, 1),
        "scores": {name: [round(score.value, 2), score.signature] for name, score in scores.items()},
    }


def main(folder: str, name: str, budget: str, *arguments: str) -> None:
    """Train, translate, score, and print the results."""
    from s2s.cli.train import main as train

    data, run = Path(folder), Path("runs") / name
    settings = dict(argument.split("=", 1) for argument in arguments)
    clock = settings.pop("clock", "wall")
    n_pairs, tests = (int(settings.pop(option, 0)) or None for option in ("pairs", "tests"))
    made = Path("runs") / f"{data.name}-{n_pairs or 'all'}"
    made.mkdir(parents=True, exist_ok=True)
    for side in SIDES:
        text = "".join(line + "\n" for line in islice(lines(data / f"train.{side}"), n_pairs))
        (made / f"train.{side}").write_text(text, encoding="utf-8")
    train_files, dev_files = (
        ",".join(f"{at}/{split}.{side}" for side in SIDES) for split, at in (("train", made), ("dev", data))
    )
    options = [f"{key}={value}" for key, value in settings.items()]
    given = [f"task.train=[{train_files}]", f"task.valid=[{dev_files}]", *options]
    if clock == "cpu":
        time.monotonic = time.perf_counter = time.process_time
    cpu, wall = time.process_time(), time.time()
    code = train(["task=translation", *given, f"run={run}", f"train.budget={budget}"])
    took = {"cpu": round(time.process_time() - cpu, 1), "wall": round(time.time() - wall, 1)}
    if code:
        sys.exit(code)
    found = {"name": name, "clock": clock, "budget": budget, "given": options, "seconds of s2s-train": took}
    print(json.dumps(found | outcome(run, data, tests)))


if __name__ == "__main__":
    main(*sys.argv[1:])
