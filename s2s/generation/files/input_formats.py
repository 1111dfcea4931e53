"""Lines of tsv and jsonl files as inputs."""

from __future__ import annotations

__all__ = ["JsonlInput", "TsvInput"]

import json
import logging
from typing import TYPE_CHECKING, Any, NoReturn

from s2s.errors import DataError
from s2s.generation.candidates import Input
from s2s.generation.files.input_lines import lines_of
from s2s.generation.files.streams import is_stream
from s2s.generation.formats import InputFormat, Record, one_line
from s2s.io.json_files import parse_json

if TYPE_CHECKING:
    from s2s.registry import Choice

logger = logging.getLogger(__name__)


class TsvInput(InputFormat):
    """The first column is the input; all columns are kept."""

    def __init__(self, config: Choice) -> None:
        pass

    def read(self, line: str, location: str) -> Record:
        src = line.partition("\t")[0]
        return Record(Input(src), location, line, {"src": src})


class JsonlInput(InputFormat):
    """An object with `src`, and optionally `prefix` and `phrases` of the output and fields that the task reads; all
    fields are kept."""

    def __init__(self, config: Choice) -> None:
        pass

    def fits(self, path: str) -> bool:
        """Decided by the name of a file or its first line with text; a pipe always fits."""
        if is_stream(path) or path.removesuffix(".gz").endswith((".jsonl", ".json")):
            return True
        first = next((line for line in lines_of(path) if isinstance(line, str) and line.strip()), "{")
        return first.lstrip("\ufeff \t").startswith("{")

    def read(self, line: str, location: str) -> Record:
        if not line.strip():
            return Record(Input(""), location, "", None)
        try:
            fields = parse_json(line, parse_constant=_no_constant)
            json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            raise DataError(f"{location}: half of a surrogate pair; write the character whole") from None
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{location}: bad JSON ({error}); expected an object with 'src', or give input_format=text"
            ) from None
        if isinstance(fields, dict) and fields.get("src", "") is None:
            logger.warning("%s: 'src' is null, so its output is empty", location)
            return Record(Input("", record=fields), location, "", fields)
        if not isinstance(fields, dict) or not isinstance(fields.get("src"), str):
            raise DataError(f"{location}: expected a JSON object with the text as 'src', not {line[:60]}")
        return Record(_input(fields, location), location, one_line(fields["src"]).replace("\t", " "), fields)


def _input(fields: dict[str, Any], location: str) -> Input:
    prefix, phrases = fields.get("prefix") or "", fields.get("phrases") or []
    if not isinstance(prefix, str):
        raise DataError(f"{location}: 'prefix' is the text with which the output begins, not {json.dumps(prefix)[:60]}")
    if not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
        raise DataError(f"{location}: 'phrases' is a list of texts for the output, not {json.dumps(phrases)[:60]}")
    return Input(fields["src"], prefix, tuple(phrases), record=fields)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
