"""From tokens to the parts of a document: each run of text and inline tags between two boundaries is a block.

A tag without a partner in its run, whose element overlaps another, or is nested too deep, is a boundary itself, so that
it stays exactly where it is between texts that are translated by themselves. What stands around the text of a run stays
outside of its block: white space, tags around all of it, what stands alone before its first word.
"""

from __future__ import annotations

__all__ = ["parts"]

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from s2s.text import AnnotatedText, Block
from s2s_documents.folding import fold
from s2s_documents.template import RawInside, Slot, TemplatePart
from s2s_documents.tokens import Kind, Token

MAX_DEPTH = 64
"""Inline elements within one another"""

Write: TypeAlias = Callable[[AnnotatedText, RawInside], str]


def parts(tokens: Iterable[Token], write: Write, kind: str = "text", *, folds: bool = True) -> Iterator[TemplatePart]:
    """The parts of a document. write: an output as the document writes it; kind: of a block before any boundary.

    folds: white space is read as one blank.
    """
    run: list[Token] = []
    for token in tokens:
        if token.kind is not Kind.OUTSIDE:
            run.append(token)
            continue
        yield from _run(run, write, kind, folds)
        yield token.raw
        run, kind = [], token.name or kind
    yield from _run(run, write, kind, folds)


def _run(run: Sequence[Token], write: Write, kind: str, folds: bool) -> Iterator[TemplatePart]:
    """The parts of a run, cut at the tags that cannot be paired in it."""
    pairs = _shallow(_pairs(run))
    alone = [i for i, token in enumerate(run) if token.kind in (Kind.OPEN, Kind.CLOSE) and i not in pairs]
    if not alone:
        yield from _block(run, pairs, write, kind, folds)
        return
    for before, after in pairwise([-1, *alone, len(run)]):
        yield from _run(run[before + 1 : after], write, kind, folds)
        if after < len(run):
            yield run[after].raw


def _pairs(run: Sequence[Token]) -> dict[int, int]:
    """The indices of the tags that open and close the same element, both ways."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    n_opened: Counter[str] = Counter()
    for i, token in enumerate(run):
        if token.kind is Kind.OPEN:
            opened.append(i)
            n_opened[token.name] += 1
        elif token.kind is Kind.CLOSE and n_opened[token.name]:
            while True:
                j = opened.pop()
                n_opened[run[j].name] -= 1
                if run[j].name == token.name:
                    break
            pairs[i], pairs[j] = j, i
    return pairs


def _shallow(pairs: dict[int, int]) -> dict[int, int]:
    """The pairs without those that have MAX_DEPTH others around them."""
    depth, shallow = 0, dict[int, int]()
    for i, partner in sorted(pairs.items()):
        depth += i < partner
        if depth <= MAX_DEPTH:
            shallow[i] = partner
        depth -= partner < i
    return shallow


def _block(run: Sequence[Token], pairs: dict[int, int], write: Write, kind: str, folds: bool) -> Iterator[TemplatePart]:
    """What stands before a well-nested run, the block, and what stands behind it."""
    begin, end = _bounds(run, pairs)
    inner = run[begin:end]
    if not any(token.kind is Kind.TEXT and not token.kept and _has_letter(token.text) for token in inner):
        yield _raw(run)
        return
    before, inner, after = _without_white_space(inner)
    source, raw_inside = fold(inner, folds=folds)
    yield _raw(run[:begin]) + before
    yield Slot(Block(source, kind), _raw(inner), lambda output: write(output, raw_inside))
    yield after + _raw(run[end:])


def _bounds(run: Sequence[Token], pairs: dict[int, int]) -> tuple[int, int]:
    """Where the block begins and ends: no tags around all of its text, and nothing without text at its edges."""
    begin, end = 0, len(run)
    while begin < end:
        first, last = run[begin], run[end - 1]
        if pairs.get(begin) == end - 1:
            begin, end = begin + 1, end - 1
        elif _is_blank(first):
            begin += 1
        elif _is_blank(last):
            end -= 1
        elif first.kind is Kind.OPEN and all(map(_is_blank, _without_tags(run[begin : pairs[begin]]))):
            begin = pairs[begin] + 1
        elif last.kind is Kind.CLOSE and all(map(_is_blank, _without_tags(run[pairs[end - 1] : end]))):
            end = pairs[end - 1]
        else:
            break
    return begin, end


def _without_tags(run: Sequence[Token]) -> list[Token]:
    return [token for token in run if token.kind not in (Kind.OPEN, Kind.CLOSE)]


def _is_blank(token: Token) -> bool:
    """Whether it has nothing to read."""
    return token.kind is Kind.ALONE or (token.kind is Kind.TEXT and not token.text.strip())


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def _without_white_space(run: Sequence[Token]) -> tuple[str, Sequence[Token], str]:
    """White space before the run, the run without it at its edges, and white space behind it."""
    first, last = run[0], run[-1]
    before = after = ""
    tokens = list(run)
    if first.kind is Kind.TEXT and first.raw == first.text:
        stripped = first.raw.lstrip()
        before = first.raw[: len(first.raw) - len(stripped)]
        tokens[0] = first._replace(raw=stripped, text=stripped)
    last = tokens[-1]
    if last.kind is Kind.TEXT and last.raw == last.text:
        stripped = last.raw.rstrip()
        after = last.raw[len(stripped) :]
        tokens[-1] = last._replace(raw=stripped, text=stripped)
    return before, tokens, after


def _raw(run: Sequence[Token]) -> str:
    return "".join(token.raw for token in run)
