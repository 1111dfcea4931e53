"""What users see of trees, and what they may give as input: drawings read back, pictures taken apart, raw text cut."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from harness.parsing_trees import trees
from s2s.plugin import load_plugins
from s2s_parsing import ParsingConfig
from s2s_parsing.ptb_tokenizer import tokenize
from s2s_parsing.svg_tree import html, svg
from s2s_parsing.task import Parsing
from s2s_parsing.text_tree import pretty, shown
from s2s_parsing.tree import Tree, Word, leaves

if TYPE_CHECKING:
    from s2s_parsing.tree import Node

TASK = Parsing(ParsingConfig(name="parsing"), registry=load_plugins().registry)
LINE = "(TOP (S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .)))"
SVG = "{http://www.w3.org/2000/svg}"


@given(trees)
def test_an_output_as_an_object_is_the_same_tree(tree: Tree) -> None:
    assert TASK.as_object("") is None, "of an empty input"
    found = TASK.as_object(str(tree))
    assert (found.leaves(), found.label()) == ([word for _, word in leaves(tree)], tree.label)
    assert found.pformat(margin=10**9) == str(tree)


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", "30")
    return 30


def test_a_tree_that_fits_stands_upright_over_its_words(columns: int) -> None:
    *above, words, after = pretty(LINE).split("\n")
    assert (words.split(), after) == (["The", "cat", "sleeps", "."], "")
    assert above[0].strip() == "S"
    assert max(map(len, above)) <= columns
    assert not any(row != row.rstrip() for row in above)


SIDEWAYS = """\
S
├─ NP
│  ├─ DT The
│  └─ NN {}
├─ VP
│  └─ VBZ sleeps
└─ . .
"""


@pytest.mark.parametrize("word", ["hippopotamus-and-rhinoceros", "猫", "a\u0301"], ids=["wide", "two columns", "none"])
def test_a_tree_that_does_not_fit_lies_on_its_side(columns: int, word: str) -> None:
    assert pretty(LINE.replace("cat", word)) == SIDEWAYS.format(word)


def lying(drawn: str) -> Tree:
    """The tree of a drawing that lies on its side."""
    rows = [(len(row) - len(row.lstrip("│├└─ ")), row.lstrip("│├└─ ").split(" ")) for row in drawn.splitlines()]

    def node(index: int) -> tuple[Node, int]:
        depth, text = rows[index]
        index += 1
        if len(text) == 2:
            return Word(*text), index
        children: list[Node] = []
        while index < len(rows) and rows[index][0] > depth:
            child, index = node(index)
            children.append(child)
        return Tree(text[0], tuple(children)), index

    tree, _ = node(0)
    assert isinstance(tree, Tree)
    return tree


@given(tree=trees)
@settings(max_examples=40)
def test_what_lies_on_its_side_can_be_read_back(tree: Tree) -> None:
    from s2s_parsing import text_tree

    assert lying(text_tree._sideways(tree)) == tree


@given(tree=trees)
@settings(max_examples=40)
def test_a_picture_has_every_label_above_what_it_holds_and_the_words_on_the_ground(tree: Tree) -> None:
    line = str(tree)
    drawing = ET.fromstring(svg(line))
    texts = [(float(t.attrib["x"]), float(t.attrib["y"]), t.text) for t in drawing.iter(f"{SVG}text")]
    ground = max(y for _, y, _ in texts)
    words = [leaf.word for leaf in leaves(tree)]
    assert [text for _, _, text in sorted(t for t in texts if t[1] == ground)] == words
    assert len(list(drawing.iter(f"{SVG}path"))) == len(texts) - 1, "everything but the top hangs on something"
    assert max(x for x, _, _ in texts) < float(drawing.attrib["width"])
    assert svg(line).isascii()


def test_a_picture_stands_in_a_page_on_one_line_whatever_the_words_are() -> None:
    page = html("(TOP (NP (X <b>&amp;) (Y caf\u00e9\u0001\U0001f600)))")
    assert page.isascii()
    assert "\n" not in page
    caption = ET.fromstring(page).find("figcaption")
    assert caption is not None
    assert caption.text == "<b>&amp; caf\u00e9\ufffd\U0001f600"


def test_a_deep_tree_is_shown_like_any_other() -> None:
    line = "(TOP " + "(S (NN a) " * 3000 + "(NN b)" + ")" * 3001
    assert pretty(line).count("\n") == 6001
    assert svg(line).count("<text") == 9002


@pytest.mark.parametrize(
    ("line", "label"), [(LINE, "S"), ("(TOP (NN a))", "TOP"), ("(TOP (S (NN a)) (S (NN b)))", "TOP")]
)
def test_an_outermost_bracket_that_says_nothing_is_not_shown(line: str, label: str) -> None:
    assert shown(line).label == label


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('He said, "I can\'t go (yet)."', "He said , `` I ca n't go -LRB- yet -RRB- . ''"),
        ("“It’s ‘so’…” – she", "`` It 's ` so ' ... '' -- she"),
        ("AT&T rose 3.5% to $5.", "AT&T rose 3.5 % to $ 5 ."),
        ("He left Washington D.C.", "He left Washington D.C. ."),
        ("She works for Acme Inc.", "She works for Acme Inc. ."),
        ("Mr. Smith didn't", "Mr. Smith did n't"),
        ("We saw B.", "We saw B ."),
        (" \u00a0a\tb ", "a b"),
        ("", ""),
    ],
)
def test_raw_text_is_cut_as_the_treebank_has_it(text: str, words: str) -> None:
    assert tokenize(text) == words.split()
