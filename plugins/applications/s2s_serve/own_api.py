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
from s2s.generation import Input, score
from s2s_serve.answers import sentence_fields, text_fields
from s2s_serve.connection import cancel_on_disconnect
from s2s_serve.engine import Engine
from s2s_serve.generating import Sentence, TextOptions, outputs, read_text
from s2s_serve.refusal import RefusedError, invalid
from s2s_serve.schemas import GenerateBody, ParseBody, ScoreBody

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from s2s.generation import Output
    from s2s_serve.server import Server

PAIRS = 8
"""Pairs scored between two steps of the search"""


@dataclass(frozen=True)
class ValidatedRequest:
    """A checked request for outputs, and its sentences."""

    engine: Engine
    texts: list[str]
    sentences: list[list[Sentence]]
    """Of each text"""
    options: TextOptions
    body: GenerateBody


def own_api(server: Server) -> APIRouter:
    """The routes."""
    api = APIRouter(prefix="/v1")

    @api.get("/runs", summary="What is served")
    async def runs() -> dict[str, Any]:
        return {"runs": [_describe_run(engine) for engine in server.engines.values()]}

    @api.post("/generate", summary="Outputs for texts", response_model=None)
    async def generate(request: Request, body: GenerateBody) -> Response:
        validated = await _validate(server, body)
        if body.stream:
            return StreamingResponse(_events(server, validated), media_type="text/event-stream")
        return await cancel_on_disconnect(server, request, _complete_response(server, validated))

    @api.post("/parse", summary="Trees of sentences", response_model=None)
    async def parse(request: Request, body: ParseBody) -> Response:
        engine = server.engine(body.run)
        if not engine.task.views:
            raise invalid(f"run: {engine.name} does not draw its outputs, as a parser does; see GET /v1/runs")
        validated = await _validate(
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
        return await cancel_on_disconnect(server, request, _complete_response(server, validated))

    @api.post("/score", summary="How probable given outputs are", response_model=None)
    async def score_pairs(request: Request, body: ScoreBody) -> Response:
        server.check_texts([text for pair in body.pairs for text in (pair.src, pair.tgt)])
        return await cancel_on_disconnect(server, request, _scores(server, body))

    return api


def _describe_run(engine: Engine) -> dict[str, Any]:
    return {
        "name": engine.name,
        "task": engine.task.config.name,
        "views": sorted(engine.task.views),
        "align": engine.aligning_generator is not None,
        "nbest": engine.nbest,
        "ready": engine.ready,
    }


async def _validate(server: Server, body: GenerateBody) -> ValidatedRequest:
    """Check what the schema cannot check, and tokenise."""
    engine = server.engine(body.run)
    texts = [body.text] if isinstance(body.text, str) else body.text
    server.check_texts([*texts, body.prefix, *body.phrases])
    if not texts:
        raise invalid("text: a list of no texts")
    if body.nbest > engine.nbest:
        raise invalid(f"nbest: {body.nbest} are more than the {engine.nbest} that {engine.name} gives")
    if unknown := [view for view in body.views if view not in engine.task.views]:
        raise invalid(f"views: {engine.name} has no {unknown[0]!r}; there are {sorted(engine.task.views)}")
    if engine.aligning_generator is None and {"align", "attention"} & set(body.fields):
        raise invalid(f"fields: the architecture of {engine.name} gives no attention; leave out align and attention")
    align = "align" in body.fields
    phrases = tuple(filter(None, body.phrases))
    options = TextOptions(
        prefix=body.prefix,
        phrases=phrases,
        fields=body.input_fields,
        split=body.split,
        raw=body.raw,
        nbest=body.nbest,
        align=align,
    )
    return ValidatedRequest(engine, texts, [await read_text(engine, text, options) for text in texts], options, body)


async def _sentences(
    server: Server, validated: ValidatedRequest
) -> AsyncGenerator[tuple[int, Sentence, Output, dict[str, Any]]]:
    """The number of its text, the sentence, its output and its fields; in order, each as soon as it is finished."""
    engine, body, begun, first = validated.engine, validated.body, time.monotonic(), True
    flat = [(number, sentence) for number, sentences in enumerate(validated.sentences) for sentence in sentences]
    n_tokens = sum(sentence.n_tokens for _, sentence in flat)
    with server.running(), engine.admitted(n_tokens):
        async with (
            server.within(body.deadline),
            aclosing(outputs(engine, [s for _, s in flat], validated.options)) as found,
        ):
            numbers = iter(flat)
            async for output in found:
                number, sentence = next(numbers)
                fields = await sentence_fields(engine, sentence, output, body.nbest, body.fields, body.views)
                if first:
                    server.metrics.time_to_first_sentence.labels(engine.name).observe(time.monotonic() - begun)
                    first = False
                server.metrics.source_tokens.labels(engine.name).inc(sentence.n_tokens)
                server.metrics.target_tokens.labels(engine.name).inc(output.n_tokens)
                yield number, sentence, output, fields


async def _complete_response(server: Server, validated: ValidatedRequest) -> Response:
    outputs_by_text: list[list[Output]] = [[] for _ in validated.texts]
    parts: list[list[dict[str, Any]]] = [[] for _ in validated.texts]
    async with aclosing(_sentences(server, validated)) as sentences:
        async for number, _, output, fields in sentences:
            outputs_by_text[number].append(output)
            parts[number].append(fields)
    return JSONResponse(_response_body(validated, outputs_by_text, parts))


def _response_body(
    validated: ValidatedRequest, found: list[list[Output]], parts: list[list[dict[str, Any]]]
) -> dict[str, Any]:
    each = zip(validated.texts, validated.sentences, found, parts, strict=True)
    results = [text_fields(validated.engine, *of, validated.body.nbest) for of in each]
    return {"run": validated.engine.name, "results": results}


async def _events(server: Server, validated: ValidatedRequest) -> AsyncIterator[str]:
    """Events: `sentence` for each sentence, then `done` with the whole answer, or `error` on failure."""
    outputs_by_text: list[list[Output]] = [[] for _ in validated.texts]
    parts: list[list[dict[str, Any]]] = [[] for _ in validated.texts]
    try:
        async with aclosing(_sentences(server, validated)) as sentences:
            async for number, _, output, fields in sentences:
                outputs_by_text[number].append(output)
                parts[number].append(fields)
                n_of = len(validated.sentences[number])
                yield _event("sentence", {"text": number, "sentence": len(parts[number]) - 1, "of": n_of, **fields})
    except RefusedError as refusal:
        yield _event("error", {"code": refusal.code, "message": str(refusal)})
        return
    yield _event("done", _response_body(validated, outputs_by_text, parts))


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
    device = engine.generator.search.device
    examples = _examples(engine, body)
    scores = []
    with server.running():
        async with server.within(body.deadline):
            for first in range(0, len(examples), PAIRS):
                some = examples[first : first + PAIRS]
                try:
                    scored = await engine.call(lambda some=some: list(score(engine.model, engine.task, some, device)))  # type: ignore[misc]
                except DataError as error:
                    raise invalid(f"pairs from {first + 1}: {error}") from error
                pieces = [engine.task.pieces(of.tokens, pair.src) for of, pair in zip(scored, some, strict=True)]
                scores += [
                    {
                        "log_prob": round(of.log_prob, 4),
                        "n_tokens": len(of.log_probs),
                        "pieces": names,
                        "log_probs": [round(p, 4) for p in of.log_probs],
                    }
                    for of, names in zip(scored, pieces, strict=True)
                ]
    return JSONResponse({"run": engine.name, "scores": scores})
