"""The tokens of HTML and XML.

HTML is taken apart as its standard says. The standard library's parser does not say where a token ends, and releases of
Python differ in what they make of malformed pages; the tests compare the two on well-formed ones.
"""

from __future__ import annotations

__all__ = [
    "ATTRIBUTE",
    "MarkupToken",
    "element_end",
    "element_ends",
    "element_names",
    "html_tokens",
    "xml_tokens",
]

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HTML = re.compile(
    r"""
    (?P<comment> <!--(?:-?>|.*?(?:--!?>|\Z)) | <!\[CDATA\[.*?(?:\]\]>|\Z) | <[!?][^>]*(?:>|\Z) | </[^a-zA-Z][^>]*>? )
    | </(?P<end>[a-zA-Z][^\s/>]*+) [^>]*+ >
    | <(?P<start>[a-zA-Z][^\s/>]*+) (?P<attributes> (?: =\s*+(?:"[^"]*+"|'[^']*+') | [^>] )*+ ) >
    | (?P<unfinished> </?[a-zA-Z].*+ )
    | (?P<reference> &(?:\#[xX][0-9a-fA-F]++|\#[0-9]++|[a-zA-Z][a-zA-Z0-9]*+);? )
    | [^<&]++ | [<&]
    """,
    re.DOTALL | re.VERBOSE,
)
XML = re.compile(
    r"""
    (?P<comment> <!--.*?--> | <!\[CDATA\[.*?\]\]> | <\?.*?\?>
        | <! (?: "[^"]*+" | '[^']*+' | [^>"'\[]
            | \[ (?: "[^"]*+" | '[^']*+' | <!--.*?--> | <\?.*?\?> | [^\]"'] )*+ \] )*+ > )
    | </(?P<end>[^\s>]++) \s*+ >
    | <(?P<start>[^\s/>]++) (?P<attributes> (?: "[^"]*+" | '[^']*+' | [^>"'] )*+ ) >
    | (?P<reference> &[^;]++; )
    | [^<&]++
    """,
    re.DOTALL | re.VERBOSE,
)
SLASH = re.compile(r"""(?:^|[\s"'])/$""")
"""What ends the tag of an empty element; behind a letter it may be part of a value without quotes"""
ATTRIBUTE = re.compile(r"""([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>]*+))?""")
RAW = ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "plaintext")
"""Elements of HTML in which no tag begins but the one that ends them"""


class MarkupToken(NamedTuple):
    """A part of the source."""

    kind: Literal["comment", "start", "empty", "end", "reference", "text"]
    """comment: all that is neither text nor tag. empty: the tag of an element without content, in XML"""
    raw: str
    name: str = ""
    """Of an element"""
    attributes: str = ""

    @property
    def local(self) -> str:
        """The name without a prefix."""
        return self.name.rpartition(":")[2]

    @property
    def has_slash(self) -> bool:
        """Whether the tag ends with a slash, as that of an element without content."""
        return SLASH.search(self.attributes) is not None

    def attribute(self, name: str) -> str | None:
        """The value of an attribute, empty if it has none; None: there is no such attribute."""
        for key, value in ATTRIBUTE.findall(self.attributes):
            if key.lower() == name:
                return str(value.strip("\"'"))
        return None


def element_names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def html_tokens(source: str) -> Iterator[MarkupToken]:
    """The tokens, whose `raw` in a row is the source; names in small letters."""
    at = 0
    while at < len(source):
        token, at = _next(HTML, source, at)
        yield token._replace(name=token.name.lower())
        if token.kind == "start" and token.name.lower() in RAW:
            end = re.compile(rf"</{token.name}(?=[\s/>])|\Z", re.IGNORECASE).search(source, at)
            assert end
            if end.start() > at:
                yield MarkupToken("text", source[at : end.start()])
            at = end.start()


def xml_tokens(source: str) -> Iterator[MarkupToken]:
    """The tokens of a well-formed document, whose `raw` in a row is the source."""
    at = 0
    while at < len(source):
        token, at = _next(XML, source, at)
        yield token._replace(kind="empty") if token.attributes.endswith("/") else token


def element_end(tokens: Sequence[MarkupToken], begin: int) -> int:
    """The index behind the element of XML that begins at a token, or behind the token, if it begins none."""
    depth = 0
    for i in range(begin, len(tokens)):
        depth += {"start": 1, "end": -1}.get(tokens[i].kind, 0)
        if depth <= 0:
            return i + 1
    return len(tokens)


def element_ends(tokens: Sequence[MarkupToken]) -> list[int]:
    """`element_end` of every token of a well-formed document, in linear time."""
    ends, around = list(range(1, len(tokens) + 1)), list[int]()
    for i, token in enumerate(tokens):
        if token.kind == "start":
            around.append(i)
        elif token.kind == "end":
            ends[around.pop()] = i + 1
    return ends


def _next(pattern: re.Pattern[str], source: str, at: int) -> tuple[MarkupToken, int]:
    match = pattern.match(source, at)
    assert match, f"no token begins at {source[at : at + 20]!r}"
    if match["start"]:
        return MarkupToken("start", match[0], match["start"], match["attributes"]), match.end()
    if match["end"]:
        return MarkupToken("end", match[0], match["end"]), match.end()
    if match["reference"]:
        return MarkupToken("reference", match[0]), match.end()
    kind: Literal["comment", "text"] = "comment" if match.lastgroup in ("comment", "unfinished") else "text"
    return MarkupToken(kind, match[0]), match.end()
