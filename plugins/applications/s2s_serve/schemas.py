"""Bodies of the server's own requests, from which the OpenAPI schema is made. An error names an unknown field."""

from __future__ import annotations

__all__ = [
    "Body",
    "ErrorBody",
    "GenerateBody",
    "JsonFields",
    "Pair",
    "ParseBody",
    "ScoreBody",
    "file_body",
    "read_fields",
]

import json
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from s2s.io import parse_json
from s2s_serve.generating import TextOptions
from s2s_serve.refusal import invalid


def _encodable(text: str) -> str:
    """Text that UTF-8 can encode: JSON may contain half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair; write the character whole") from None
    return text


def _encodable_fields(fields: dict[str, Any]) -> dict[str, Any]:
    _encodable(json.dumps(fields, ensure_ascii=False))
    return fields


Text = Annotated[str, AfterValidator(_encodable)]
InputFields = Annotated[dict[str, Any], AfterValidator(_encodable_fields)]
INPUT_FIELDS = "Fields of each text that the run's task reads, such as the language of the output."
JsonFields = Annotated[str, Query(description=f"{INPUT_FIELDS} As a JSON object.")]
"""In a query; `read_fields` reads it"""


EMPTY_LIST: dict[str, Any] = {"default": []}
"""A default as the schema shows it, for `default_factory`; pydantic copies another one deeply for each request"""
EMPTY_DICT: dict[str, Any] = {"default": {}}
EXAMPLE = "The old cat sees a dog."


def file_body(kind: str) -> dict[str, Any]:
    """The description of a route whose body is a file of a media type."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": {"type": "string", "format": "binary"}}}}}


class Refusal(BaseModel):
    """Why a request is refused."""

    code: str = Field(description="The reason in one word, for programs.")
    message: str = Field(description="The reason, for people.")


class ErrorBody(BaseModel):
    """The body of an error."""

    error: Refusal


class Body(BaseModel):
    """Fields of all requests."""

    model_config = ConfigDict(extra="forbid", strict=True)

    run: Text = Field(default="", description="Name of a served run (GET /v1/runs); empty: the first.")
    deadline: float = Field(default=0.0, ge=0, description="Seconds after which to give up; 0: the server's own limit.")


class GenerateBody(Body):
    """Outputs for texts."""

    text: Text | list[Text] = Field(
        description="One text or several; each may have several lines and sentences.", examples=[EXAMPLE]
    )
    nbest: int = Field(default=1, ge=1, description="Outputs of each text, best first.")
    input_fields: InputFields = Field(default_factory=dict, json_schema_extra=EMPTY_DICT, description=INPUT_FIELDS)
    prefix: Text = Field(default="", description="How the output begins; for a text of one line.")
    phrases: list[Text] = Field(
        default_factory=list,
        json_schema_extra=EMPTY_LIST,
        max_length=64,
        description="What the output contains, in any order; for a text of one line.",
    )
    terms: dict[Text, Text | list[Text]] = Field(
        default_factory=dict,
        json_schema_extra=EMPTY_DICT,
        description="Terms of the text and their translations, or alternatives, which its output has.",
    )
    split: bool = Field(default=True, description="Take lines apart into sentences, where the task knows them.")
    raw: bool = Field(default=False, description="The text is raw: the task tokenises it into words if it needs them.")
    fields: list[Literal["tokens", "pieces", "log_probs", "align", "attention"]] = Field(
        default_factory=list,
        json_schema_extra=EMPTY_LIST,
        description="More of each sentence. tokens: ids; pieces: the same as text; log_probs: of each token and the "
        "end; align: pairs of word numbers; attention: of each output token to each source token.",
    )
    views: list[Text] = Field(
        default_factory=list,
        json_schema_extra=EMPTY_LIST,
        max_length=8,
        description="Other ways to show outputs that the task offers: svg.",
    )
    stream: bool = Field(default=False, description="Server-sent events: `sentence` as each is known, then `done`.")

    @property
    def texts(self) -> list[str]:
        """The texts, one or several."""
        return [self.text] if isinstance(self.text, str) else self.text

    @property
    def options(self) -> TextOptions:
        """How each text is read and searched."""
        return TextOptions(
            prefix=self.prefix,
            phrases=tuple(filter(None, self.phrases)),
            fields={**self.input_fields, "terms": self.terms} if self.terms else self.input_fields,
            split=self.split,
            raw=self.raw,
            nbest=self.nbest,
            align="align" in self.fields,
        )


class ParseBody(Body):
    """Trees of sentences, one sentence per line."""

    text: Text | list[Text] = Field(description="One text or several; a line is a sentence.", examples=[EXAMPLE])
    tokenized: bool = Field(default=False, description="Words are separated by blanks already.")
    views: list[Text] = Field(default=["pretty", "svg"], max_length=8, description="Drawings of each tree.")


class Pair(BaseModel):
    """An input and an output to score."""

    model_config = ConfigDict(extra="forbid", strict=True)

    src: Text = Field(examples=[EXAMPLE])
    tgt: Text = Field(examples=["Die alte Katze sieht einen Hund."])


class ScoreBody(Body):
    """How probable given outputs are."""

    pairs: list[Pair] = Field(min_length=1, max_length=256, description="Inputs and outputs.")
    input_fields: InputFields = Field(default_factory=dict, json_schema_extra=EMPTY_DICT, description=INPUT_FIELDS)


def read_fields(text: str) -> dict[str, Any]:
    """The fields that a JSON object names; raises RefusedError for another text."""
    try:
        return TypeAdapter(InputFields).validate_python(parse_json(text))
    except ValidationError as error:
        raise invalid(f"input_fields: {error.errors()[0]['msg']}") from None
    except ValueError as error:
        raise invalid(f"input_fields: {error}") from None
