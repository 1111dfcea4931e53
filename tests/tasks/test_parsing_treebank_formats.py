"""Treebanks in other formats than brackets, and brackets with gaps."""

from __future__ import annotations

import gzip
import random
from typing import TYPE_CHECKING

import pytest

from s2s import DataError, Rejected
from s2s.cli.prepare import main as prepare
from s2s_parsing.tree import Tree, leaves
from s2s_parsing.treebank import read_treebank

if TYPE_CHECKING:
    from pathlib import Path

V3 = """%% made up
#FORMAT 3
#BOT EDGETAG
0\t--\tnot bound
#EOT EDGETAG
#BOS 1 0 1 1 %% a comment
Darüber\tPROAV\t--\tMO\t500
muss\tVMFIN\t3.Sg\tHD\t502\tSB\t500
(\t$(\t--\t--\t0
nachgedacht\tVVPP\t--\tHD\t500
werden\tVAINF\t--\tHD\t501 %% another
.\t$.\t--\t--\t0
#500\tVP\t--\tOC\t501
#501\tVP\t--\tOC\t502
#502\tS\t--\t--\t0
#EOS 1
"""
EXPORTED = (
    "(TOP (S (VP*-OC (VP*-OC (PROAV Darüber))) (VMFIN muss) "
    "(VP*-OC (VP*-OC ($[ -LRB-) (VVPP nachgedacht)) (VAINF werden))) ($. .))"
)
TIGER = """<?xml version="1.0" encoding="UTF-8"?>
<corpus id="x"><head/><body><s id="s1"><graph root="s1_VROOT" discontinuous="true"><terminals>
<t id="s1_1" word="Darüber" pos="PROAV"/><t id="s1_2" word="muss" pos="VMFIN"/><t id="s1_3" word="(" pos="$("/>
<t id="s1_4" word="nachgedacht" pos="VVPP"/><t id="s1_5" word="werden" pos="VAINF"/><t id="s1_6" word="." pos="$."/>
</terminals><nonterminals>
<nt id="s1_500" cat="VP"><edge label="MO" idref="s1_1"/><edge label="HD" idref="s1_4"/></nt>
<nt id="s1_501" cat="VP"><edge label="OC" idref="s1_500"/><edge label="HD" idref="s1_5"/></nt>
<nt id="s1_502" cat="S"><edge label="OC" idref="s1_501"/><edge label="HD" idref="s1_2"/>
<secedge label="SB" idref="s1_1"/></nt>
<nt id="s1_VROOT" cat="VROOT"><edge label="--" idref="s1_502"/><edge label="--" idref="s1_3"/>
<edge label="--" idref="s1_6"/></nt></nonterminals></graph></s></body></corpus>"""
DISC = "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John) (? 3=?))\n"
RICH = "(TOP (S (VP* (VB is)) (NP John) (VP* (JJ rich)) (? ?)))"


def with_lemmas(export: str) -> str:
    """Version 4, which has a lemma behind each word and bracket."""
    rows = (line.split("\t") for line in export.replace("FORMAT 3", "FORMAT 4").splitlines())
    return "\n".join("\t".join([row[0], "lemma", *row[1:]] if len(row) > 4 else row) for row in rows) + "\n"


FORMATS = {
    "export 3": (V3, EXPORTED),
    "export 4": (with_lemmas(V3), EXPORTED),
    "export 3 without a header": (V3[V3.index("#BOS") :], EXPORTED),
    "export 4 without a header": (with_lemmas(V3[V3.index("#BOS") :]), EXPORTED),
    "TIGER XML": (TIGER, EXPORTED),
    "discbracket": (DISC, RICH),
    "older discbracket": ("(S (VP (VB 0) (JJ 2)) (NP 1) (? 3))\tis John rich ?\n", RICH),
    "brackets": ("( (S (NP (# #) (NN 3=x))\n   (. .)) )\n", "(TOP (S (NP (# #) (NN 3=x)) (. .)))"),
    "comments and headers": (
        "*x*x*x*x*x*\n*x*  Copyright (C) 1989 *x*\n# a comment\n\n(S (X y))\n# (S (X n))\n",
        "(TOP (S (X y)))",
    ),
}
each_format = pytest.mark.parametrize(("text", "tree"), FORMATS.values(), ids=FORMATS)


def trees(path: Path, text: str, **options: str) -> list[str]:
    path.write_text(text)
    return [str(tree) for tree in read_treebank([path], **options)]  # type: ignore[arg-type]


@each_format
def test_a_format_is_known_by_its_content(text: str, tree: str, tmp_path: Path) -> None:
    assert trees(tmp_path / "a.mrg", text) == [tree]
    (tmp_path / "a.gz").write_bytes(gzip.compress(text.encode()))
    assert [str(one) for one in read_treebank([tmp_path / "a.gz"])] == [tree]


@each_format
def test_s2s_prepare_reads_it_and_reports_gaps(
    text: str, tree: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.mrg").write_text(text)
    where = [f"task.train={tmp_path / 'a.mrg'}", f"data.prepared={tmp_path / 'prepared'}"]
    for _ in ("made", "found"):
        assert prepare(["task=parsing", "task.words=parts", "task.linear=in_order", "recipe=none", *where]) == 0
        out = capsys.readouterr().out
        assert "1 pairs read, 1 kept" in out
        assert f"{tree.count('*')} parts of discontinuous brackets" in out or "*" not in tree
        assert ("comments and headers, and left out" in out) == ("# a comment" in text)


@pytest.mark.parametrize("text", [V3, TIGER, DISC], ids=["export", "TIGER XML", "discbracket"])
def test_gaps_are_refused_on_request(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.mrg:\d+: the bracket VP has a gap; task.discontinuity=split splits"):
        trees(tmp_path / "a.mrg", text, discontinuity="refuse")
    dropped = list(read_treebank([tmp_path / "a.mrg"], None, "drop", "refuse"))
    assert dropped == [Rejected("malformed tree")]


BROKEN = {
    "no parent": (V3.replace("\t501 %%", "\t509 %%"), "werden is in #509, which the sentence does not have"),
    "a circle": (V3.replace("S\t--\t--\t0", "S\t--\t--\t500"), "not every word is in the tree exactly once"),
    "few columns": (V3.replace("\t3.Sg\tHD\t502\tSB\t500", ""), "row 2 of the sentence has too few columns"),
    "an empty bracket": (V3.replace("#502", "#503\tNP\t--\t--\t0\n#502"), "the bracket NP is empty"),
    "no end": (V3.replace("#EOS 1\n", ""), "no #EOS before the end of the file"),
    "cut XML": (TIGER[:700], r"a.mrg:\d+: not well-formed"),
    "an entity": (TIGER.replace("<corpus", '<!DOCTYPE x [<!ENTITY a "b">]><corpus'), "declares an entity"),
    "a number twice": (DISC.replace("2=", "1="), "two words have the number 1"),
    "a gap in the numbers": (DISC.replace("3=", "5="), "its 4 words are not numbered from 0 without gaps"),
    "dependencies": ("# text = Hi\n1\tHi\thi\tINTJ\t_\t_\t0\troot\t_\t_\n\n", "has dependencies .* no constituents"),
    "other XML": ("<?xml version='1.0'?>\n<alpino_ds/>", "is XML of another kind than TIGER's"),
    "no treebank": ("hello\nworld\n", "'hello' stands outside of brackets; so are .*; brackets, discbracket, Negra"),
}


@pytest.mark.parametrize(("text", "complaint"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_tree_is_one_clear_line(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=complaint) as caught:
        trees(tmp_path / "a.mrg", text)
    assert "\n" not in str(caught.value)
    assert "invalid=drop" not in str(caught.value)


def test_dropping_is_advised_where_most_trees_are_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.mrg:3: .*; repair the file, or drop such lines"):
        trees(tmp_path / "a.mrg", "(S (X y))\n(S (X y))\n(S (X y)))\n(S (X y))\n")


def numbered(draw: random.Random, numbers: list[int]) -> str:
    """A bracket over words with these numbers, which are shared out at random, so that brackets have gaps."""
    if len(numbers) < 3:
        return f"(X {' '.join(f'(T {i}=w{i})' for i in numbers)})"
    draw.shuffle(numbers)
    cut = draw.randint(1, len(numbers) - 1)
    return f"(Y {numbered(draw, numbers[:cut])} {numbered(draw, numbers[cut:])})"


def yields(text: str) -> list[tuple[str, frozenset[int]]]:
    """Second truth: the label and the word numbers of each bracket, by counting parentheses."""
    found, stack = [], []
    for token in text.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            stack.append(["", set()])
        elif token == ")":
            label, numbers = stack.pop()
            if stack:
                stack[-1][1] |= numbers
            if label != "T":
                found.append((label, frozenset(numbers)))
        elif not stack[-1][0]:
            stack[-1][0] = token
        else:
            stack[-1][1].add(int(token.partition("=")[0].removeprefix("w")))
    return found


def runs(label: str, numbers: frozenset[int]) -> list[tuple[str, frozenset[int]]]:
    """The continuous parts of a set of numbers, marked if there are several."""
    parts: list[list[int]] = []
    for i in sorted(numbers):
        if parts and parts[-1][-1] == i - 1:
            parts[-1].append(i)
        else:
            parts.append([i])
    return [(f"{label}*" if len(parts) > 1 else label, frozenset(part)) for part in parts]


@pytest.mark.parametrize("seed", range(20))
def test_brackets_become_their_continuous_parts_and_no_word_moves(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    text = numbered(draw, list(range(draw.randint(3, 12))))
    (tmp_path / "a.mrg").write_text(text)
    (tree,) = read_treebank([tmp_path / "a.mrg"])
    assert isinstance(tree, Tree)
    assert [leaf.word for leaf in leaves(tree)] == [f"w{i}" for i in range(len(leaves(tree)))]
    expected = [part for label, numbers in yields(text) for part in runs(label, numbers)]
    assert sorted(map(repr, yields(str(tree)[5:-1]))) == sorted(map(repr, expected))
