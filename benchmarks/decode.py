"""Decoding speed, compared with peers on the same weights and the same lengths, in one interleaved run.

    python benchmarks/decode.py sizes=tiny,width128,small,base cases=mt,parse peer=ctranslate2,hf latency=true out=FILE

mt: 26 symbols in, 26 out, beam 4 (beams=1,4,21), batches=1,8,32. news: the same, but with sources
of the lengths of news. parse: 24 in, 84 out, beam 21, batches of 8. long: lengths=100,300,1000 symbols in,
and two steps: mostly the encoder.
run=RUN source=FILE: a trained model on real sentences, with outputs until eos, in a stream of batch= sentences at once.
levers=true switches each lever off in turn; shortlist=50 adds s2s with a lexical shortlist: the first 50 tokens, and 50
random ones for each source token. quantization=bf16|int8 applies to s2s and to every peer without its own, as
in peer=s2s:none,ctranslate2:int8; latency=true times single sentences; memory=ENGINE prints the peak memory of one
engine. Rates are output symbols per CPU second of one thread, including eos; each is the median of `repeats` runs, in
which the engines take turns. device=cuda: per second of wall time, in s2s with captured steps; peer=auto takes the
engines that are installed and run on that device; in bf16, s2s decodes under autocast.
"""

from __future__ import annotations

import copy
import importlib.util
import itertools
import json
import resource
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from decode_engines import PEERS, Decode, Work, build, ours, random_shortlist
from decode_marian import seconds_elsewhere
from s2s.backend import device_of
from s2s.backend.host import keep_freed_memory
from s2s.distributed import pick_device

CPU = torch.device("cpu")
LEVERS = ("matmul", "native", "kernels", "queue", "stream")
DEFAULTS = {
    "sizes": "small,base", "cases": "mt,parse", "beams": "4", "batches": "1,8,32", "lengths": "100,300,1000",
    "peer": "", "levers": "false", "shortlist": "0",
    "quantization": "none", "latency": "false", "memory": "", "run": "", "source": "", "lines": "400",
    "repeats": "5", "out": "", "device": "cpu",
}  # fmt: skip


def main(arguments: list[str]) -> None:
    """Run the measurements that `arguments` select; print and write them."""
    given = dict(argument.split("=", 1) for argument in arguments)
    if unknown := given.keys() - DEFAULTS.keys():
        raise SystemExit(f"unknown options: {', '.join(sorted(unknown))}; there are {', '.join(DEFAULTS)}")
    options = DEFAULTS | given
    torch.set_num_threads(1)
    keep_freed_memory()
    device = pick_device(options["device"], "device")
    options["device"] = str(device)
    if options["peer"] == "auto":
        options["peer"] = ",".join(installed(device))
    if options["memory"]:
        return print(json.dumps(memory(options)))
    rows: list[dict[str, Any]] = []
    limits = roofline() if device.type == "cpu" else {}
    append_row(rows, {"roofline": limits, "options": given, "torch": torch.__version__, **machine()}, options)
    if options["run"]:
        real(rows, options)
    else:
        for size in options["sizes"].split(","):
            measured(rows, size, options)
    return show(rows)


def append_row(rows: list[dict[str, Any]], row: dict[str, Any], options: dict[str, str]) -> None:
    """Print a row and write it immediately, since later measurements may take long."""
    rows.append(row)
    print(json.dumps(row), file=sys.stderr, flush=True)
    if options["out"]:
        Path(options["out"]).write_text("".join(json.dumps(row) + "\n" for row in rows))


def workloads(size: str, options: dict[str, str]) -> list[tuple[str, Work]]:
    """The selected workloads: random tokens in full batches, about the same amount of work in each."""
    draw = torch.Generator().manual_seed(1)
    chosen, found = options["cases"].split(","), []
    sizes = [(int(beam), int(batch)) for beam in options["beams"].split(",") for batch in options["batches"].split(",")]
    shapes = [(case, 26, 26, *size) for case in ("mt", "news") for size in sizes]
    for case, n_in, n_out, beam, batch in [*shapes, ("parse", 24, 84, 21, 8)]:
        if case in chosen:
            n_sentences = max(batch, 4 if case == "mt" else 8)
            sources = torch.randint(4, 3000, (n_sentences, n_in), generator=draw).tolist()
            if case == "news":
                sources = [source * 4 for source in sources]
                sources = [source[:n] for source, n in zip(sources, news_lengths(n_sentences, draw), strict=True)]
            found.append((f"{size} {case} beam {beam} batch {batch}", Work(sources, n_out, beam, batch)))
    for n_in, (beam, batch) in itertools.product(map(int, options["lengths"].split(",")), sizes):
        if "long" in chosen:
            sources = torch.randint(4, 3000, (max(batch, 4), n_in), generator=draw).tolist()
            found.append((f"{size} long {n_in} beam {beam} batch {batch}", Work(sources, 1, beam, batch)))
    return found


def news_lengths(n: int, draw: torch.Generator) -> list[int]:
    """Lengths with the mean and spread of sentences of news in subwords: log-normal, 26 and 15."""
    exponents = torch.empty(n).normal_(3.1, 0.55, generator=draw)
    return exponents.exp().round().clamp(3, 100).long().tolist()


def engines(model: Any, vocab: Any, options: dict[str, str]) -> dict[str, Decode]:
    """s2s, s2s with single optimisations disabled, and the peers; s2s takes the model itself, the others copies."""
    quantization, device, others = options["quantization"], options["device"], {}
    for lever in LEVERS if options["levers"] == "true" else ():
        others[f"s2s without {lever}"] = ours(copy.deepcopy(model), vocab, quantization, lever, device=device)
    if n := int(options["shortlist"]):
        listed = random_shortlist(vocab, n)
        others["s2s with a shortlist"] = ours(
            copy.deepcopy(model), vocab, quantization, device=device, shortlist=listed
        )
    for peer in filter(None, options["peer"].split(",")):
        name, _, own = peer.partition(":")
        engine = PEERS[name] if device == "cpu" else partial(PEERS[name], device=device)
        others[peer] = engine(copy.deepcopy(model) if name == "s2s" else model, vocab, own or quantization)
    return {"s2s": ours(model, vocab, quantization, device=device), **others}


def measured(rows: list[dict[str, Any]], size: str, options: dict[str, str]) -> None:
    """Rates of every engine on every workload of one model size."""
    compared = engines(*build(size), options)
    for name, work in workloads(size, options):
        row = compare(name, work, compared, int(options["repeats"]), torch.device(options["device"]))
        if options["latency"] == "true" and work.batch == 1:
            row["latency"] = latencies(work, compared)
        append_row(rows, row, options)


def compare(
    name: str, work: Work, compared: dict[str, Decode], repeats: int, device: torch.device = CPU
) -> dict[str, Any]:
    """Tokens per second of each engine, and how many of its outputs equal those of the first engine."""
    outputs = {engine: decode(work) for engine, decode in compared.items()}  # warms up, too
    rates: dict[str, list[float]] = {engine: [] for engine in compared}
    for _ in range(repeats):
        for engine, decode in compared.items():
            begun = seconds(device)
            found = decode(work)
            rates[engine].append(sum(len(output) + 1 for output in found) / (seconds(device) - begun))
    first = outputs["s2s"]
    return {
        "case": name,
        "rate": {engine: round(statistics.median(values), 1) for engine, values in rates.items()},
        "range": {engine: [round(min(values), 1), round(max(values), 1)] for engine, values in rates.items()},
        "ratio": {
            engine: round(statistics.median(a / b for a, b in zip(rates["s2s"], values, strict=True)), 3)
            for engine, values in rates.items()
        },
        "same": {engine: f"{sum(map(list.__eq__, first, found))}/{len(first)}" for engine, found in outputs.items()},
    }


def seconds(device: torch.device) -> float:
    """Processor time of all engines so far; beside a CPU, wall time when all work is done."""
    if device.type == "cpu":
        return time.process_time() + seconds_elsewhere()
    device_of(device).synchronize()
    return time.perf_counter()


def installed(device: torch.device) -> list[str]:
    """The peers that are installed and run on a device."""
    found = ["hf"] if importlib.util.find_spec("transformers") else []
    if device.type in ("cpu", "cuda") and importlib.util.find_spec("ctranslate2"):
        import ctranslate2

        if device.type == "cpu" or ctranslate2.get_cuda_device_count():
            found.insert(0, "ctranslate2")
    return found


def latencies(work: Work, compared: dict[str, Decode]) -> dict[str, list[float]]:
    """CPU milliseconds per sentence at batch size 1: median and 95th percentile."""
    found: dict[str, list[float]] = {engine: [] for engine in compared}
    for ids in list(work.sources) * 6:
        for engine, decode in compared.items():
            begun = time.process_time()
            decode(Work([ids], work.n_out, work.beam, 1))
            found[engine].append(1000 * (time.process_time() - begun))
    return {e: [round(statistics.median(v), 2), round(statistics.quantiles(v, n=20)[-1], 2)] for e, v in found.items()}


def real(rows: list[dict[str, Any]], options: dict[str, str]) -> None:
    """Rates of a trained run on real sentences, in the selected batch sizes."""
    from s2s.plugin import load_plugins
    from s2s.run import Run

    run = Run.load(Path(options["run"]), "auto", load_plugins(), torch.device("cpu"))
    lines = Path(options["source"]).read_text(encoding="utf-8").splitlines()[: int(options["lines"])]
    compared = engines(run.model, run.task.vocab, options)
    for beam in map(int, options["beams"].split(",")):
        for batch in map(int, options["batches"].split(",")):
            work = Work(run.task.encode_source(lines), None, beam, batch)
            name = f"{Path(options['source']).name} beam {beam} batch {batch}"
            append_row(rows, compare(name, work, compared, int(options["repeats"])), options)


def memory(options: dict[str, str]) -> dict[str, Any]:
    """Peak memory of a process that decodes with one engine, and memory before the engine is loaded, in MiB."""
    size = options["sizes"].split(",")[0]
    (name, work), *_ = workloads(size, options)
    model, vocab = build(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    make = ours if options["memory"] == "s2s" else PEERS[options["memory"]]
    make(model, vocab, options["quantization"])(work)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"case": name, "engine": options["memory"], "peak MiB": peak // 1024, "before": before // 1024}


def machine() -> dict[str, str]:
    """The processor, its widest vector instructions, and the commit."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    vectors = next((name for name in ("avx512f", "avx2") if name in fields.get("flags", "").split()), "")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {"processor": fields.get("model name", ""), "vectors": vectors, "commit": commit.stdout.strip()}


def roofline() -> dict[str, float]:
    """Limits of one thread of this machine: GFLOP/s of products with 128 rows and with one row, and read GB/s."""
    weight, rates = torch.randn(2048, 2048), {}
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    for name, n_rows in (("gemm", 128), ("gemv", 1)):
        x = torch.randn(n_rows, 2048)
        for kind, product in (
            ("torch", lambda x=x: x @ weight.T),
            ("onednn", lambda x=x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")),
        ):
            rates[f"{name} {kind} GFLOP/s"] = round(2 * n_rows * weight.numel() / _seconds(product) / 1e9, 1)
    large = torch.randn(2**25)
    rates["read GB/s"] = round(large.numel() * 4 / _seconds(large.amax) / 1e9, 1)
    return rates


def _seconds(function: Any) -> float:
    """The shortest of ten runs, in CPU seconds."""
    times = []
    for _ in range(10):
        begun = time.process_time()
        function()
        times.append(time.process_time() - begun)
    return max(min(times), 1e-9)


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table of rates, and the speed-up of the first engine over each other one."""
    names = list(rows[-1].get("rate", {}))
    table = Table("case", *names, title=str(rows[0]["roofline"]))
    for row in rows[1:]:
        cells = [f"{row['rate'][n]:,.0f} ({row['ratio'][n]:.2f}; same {row['same'][n]})" for n in names]
        table.add_row(row["case"], *cells)
        if row.get("latency"):
            table.add_row("  alone, ms p50 / p95", *(" / ".join(map(str, row["latency"][n])) for n in names))
    Console(width=200).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
