"""A model that transformers trained and one that Marian trained, tuned here on another domain, against a new model.

    pip install pymarian==1.12.42   # in an environment of its own, 1 GB
    python benchmarks/pretrained_tuning.py TATOEBA HELP MULTI30K WORK --pymarian …/bin/pymarian
           [--pairs 400] [--seeds 1 2 3] [--updates 2500] [--lines 400] [--models hugging_face marian]

TATOEBA has train.en.gz, dev.en, test.en and the same in German, HELP the JSON lines of the LibreOffice help, MULTI30K
train.en, val.en, test_2016_flickr.en. Both models have the same text, subwords and shape, and as many updates of 1,024
target tokens: 20,000 pairs of Tatoeba and 10,000 paragraphs of the help, which are the general text here; the domain is
--pairs captions of Multi30k. WORK gets texts, models, runs and outputs, of which complete ones are kept. Prints the
commands with their seconds, and at the end the table; WORK/scores.json has the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fine_tuning import Pair, help_pairs, parallel_pairs, write
from pretrained_models import train_hugging_face, train_marian

DOMAIN = "task.train=[domain.en,domain.de] task.valid=[domaindev.en,domaindev.de] valid.score=false"
SCRATCH = f"task=translation {DOMAIN} recipe.hours=0.02"
STARTS = {
    "full": "train.init_from={model}",
    "lora": "train.init_from={model} train.init_weight=0 arch=lora",
    "frozen": "train.init_from={model} train.init_weight=0 train.freeze=[^encoder,embed]",
    "pruned": "train.init_from={model}-pruned train.init_weight=0",
}
"""Start -> arguments of s2s-train"""
DECODED = {"full": {"all weights": "best", "the default": "average"}}
"""Start -> rows of the table, and their checkpoints: train.init_weight=0 is the best checkpoint of the default's run"""
ROWS = {"lora": "adapters", "frozen": "encoder and embeddings frozen", "pruned": "all weights, vocabulary pruned"}
TESTS = ("general", "domain")
Train = Callable[[Path, Path, int], None]


def write_texts(options: argparse.Namespace) -> None:
    """Training, development and test texts, general and of the domain."""
    draw = random.Random(1)
    general = {"train": (20_000, 10_000), "dev": (200, 200), "test": (options.lines // 2,) * 2}
    for split, (n_tatoeba, n_help) in general.items():
        pairs: list[Pair] = list(islice(parallel_pairs(options.tatoeba, split), n_tatoeba))
        paragraphs = list(help_pairs(options.help_texts, split))
        pairs += draw.sample(paragraphs, min(n_help, len(paragraphs)))
        write(options.work, f"general{split}", pairs)
    for name, split, n in (
        ("domain", "train", options.pairs),
        ("domaindev", "val", 150),
        ("domaintest", "test_2016_flickr", options.lines),
    ):
        write(options.work, name, draw.sample(list(parallel_pairs(options.multi30k, split)), n))
    tests = [(options.work / f"{test}test.en").read_text(encoding="utf-8") for test in TESTS]
    (options.work / "test.en").write_text("".join(tests), encoding="utf-8")


def run(folder: Path, command: str, made: str = "") -> None:
    """Print a command and its seconds, and run it in the folder, unless what it makes is there."""
    if made and (folder / made).exists():
        return
    print(f"$ s2s-{command}", flush=True)
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "s2s", *shlex.split(command)], cwd=folder, check=True)
    print(f"# {time.monotonic() - began:.0f} s", flush=True)


def tune(options: argparse.Namespace, model: str, seed: int) -> dict[str, list[str]]:
    """Train all starts from a model; returns the names of the outputs of each row."""
    outputs = {}
    for start, arguments in STARTS.items():
        name = f"{model}-{start}-{seed}"
        command = f"train {arguments.format(model=model)} {DOMAIN} seed={seed} run={name} --quiet"
        run(options.work, command)
        for row, checkpoint in DECODED.get(start, {ROWS.get(start, start): "auto"}).items():
            outputs[f"{model}: {row}"] = translate(options.work, name, checkpoint)
    return outputs


def translate(work: Path, name: str, checkpoint: str = "auto") -> list[str]:
    """The outputs for both tests."""
    output = f"{name}.{checkpoint}.de"
    run(work, f"generate run={name} input=test.en output={output} checkpoint={checkpoint} --quiet", output)
    lines = (work / output).read_text(encoding="utf-8").splitlines(keepends=True)
    files = [f"{name}.{checkpoint}.{test}.de" for test in TESTS]
    for file, part in zip(files, (lines[: len(lines) // 2], lines[len(lines) // 2 :]), strict=True):
        (work / file).write_text("".join(part), encoding="utf-8")
    return files


def score(work: Path, rows: dict[str, list[list[str]]]) -> dict[str, Any]:
    """Row -> test and metric -> the scores of the seeds, with half the 95% interval, and p against from scratch."""
    found: dict[str, Any] = {row: {} for row in rows}
    for i, test in enumerate(TESTS):
        n_seeds = max(map(len, rows.values()))
        for seed in range(n_seeds):
            names = {row: files[seed][i] for row, files in rows.items() if seed < len(files)}
            command = f"score hyp=[{','.join(names.values())}] ref={test}test.de metrics=[bleu,chrf] format=json"
            printed = subprocess.run(
                [sys.executable, "-m", "s2s", *shlex.split(command)],
                cwd=work,
                check=True,
                capture_output=True,
                text=True,
            )
            row_of = {name: row for row, name in names.items()}
            for one in json.loads(printed.stdout)["scores"]:
                found[row_of[one["system"]]].setdefault(f"{test} {one['name']}", []).append(one)
    return found


def print_table(scores: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Mean and range of the seeds, or of one the 95% interval; p of the domain against from scratch, of each seed."""
    columns = [f"{test} {metric}" for test in TESTS for metric in ("bleu", "chrf")]
    print(f"| start | {' | '.join(columns)} | p |", "|---" * (len(columns) + 2) + "|", sep="\n")
    for row, found in scores.items():
        cells = [shown(found[column]) for column in columns]
        p = ", ".join(f"{one['p_value']:.3f}" for one in found["domain bleu"] if one["p_value"] is not None)
        print(f"| {row} | {' | '.join(cells)} | {p} |")


def shown(seeds: list[dict[str, Any]]) -> str:
    """A cell of the table."""
    values = [one["value"] for one in seeds]
    if len(values) == 1:
        return f"{values[0]:.1f} [{seeds[0]['low']:.1f}, {seeds[0]['high']:.1f}]"
    return f"{statistics.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main(options: argparse.Namespace) -> None:
    """Write the texts, train, tune, translate and score."""
    options.work.mkdir(parents=True, exist_ok=True)
    if not (options.work / "test.en").exists():
        write_texts(options)
    trainers: dict[str, Train] = {"hugging_face": train_hugging_face, "marian": partial(train_marian, options.pymarian)}
    models = {model: trainers[model] for model in options.models}
    for model, train in models.items():
        if not (options.work / model).exists():
            began, unfinished = time.monotonic(), options.work / f"{model}.tmp"
            train(options.work, unfinished, options.updates)
            unfinished.rename(options.work / model)
            print(f"# {model}: {options.updates} updates, {time.monotonic() - began:.0f} s", flush=True)
        pruned = f"run={model}-pruned vocab=[domain.en,domain.de]"
        run(options.work, f"import model={model} {pruned} --quiet", f"runs/{model}-pruned")
    rows: dict[str, list[list[str]]] = {"from scratch": []}
    for model in models:
        rows[f"{model}: as it is"] = [translate(options.work, model)]
    for seed in options.seeds:
        name = f"scratch-{seed}"
        run(options.work, f"train {SCRATCH} seed={seed} run={name} --quiet")
        rows["from scratch"].append(translate(options.work, name))
        for model in models:
            for row, files in tune(options, model, seed).items():
                rows.setdefault(row, []).append(files)
    scores = score(options.work, rows)
    (options.work / "scores.json").write_text(json.dumps(scores, indent=1) + "\n")
    print_table(scores)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tatoeba", "help_texts", "multi30k", "work"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--pymarian", required=True)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--updates", type=int, default=2500)
    parser.add_argument("--models", choices=("hugging_face", "marian"), nargs="+", default=["hugging_face", "marian"])
    parser.add_argument("--lines", type=int, default=400)
    main(parser.parse_args())
