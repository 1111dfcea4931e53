"""Losses, weights and outputs of small runs with one seed, which a refactoring must not change.

    python benchmarks/same_numbers.py > before.txt    # on the tree before the change
    python benchmarks/same_numbers.py | diff before.txt -

A line for each run: its losses, and digests of all logged figures at full precision and of the last weights. A line for
each way to decode: a digest of the output. Compare only runs of one machine; another one sums in another order.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

COMMON = ["arch=transformer_tiny", "train.tokens=1500", "train.threads=1", "train.device=cpu", "log.every=1", "seed=3"]
NO_VALIDATION = ["valid.every=0", "valid.score=false"]
RUNS = {
    "tiny": ["task=translation_tiny", "train.steps=12", "valid.every=6", "valid.sentences=20"],
    "bf16_accumulation_ema": [
        *["task=translation_tiny", "train.steps=6", "train.micro_tokens=500", "train.precision=bf16", "train.ema=0.9"],
        *NO_VALIDATION,
    ],
    "two_ranks": ["task=translation_tiny", "train.steps=6", "train.devices=2", *NO_VALIDATION],
    "parsing": [
        *["task=parsing_tiny", "arch.share_embeddings=target", "train.steps=8", "valid.every=8", "valid.sentences=10"],
    ],
}
"""Name -> arguments of s2s-train"""
DECODED: tuple[list[str], ...] = (
    [],
    ["search.beam=6"],
    ["search.beam=21", "search.stop=first_k"],
    ["search=greedy"],
    ["search=sample"],
    ["search.beam=6", "search.num_beam_groups=3", "nbest=6", "format=jsonl"],
    ["search=sample", "mbr=chrf", "candidates=8", "format=tsv"],
    ["input=lexical.jsonl", "search.beam=8", "nbest=2", "format=jsonl", "fields=[align,tokens]"],
    ["input=lexical.jsonl", "search.beam=8", "search.num_beam_groups=2", "no_repeat_ngram_size=2", "format=jsonl"],
)
"""Arguments of s2s-generate; none: beam search with 4 hypotheses"""
INPUT = "the old man sees a red house .\na dog sleeps .\nwhere is the small green book ?\n" * 3
LEXICAL = (
    '{"src": "the old man sees a red house .", "phrases": ["rote Katze", "und"]}\n'
    '{"src": "a dog sleeps .", "prefix": "Die"}\n{"src": "where is the book ?"}\n'
)
LOGGED = ("step", "loss", "nll", "gnorm", "bleu", "f1")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run, arguments in RUNS.items():
            command(folder, "s2s-train", f"run={run}", *COMMON, *arguments)
            print(run, *figures(folder / "runs" / run), flush=True)
        (folder / "input.txt").write_text(INPUT)
        (folder / "lexical.jsonl").write_text(LEXICAL)
        common = ["run=tiny", "input=input.txt", "threads=1", "device=cpu"]
        for arguments in DECODED:
            out = command(folder, "s2s-generate", *common, *arguments)
            print("generate", *arguments, f"{len(out)} characters", digest(out.encode()), flush=True)


def command(folder: Path, name: str, *arguments: str) -> str:
    """The standard output of a command of this environment."""
    program = Path(sys.executable).parent / name
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} {' '.join(arguments)}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def figures(run: Path) -> list[str]:
    """The loss of every update, a digest of the log, and a digest of the final weights."""
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    timeless = [record for record in records if record["kind"] != "saved"]  # a checkpoint is done when the disk is
    logged = [{key: record[key] for key in LOGGED if key in record} for record in timeless]
    weights = sorted(run.glob("checkpoints/*/model.safetensors"))[-1]
    losses = [f"{record['loss']:.4f}" for record in logged if "loss" in record]
    return [*losses, digest(json.dumps(logged).encode()), digest(weights.read_bytes())]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    main()
