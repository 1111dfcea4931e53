"""Sentences before their first token: sources encoded, and starting tokens fed to the decoder.

Shapes: B sentences, S source length, N starting tokens.
"""

from __future__ import annotations

__all__ = ["StartedSentences", "check_starting_tokens", "pad_sources", "start_sentences"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from s2s.backend.growing_state import bucket_size
from s2s.errors import DataError
from s2s.model import State
from s2s.tensors import to_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding.config import SearchConfig
    from s2s.decoding.sentences import SourceSentence
    from s2s.vocab import Vocab


@dataclass(frozen=True)
class StartedSentences:
    """What a search begins with."""

    token: Tensor
    """[B, 1], the last starting token, which the first step feeds to the model"""
    state: State
    """The model's, after all starting tokens but the last; one hypothesis per sentence"""
    limits: list[int]
    """[B], most tokens of each output, without eos"""
    constraint_state: Tensor | None
    """[B, 1, ·]"""


def start_sentences(run: Any, config: SearchConfig, sentences: Sequence[SourceSentence]) -> StartedSentences:
    """Start sentences that all have the same number of starting tokens; run: the search's `Run`."""
    request, model = run.request, run.request.model
    src, pad = pad_sources(sentences, request.vocab, request.device)
    starts = [request.starting_tokens(sentence) for sentence in sentences]
    for start in starts:
        check_starting_tokens(start, request.vocab)
    memory = model.encode(src, pad)
    if request.shortlist and model.reads_shortlists:
        sources = [None if sentence.constraint else sentence.ids for sentence in sentences]
        memory = replace(memory, listed=request.shortlist.listed(sources, request.vocab.tgt).to(request.device))
    state, tokens = model.start(memory), torch.tensor(starts, device=request.device)  # [B, N]
    *before, newest = tokens.split(1, dim=1)
    for token in before:
        _, state = model.step(token, state)
    limits = [config.max_output_length(len(s.ids) - 1, model.max_len, len(starts[0])) for s in sentences]
    constraint = run.constraint.for_sentences([sentence.constraint for sentence in sentences])
    states = constraint.start(src, pad, to_device(torch.tensor(limits), request.device))
    return StartedSentences(newest, state, limits, states)


def check_starting_tokens(start: Sequence[int], vocab: Vocab) -> None:
    """Raise DataError for tokens that the vocabulary lacks, which functions in C would read from outside of a table."""
    if not all(0 <= token < vocab.tgt for token in start):
        raise DataError(f"starting tokens {list(start)}: the target side has tokens 0 to {vocab.tgt - 1}")


def pad_sources(sentences: Sequence[SourceSentence], vocab: Vocab, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids, and True at padding: [B, S]; where steps are captured, S is rounded up to one of few sizes."""
    n_tokens = [len(sentence.ids) for sentence in sentences]
    width = bucket_size(max(n_tokens), device, minimum=32)
    src = torch.tensor([[*one.ids, *[vocab.src_pad] * (width - len(one.ids))] for one in sentences])
    pad = torch.arange(width) >= torch.tensor(n_tokens)[:, None]
    return to_device(src, device), to_device(pad, device)
