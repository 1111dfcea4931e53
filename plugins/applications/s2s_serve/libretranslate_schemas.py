"""The requests of LibreTranslate's API for the OpenAPI description, since its routes read JSON and forms themselves."""

from __future__ import annotations

__all__ = ["described"]

from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastapi import APIRouter

TEXT = {"type": "string"}
KEY = TEXT | {"description": "API key, if the server has keys."}
SOURCE = TEXT | {"description": "Code of the language, as in /languages, or auto, to detect it.", "default": "auto"}
TARGET = TEXT | {"description": "Code of the language, as in /languages."}
TRANSLATE: dict[str, Any] = {
    "q": {
        "anyOf": [TEXT, {"type": "array", "items": TEXT}],
        "description": "A text, or a list of texts.",
        "examples": ["The old cat sees a dog."],
    },
    "source": SOURCE,
    "target": TARGET,
    "format": {"enum": ["text", "html"], "default": "text", "description": "Whether texts are HTML."},
    "alternatives": {"type": "integer", "default": 0, "minimum": 0, "description": "Other translations of each text."},
    "api_key": KEY,
}
DETECT = {"q": TEXT | {"description": "A text.", "examples": ["The old cat sees a dog."]}, "api_key": KEY}
FILE = {
    "file": TEXT | {"format": "binary", "description": "A document; its extension says the format."},
    "source": TEXT | {"description": SOURCE["description"]},
    "target": TARGET,
    "api_key": KEY,
}
ERROR = {
    "description": "The request is refused.",
    "content": {"application/json": {"schema": {"type": "object", "properties": {"error": TEXT}}}},
}


def _body(fields: dict[str, Any], required: list[str], *kinds: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": required}
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def _bodies(target: str) -> dict[str, Any]:
    """The bodies by routes, with a language as the example."""
    translate = TRANSLATE | {"target": TARGET | {"examples": [target]}}
    form = "application/x-www-form-urlencoded"
    return {
        "/translate": _body(translate, ["q", "target"], "application/json", form),
        "/detect": _body(DETECT, ["q"], "application/json", form),
        "/translate_file": _body(FILE, ["file", "source", "target"], "multipart/form-data"),
    }


def described(api: APIRouter, directions: Iterable[tuple[str, str]]) -> APIRouter:
    """The router, with descriptions of bodies and errors; directions: those served, the first as the example."""
    bodies = _bodies(next((target for _, target in directions), "de"))
    for route in api.routes:
        if isinstance(route, APIRoute):
            route.openapi_extra = bodies.get(route.path)
            route.responses["default"] = ERROR
    return api
