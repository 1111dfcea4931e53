"""Starts of a model for a small domain: from scratch, and from a general model with each vocabulary, replay, adapters.

python benchmarks/fine_tuning.py TATOEBA TEXTS WORK [--domain help|captions] [--pairs 600] [--seeds 1 2 3]
                                 [--starts scratch keep …] [--general "OPTION …"]

TATOEBA has train.en.gz, dev.en, test.en and the same in German. TEXTS of the domain: help, the JSON lines
train.jsonl.gz, dev.jsonl.gz and test.jsonl.gz of the LibreOffice help with the keys en and de, of which paragraphs of 4
to 16 words are taken; captions, Multi30k with train.en, val.en, test_2016_flickr.en. The general text is the first
20,000 pairs of Tatoeba, that of the domain --pairs pairs drawn with seed 1. WORK gets texts, runs (complete ones are
kept) and outputs. Prints the commands, and for each test and seed the scores with intervals and paired p against the
model from scratch.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import random
import re
import shlex
import subprocess
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair = tuple[str, str]
SIDES = ("en", "de")
GENERAL = "task=translation task.train=[train.en,train.de] task.valid=[dev.en,dev.de]"
DOMAIN = "task.train=[domain.en,domain.de] task.valid=[domaindev.en,domaindev.de]"
FROM = f"train.init_from=general {DOMAIN}"
STARTS = {
    "scratch": f"task=translation {DOMAIN} recipe.hours=0.02",
    "new": f"{FROM} train.init_vocab=new",
    "keep": f"{FROM} train.init_replay=0 train.init_weight=0",
    "weights": f"{FROM} train.init_replay=0",
    "lora": f"{FROM} train.init_replay=0 train.init_weight=0 arch=lora",
    "replay": f"{FROM} train.init_replay=0.5",
    "default": FROM,
    "extend": f"{FROM} train.init_vocab=extend train.init_replay=0.5",
}
"""Run -> arguments of s2s-train"""
DRAW = random.Random(1)


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, compressed or not."""
    path = path if path.exists() else path.with_name(f"{path.name}.gz")
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def parallel_pairs(folder: Path, split: str) -> Iterator[Pair]:
    """The pairs of two files of lines."""
    return zip(*(lines_of(folder / f"{split}.{side}") for side in SIDES), strict=True)


def plain(text: str) -> str:
    """A paragraph without markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text.replace("<br/>", " "))).split())


def help_pairs(folder: Path, split: str) -> Iterator[Pair]:
    """Different translated paragraphs of 4 to 16 words on each side."""
    pairs: dict[str, str] = {}
    for row in map(json.loads, lines_of(folder / f"{split}.jsonl.gz")):
        if "de" in row:
            en, de = plain(row["en"]), plain(row["de"])
            if en != de and all(4 <= len(text.split()) <= 16 for text in (en, de)):
                pairs.setdefault(en, de)
    return iter(pairs.items())


DOMAINS = {
    "help": (help_pairs, ("train", "dev", "test")),
    "captions": (parallel_pairs, ("train", "val", "test_2016_flickr")),
}
"""Domain -> how its pairs are read, and the names of its splits"""


def write(folder: Path, name: str, pairs: list[Pair]) -> None:
    """Both sides of the pairs as files."""
    for i, side in enumerate(SIDES):
        (folder / f"{name}.{side}").write_text("".join(f"{pair[i]}\n" for pair in pairs), encoding="utf-8")


def write_texts(options: argparse.Namespace) -> None:
    """Training, development and test texts, general and of the domain."""
    for name, n in (("train", 20_000), ("dev", 500), ("test", 1000)):
        write(options.work, name, list(islice(parallel_pairs(options.tatoeba, name), n)))
    read, splits = DOMAINS[options.domain]
    for name, split, n in zip(("domain", "domaindev", "domaintest"), splits, (options.pairs, 150, 1000), strict=True):
        pairs = list(read(options.texts, split))
        write(options.work, name, DRAW.sample(pairs, min(n, len(pairs))))


def run(folder: Path, command: str) -> None:
    """Print a command and run it in the folder."""
    print(f"$ {command}", flush=True)
    subprocess.run(shlex.split(command), cwd=folder, check=True)


def main(options: argparse.Namespace) -> None:
    """Write the texts, train, translate and score."""
    options.work.mkdir(parents=True, exist_ok=True)
    write_texts(options)
    run(options.work, f"s2s-train {GENERAL} {options.general} run=general --quiet")
    for seed in options.seeds:
        names = [f"{name}-{seed}" for name in options.starts]
        for name, start in zip(names, options.starts, strict=True):
            run(options.work, f"s2s-train {STARTS[start]} seed={seed} run={name} --quiet")
        for test in ("test", "domaintest"):
            for name in (*names, "general"):
                run(
                    options.work,
                    f"s2s-generate run={name} input={test}.en output={name}.{test}.de --quiet overwrite=true",
                )
            hyps = ",".join(f"{name}.{test}.de" for name in (*names, "general"))
            run(options.work, f"s2s-score hyp=[{hyps}] ref={test}.de metrics=[bleu,chrf]")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tatoeba", "texts", "work"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--domain", choices=DOMAINS, default="help")
    parser.add_argument("--pairs", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--starts", choices=STARTS, nargs="+", default=list(STARTS))
    parser.add_argument("--general", default="recipe.hours=0.1")
    main(parser.parse_args())
