"""The best number of source symbols to decode at once on this machine: s2s-generate's `tokens`.

    python benchmarks/decode_tokens.py sizes=small,base tokens=500,1000,2000,4000 symbols=8000 out=tokens.jsonl

Sentences with lengths as in newstest, the longest first as s2s-generate sorts a window, each decoded with beam 4 to an
output of its own length by a random model. Output symbols per CPU second of one thread; the settings take turns, and
the best of `repeats` runs counts, since other load can only slow a run down.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from decode_engines import build
from s2s.backend.host import keep_freed_memory
from s2s.backend.linear import prepack
from s2s.decoding import BeamConfig, SearchRequest, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue

if TYPE_CHECKING:
    from s2s.model import Seq2Seq
    from s2s.task import Vocab

DEFAULTS = {"sizes": "small,base", "tokens": "500,1000,2000,4000", "symbols": "8000", "repeats": "3", "out": ""}


def main(arguments: list[str]) -> None:
    """Run the measurements that `arguments` select; print and write them."""
    given = dict(argument.split("=", 1) for argument in arguments)
    if unknown := given.keys() - DEFAULTS.keys():
        raise SystemExit(f"unknown options: {', '.join(sorted(unknown))}; there are {', '.join(DEFAULTS)}")
    options = DEFAULTS | given
    torch.set_num_threads(1)
    keep_freed_memory()
    rows = []
    for size in options["sizes"].split(","):
        model, vocab = build(size)
        how = prepack(model, "auto", "none")
        work = sources(int(options["symbols"]), vocab)
        rates: dict[int, float] = {}
        for _ in range(int(options["repeats"])):
            for tokens in map(int, options["tokens"].split(",")):
                rates[tokens] = max(rates.get(tokens, 0.0), rate(model, vocab, work, tokens))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        rows.append({"size": size, "sentences": len(work), "symbols_per_cpu_second": rates, "MiB": memory, "how": how})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        if options["out"]:
            Path(options["out"]).write_text("".join(json.dumps(row) + "\n" for row in rows))


def sources(n_symbols: int, vocab: Vocab) -> list[SourceSentence]:
    """Random sentences with `n_symbols` tokens in total, the longest first; half are longer than 24 tokens."""
    draw, found, n = random.Random(1), list[SourceSentence](), 0
    while n < n_symbols:
        length = min(150, max(1, round(draw.lognormvariate(3.2, 0.6))))
        found.append(SourceSentence(len(found), [*draw.choices(range(4, vocab.src), k=length), vocab.eos]))
        n += length + 1
    return sorted(found, key=lambda source: -len(source.ids))


def rate(model: Seq2Seq, vocab: Vocab, work: list[SourceSentence], tokens: int) -> float:
    """Output tokens per CPU second, including eos."""
    search = BeamSearch(BeamConfig(beam=4, alpha=0.0, max_len_a=1.0, max_len_b=0))
    begun, n_symbols = time.process_time(), 0
    queue = FixedQueue(work, tokens)
    request = SearchRequest(model=model, vocab=vocab, queue=queue, device=torch.device("cpu"))
    for results in search(request):
        n_symbols += sum(len(result.hypotheses[0].token_log_probs) for result in results)
    return n_symbols / (time.process_time() - begun)


if __name__ == "__main__":
    main(sys.argv[1:])
