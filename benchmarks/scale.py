"""What grows with the corpus and what does not, and the constants for the calculations in docs/scale.md.

    python benchmarks/scale.py [pairs=10_000_000] [text=10_000_000] [parameters=20_000_000] [out=FOLDER]
    python benchmarks/scale.py only=corpora

Corpora of a hundredth, a tenth and all of the pairs are generated and written by the writer of preparation, opened and
read for an epoch in separate processes, and removed. Preparation itself is measured on the same parts of `text`
sentence pairs of the synthetic corpus; behind the first 100,000 the same ones are repeated. Times marked cpu_s are CPU
time, others wall clock. `only` leaves out what does not depend on corpora, and keeps its earlier figures.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from s2s.data.batching import POOL, Batches, Permutation
from s2s.data.mapped_corpus import MappedCorpus, MappedCorpusWriter, RaggedIds

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 1
CHUNK = 500_000
REPEATED = 100_000
"""Different pairs of a text"""
VOCAB = 32_000
TOKENS = 25_000


def main(arguments: list[str]) -> None:
    """Run all measurements; print them and write scale.json."""
    given = dict(argument.split("=", 1) for argument in arguments)
    n_pairs, n_parameters = int(given.get("pairs", "10_000_000")), int(given.get("parameters", "20_000_000"))
    n_text = int(given.get("text", "10_000_000"))
    out = Path(given.get("out", "benchmarks/results/scale"))
    record = out / "scale.json"
    found: dict[str, Any] = json.loads(record.read_text()) if "only" in given else {}
    found |= {"seed": SEED, "cores": os.cpu_count(), "command": " ".join(sys.argv)}
    with tempfile.TemporaryDirectory(dir=given.get("scratch")) as folder:
        found["preparation"] = [measure_preparation(Path(folder), n_text // part) for part in (100, 10, 1)]
        found["corpora"] = [measure_corpus(Path(folder), n_pairs // part) for part in (100, 10, 1)]
        if "only" not in given:
            found["checkpoint"] = in_process(measure_checkpoint, Path(folder), n_parameters)
            found["global_batch"] = [in_process(measure_global_batch, Path(folder), n) for n in (1, 16, 256)]
            found["all_reduce"] = measure_all_reduce(n_parameters)
    out.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def measure_corpus(folder: Path, n_pairs: int) -> dict[str, Any]:
    """Write a corpus, open it in a new process, draw an epoch, and delete it."""
    place = folder / "corpus"
    began = time.process_time()
    write_corpus(place, n_pairs)
    wrote = time.process_time() - began
    n_bytes = sum(file.stat().st_size for file in place.iterdir())
    facts, epoch = in_process(open_and_draw, place), in_process(read_epoch, place)
    shutil.rmtree(place)
    return {"pairs": n_pairs, "bytes_per_pair": n_bytes / n_pairs, "write_cpu_s": wrote, **facts, "epoch": epoch}


def write_corpus(place: Path, n_pairs: int, mean: float = 12.0) -> None:
    """Write pairs of random ids with log-normal lengths, like those of sentences."""
    draw = np.random.default_rng(SEED)
    with MappedCorpusWriter(place, VOCAB, VOCAB) as writer:
        for begin in range(0, n_pairs, CHUNK):
            src = np.clip(draw.lognormal(np.log(mean), 0.5, min(CHUNK, n_pairs - begin)), 1, 100).astype(np.int64)
            tgt = np.clip(src * draw.normal(1.0, 0.15, len(src)), 1, 100).astype(np.int64)
            writer.append(*(RaggedIds(draw.integers(4, VOCAB, int(n.sum())), n) for n in (src, tgt)))


def open_and_draw(place: Path) -> dict[str, Any]:
    """The CPU time and memory of opening a corpus, reading its first batch, and drawing the order of an epoch."""
    before, began = memory(), time.process_time()
    corpus = MappedCorpus(place)
    opened, after_open = time.process_time() - began, memory()
    batches = Batches([(corpus, 1.0)], TOKENS, SEED)
    began = time.process_time()
    batches.pairs(next(batches.epoch(0)))
    first, after_first = time.process_time() - began, memory()
    began = time.process_time()
    order, total = Permutation(len(corpus), SEED, 0), 0
    for begin in range(0, len(corpus), POOL):
        total += int(order(np.arange(begin, min(begin + POOL, len(corpus)))).sum())
    assert total == len(corpus) * (len(corpus) - 1) // 2, "every pair once"
    ordered, after = time.process_time() - began, memory()
    return {
        "open_cpu_s": opened,
        "first_batch_cpu_s": first,
        "order_cpu_s": ordered,
        "anonymous_mib": {"start": before[0], "open": after_open[0], "batch": after_first[0], "order": after[0]},
        "resident_mib": {"start": sum(before), "open": sum(after_open), "batch": sum(after_first), "order": sum(after)},
    }


def measure_preparation(folder: Path, n_pairs: int) -> dict[str, Any]:
    """Prepare two text files, including subword training, by the command's own function; then reopen the corpus."""
    files = [folder / f"text.{side}" for side in ("en", "de")]
    in_process(write_text, files, n_pairs)
    facts = in_process(prepare_text, files, folder / "prepared")
    text = sum(file.stat().st_size for file in files)
    disk = sum(file.stat().st_size for file in (folder / "prepared").rglob("*") if file.is_file())
    shutil.rmtree(folder / "prepared")
    rate = n_pairs / facts["cpu_s"]
    return {"pairs": n_pairs, "text_bytes": text, "prepared_bytes": disk, "pairs_per_cpu_s": rate, **facts}


def read_epoch(place: Path) -> dict[str, Any]:
    """The cost of all batches of an epoch with their pairs, in the order of training."""
    corpus, before = MappedCorpus(place), memory()
    batches, began = Batches([(corpus, 1.0)], TOKENS, SEED), time.process_time()
    n_pairs = sum(len(batches.pairs(rows)) for rows in batches.epoch(0))
    used, after = time.process_time() - began, memory()
    anonymous, resident = after[0] - before[0], sum(after)
    return {"pairs": n_pairs, "cpu_s": used, "anonymous_growth_mib": anonymous, "resident_mib": resident}


def write_text(files: list[Path], n_pairs: int) -> None:
    """Write pairs of the synthetic corpus."""
    from s2s_synthetic_corpus.generate import pairs

    some = list(pairs(SEED, min(n_pairs, REPEATED)))
    for file, lines in zip(files, ([pair.en for pair in some], [pair.de for pair in some]), strict=True):
        text = "".join(line + "\n" for line in lines)
        with file.open("w") as written:
            written.writelines([text] * (n_pairs // len(some)))


def prepare_text(files: list[Path], place: Path) -> dict[str, Any]:
    """Prepare in one thread; also reports the process's peak memory."""
    import torch

    from s2s.compose import compose
    from s2s.config.data import PrepareConfig
    from s2s.data.preparation import prepare
    from s2s.plugin import load_plugins
    from s2s_plan.memory import PeakMemory

    plugins = load_plugins()
    train = f"task.train=[{files[0]},{files[1]}]"
    arguments = ["task=translation", train, "task.vocab_size=8000", f"data.prepared={place}", "data.workers=1"]
    config = compose(PrepareConfig, arguments, plugins).config
    task = plugins.registry.get("task", config.task.name).build(config.task)
    times = []
    with PeakMemory(torch.device("cpu")) as peak:
        for _ in range(2):
            began = time.process_time()
            prepare(task, config.data)
            times.append(time.process_time() - began)
    return {"cpu_s": times[0], "found_again_cpu_s": times[1], "peak_mib": peak.bytes / 2**20}


def measure_checkpoint(folder: Path, n_parameters: int) -> dict[str, Any]:
    """Save and load weights with two optimiser moments each."""
    import torch

    from s2s.checkpoint import directory as checkpoint

    torch.manual_seed(SEED)
    tensors = {name: {"w": torch.randn(n_parameters)} for name in ("model", "mean", "square")}
    began = time.monotonic()
    path = checkpoint.save(folder / "checkpoints", "step-000001", tensors, {})
    saved = time.monotonic() - began
    began = time.monotonic()
    checkpoint.load(path)
    loaded, n_bytes = time.monotonic() - began, sum(file.stat().st_size for file in path.iterdir())
    return {"parameters": n_parameters, "bytes": n_bytes, "save_s": saved, "verify_and_load_s": loaded}


def measure_global_batch(folder: Path, n_devices: int) -> dict[str, Any]:
    """The cost per process of its share of a global batch, for `n_devices` devices with TOKENS tokens each."""
    from s2s.batch import make_batch
    from s2s.data.lazy_batch import LazyBatch, split
    from s2s.task import Vocab

    place = folder / "corpus"
    if not place.exists():
        write_corpus(place, 1_000_000, mean=25)
    batches = Batches([(MappedCorpus(place), 1.0)], TOKENS * n_devices, SEED)
    epoch = batches.epoch(0)
    next(epoch)
    began = time.process_time()
    rows = next(epoch)
    pairs = LazyBatch(rows, batches.lengths(rows), batches.pairs)
    make_batch(split(pairs, n_devices)[0], Vocab(src=VOCAB, tgt=VOCAB))
    seconds = time.process_time() - began
    return {"devices": n_devices, "pairs": len(pairs), "cpu_s": seconds, "cpu_us_per_pair": 1e6 * seconds / len(pairs)}


def measure_all_reduce(n_parameters: int, n_ranks: int = 2, repeats: int = 3) -> dict[str, Any]:
    """Sum fp32 gradients over gloo processes on this machine."""
    with multiprocessing.get_context("spawn").Manager() as manager:
        seconds = manager.list()
        port = 29_000 + os.getpid() % 1000
        run_all([(reduce_rank, (rank, n_ranks, port, n_parameters, repeats, seconds)) for rank in range(n_ranks)])
        best = min(seconds)
    n_bytes = 4 * n_parameters
    return {
        "ranks": n_ranks,
        "bytes": n_bytes,
        "s": best,
        "busbw_gb_s": 2 * (n_ranks - 1) / n_ranks * n_bytes / best / 1e9,
    }


def reduce_rank(rank: int, size: int, port: int, n_parameters: int, repeats: int, seconds: Any) -> None:
    """The body of one process."""
    import torch
    from torch import nn

    from s2s_distributed.ddp import DDP
    from s2s_distributed.process_group import join

    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    world = join("cpu", timedelta(minutes=2))
    model = nn.ParameterList([nn.Parameter(torch.zeros(n_parameters // 20)) for _ in range(20)])
    strategy = DDP(world)
    strategy.wrap(model)
    for p in model:
        p.grad = torch.ones_like(p)
    for _ in range(repeats):
        world.barrier()
        began = time.monotonic()
        strategy.reduce_gradients()
        seconds.append(time.monotonic() - began)
    world.close()


def memory() -> tuple[float, float]:
    """Resident memory of this process in MiB: anonymous, and file-backed, which the system can reclaim."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    kib = [int(status[name].split()[0]) for name in ("RssAnon", "RssFile")]
    return kib[0] / 1024, kib[1] / 1024


def in_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `work` in a new process, so that it is measured independently of earlier work."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def run_all(work: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
    """Run processes in parallel until all have finished."""
    processes = [multiprocessing.get_context("spawn").Process(target=f, args=a) for f, a in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert all(process.exitcode == 0 for process in processes)


if __name__ == "__main__":
    main(sys.argv[1:])
