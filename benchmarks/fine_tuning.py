"""Starts of a model for a small domain: from scratch, and from a general model with each vocabulary, replay, adapters.

python benchmarks/fine_tuning.py TATOEBA HELP WORK

TATOEBA has train.en.gz, dev.en, test.en and the same in German; HELP the JSON lines train.jsonl.gz, dev.jsonl.gz and
test.jsonl.gz with the keys en and de. The general text is the first 20,000 pairs of Tatoeba; the domain 600 paragraphs
of the LibreOffice help of 4 to 16 words, drawn with seed 1. WORK gets texts, runs (complete ones are kept) and outputs.
Prints the commands, and both tables of scores with intervals and paired p.
"""

from __future__ import annotations

import gzip
import html
import json
import random
import re
import shlex
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair = tuple[str, str]
SIDES = ("en", "de")
GENERAL = "task=translation task.train=[train.en,train.de] task.valid=[dev.en,dev.de] recipe.hours=0.1"
HELP = "task.train=[help.en,help.de] task.valid=[helpdev.en,helpdev.de]"
STARTS = {
    "scratch": f"task=translation {HELP} recipe.hours=0.02",
    "new": f"train.init_from=general {HELP} train.init_vocab=new",
    "keep": f"train.init_from=general {HELP}",
    "lora": f"train.init_from=general {HELP} arch=lora",
    "replay": f"train.init_from=general {HELP} train.init_replay=0.5",
    "replay80": f"train.init_from=general {HELP} train.init_replay=0.8",
    "extend": f"train.init_from=general {HELP} train.init_vocab=extend train.init_replay=0.5",
}
"""Run -> arguments of s2s-train"""


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, compressed or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def general_pairs(folder: Path, split: str, n: int) -> list[Pair]:
    """The first pairs of a part of Tatoeba."""
    files = [folder / f"{split}.{side}" for side in SIDES]
    files = [file if file.exists() else file.with_name(f"{file.name}.gz") for file in files]
    return list(islice(zip(*map(lines_of, files), strict=True), n))


def plain(text: str) -> str:
    """A paragraph without markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text.replace("<br/>", " "))).split())


def help_pairs(folder: Path, split: str, n: int) -> list[Pair]:
    """At most `n` different translated paragraphs of 4 to 16 words on each side, drawn at random."""
    pairs: dict[str, str] = {}
    for row in map(json.loads, lines_of(folder / f"{split}.jsonl.gz")):
        if "de" in row:
            en, de = plain(row["en"]), plain(row["de"])
            if en != de and all(4 <= len(text.split()) <= 16 for text in (en, de)):
                pairs.setdefault(en, de)
    return DRAW.sample(list(pairs.items()), min(n, len(pairs)))


DRAW = random.Random(1)


def write(folder: Path, name: str, pairs: list[Pair]) -> None:
    """Both sides of the pairs as files."""
    for i, side in enumerate(SIDES):
        (folder / f"{name}.{side}").write_text("".join(f"{pair[i]}\n" for pair in pairs), encoding="utf-8")


def run(folder: Path, command: str) -> None:
    """Print a command and run it in the folder."""
    print(f"$ {command}", flush=True)
    subprocess.run(shlex.split(command), cwd=folder, check=True)


def main(tatoeba: Path, help_texts: Path, work: Path) -> None:
    """Write the texts, train, translate and score."""
    work.mkdir(parents=True, exist_ok=True)
    for name, n in (("train", 20_000), ("dev", 500), ("test", 1000)):
        write(work, name, general_pairs(tatoeba, name, n))
    for split, n, name in (("train", 600, "help"), ("dev", 150, "helpdev"), ("test", 1000, "helptest")):
        write(work, name, help_pairs(help_texts, split, n))
    runs = {"general": GENERAL, **STARTS}
    for name, arguments in runs.items():
        run(work, f"s2s-train {arguments} run={name} --quiet")
    for test in ("test", "helptest"):
        for name in runs:
            run(work, f"s2s-generate run={name} input={test}.en output={name}.{test}.de --quiet")
        run(work, f"s2s-score hyp=[{','.join(f'{name}.{test}.de' for name in runs)}] ref={test}.de metrics=bleu")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
