"""The stages of `gpu.py` that are no benchmark of their own; each prints a line of JSON at its end.

python benchmarks/gpu_checks.py machine|numerics|score|scaling [device=auto] [plugins=FILE] [arch=NAME] [out=FOLDER]
                                [size=full] [strategy=ddp]
"""

from __future__ import annotations

import copy
import json
import math
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from s2s.backend import device_of
from s2s.backend.product_rate import matmul_rate
from s2s.backend.selection import DTYPES
from s2s.batch import make_batch
from s2s.compose import compose
from s2s.config import Config
from s2s.decoding import BeamConfig, SearchRequest, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.distributed import pick_device
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.plugin import load_plugins
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from s2s.model import Seq2Seq
    from s2s.plugin import Plugins

DEFAULTS = {"device": "auto", "plugins": "", "arch": "transformer_tiny", "out": ".", "size": "full", "strategy": "ddp"}
LIMITS = {"fp32": (1e-4, 1e-3), "bf16": (0.05, 0.2)}
"""Of the distances of logits and gradients that count as equal"""
N_SYMBOLS = 512
CERTAIN = {"noisy": "false", "load": "0"}
"""What a mixture of experts would draw, and what it does only then"""
SMALLER = {"t5_small": 64**-0.25}
"""Factors of linear maps: T5 begins with small queries in place of a scale of scores. Unscaled products of 64 numbers
would saturate the softmax, which multiplies rounding errors by 100 and leaves nothing of bf16"""
N_UPDATES, N_WARM_UP = 60, 30
GOAL = 70.0
"""BLEU of 200 development sentences whose time is noted; `make demo` ends with some 76 on a CPU"""


def main(arguments: Sequence[str]) -> int:
    """Run one stage."""
    given = dict(argument.partition("=")[::2] for argument in arguments[1:])
    if unknown := given.keys() - DEFAULTS.keys():
        raise SystemExit(f"unknown options: {', '.join(sorted(unknown))}; there are {', '.join(DEFAULTS)}")
    options = DEFAULTS | given
    plugins = load_plugins([options["plugins"]] if options["plugins"] else [])
    device = pick_device(options["device"], "device")
    stages: dict[str, Callable[[], dict[str, Any]]] = {
        "machine": lambda: machine(device),
        "numerics": lambda: numerics(options["arch"], plugins, device),
        "score": lambda: score(options, device),
        "scaling": lambda: scaling(options, device),
    }
    print(json.dumps(stages[arguments[0]]()))
    return 0


def machine(device: torch.device) -> dict[str, Any]:
    """What is measured on."""
    here = device_of(device)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    precisions = ["fp32", *(p for p, dtype in DTYPES.items() if p == "bf16" and dtype in here.autocast_dtypes)]
    rates = {p: matmul_rate(device, DTYPES[p]) for p in precisions if device.type in ("cpu", "cuda", "mps", "xpu")}
    return {
        "name": here.hardware(),
        "device": str(device),
        "devices": here.count(),
        "free memory": f"{here.free_memory() / 2**30:.1f} GiB",
        **{f"products, {p}": f"{rate / 1e12:.3g} TFLOP/s" for p, rate in rates.items()},
        "torch": torch.__version__,
        "CUDA": torch.version.cuda or "none",
        "Python": platform.python_version(),
        "system": platform.platform(),
        "commit": commit.stdout.strip() or "none",
    }


def numerics(arch: str, plugins: Plugins, device: torch.device) -> dict[str, Any]:
    """Logits and gradients of an architecture against float64 on the CPU, and the outputs of searches."""
    chosen = [f"arch={arch}", "task=translation_tiny"]
    config = compose(Config, [*chosen, *without_noise(compose(Config, chosen, plugins).config.arch)], plugins).config
    vocab = Vocab(src=N_SYMBOLS, tgt=N_SYMBOLS, joint=True)
    if getattr(config.arch, "zero_start", False):  # Marian's: see decode_engines.build
        vocab = replace(vocab, pad=N_SYMBOLS - 1, bos=N_SYMBOLS - 1, eos=0, unk=1)
    torch.manual_seed(1)
    model: Seq2Seq = plugins.hook.s2s_build_model(config=config, vocab=vocab, registry=plugins.registry).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.data *= SMALLER.get(arch, 1.0)
    exact = vectors(copy.deepcopy(model).double(), vocab, torch.device("cpu"), torch.float32)
    there = copy.deepcopy(model).to(device)
    found: dict[str, Any] = {}
    for precision, limits in LIMITS.items():
        if precision == "fp32" or DTYPES[precision] in device_of(device).autocast_dtypes:
            apart = [
                distance(*pair) for pair in zip(vectors(there, vocab, device, DTYPES[precision]), exact, strict=True)
            ]
            found[f"logits {precision}"], found[f"gradients {precision}"] = apart
            found[f"{precision} as expected"] = all(d <= most for d, most in zip(apart, limits, strict=True))
    for beam in (1, 4):
        here, other = (
            outputs(model.eval(), vocab, torch.device("cpu"), beam),
            outputs(there.eval(), vocab, device, beam),
        )
        found[f"outputs, beam {beam}"] = f"{sum(map(list.__eq__, here, other))}/{len(here)}"
    return found


def without_noise(config: object, path: str = "arch") -> Iterator[str]:
    """The options with which a model draws no random numbers."""
    for name, value in vars(config).items():
        if isinstance(value, Mapping):  # another architecture
            yield f"{path}.{name}.dropout=0"
        elif name in CERTAIN:
            yield f"{path}.{name}={CERTAIN[name]}"
        elif "drop" in name and isinstance(value, float):
            yield f"{path}.{name}=0"


def pairs(vocab: Vocab) -> list[tuple[list[int], list[int]]]:
    """Random pairs of several lengths."""
    draw = torch.Generator().manual_seed(2)
    sizes = [(3, 5), (9, 7), (12, 12), (7, 4), (12, 9), (5, 11)]
    return [tuple(torch.randint(4, vocab.src - 4, (n,), generator=draw).tolist() for n in size) for size in sizes]  # type: ignore[misc]


def vectors(
    model: Seq2Seq, vocab: Vocab, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits of real positions, and all gradients of the loss, in float64 on the CPU."""
    batch = make_batch(pairs(vocab), vocab).to(device)
    model.zero_grad()
    with device_of(device).autocast(dtype):
        logits = model.project(model.decode(batch.tgt_in, model.encode(batch.src, batch.src_pad)))
        LabelSmoothed(LabelSmoothedConfig())(model, batch).loss.backward()
    real = (batch.tgt_out != vocab.pad).cpu()
    gradients = [p.grad.detach().cpu().double().flatten() for p in model.parameters() if p.grad is not None]
    return logits.detach().cpu().double()[real], torch.cat(gradients)


def distance(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Relative to the norm of the second; infinite if a number is not finite."""
    apart = ((found - exact).norm() / exact.norm()).item()
    return float(f"{apart:.3g}") if math.isfinite(apart) else math.inf


@torch.no_grad()
def outputs(model: Seq2Seq, vocab: Vocab, device: torch.device, beam: int) -> list[list[int]]:
    """The best output of each source."""
    sources = [SourceSentence(i, [*src, vocab.eos]) for i, (src, _) in enumerate(pairs(vocab))]
    search = BeamSearch(BeamConfig(beam=beam, max_len_a=0, max_len_b=12))
    found: list[list[int]] = [[]] * len(sources)
    for results in search(SearchRequest(model=model, vocab=vocab, queue=FixedQueue(sources, 10**9), device=device)):
        for one in results:
            found[one.index] = one.hypotheses[0].tokens
    return found


def score(options: dict[str, str], device: torch.device) -> dict[str, Any]:
    """The run of `make demo` on the device, which the same command continues."""
    run = Path(options["out"]) / "score"
    demo = ["experiment=demo", "valid.every=100"]
    if options["size"] == "small":
        demo = ["task=translation_tiny", "arch=transformer_tiny", "train.steps=2", "train.tokens=100", "valid.every=1"]
        demo += ["valid.sentences=2", "search=greedy", "search.max_len_b=2", "train.check=false"]
    trained(run, options, device, demo)
    records = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    valid = [record for record in records if record["kind"] == "valid"]
    updates = [record for record in records if record["kind"] == "update"]
    status = json.loads((run / "status.json").read_text(encoding="utf-8"))
    reached = next((record["step"] for record in valid if record.get("bleu", 0) >= GOAL), None)
    seconds = [record["seconds"] for record in updates]
    return {
        "BLEU": valid[-1].get("bleu"),
        "signature": valid[-1]["signatures"].get("bleu", ""),
        "nll": valid[-1]["nll"],
        "updates": status["steps"],
        "seconds in updates": round(sum(seconds), 1),
        "target tokens/s": round(sum(record["tokens"] for record in updates) / sum(seconds), 1),
        f"updates until BLEU {GOAL:g}": reached or "not reached",
        "seconds in updates until then": round(sum(seconds[:reached]), 1) if reached else "not reached",
    }


def scaling(options: dict[str, str], device: torch.device) -> dict[str, Any]:
    """Tokens per second of base on one device and on all of them."""
    small, n_devices = options["size"] == "small", device_of(device).count()
    if device.type == "cpu" and not small:
        return {"skipped": "processes on a CPU share its cores"}
    n = 2 if device.type == "cpu" else n_devices
    if n < 2:
        return {"skipped": "one device"}
    arch = ["arch=transformer_tiny", "task=translation_tiny", "train.steps=2", "train.tokens=100"]
    if not small:
        arch = ["arch=transformer_base", "task={name: translation, pairs: 20_000}", f"train.steps={N_UPDATES}"]
        arch += ["train.tokens=25_000", "train.precision=bf16"]
    rates: dict[str, float] = {}
    for count in (1, n):
        run = Path(options["out"]) / f"{options['strategy']}-{count}"
        several = [f"train.devices={count}", f"train.strategy={options['strategy']}"]
        trained(run, options, device, [*arch, *several, "valid.every=0", "checkpoint.every=0", "train.check=false"])
        lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
        updates = [record for record in map(json.loads, lines) if record["kind"] == "update"]
        last = updates[min(N_WARM_UP, len(updates) // 2) :]
        rates[f"{count} devices"] = round(sum(u["tokens"] for u in last) / sum(u["seconds"] for u in last), 1)
    one, several_rate = rates.values()
    return {**rates, "times as fast": round(several_rate / one, 2), "of devices": n}


def trained(run: Path, options: dict[str, str], device: torch.device, arguments: Sequence[str]) -> None:
    """Call s2s-train; raises CalledProcessError if it fails."""
    plugins = [f"plugins=[{options['plugins']}]"] if options["plugins"] else []
    common = [f"run={run}", f"data.prepared={run.parent / 'prepared'}", f"train.device={device.type}", "--quiet"]
    command = [sys.executable, "-m", "s2s.cli.train", *plugins, *arguments, *common]
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
