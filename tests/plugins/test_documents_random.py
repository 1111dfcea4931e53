"""Random pages: no tag is lost, doubled, crossed or inside a word, and the text is that of the untagged translation."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from xml.etree import ElementTree

import pytest

from harness.documents import Tags, render, translated, translation
from harness.random_pages import PageWriter
from s2s.registry import Choice
from s2s_documents.markup_formats import HtmlFormat, XmlFormat
from s2s_documents.markup_tokens import html_tokens

BLOCK = re.compile(r"</?(?:p|div|h2|li|td|blockquote|hr)\b[^>]*>")
TAG = re.compile(r"<[^>]*>")
CUT = re.compile(r"\w\0+\w")


def nested(page: str) -> dict[str, list[str]]:
    """For each element, by its number, the numbers of the elements around it."""
    root = ElementTree.fromstring(re.sub("<!DOCTYPE.*?>", "", page))
    around: dict[str, list[str]] = {}

    def visit(element: ElementTree.Element, outer: list[str]) -> None:
        for child in element:
            if number := child.get("id"):
                around[number] = outer
            visit(child, [*outer, number] if number else outer)

    visit(root, [])
    return around


def check(seed: int) -> tuple[int, int]:
    """Texts of a page, and those of them that are not that of the translation without tags."""
    page = PageWriter(Random(seed)).page()
    output = render(HtmlFormat, page, backwards=True)
    assert Tags(output).counts == Tags(page).counts, (seed, page, output)
    assert nested(output) == nested(page), (seed, page, output)
    cut, cut_before = (CUT.findall(TAG.sub("\0", BLOCK.sub(" ", text))) for text in (output, page))
    assert cut == cut_before, (seed, page, output)
    assert BLOCK.findall(output) == BLOCK.findall(page), (seed, page, output)
    blocks = HtmlFormat(Choice()).read(page.encode()).blocks
    assert nested(render(XmlFormat, page, backwards=True)) == nested(page), (seed, page)
    wrong = 0
    for block in blocks:
        wrong += translated(block.source).text != translation(block.source, backwards=True)[0]
    return len(blocks), wrong


PIECES = [
    *(
        "<b>",
        "</b>",
        "<i>",
        "</i>",
        "<p>",
        "</p>",
        "<div>",
        "<br>",
        "<!-- c -->",
        "<",
        "&x",
        "<a href='q'>",
        "</a>",
        "\n",
    ),
    *(
        "<code>",
        "</code>",
        "<ul><li>",
        "</ul>",
        "<script>x</script>",
        "<td>",
        "</span>",
        "<span translate=no>",
        "<b",
        " >",
    ),
    *("</", "<!", "<?x?>", "<title>", "</title>", "&amp;", "text", "word ", "one two", "<img src=x>", " ", "<svg>"),
]


def test_of_malformed_pages_no_tag_is_lost() -> None:
    for seed in range(1000):
        rng = Random(seed)
        page = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 14)))
        tags, tags_before = (
            Counter(token.raw for token in html_tokens(text) if token.kind not in ("text", "reference"))
            for text in (render(HtmlFormat, page, backwards=True), page)
        )
        assert tags == tags_before, page


MARKS = ["*{}*", "**{}**", "[{}](http://x.y)", "~~{}~~", "__{}__", "_{}_"]
ALONE = ["`co de`", "![im](a.png)", "<http://a.b>", "a\\*b", "1*2", "snake_case", "<br>", "&amp;"]


def markdown(rng: Random, depth: int = 0) -> str:
    """Words with inline elements, links without links inside."""
    parts = []
    for _ in range(rng.randint(1, 4)):
        chance = rng.random()
        if chance < 0.4 - 0.15 * depth:
            inside = markdown(rng, depth + 1)
            parts.append(rng.choice([mark for mark in MARKS if "[" not in mark or "[" not in inside]).format(inside))
        else:
            parts.append(rng.choice(ALONE if chance > 0.9 else ["the dog", "sings", "an old song", "(maybe)", "кот"]))
    return rng.choice([" ", " ", "\n"]).join(parts) + rng.choice(["", ".", ","])


def test_of_random_markdown_every_mark_acts() -> None:
    """As a mark, or as a tag of HTML where the words beside it would make it text."""
    markdown_it = pytest.importorskip("markdown_it", reason="the extra `documents` is not installed")
    from s2s_documents.markdown_format import MarkdownFormat

    parser = markdown_it.MarkdownIt("commonmark").enable("strikethrough")
    n_marks = 0
    for seed in range(300):
        source = markdown(Random(seed))
        output = render(MarkdownFormat, source, backwards=True)
        tags, tags_before = (
            Counter(re.findall("<(/?(?:em|strong|del|s|a|code|img|br)\\b)", parser.render(text)))
            for text in (re.sub("<(/?)del>", r"<\1s>", output), source)
        )
        assert tags == tags_before, (source, output)
        n_marks += "<em>" not in output and "<strong>" not in output
    assert n_marks > 250, "nearly all are marks"


def test_three_hundred_pages() -> None:
    counts = [check(seed) for seed in range(300)]
    n_texts, n_wrong = (sum(numbers) for numbers in zip(*counts, strict=True))
    assert n_texts > 400
    assert n_wrong <= n_texts / 100


@pytest.mark.slow
def test_ten_thousand_pages() -> None:
    counts = [check(seed) for seed in range(300, 10_300)]
    n_texts, n_wrong = (sum(numbers) for numbers in zip(*counts, strict=True))
    assert n_wrong <= n_texts / 100
