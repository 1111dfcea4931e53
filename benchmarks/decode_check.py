"""Whether fast decoding finds what a slow search finds, on a trained run and real sentences, and the cost of 8 bits.

    python benchmarks/decode_check.py run=RUN checkpoint=last5 source=test.en reference=test.de out=check.json

The slow search takes one sentence at a time, runs every prefix through the whole decoder again, sorts all
log-probabilities and keeps lists. Each fast way to decode is compared with it: how many of the best outputs differ, by
how much their scores differ, and BLEU (sacrebleu's 13a, lower-cased).
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from sacrebleu.metrics.bleu import BLEU

from s2s.backend import Operator
from s2s.backend.linear import prepack
from s2s.decoding import BeamConfig, SearchRequest, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.plugin import load_plugins
from s2s.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.model import Seq2Seq
    from s2s.task import Vocab

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "native": {"matmul": "native"},
    "oneDNN": {"matmul": "onednn"},
    "torch, S2S_KERNELS=torch": {"matmul": "torch", "in_c": False},
    "int8": {"quantization": "int8"},
}
Scored = tuple[float, list[int]]
"""The log-probability over the length penalty, and the symbols"""

DEFAULTS = {"run": "", "checkpoint": "best", "source": "", "reference": "", "lines": "1000", "beam": "5", "out": ""}


def main(arguments: list[str]) -> None:
    """Run the slow search once and every fast configuration, and print the differences."""
    options = DEFAULTS | dict(argument.split("=", 1) for argument in arguments)
    torch.set_num_threads(1)
    lines, references = (
        Path(options[name]).read_text(encoding="utf-8").splitlines()[: int(options["lines"])]
        for name in ("source", "reference")
    )
    config = BeamConfig(beam=int(options["beam"]), length_penalty="power", alpha=1.0)
    expected: list[Scored] = []
    found: dict[str, Any] = {"options": options}
    configurations: dict[str, dict[str, Any]] = {"slow": {}} | CONFIGURATIONS
    for way, how in configurations.items():
        run = Run.load(Path(options["run"]), options["checkpoint"], load_plugins(), torch.device("cpu"))
        sources = [[*ids, run.task.vocab.eos] for ids in run.task.encode_source(lines)]
        if not how:
            expected = outputs = [slow_search(run.model, ids, run.task.vocab, config) for ids in sources]
        else:
            outputs = fast_search(run.model, sources, run.task.vocab, config, **how)
        texts = [run.task.detokenize(tokens, line) for (_, tokens), line in zip(outputs, lines, strict=True)]
        bleu = BLEU(lowercase=True).corpus_score(texts, [references])
        found[way] = compared(outputs, expected) | {"BLEU": round(bleu.score, 2)}
        print(way, json.dumps(found[way]), flush=True)
    if options["out"]:
        Path(options["out"]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


@torch.no_grad()
def slow_search(model: Seq2Seq, source: Sequence[int], vocab: Vocab, config: BeamConfig) -> Scored:
    """The best output of one sentence, by the definition of beam search."""
    src = torch.tensor([source])
    memory, limit = model.encode(src, src == vocab.pad), int(config.max_len_a * (len(source) - 1)) + config.max_len_b
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    for length in range(1, limit + 2):
        prefixes = torch.tensor([[vocab.bos, *y] for _, y in live])
        alike = memory.select(torch.zeros(len(live), dtype=torch.long))
        log_probs = model.project(model.decode(prefixes, alike)[:, -1]).log_softmax(-1)
        log_probs[:, [vocab.pad, vocab.bos]] = -torch.inf
        if length == limit + 1:
            log_probs[:, : vocab.eos] = log_probs[:, vocab.eos + 1 :] = -torch.inf
        total = torch.tensor([score for score, _ in live])[:, None] + log_probs
        score, place = total.flatten().sort(descending=True, stable=True)
        best = zip(score[: 2 * config.beam].tolist(), place[: 2 * config.beam].tolist(), strict=True)
        candidates = [(s, *divmod(i, vocab.tgt)) for s, i in best if s > -torch.inf]
        longer = [(s, [*live[parent][1], token]) for s, parent, token in candidates]
        ended += [(s / length**config.alpha, y[:-1]) for s, y in longer if y[-1] == vocab.eos]
        ended = sorted(ended, key=lambda output: -output[0])[: config.beam]
        live = [(s, y) for s, y in longer if y[-1] != vocab.eos][: config.beam]
        reachable = max(live[0][0] / (n + 1) ** config.alpha for n in (length, limit)) if live else -torch.inf
        if not live or (ended and ended[0][0] >= reachable):  # search.stop=best, for one output
            break
    return ended[0]


def fast_search(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    vocab: Vocab,
    config: BeamConfig,
    matmul: Any = "auto",
    quantization: Any = "none",
    *,
    in_c: bool = True,
) -> list[Scored]:
    """The best output of each sentence, decoded as a stream like in s2s-generate."""
    prepack(model, matmul, quantization)
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    queue = FixedQueue((SourceSentence(i, sources[i]) for i in order), 1000)
    outputs: dict[int, Scored] = {}
    with nullcontext() if in_c else patch.object(Operator, "use_implementations", False):
        request = SearchRequest(model=model, vocab=vocab, queue=queue, device=torch.device("cpu"))
        for results in BeamSearch(config)(request):
            outputs.update((r.index, (r.hypotheses[0].score, r.hypotheses[0].tokens)) for r in results)
    return [outputs[i] for i in range(len(sources))]


def compared(outputs: list[Scored], expected: list[Scored]) -> dict[str, Any]:
    """The number of outputs that differ, and the largest difference of scores."""
    pairs = list(zip(outputs, expected, strict=True))
    different = [(i, a[0] - b[0]) for i, (a, b) in enumerate(pairs) if a[1] != b[1]]
    error = max(abs(a[0] - b[0]) for a, b in pairs if a[1] == b[1])
    return {
        "outputs": len(outputs),
        "different": len(different),
        "first of them, by line, and how much better the found one scores": [
            (i + 1, round(by, 7)) for i, by in different[:10]
        ],
        "largest difference of a score otherwise": float(f"{error:.2g}"),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
