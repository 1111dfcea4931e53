"""LibreTranslate's API (version 1.9), so that its clients work: texts, documents, languages, detection, health.

In addition, the texts of a list are translated together, and the language of each is detected separately.
"""

from __future__ import annotations

__all__ = ["libretranslate"]

import asyncio
import codecs
import json
import mimetypes
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from s2s.io import parse_json
from s2s_serve.api import ServeApi
from s2s_serve.connection import cancel_on_disconnect
from s2s_serve.document_files import StoredFiles, disposition, translated_name, uploaded
from s2s_serve.documents import document_formats, document_outputs, read_document
from s2s_serve.generating import TextOptions
from s2s_serve.language_names import language_name
from s2s_serve.languages import Detector, directions, served_code
from s2s_serve.libretranslate_queries import Query, translations
from s2s_serve.libretranslate_schemas import described
from s2s_serve.refusal import RefusedError
from s2s_serve.turns import map_in_turns

if TYPE_CHECKING:
    from s2s import Choice
    from s2s.text import Document, DocumentFormat
    from s2s_serve.document_files import Upload
    from s2s_serve.languages import Detected, Direction
    from s2s_serve.server import Server

DETECTED = 10_000
"""Characters of a document from which its language is detected"""


def libretranslate(_: Choice, server: Server) -> ServeApi:
    """The API; its clients send the key in the body of a request."""
    if find_spec("py3langid") is None:  # which is imported when it is needed
        raise ModuleNotFoundError(name="py3langid")
    api, service = APIRouter(tags=["LibreTranslate"]), Service(server)

    @api.get("/languages", summary="Languages, and into which each is translated")
    async def languages() -> list[dict[str, Any]]:
        return service.languages()

    @api.get("/health", summary="As /healthz, in LibreTranslate's form")
    async def health() -> JSONResponse:
        status, body = server.state()
        return JSONResponse({"status": body["status"]}, status)

    @api.post("/detect", summary="The language of a text", response_model=None)
    async def detect(request: Request) -> Response:
        fields = await _fields(request)
        service.check_key(request, fields)
        (text,) = _texts(fields)[0][:1]
        server.check_texts([text])
        return JSONResponse([each._asdict() for each in (await service.detector())(text)])

    @api.post("/translate", summary="Translate a text, or a list of texts", response_model=None)
    async def translate(request: Request) -> Response:
        fields = await _fields(request)
        service.check_key(request, fields)
        return await cancel_on_disconnect(request, service.translate(fields), server.metrics)

    @api.post("/translate_file", summary="Translate a document", response_model=None)
    async def translate_file(request: Request) -> Response:
        upload = await uploaded(request, server.config.max_document)
        service.check_key(request, upload.fields)
        return await cancel_on_disconnect(request, service.translate_file(upload, request), server.metrics)

    @api.get("/download_file/{filename}", summary="A translated document", response_class=Response)
    async def download_file(filename: str) -> Response:
        data = service.files.get(filename)
        kind = mimetypes.guess_type(filename)[0] or "application/octet-stream"
        return Response(data, media_type=kind, headers=disposition(filename))

    return ServeApi(described(api, service.directions), lambda error: {"error": str(error)}, checks_keys=True)


class Service:
    """Translation between the languages of the served runs."""

    def __init__(self, server: Server) -> None:
        self.server, self.directions = server, directions(server.engines)
        self.codes = ("auto", *{code: None for pair in self.directions for code in pair})
        self.formats = document_formats(server.plugins.registry)
        self.files = StoredFiles(server.config.document_kept, 16 * server.config.max_document)
        self._detector: Detector | None = None
        self._detecting = asyncio.Lock()

    def languages(self) -> list[dict[str, Any]]:
        """Source languages with their targets, in LibreTranslate's format."""
        targets: dict[str, list[str]] = {}
        for src, tgt in self.directions:
            targets.setdefault(src, []).append(tgt)
        return [{"code": src, "name": language_name(src), "targets": codes} for src, codes in targets.items()]

    async def detector(self) -> Detector:
        """The detector, loaded when it is first needed."""
        async with self._detecting:
            if self._detector is None:
                self._detector = await asyncio.to_thread(Detector, self.codes[1:])
        return self._detector

    def check_key(self, request: Request, fields: dict[str, Any]) -> None:
        """Raise RefusedError unless a valid key is in a field, as LibreTranslate's clients send it, or in a header."""
        if not self.server.keys:
            return
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        key = str(fields.get("api_key") or request.headers.get("x-api-key") or bearer)
        if not key:
            raise _bad("Please contact the server operator to get an API key")
        if not self.server.knows(key):
            raise RefusedError(403, "key", "Invalid API key")

    async def translate(self, fields: dict[str, Any]) -> Response:
        """The response to /translate."""
        texts, is_list = _texts(fields)
        form, source, target = (str(fields.get(key) or default) for key, default in _DEFAULTS.items())
        if not target or form not in ("text", "html") or (form == "html" and form not in self.formats):
            raise _bad("Invalid request: missing target parameter" if not target else f"{form} format is not supported")
        self.server.check_texts(texts)
        source, target = (served_code(code, self.codes) for code in (source, target))
        pages = await map_in_turns(self._page, texts) if form == "html" else [None] * len(texts)
        plain = [_document_text(page) if page else text for page, text in zip(pages, texts, strict=True)]
        detected = await map_in_turns(self._detect, plain) if source == "auto" else None
        sources = [one.language for one in detected] if detected else [source] * len(texts)
        chosen = [None if src == target else self._direction(src, target) for src in sources]
        searching = [each.engine for each in chosen if each] or list(self.server.engines.values())
        n = _alternatives(fields, min(engine.nbest for engine in searching))
        async with self.server.working():
            found = await translations([Query(*one, n + 1) for one in zip(chosen, texts, pages, strict=True)])
        one = (lambda values: values) if is_list else (lambda values: values[0])
        answer: dict[str, Any] = {"translatedText": one([hyps[0] for hyps in found])}
        if n:
            answer["alternatives"] = one([hyps[1:] for hyps in found])
        if detected:
            answer["detectedLanguage"] = one([each._asdict() for each in detected])
        return JSONResponse(answer)

    async def translate_file(self, upload: Upload, request: Request) -> Response:
        """The response to /translate_file: where the translation is."""
        source, target = (upload.fields.get(key, "") for key in ("source", "target"))
        if not source or not target:
            raise _bad(f"Invalid request: missing {'target' if source else 'source'} parameter")
        source, target = (served_code(code, self.codes) for code in (source, target))
        extension = PurePosixPath(upload.name).suffix.lower()
        form = self.server.plugins.registry.by_extension(extension)
        if not form:
            raise _bad("Invalid request: file format not supported")
        async with self.server.working(limit=self.server.config.document_deadline):
            document = await _read(self.formats[form], upload.data)
            if source == "auto":
                source = (await self._detect(_document_text(document)[:DETECTED])).language
            output = upload.data
            if source != target:
                direction = self._direction(source, target)
                options = TextOptions(fields=dict(direction.fields))
                (output,) = await document_outputs(direction.engine, document, options)
        stored = self.files.add(translated_name(upload.name, target), output)
        return JSONResponse({"translatedFileUrl": str(request.url_for("download_file", filename=quote(stored)))})

    async def _page(self, text: str) -> Document:
        """A text as a page, whatever encoding it declares."""
        return await _read(self.formats["html"], codecs.BOM_UTF8 + text.encode())

    async def _detect(self, text: str) -> Detected:
        found = (await self.detector())(text)
        if not found:
            raise _bad("the language of this text cannot be detected; give source")
        return found[0]

    def _direction(self, source: str, target: str) -> Direction:
        if not any(src == source for src, _ in self.directions):
            raise _bad(f"{source} is not supported")
        if (source, target) not in self.directions:
            raise _bad(f"{target} ({language_name(target)}) is not available as a target language from {source}")
        return self.directions[source, target]


async def _read(form: DocumentFormat, data: bytes) -> Document:
    """The document; raises RefusedError with LibreTranslate's status."""
    try:
        return await read_document(form, data)
    except RefusedError as error:
        raise _bad(f"Invalid request: {error}") from error


def _document_text(document: Document) -> str:
    """What is translated of a document, without attributes, unless there is nothing else."""
    texts = [block.source.text for block in document.blocks if not block.kind.startswith("@")]
    return " ".join(texts or [block.source.text for block in document.blocks])


_DEFAULTS = {"format": "text", "source": "auto", "target": ""}


async def _fields(request: Request) -> dict[str, Any]:
    """The fields of a JSON body, or of a form as browsers send it."""
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/x-www-form-urlencoded":
            values = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=1000)
            return {key: found[0] if len(found) == 1 else found for key, found in values.items()}
        fields = parse_json(body)
        json.dumps(fields, ensure_ascii=False).encode()
    except ValueError as error:
        raise _bad(f"Invalid request: {str(error)[:200].encode(errors='replace').decode()}") from None
    if not isinstance(fields, dict):
        raise _bad("Invalid request: expected an object")
    return fields


def _texts(fields: dict[str, Any]) -> tuple[list[str], bool]:
    """The texts of `q`, and whether it is a list."""
    q = fields.get("q")
    given = q if isinstance(q, list) else [q]
    texts = [text for text in given if isinstance(text, str)]
    if not texts or len(texts) < len(given):
        raise _bad("Invalid request: missing q parameter")
    return texts, isinstance(q, list)


def _alternatives(fields: dict[str, Any], nbest: int) -> int:
    given = fields.get("alternatives") or 0
    n = int(given) if isinstance(given, int) or (isinstance(given, str) and given.isdecimal()) else -1
    if not 0 <= n < nbest:
        raise _bad(f"Invalid request: alternatives must be a number from 0 to {nbest - 1}")
    return n


def _bad(message: str) -> RefusedError:
    return RefusedError(400, "bad_request", message)
