"""What it costs to keep development and test text out of training: CPU time of preparation with and without, in turns.

    python benchmarks/decontamination.py [pairs=100_000] [repeats=5] [sentences=4]

Of the synthetic corpus, `sentences` sentences to a text; 6,000 further texts are a development and a test set, of which
every hundredth stands in the training text, too, in capitals or on one side alone. "preparation" learns a vocabulary of
8,000 tokens, too; "encoding" is given one.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from s2s.config.data import DataConfig
from s2s.data.preparation import prepare
from s2s.plugin import load_plugins
from s2s_synthetic_corpus.generate import pairs as synthetic_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.task import Task

N_HELD_OUT = 3000
"""Texts of each set"""
EVERY = 100


def texts(n: int, sentences: int) -> list[list[str]]:
    """English and German texts: [n][2]"""
    made = synthetic_pairs(1, n * sentences)
    return [
        [" ".join(side) for side in zip(*((pair.en, pair.de) for pair in islice(made, sentences)), strict=True)]
        for _ in range(n)
    ]


def planted(train: list[list[str]], held_out: Sequence[list[str]]) -> int:
    """Put every EVERY-th held-out text into the training text; returns how many."""
    some = held_out[::EVERY]
    for number, (src, tgt) in enumerate(some):
        train[number * (len(train) // len(some))] = [src.upper(), "other"] if number % 2 else ["other", f"«{tgt}»"]
    return len(some)


def write(folder: Path, name: str, pairs: Sequence[Sequence[str]]) -> list[str]:
    """Two parallel files."""
    files = [folder / f"{name}.{language}" for language in ("en", "de")]
    for file, side in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return [str(file) for file in files]


def translation(files: dict[str, list[str]]) -> Task:
    """The task."""
    entry = load_plugins().registry.get("task", "translation")
    config: Any = entry.config
    task: Task = entry.build(config(name="translation", vocab_size=8000, **files))
    return task


def measured(files: dict[str, list[str]], folder: Path, **data: Any) -> tuple[float, int]:
    """CPU seconds of a preparation, and how many training pairs it dropped."""
    task = translation(files)
    with tempfile.TemporaryDirectory(dir=folder) as prepared:
        began = time.process_time()
        report = prepare(task, DataConfig(prepared=prepared, workers=1, **data)).ledger[0]
        return time.process_time() - began, report.drops.total


def compared(files: dict[str, list[str]], folder: Path, repeats: int, **data: Any) -> dict[str, Any]:
    """Medians without and with it, and the ratios."""
    runs = [
        (measured(files, folder, decontaminate=False, **data), measured(files, folder, **data)) for _ in range(repeats)
    ]
    ratios = sorted(with_[0] / without[0] for without, with_ in runs)
    seconds = [statistics.median(of[0] for of in side) for side in zip(*runs, strict=True)]
    return {"seconds": seconds, "ratio": statistics.median(ratios), "ratios": ratios, "dropped": runs[0][1][1]}


def main() -> None:
    """Print a table and a line of JSON."""
    options = {"pairs": 100_000, "repeats": 5, "sentences": 4}
    options |= {key: int(value) for key, _, value in (argument.partition("=") for argument in sys.argv[1:])}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        all_texts = texts(options["pairs"] + 2 * N_HELD_OUT, options["sentences"])
        held_out, train = all_texts[: 2 * N_HELD_OUT], all_texts[2 * N_HELD_OUT :]
        n_planted = planted(train, held_out)
        splits = {"train": train, "valid": held_out[:N_HELD_OUT], "test": held_out[N_HELD_OUT:]}
        files = {split: write(folder, split, pairs) for split, pairs in splits.items()}
        tokenizer = folder / "tokenizer"
        tokenizer.mkdir()
        translation(files).learn(tokenizer)
        results = {
            "preparation": compared(files, folder, options["repeats"]),
            "encoding": compared(files, folder, options["repeats"], tokenizer=str(tokenizer)),
        }
    table = Table("", "without, s", "with, s", "ratio", "from", "to", "dropped", "planted")
    for what, of in results.items():
        ratios = (f"{ratio:.3f}" for ratio in (of["ratio"], of["ratios"][0], of["ratios"][-1]))
        table.add_row(what, *(f"{s:.2f}" for s in of["seconds"]), *ratios, str(of["dropped"]), str(n_planted))
    Console(width=100).print(table)
    print(json.dumps({"options": options, "planted": n_planted, **results}))


if __name__ == "__main__":
    main()
