"""The speed of reading and encoding text and of making batches, and how full the batches are.

    python benchmarks/data.py [corpus.en corpus.de] [key=value …]

Encoding is compared with sentencepiece's own encode in one run, in turns; `relative` is the CPU time of the first
operation of each group divided by that of the row, with the least and the most of the rounds. Without files: the
synthetic corpus.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sentencepiece
from rich.console import Console
from rich.table import Table

from s2s.backend import usable_cores
from s2s.data.batching import POOL, Batches
from s2s.data.columns import EncodedColumns, column
from s2s.data.encode import encode_corpus
from s2s.data.ledger import CorpusReport
from s2s.data.mapped_corpus import MappedCorpus, MappedCorpusWriter
from s2s.data.pair_rules import LengthLimits, PairRules
from s2s.data.text import read_lines
from s2s.registry import Choice
from s2s.task import Dependencies, Example, Task, Vocab
from s2s_sentencepiece.subwords import Subwords
from s2s_sentencepiece.training import train_subwords
from s2s_synthetic_corpus.generate import pairs as synthetic_pairs
from s2s_text_corpora.parallel import read_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 5


@dataclass
class Options:
    """Options of the benchmark."""

    kind: str = "bpe"
    """bpe or unigram"""
    size: int = 8_000
    """Vocabulary size"""
    pairs: int = 20_000
    """Number of pairs of the synthetic corpus, if no files are given"""
    large: int = 4_000_000
    """Number of pairs, of random lengths, in the large corpus whose batches are planned"""


class Pairs(Task):
    """A task that reads two files with one shared vocabulary."""

    def __init__(self, files: list[Path], subwords: Subwords) -> None:
        super().__init__(Choice(name="pairs"))
        self.files = files
        self.subwords = subwords
        self.vocab = Vocab(src=subwords.size, tgt=subwords.size, joint=True)

    def dependencies(self) -> Dependencies:
        return Dependencies(self.files)

    def corpora(self, split: str) -> list[tuple[str, float]]:
        return [("all", 1.0)]

    def examples(self, split: str, corpus: str) -> Any:
        return read_pairs(self.files)

    def learn(self, directory: Path) -> None: ...

    def load(self, directory: Path) -> None: ...

    def encode(self, examples: Any) -> EncodedColumns:
        src, tgt = (self.subwords.encode(column(examples, side)) for side in ("src", "tgt"))
        return EncodedColumns(src, tgt)

    def encode_source(self, lines: Any) -> list[list[int]]:
        return self.subwords.encode(lines)

    def detokenize(self, ids: Any, src: str) -> str:
        return self.subwords.decode(ids)


@dataclass(frozen=True)
class Measured:
    """Median rates of one operation over REPEATS runs."""

    what: str
    per_second: float
    per_cpu_second: float
    unit: str
    relative: list[float]
    """The CPU time of the first operation, divided by that of this one: median, least and most of the rounds"""


def measure(unit: str, count: int, **actions: Callable[[], object]) -> list[Measured]:
    """Run all operations alternately, REPEATS times, so that other load affects them equally."""
    wall: dict[str, list[float]] = {name: [] for name in actions}
    cpu: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(REPEATS):
        for name, action in actions.items():
            began, used = time.perf_counter(), time.process_time()
            action()
            wall[name].append(time.perf_counter() - began)
            cpu[name].append(time.process_time() - used)
    first = cpu[next(iter(actions))]
    ratios = {name: [a / b for a, b in zip(first, cpu[name], strict=True)] for name in actions}
    return [
        Measured(
            name.replace("_", " "),
            count / statistics.median(wall[name]),
            count / statistics.median(cpu[name]),
            unit,
            [statistics.median(ratios[name]), min(ratios[name]), max(ratios[name])],
        )
        for name in actions
    ]


def measure_text(files: list[Path], options: Options, folder: Path) -> tuple[list[Measured], MappedCorpus]:
    """Measure reading and encoding; returns the encoded corpus."""
    pairs = [pair for pair in read_pairs(files) if isinstance(pair, Example)]
    lines = [line for pair in pairs for line in (pair.src, pair.tgt)]
    train_subwords(lines, folder / "model", options.kind, options.size)  # type: ignore[arg-type]
    subwords, workers = Subwords(folder / "model"), usable_cores()
    own = sentencepiece.SentencePieceProcessor(model_file=str(folder / "model"))
    task = Pairs(files, subwords)

    def prepare(threads: int) -> None:
        with MappedCorpusWriter(folder / "corpus", subwords.size, subwords.size) as writer:
            rules = PairRules(LengthLimits(256))
            for _ in encode_corpus(task, writer, CorpusReport("train", "all"), rules, threads):
                pass

    reading = measure(
        "lines/s",
        len(lines),
        read_lines=lambda: [sum(1 for _ in read_lines(file)) for file in files],
        read_pairs=lambda: sum(1 for _ in read_pairs(files)),
    )
    encoding = measure(
        "lines/s",
        len(lines),
        **{
            "sentencepiece, 1 thread": lambda: own.encode(lines, num_threads=1),
            "Subwords.encode, 1 thread": lambda: subwords.encode(lines, 1),
            "read + encode + filter + write, 1 worker": lambda: prepare(1),
            f"sentencepiece, {workers} threads": lambda: own.encode(lines, num_threads=workers),
            f"Subwords.encode, {workers} threads": lambda: subwords.encode(lines, workers),
            f"read + encode + filter + write, {workers} workers": lambda: prepare(workers),
        },
    )
    return [*reading, *encoding], MappedCorpus(folder / "corpus")


def measure_batches(corpus: MappedCorpus, tokens: int) -> tuple[list[Measured], dict[str, float]]:
    """Measure planning an epoch and fetching its pairs; report padding, also with all pairs sorted by length."""
    batches = Batches([(corpus, 1.0)], tokens, seed=1)
    plan = list(islice(batches.epoch(0), 500))
    n_pairs = sum(map(len, plan))
    measured = measure(
        "pairs/s",
        n_pairs,
        **{
            f"plan batches of {tokens:,}": lambda: list(islice(batches.epoch(0), len(plan))),
            f"fetch batches of {tokens:,}": lambda: [batches.pairs(rows) for rows in plan],
        },
    )
    pools = {"pools of 100,000": 100_000, f"pools of {POOL:,}": POOL, "all sorted at once": len(corpus)}
    shares = {name: fill(Batches([(corpus, 1.0)], tokens, 1, pool)) for name, pool in pools.items()}
    return measured, shares


def measure_variation(corpus: MappedCorpus, subwords: Subwords) -> list[Measured]:
    """Measure resampling subword segmentations, as in an epoch with task.subword_sampling=0.1."""
    pairs = [[side.tolist() for side in corpus[row]] for row in range(min(len(corpus), 5000))]

    sample = subwords.sampler(0.1)

    def resample() -> list[list[list[int]]]:
        return [[sample(ids, seed) for ids in pair] for seed, pair in enumerate(pairs)]

    before, after = (sum(len(side) for pair in of for side in pair) for of in (pairs, resample()))
    return measure("pairs/s", len(pairs), **{f"other subwords, {after / before:.2f} times as long": resample})


class LazyBatch:
    """Lengths of a large corpus without ids: log-normal, mean about 25 tokens; the two sides differ by a fifth."""

    def __init__(self, n: int) -> None:
        draw = np.random.default_rng(1)
        src = draw.lognormal(3, 0.6, n)
        both = np.stack([src, src * draw.lognormal(0, 0.2, n)])
        self.sizes = both.clip(1, 250).astype(np.int64)  # [2, n]

    def __len__(self) -> int:
        return self.sizes.shape[1]

    def __getitem__(self, row: int) -> Any:
        raise NotImplementedError

    def lengths(self, rows: Any) -> tuple[Any, Any]:
        return self.sizes[0, rows], self.sizes[1, rows]


def measure_large(n: int, tokens: int) -> tuple[list[Measured], dict[str, float]]:
    """Measure the cost of resuming at the end of an epoch of n pairs, and the share of padding."""
    corpus = LazyBatch(n)
    batches = Batches([(corpus, 1.0)], tokens, seed=1)
    skip = {f"skip all batches of {tokens:,}, {n:,} pairs": lambda: list(batches.epoch(0, start=n))}
    measured = measure("pairs/s", n, **skip)
    pools = {"pools of 100,000": 100_000, f"pools of {POOL:,}": POOL, "all sorted at once": n}
    return measured, {name: fill(Batches([(corpus, 1.0)], tokens, 1, pool)) for name, pool in pools.items()}


def fill(batches: Batches) -> float:
    """Share of tokens that are not padding, in the padded batches of an epoch."""
    real = padded = 0
    for rows in batches.epoch(0):
        sides = np.stack(batches.lengths(rows))  # [2, B]
        real += int(sides.sum())
        padded += int(sides.max(axis=1).sum()) * len(rows)
    return real / padded


def synthetic_files(n: int, folder: Path) -> list[Path]:
    """Write the synthetic corpus to files."""
    files = [folder / "synthetic.en", folder / "synthetic.de"]
    pairs = list(synthetic_pairs(1, n))
    files[0].write_text("".join(f"{pair.en}\n" for pair in pairs))
    files[1].write_text("".join(f"{pair.de}\n" for pair in pairs))
    return files


def main() -> None:
    """Run all measurements; print a table and a line of JSON."""
    options = Options()
    for argument in (a for a in sys.argv[1:] if "=" in a):
        key, _, value = argument.partition("=")
        setattr(options, key, type(getattr(options, key))(value))
    with tempfile.TemporaryDirectory() as temp:
        files = [Path(a) for a in sys.argv[1:] if "=" not in a] or synthetic_files(options.pairs, Path(temp))
        measured, corpus = measure_text(files, options, Path(temp))
        measured += measure_variation(corpus, Subwords(Path(temp) / "model"))
        fills = {}
        for tokens in (2048, 25_000):
            more, fills[f"batches of {tokens:,}"] = measure_batches(corpus, tokens)
            measured += more
        more, fills[f"batches of 25,000, {options.large:,} pairs"] = measure_large(options.large, 25_000)
        measured += more
    table = Table(
        "what", "a second", "a CPU second", "of", "relative", title=f"{len(corpus):,} pairs, {os.cpu_count()} cores"
    )
    for row in measured:
        relative, least, most = row.relative
        rates = (f"{rate:,.0f}" for rate in (row.per_second, row.per_cpu_second))
        table.add_row(row.what, *rates, row.unit, f"{relative:.2f} [{least:.2f}, {most:.2f}]")
    for which, shares in fills.items():
        for name, share in shares.items():
            table.add_row(f"fill, {which}, {name}", f"{share:.1%}", "", "not padding")
    Console(width=110).print(table)
    print(json.dumps({"options": asdict(options), "measured": [asdict(m) for m in measured], "fill": fills}))


if __name__ == "__main__":
    main()
