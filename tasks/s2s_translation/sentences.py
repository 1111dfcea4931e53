"""Sentence splitting."""

from __future__ import annotations

__all__ = ["sentences"]

import re

END = re.compile(
    r"""
    (?: (?<=[!?…]) | (?<=\.) (?<!\b\w\.) (?<!\b[^\W_a-z]\w\.) (?<!\b[^\W_a-z]\w\w\.) )  # not after U.S. or Mr. or Mrs.
    (?: ["'»”’)\]]* ) \s+
    (?= [¿¡"'«„“‘(\[]* [^\W_a-z] )  # before what may begin a sentence
    | (?<=[。！？]) (?: [”’」』）]* ) \s*
    """,
    re.VERBOSE,
)


def sentences(text: str) -> list[str]:
    """The sentences of `text`, without surrounding white space; no other character is lost."""
    ends = [match.end() for match in END.finditer(text)]
    parts = [text[begin:end].strip() for begin, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return [part for part in parts if part]
