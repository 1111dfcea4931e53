"""The resources of a long command while it runs: memory, open files, sockets and threads, observed from outside.

    python benchmarks/steady.py train --units 20000
    python benchmarks/steady.py generate --units 200000

    python benchmarks/steady.py train --units 1000 arch=luong arch.d_model=64 train.tokens=2048 …

A tiny model on the synthetic corpus, so that files and threads are opened and closed as often as possible: training
validates and saves every 100 updates; generation reads its lines from a pipe. Options of s2s-train choose another model
or corpus. Nine rows are printed, with the peak memory since the previous row; after the first, by which all caches are
filled, nothing may grow by more than 8 MB or a tenth, one file, or one thread.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, NamedTuple

from s2s_synthetic_corpus.generate import pairs

ROWS = 10
TINY = [
    *("task=translation_tiny", "arch=transformer_tiny", "arch.d_model=16", "arch.d_ff=16", "arch.n_heads=2"),
    *("arch.n_encoder_layers=1", "arch.n_decoder_layers=1", "train.tokens=200"),
]
RUN = [
    *("run=steady", "train.threads=1", "data.workers=1", "valid.sentences=4", "valid.every=100"),
    *("checkpoint.every=100", "--quiet"),
]


class Resources(NamedTuple):
    """The resources of a process at one time."""

    units: int
    megabytes: float
    files: int
    sockets: int
    threads: int


def read_resources(pid: int, units: int) -> Resources:
    """Read the resources of a process from /proc, without affecting it."""
    process = Path(f"/proc/{pid}")
    links = []
    for link in (process / "fd").iterdir():
        try:
            links.append(str(link.readlink()))
        except FileNotFoundError:  # closed in between
            continue
    n_sockets = sum(link.startswith("socket:") for link in links)
    return Resources(units, resident(pid), len(links), n_sockets, len(list((process / "task").iterdir())))


def resident(pid: int) -> float:
    """Resident memory in megabytes; 0 for a process that has just ended."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def print_row(row: Resources) -> Resources:
    """Print a row immediately, since a long run may be interrupted, and return it."""
    print(f"{row.units:>9,}  {row.megabytes:>7.1f}  {row.files:>5}  {row.sockets:>7}  {row.threads:>7}", flush=True)
    return row


def train(folder: Path, n_updates: int, model: list[str]) -> list[Resources]:
    """Rows after each tenth of the updates of a training run."""
    command = ["s2s-train", *model, *RUN, "log.every=1", f"train.steps={n_updates}"]
    process, rows = subprocess.Popen(command, cwd=folder), list[Resources]()
    log, most = folder / "runs" / "steady" / "log.jsonl", 0.0
    while process.poll() is None:
        done = log.read_bytes().count(b'"kind": "update"') if log.exists() else 0
        most = max(most, resident(process.pid))
        if done >= (len(rows) + 1) * n_updates // ROWS and len(rows) < ROWS - 1:
            rows.append(print_row(read_resources(process.pid, done)._replace(megabytes=most)))
            most = 0.0
        time.sleep(0.05)
    assert process.returncode == 0
    return rows


def generate(folder: Path, n_lines: int, model: list[str]) -> list[Resources]:
    """Rows after each tenth of the lines of s2s-generate, which are supplied as fast as it reads them."""
    subprocess.run(["s2s-train", *model, *RUN, "train.steps=2"], cwd=folder, check=True)
    short = ["search=greedy", "search.max_len_a=0", "search.max_len_b=9"]  # an untrained model never ends by itself
    command = ["s2s-generate", "run=steady", "threads=1", "buffer_size=200", *short, "--quiet"]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    threading.Thread(target=feed, args=(process.stdin, n_lines), daemon=True).start()
    rows: list[Resources] = []
    for done, _ in enumerate(process.stdout, 1):
        if done >= (len(rows) + 1) * n_lines // ROWS and len(rows) < ROWS - 1:
            rows.append(print_row(read_resources(process.pid, done)))
    assert process.wait() == 0
    assert done == n_lines
    return rows


def feed(file: IO[bytes], n_lines: int) -> None:
    """Write `n_lines` sentences of the synthetic corpus, repeating it."""
    lines = [f"{pair.en}\n".encode() for pair in pairs(1, 1000)]
    with file:
        for i in range(n_lines):
            file.write(lines[i % len(lines)])


def is_steady(rows: list[Resources]) -> bool:
    """Whether no resource has grown since the first row."""
    first, last = rows[0], rows[-1]
    more = last.megabytes - first.megabytes
    return more < max(8, first.megabytes / 10) and last.files - first.files <= 1 and last.threads - first.threads <= 1


def main() -> int:
    """Print the rows; exit code 1 if a resource grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "generate"))
    parser.add_argument("--units", type=int, default=20_000, help="updates or lines")
    parser.add_argument("model", nargs="*", default=TINY, help="options of s2s-train")
    options = parser.parse_args()
    print(f"{'units':>9}  {'MB':>7}  files  sockets  threads", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = {"train": train, "generate": generate}[options.what](Path(folder), options.units, options.model)
    return int(not is_steady(rows))


if __name__ == "__main__":
    sys.exit(main())
