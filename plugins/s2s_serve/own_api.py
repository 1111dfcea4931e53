"""The server's own API under /v1: all that s2s can do with a text."""

from __future__ import annotations

__all__ = ["own_api"]

import json
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from s2s import DataError, Example
from s2s.generation import score
from s2s_serve.answers import sentence_fields, text_fields
from s2s_serve.connection import unless_gone
from s2s_serve.engine import Engine
from s2s_serve.generating import Sentence, Wanted, outputs, read_text
from s2s_serve.refusal import RefusedError, invalid
from s2s_serve.schemas import GenerateBody, ParseBody, ScoreBody

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from s2s.generation import Output
    from s2s_serve.server import Server

PAIRS = 8
"""Pairs scored between two steps of the search"""


@dataclass(frozen=True)
class Asked:
    """A checked request for outputs, and its sentences."""

    engine: Engine
    texts: list[str]
    sentences: list[list[Sentence]]
    """Of each text"""
    wanted: Wanted
    body: GenerateBody


def own_api(server: Server) -> APIRouter:
    """The routes."""
    api = APIRouter(prefix="/v1")

    @api.get("/runs", summary="What is served")
    async def runs() -> dict[str, Any]:
        return {"runs": [_described(server, engine) for engine in server.engines.values()]}

    @api.post("/generate", summary="Outputs for texts", response_model=None)
    async def generate(request: Request, body: GenerateBody) -> Response:
        asked = await _read(server, body)
        if body.stream:
            return StreamingResponse(_events(server, asked), media_type="text/event-stream")
        return await unless_gone(server, request, _whole(server, asked))

    @api.post("/parse", summary="Trees of sentences", response_model=None)
    async def parse(request: Request, body: ParseBody) -> Response:
        engine = server.engine(body.run)
        if not engine.task.views:
            raise invalid(f"run: {engine.name} does not draw its outputs, as a parser does; see GET /v1/runs")
        asked = await _read(
            server,
            GenerateBody(
                run=body.run,
                deadline=body.deadline,
                text=body.text,
                raw=not body.tokenized,
                views=body.views,
                split=False,
            ),
        )
        return await unless_gone(server, request, _whole(server, asked))

    @api.post("/score", summary="How probable given outputs are", response_model=None)
    async def score_pairs(request: Request, body: ScoreBody) -> Response:
        server.check_texts([text for pair in body.pairs for text in (pair.src, pair.tgt)])
        return await unless_gone(server, request, _scores(server, body))

    return api


def _described(server: Server, engine: Engine) -> dict[str, Any]:
    return {
        "name": engine.name,
        "task": engine.task.config.name,
        "views": sorted(engine.task.views),
        "align": engine.aligned is not None,
        "nbest": server.config.nbest,
        "ready": engine.ready,
    }


async def _read(server: Server, body: GenerateBody) -> Asked:
    """Check what the schema cannot check, and tokenise."""
    engine = server.engine(body.run)
    texts = [body.text] if isinstance(body.text, str) else body.text
    server.check_texts([*texts, body.prefix, *body.phrases])
    if not texts:
        raise invalid("text: a list of no texts")
    if body.nbest > server.config.nbest:
        raise invalid(f"nbest: {body.nbest} are more than the {server.config.nbest} that this server gives")
    if unknown := [view for view in body.views if view not in engine.task.views]:
        raise invalid(f"views: {engine.name} has no {unknown[0]!r}; there are {sorted(engine.task.views)}")
    if engine.aligned is None and {"align", "attention"} & set(body.fields):
        raise invalid(f"fields: the architecture of {engine.name} gives no attention; leave out align and attention")
    align = "align" in body.fields
    wanted = Wanted(
        prefix=body.prefix, phrases=tuple(filter(None, body.phrases)), split=body.split, raw=body.raw, align=align
    )
    return Asked(engine, texts, [await read_text(engine, text, wanted) for text in texts], wanted, body)


async def _sentences(server: Server, asked: Asked) -> AsyncGenerator[tuple[int, Sentence, Output, dict[str, Any]]]:
    """The number of its text, the sentence, its output and its fields; in order, each as soon as it is finished."""
    engine, body, begun, first = asked.engine, asked.body, time.monotonic(), True
    flat = [(number, sentence) for number, sentences in enumerate(asked.sentences) for sentence in sentences]
    n_tokens = sum(sentence.n_tokens for _, sentence in flat)
    with server.running(), engine.admitted(n_tokens):
        async with server.within(body.deadline), aclosing(outputs(engine, [s for _, s in flat], asked.wanted)) as found:
            numbers = iter(flat)
            async for output in found:
                number, sentence = next(numbers)
                fields = await sentence_fields(engine, sentence, output, body.nbest, body.fields, body.views)
                if first:
                    server.metrics.first.observe(time.monotonic() - begun, engine.name)
                    first = False
                server.metrics.source_tokens.add(sentence.n_tokens, engine.name)
                server.metrics.target_tokens.add(len(output.best.log_probs), engine.name)
                yield number, sentence, output, fields


async def _whole(server: Server, asked: Asked) -> Response:
    found: list[list[Output]] = [[] for _ in asked.texts]
    parts: list[list[dict[str, Any]]] = [[] for _ in asked.texts]
    async with aclosing(_sentences(server, asked)) as sentences:
        async for number, _, output, fields in sentences:
            found[number].append(output)
            parts[number].append(fields)
    return JSONResponse(_answer(asked, found, parts))


def _answer(asked: Asked, found: list[list[Output]], parts: list[list[dict[str, Any]]]) -> dict[str, Any]:
    each = zip(asked.texts, asked.sentences, found, parts, strict=True)
    results = [text_fields(asked.engine, *of, asked.body.nbest) for of in each]
    return {"run": asked.engine.name, "results": results}


async def _events(server: Server, asked: Asked) -> AsyncIterator[str]:
    """Events: `sentence` for each sentence, then `done` with the whole answer, or `error` on failure."""
    found: list[list[Output]] = [[] for _ in asked.texts]
    parts: list[list[dict[str, Any]]] = [[] for _ in asked.texts]
    try:
        async with aclosing(_sentences(server, asked)) as sentences:
            async for number, _, output, fields in sentences:
                found[number].append(output)
                parts[number].append(fields)
                n_of = len(asked.sentences[number])
                yield _event("sentence", {"text": number, "sentence": len(parts[number]) - 1, "of": n_of, **fields})
    except RefusedError as refusal:
        yield _event("error", {"code": refusal.code, "message": str(refusal)})
        return
    yield _event("done", _answer(asked, found, parts))


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


async def _scores(server: Server, body: ScoreBody) -> Response:
    engine = server.engine(body.run)
    device = engine.generator.search.device
    examples = [Example(pair.src, pair.tgt) for pair in body.pairs]
    found = []
    with server.running():
        async with server.within(body.deadline):
            for first in range(0, len(examples), PAIRS):
                some = examples[first : first + PAIRS]
                try:
                    scored = await engine.call(lambda some=some: list(score(engine.model, engine.task, some, device)))  # type: ignore[misc]
                except DataError as error:
                    raise invalid(f"pairs from {first + 1}: {error}") from error
                pieces = [engine.task.pieces(of.tokens, pair.src) for of, pair in zip(scored, some, strict=True)]
                found += [
                    {
                        "log_prob": round(of.log_prob, 4),
                        "n_tokens": len(of.log_probs),
                        "pieces": names,
                        "log_probs": [round(p, 4) for p in of.log_probs],
                    }
                    for of, names in zip(scored, pieces, strict=True)
                ]
    return JSONResponse({"run": engine.name, "scores": found})
