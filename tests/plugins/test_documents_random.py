"""Random pages: no tag is lost, doubled, crossed or inside a word, and the text is that of the untagged translation."""

from __future__ import annotations

import re
from random import Random
from xml.etree import ElementTree

import pytest

from harness.documents import Tags, render, translated, translation
from harness.random_pages import PageWriter
from s2s.registry import Choice
from s2s_documents.markup_formats import HtmlFormat, XmlFormat

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
