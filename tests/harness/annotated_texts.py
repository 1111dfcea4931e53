"""Random texts with inline elements, translations, and links between them; and what a projection must keep."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from s2s.text import AnnotatedText, Span

if TYPE_CHECKING:
    from random import Random

    from s2s.text.annotated import Link

WORDS = [
    "the",
    "dog",
    "don't",
    "sings",
    "e-mail",
    "3.14",
    "Ж",
    "кот",
    "θάλασσα",
    "naïve",
    "cafe\u0301",
    "x",
    "{0}",
    "%s",
]
OTHERS = ["猫が", "好き", "สวัสดี", "ครับ", "😀", "👩‍👩‍👧", "🇩🇪", "(", ")", ".", ",", "!", "—", "„", "“", "C++"]
BLANKS = ["", " ", " ", " ", "  ", "\u00a0", "\n"]
UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff]")


def random_text(rng: Random, most: int = 10) -> str:
    parts = []
    for _ in range(rng.randrange(most)):
        parts += [rng.choice(WORDS if rng.random() < 0.7 else OTHERS), rng.choice(BLANKS)]
    return "".join(parts)


def random_tokens(rng: Random, text: str) -> list[tuple[int, int]]:
    """Parts of a text, as a tokeniser might have them: with the blank before them, or within words."""
    cuts = sorted({0, len(text), *(i for i in range(len(text)) if rng.random() < 0.5 or text[i].isspace())})
    return list(itertools.pairwise(cuts))


def random_links(rng: Random, source: str, target: str) -> list[Link]:
    """For each target token a source token: about that of the same place, any, or none."""
    src, tgt = random_tokens(rng, source), random_tokens(rng, target)
    noise = rng.choice([0.0, 0.3, 1.0])
    links: list[Link] = []
    for i, token in enumerate(tgt):
        if src and rng.random() < 0.95:
            j = rng.randrange(len(src)) if rng.random() < noise else i * len(src) // len(tgt)
            links.append((*src[j], *token))
    return links


def random_spans(rng: Random, text: str, *, keeps: bool) -> tuple[Span, ...]:
    """Elements, properly nested; the opening of each is unique."""
    spans: list[Span] = []

    def fill(begin: int, end: int, depth: int, *, kept: bool) -> None:
        at = begin
        while at <= end and rng.random() < 0.75 - 0.15 * depth:
            first, last = sorted((rng.randint(at, end), rng.randint(at, end)))
            if rng.random() < 0.15:
                last = first
            is_whole = not any(re.fullmatch(r"[\w'.,]{2}", text[max(at - 1, 0) : at + 1]) for at in (first, last))
            keep = keeps and not kept and is_whole and rng.random() < 0.2
            closing = "" if first == last and rng.random() < 0.5 else f"</t{len(spans)}>"
            opening = f"<t{len(spans)}>"
            spans.append(Span(first, last, opening, closing, keep, depth))
            if closing:
                fill(first, last, depth + 1, kept=keep or kept)
            at = last

    fill(0, len(text), 0, kept=False)
    return tuple(spans)


def nesting(annotated: AnnotatedText) -> dict[str, str]:
    """For each element the one around it, both by their opening tags, as a reader of the document finds them."""
    document = annotated.render(lambda text: text.replace("<", "&lt;"))
    closings = {span.opening: span.closing for span in annotated.spans}
    around, parents = [""], {}
    for tag in re.findall(r"</?t\d+>", document):
        if tag.startswith("</"):
            assert closings[around.pop()] == tag, "elements cross"
        else:
            assert tag not in parents, "an element is there twice"
            parents[tag] = around[-1]
            if closings[tag]:
                around.append(tag)
    assert around == [""], "an element is not closed"
    return parents


def kept_spans(annotated: AnnotatedText) -> list[Span]:
    """The outermost kept elements with text."""
    kept: list[Span] = []
    for span in annotated.spans:
        if span.keep and span.begin < span.end and not any(one.begin <= span.begin < one.end for one in kept):
            kept.append(span)
    return kept


def splits_a_word(text: str, at: int) -> bool:
    """Whether a place is between two letters or digits of a script with blanks."""
    pair = text[max(at - 1, 0) : at + 1] if 0 < at < len(text) else ""
    return len(pair) == 2 and pair.isalnum() and not UNSPACED.search(pair)


def check_projection(source: AnnotatedText, target: str, projected: AnnotatedText) -> None:
    """What holds for any links."""
    assert nesting(projected) == nesting(source)
    spans = {span.opening: span for span in projected.spans}
    kept = kept_spans(projected)
    for span in source.spans:
        place = spans[span.opening]
        assert place[2:5] == span[2:5]
        if span.keep:
            assert projected.text[place.begin : place.end].strip() == source.text[span.begin : span.end].strip()
        for at in (place.begin, place.end):
            if not any(one.begin <= at <= one.end for one in kept):
                assert not splits_a_word(projected.text, at), "an element cuts a word"
    if not kept:
        assert projected.text == target
        check_fullness(source, target, spans)


def check_fullness(source: AnnotatedText, target: str, spans: dict[str, Span]) -> None:
    """Where the target has a word for each element with text, none with words has lost them."""
    n_full = sum(bool(source.text[span.begin : span.end].strip()) for span in source.spans)
    if len(re.findall(r"[^\W_]+(?:['’.,][^\W_]+)*", target)) >= n_full:
        for span in source.spans:
            if has_word(source.text, span):
                assert has_word(target, spans[span.opening]), "an element has lost its words"


def has_word(text: str, span: Span) -> bool:
    return any(map(str.isalnum, text[span.begin : span.end]))
