"""Responses of the server's own API: the fields of a sentence and of a text, as JSON."""

from __future__ import annotations

__all__ = ["attention_of", "sentence_fields", "text_fields"]

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from s2s_serve.engine import SHORT
from s2s_serve.generating import join_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from s2s import Seq2Seq, Task
    from s2s.generation import Candidate, Output, Segment
    from s2s_serve.engine import Engine
    from s2s_serve.generating import Sentence
    from s2s_serve.schemas import GenerateBody


async def text_fields(
    engine: Engine,
    text: str,
    sentences: Sequence[Sentence],
    outputs: Sequence[Output],
    parts: list[dict[str, Any]],
    n: int,
) -> dict[str, Any]:
    """The fields of a text: its best output, the n best if requested, and its sentences."""
    candidates = await join_lines(engine, sentences, outputs, n)
    best = candidates[0]
    whole: dict[str, Any] = {"src": text} | _scored(best)
    if n > 1:
        whole["nbest"] = [_scored(each) for each in candidates]
    if best.align:
        whole["align"] = best.align
    return whole | {"sentences": parts}


async def sentence_fields(engine: Engine, sentence: Sentence, output: Output, body: GenerateBody) -> dict[str, Any]:
    """The fields of a sentence: source, line, outputs best first, and the requested fields of each."""
    segment, best = sentence.segment, output.best

    def write() -> list[dict[str, Any]]:
        return [_candidate(engine, each, segment.src, body) for each in output.nbest[: body.nbest]]

    n_chars = SHORT + 1 if body.views else len(segment.src) * body.nbest
    candidates = await engine.process_text(write, n_chars)
    fields = {"line": sentence.line, "src": segment.src, **candidates[0]}
    if body.nbest > 1:
        fields["nbest"] = candidates
    if "attention" in body.fields and segment.ids:
        pieces = await engine.process_text(lambda: engine.task.pieces(best.tokens, segment.src), len(segment.src))
        attention = partial(attention_of, engine.task, segment, best.tokens, pieces)
        fields["attention"] = await engine.call(attention)
    return fields


def _scored(candidate: Candidate) -> dict[str, Any]:
    """The text and its score; `finished` is false where the limit on the length has cut it."""
    cut = {} if candidate.finished else {"finished": False}
    return {"hyp": candidate.hyp, "score": _rounded(candidate.score), **cut}


def _candidate(engine: Engine, candidate: Candidate, src: str, body: GenerateBody) -> dict[str, Any]:
    optional: dict[str, Callable[[], Any]] = {
        "tokens": lambda: candidate.tokens,
        "pieces": lambda: engine.task.pieces(candidate.tokens, src),
        "log_probs": lambda: [_rounded(p) for p in candidate.log_probs],
        "align": lambda: candidate.align,
    }
    fields = _scored(candidate)
    fields |= {name: value() for name, value in optional.items() if name in body.fields}
    if body.views and candidate.hyp:
        fields["views"] = {name: engine.task.views[name](candidate.hyp) for name in body.views}
    return fields


def attention_of(
    task: Task, segment: Segment, tokens: Sequence[int], pieces: Sequence[str], model: Seq2Seq, device: torch.device
) -> dict[str, Any] | None:
    """Attention of each output token to each source token, without eos: mean over the heads of the best-aligning layer.

    None if the architecture does not provide it.
    """
    import torch

    from s2s import make_batch

    ids, start = segment.ids, segment.starting_tokens or task.vocab.starting_tokens
    batch = make_batch([(ids, list(tokens))], task.vocab, [start]).to(device)
    with torch.no_grad():
        weights = model.attention(batch.src, batch.src_pad, batch.tgt_in)
    if weights is None:
        return None
    first = len(start) - 1
    rows = weights[0, first : first + len(tokens), : len(ids)].tolist()
    names = task.vocabulary("src")
    src = [str(i) if names is None else _name(names[i]) for i in ids]
    return {"src": src, "tgt": list(pieces), "weights": [[round(w, 4) for w in row] for row in rows]}


def _name(name: str | tuple[str, ...]) -> str:
    return name if isinstance(name, str) else name[0]


def _rounded(value: float) -> float | None:
    """A JSON-serialisable value; null where there is no output."""
    return round(value, 4) if math.isfinite(value) else None
