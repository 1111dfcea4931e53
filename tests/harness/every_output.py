"""All outputs of a model after given starting tokens, by enumeration."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch

from harness.reference_search import limit_of, penalty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.reference_search import Scored
    from s2s.model import Memory, Seq2Seq
    from s2s.task import Vocab


def every_output(model: Seq2Seq, source: list[int], config: Any, vocab: Vocab, start: Sequence[int]) -> list[Scored]:
    """Score and tokens of all outputs, best first, each run through `decode` alone."""
    src = torch.tensor([[*source, vocab.eos]])
    memory: Memory = model.encode(src, src == vocab.pad)
    tokens = [t for t in range(vocab.tgt) if t not in {vocab.pad, vocab.bos, vocab.eos}]
    outputs: list[Scored] = []
    with torch.no_grad():
        for length in range(limit_of(config, source) + 1):
            for output in itertools.product(tokens, repeat=length):
                log_probs = model.decode(torch.tensor([[*start, *output]]), memory)[0, len(start) - 1 :].log_softmax(-1)
                log_prob = sum(float(log_probs[i, token]) for i, token in enumerate([*output, vocab.eos]))
                outputs.append((log_prob / penalty(config, length + 1), list(output)))
    return sorted(outputs, reverse=True)
