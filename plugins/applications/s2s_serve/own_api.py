"""The server's own API under /v1: all that s2s can do with a text."""

from __future__ import annotations

__all__ = ["own_api"]

import asyncio
import json
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from s2s import DataError, Example
from s2s.generation import Input
from s2s_serve.answers import sentence_fields, text_fields
from s2s_serve.api import DirectRoute, ServeApi
from s2s_serve.connection import cancel_on_disconnect
from s2s_serve.document_api import add_document_route
from s2s_serve.generating import outputs, read_text
from s2s_serve.job_api import add_job_routes
from s2s_serve.languages import directions_of
from s2s_serve.refusal import RefusedError, invalid
from s2s_serve.schemas import ErrorBody, GenerateBody, ParseBody, ScoreBody
from s2s_serve.turns import map_in_turns
from s2s_serve.unique_keys import UniqueKeysRoute

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    import torch

    from s2s import Choice, Seq2Seq
    from s2s.generation import Output
    from s2s_serve.engine import Engine
    from s2s_serve.generating import Sentence
    from s2s_serve.server import Server

PAIRS = 8
"""Pairs scored between two steps of the search"""


def own_api(_: Choice, server: Server) -> ServeApi:
    """The API, with its jobs."""
    refused: dict[int | str, dict[str, Any]] = {
        "default": {"model": ErrorBody, "description": "The request is refused."}
    }
    api = APIRouter(prefix="/v1", route_class=UniqueKeysRoute, responses=refused)

    @api.get("/runs", summary="What is served")
    async def runs() -> dict[str, Any]:
        """Each run with its languages, what it draws (`views`), whether it gives attention (`align`), and how many
        outputs (`nbest`); the formats of `/v1/documents` with their extensions; and limits on texts and documents."""
        registry = server.plugins.registry
        formats = {name: registry.get("document_format", name) for name in registry.names("document_format")}
        return {
            "runs": [_describe_run(engine) for engine in server.engines.values()],
            "documents": {name: list(entry.extensions) for name, entry in formats.items()},
            "max_chars": server.config.max_chars,
            "max_document": server.config.max_document,
        }

    @api.post("/generate", summary="Outputs for texts", response_model=None)
    async def generate(request: Request, body: GenerateBody) -> Response:
        """`results` has for each text the best output (`hyp`) and its `score`, a log-probability; with `nbest`, the
        best outputs; and `sentences`, each with the requested `fields`. `finished: false` marks what the limit on the
        length has cut."""
        return await _generate(server, request, body)

    @api.post("/parse", summary="Trees of sentences", response_model=None)
    async def parse(request: Request, body: ParseBody) -> Response:
        """As `/v1/generate`, for a run whose outputs are trees: each sentence has `views`, its drawings."""
        engine = server.engine(body.run)
        if not engine.task.views:
            raise invalid(f"run: {engine.name} does not draw its outputs, as a parser does; see GET /v1/runs")
        same = body.model_dump(exclude={"tokenized"})
        return await _generate(server, request, GenerateBody(**same, raw=not body.tokenized, split=False))

    @api.post("/score", summary="How probable given outputs are", response_model=None)
    async def score_pairs(request: Request, body: ScoreBody) -> Response:
        """`scores` has for each pair log p(tgt given src), in nats, and that of each token."""
        server.check_texts([text for pair in body.pairs for text in (pair.src, pair.tgt)])
        return await cancel_on_disconnect(request, _scores(server, body), server.metrics)

    add_document_route(api, server)
    add_job_routes(api, server)
    return ServeApi(router=api, direct=[DirectRoute("/v1/generate", GenerateBody, generate)])


def _describe_run(engine: Engine) -> dict[str, Any]:
    return {
        "name": engine.name,
        "task": engine.task.config.name,
        "directions": [
            {"source": src, "target": tgt, "input_fields": dict(fields)} for src, tgt, fields in directions_of(engine)
        ],
        "views": sorted(engine.task.views),
        "align": engine.aligns,
        "nbest": engine.nbest,
        "ready": engine.ready,
    }


async def _generate(server: Server, request: Request, body: GenerateBody) -> Response:
    engine = server.engine(body.run)
    _check(server, engine, body)
    sentences = await map_in_turns(lambda text: read_text(engine, text, body.options), body.texts)
    events = _events(server, engine, sentences, body)
    if body.stream:
        return StreamingResponse(_stream(events), media_type="text/event-stream")
    return await cancel_on_disconnect(request, _last(events), server.metrics)


def _check(server: Server, engine: Engine, body: GenerateBody) -> None:
    """Raise RefusedError for what the schema cannot check."""
    server.check_texts([*body.texts, body.prefix, *body.phrases, *body.terms, *map(str, body.terms.values())])
    if not body.texts:
        raise invalid("text: a list of no texts")
    engine.check_nbest(body.nbest)
    if unknown := [view for view in body.views if view not in engine.task.views]:
        raise invalid(f"views: {engine.name} has no {unknown[0]!r}; there are {sorted(engine.task.views)}")
    if not engine.aligns and {"align", "attention"} & set(body.fields):
        raise invalid(f"fields: the architecture of {engine.name} gives no attention; leave out align and attention")


async def _events(
    server: Server, engine: Engine, sentences: list[list[Sentence]], body: GenerateBody
) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    """Names and data: `sentence` for each sentence, in order and as soon as it is finished, then `done` with all.

    sentences: those of each text.
    """
    begun, metrics = time.monotonic(), server.metrics
    results: list[list[Output]] = [[] for _ in sentences]
    fields: list[list[dict[str, Any]]] = [[] for _ in sentences]
    flat = [sentence for text in sentences for sentence in text]
    positions = iter([(number, sentence) for number, text in enumerate(sentences) for sentence in text])
    async with server.working(body.deadline):
        with engine.admitted(sum(sentence.n_tokens for sentence in flat)):
            async with aclosing(outputs(engine, flat, body.options)) as finished:
                async for output in finished:
                    number, sentence = next(positions)
                    data = await sentence_fields(engine, sentence, output, body)
                    if sentence is flat[0]:
                        metrics.time_to_first_sentence.labels(engine.name).observe(time.monotonic() - begun)
                    metrics.source_tokens.labels(engine.name).inc(sentence.n_tokens)
                    metrics.target_tokens.labels(engine.name).inc(output.n_tokens)
                    position = {"text": number, "sentence": len(results[number]), "of": len(sentences[number])}
                    results[number].append(output)
                    fields[number].append(data)
                    yield "sentence", position | data
    each = zip(body.texts, sentences, results, fields, strict=True)
    whole = await map_in_turns(lambda text: text_fields(engine, *text, body.nbest), each)
    yield "done", {"run": engine.name, "results": whole}


async def _last(events: AsyncGenerator[tuple[str, dict[str, Any]]]) -> Response:
    """The response of a request that is not streamed: the data of the last event."""
    async with aclosing(events):
        return JSONResponse([data async for _, data in events][-1])


async def _stream(events: AsyncGenerator[tuple[str, dict[str, Any]]]) -> AsyncIterator[str]:
    """Server-sent events; `error` on failure."""
    try:
        async with aclosing(events):
            async for name, data in events:
                yield _event(name, data)
                await asyncio.sleep(0)  # between two events it is seen that the client has gone
    except RefusedError as refusal:
        yield _event("error", {"code": refusal.code, "message": str(refusal)})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _examples(engine: Engine, body: ScoreBody) -> list[Example]:
    read = engine.generator.read.fields
    try:
        return [Example(pair.src, pair.tgt, read(Input(pair.src, fields=body.input_fields))) for pair in body.pairs]
    except DataError as error:
        raise invalid(f"input_fields: {error}") from error


async def _scores(server: Server, body: ScoreBody) -> Response:
    engine = server.engine(body.run)
    examples = _examples(engine, body)
    scores: list[dict[str, Any]] = []
    async with server.working(body.deadline):
        for first in range(0, len(examples), PAIRS):
            try:
                scores += await _score(engine, examples[first : first + PAIRS])
            except DataError as error:
                raise invalid(f"pairs from {first + 1}: {error}") from error
    return JSONResponse({"run": engine.name, "scores": scores})


async def _score(engine: Engine, examples: list[Example]) -> list[dict[str, Any]]:
    def scored(model: Seq2Seq, device: torch.device) -> list[Any]:
        from s2s.generation import score  # torch

        return list(score(model, engine.task, examples, device))

    return [
        {
            "log_prob": round(target.log_prob, 4),
            "n_tokens": len(target.log_probs),
            "pieces": engine.task.pieces(target.tokens, example.src),
            "log_probs": [round(p, 4) for p in target.log_probs],
        }
        for target, example in zip(await engine.call(scored), examples, strict=True)
    ]
