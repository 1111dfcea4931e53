"""Treebanks: read as nltk reads them, cleaned as others have cleaned them, with errors reported."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import nltk
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.parsing_trees import each_treebank, trees
from s2s.errors import DataError
from s2s.task import Rejected
from s2s_parsing.tree import TOP, Tree, Word, bracketed, leaves, to_nltk
from s2s_parsing.treebank import (
    Cleaner,
    EmptiedTree,
    MalformedTree,
    read_brackets,
    read_treebank,
    split_joined,
    treebank_files,
)
from s2s_parsing.treebank.__main__ import main as treebank_command

if TYPE_CHECKING:
    from pathlib import Path

    from s2s_parsing.treebank import Builder

SLEEPS = Tree(TOP, (Tree("S", (Tree("NP", (Word("NN", "cat"),)), Tree("VP", (Word("VBZ", "sleeps"),)))),))
LINE = "(TOP (S (NP (NN cat)) (VP (VBZ sleeps))))"


def read(text: str, builder: Builder | None = None) -> list[Tree | MalformedTree | EmptiedTree]:
    return list(read_brackets(enumerate(text.split("\n"), 1), builder))


def cleaned(text: str, **options: object) -> tuple[str, Counter[str]]:
    counts: Counter[str] = Counter()
    (tree,) = read(text, Cleaner(counts, **options))  # type: ignore[arg-type]
    return str(tree), counts


@pytest.mark.parametrize(
    "text",
    [
        LINE,
        "(ROOT (S (NP (NN cat)) (VP (VBZ sleeps))))",
        "(S1 (S (NP (NN cat)) (VP (VBZ sleeps))))",
        "( (S (NP (NN cat)) (VP (VBZ sleeps))) )",
        "((S (NP (NN cat)) (VP (VBZ sleeps))))",
        "(S (NP (NN cat)) (VP (VBZ sleeps)))",
        "(ROOT ((TOP (S (NP (NN cat)) (VP (VBZ sleeps))))))",
        "\n\n( (S \n    (NP (NN cat) )\n    (VP (VBZ sleeps) )))\n\n",
        "(TOP\n  (S\n    (NP\n      (NN\n        cat))\n    (VP (VBZ sleeps\n)\n)))",
        "(TOP(S(NP(NN\tcat))(VP(VBZ  sleeps ))))",
        "( \n  S (NP (NN cat)) (\n VP (VBZ sleeps)))",
    ],
)
def test_the_same_tree_is_read_from_any_layout_and_under_any_outer_label(text: str) -> None:
    assert read(text) == [SLEEPS]


@given(trees, st.integers(1, 200), st.integers(0, 3))
def test_what_is_written_is_read_again_in_any_layout(tree: Tree, margin: int, blank_lines: int) -> None:
    laid_out = to_nltk(tree).pformat(margin=margin, indent=0)
    text = "\n" * blank_lines + f"{bracketed(tree)}\n{laid_out}\n\n{laid_out}"
    assert read(text) == [tree] * 3


@given(trees)
def test_nltk_reads_and_holds_the_same_tree(tree: Tree) -> None:
    # nltk cuts words at U+00A0, and takes a backslash before a bracket for an escape; in treebanks both are letters
    text = str(tree).replace("\u00a0", "_").replace("\\", "/")
    (ours,) = read(text)
    assert isinstance(ours, Tree)
    theirs = nltk.Tree.fromstring(text)
    assert to_nltk(ours) == theirs
    assert [(word.word, word.tag) for word in leaves(ours)] == theirs.pos()


def test_a_tree_may_be_as_deep_as_it_likes() -> None:
    text = "(TOP " + "(S (NN a) " * 20_000 + "(NN b)" + ")" * 20_001
    (tree,) = read(text, Cleaner(Counter(), unary="same"))
    assert isinstance(tree, Tree)
    assert bracketed(tree) == text
    assert len(leaves(tree)) == 20_001


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (f"{LINE}\n(TOP (S (NN a))\n{LINE}", 2, "1 bracket is not closed before line 3, where another tree begins"),
        (f"{LINE}\n(TOP (S\n  (NN a)\n{LINE}", 2, "2 brackets are not closed before line 4"),
        (f"{LINE}\n{LINE}\n\n(TOP (S (NN a)", 4, "2 brackets are not closed at the end of the file"),
        (f"{LINE}\n{LINE})\n{LINE}\n{LINE}", 2, "a closing bracket too many"),
        (f"{LINE}\n{LINE}\n)", 3, "a closing bracket too many"),
        (f"{LINE}\n(())\n{LINE}", 2, "the bracket () is empty"),
        (f"{LINE}\n(TOP (S (NN a) (NP )))\n{LINE}", 2, "the bracket (NP) is empty"),
        (f"{LINE}\nNothing\n{LINE}", 2, "'Nothing' stands outside of brackets"),
        (f"{LINE}\n(TOP (NP a b))\n{LINE}", 2, "'b' stands beside other parts of the bracket (NP …)"),
        (f"{LINE}\n(TOP (NP a (NN b)))\n{LINE}", 2, "'a' stands beside other parts of the bracket (NP …)"),
        (f"{LINE}\n(TOP (S (NN b) a))\n{LINE}", 2, "'a' stands beside other parts of the bracket (S …)"),
    ],
)
def test_a_malformed_tree_is_told_and_costs_no_other(text: str, line: int, what: str) -> None:
    found = read(text)
    assert [item for item in found if item != SLEEPS] == [item for item in found if isinstance(item, MalformedTree)]
    (malformed,) = (item for item in found if isinstance(item, MalformedTree))
    assert malformed.line == line
    assert what in malformed.what
    assert found.count(SLEEPS) >= 2 or text.count(LINE) < 3


def test_trees_on_a_line_with_a_fault_are_not_trusted() -> None:
    """This line closes a bracket too early: its beginning is a tree, but not the one that was meant."""
    (found,) = read("(TOP (S (NP (NN cat)))) (VP (VBZ sleeps))))")
    assert found == MalformedTree(1, "a closing bracket too many")


def test_after_a_fault_in_a_long_tree_reading_goes_on_with_the_next() -> None:
    found = read(f"( (S\n    (NP (NN cat) dog)\n    (VP (VBZ sleeps))))\n{LINE}")
    assert found == [MalformedTree(2, "'dog' stands beside other parts of the bracket (NP …)"), SLEEPS]


def test_traces_go_with_the_brackets_that_they_leave_empty() -> None:
    text = "( (S (NP-SBJ-1 (NN cat)) (VP (VBZ seems) (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB sleep)))))) )"
    tree, counts = cleaned(text)
    assert tree == "(TOP (S (NP (NN cat)) (VP (VBZ seems) (S (VP (TO to) (VP (VB sleep)))))))"
    assert counts == {"traces removed": 1, "brackets emptied and removed": 1, "function tags removed": 1}
    assert read("( (S (NP (-NONE- *))))", Cleaner(Counter())) == [EmptiedTree(1)]


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("NP-1=2", "NP"),
        ("ADVP|PRT", "ADVP"),
        ("-LRB-", "-LRB-"),
        ("-LRB--TMP", "-LRB-"),
        ("-", "-"),
        ("=NP", "=NP"),
        ("S", "S"),
    ],
)
def test_function_tags_and_indices_end_at_the_first_mark_within_a_label(label: str, plain: str) -> None:
    tree, counts = cleaned(f"(TOP ({label} (NN a)))")
    assert tree == f"(TOP ({plain} (NN a)))"
    assert counts["function tags removed"] == (label != plain)


def test_parts_of_speech_are_kept_whole() -> None:
    text = "(TOP (NP (-LRB- -LRB-) (NN-X =) (JJ|NN a-b) (-RRB- -RRB-)))"
    assert cleaned(text) == (text, Counter())


def test_traces_and_function_tags_stay_if_they_are_asked_for() -> None:
    text = "(TOP (S-1 (NP-SBJ (-NONE- *))))"
    assert cleaned(text, traces=True, functions=True) == (text, Counter())


def test_chains_of_one_label_become_one_bracket() -> None:
    tree, counts = cleaned("( (NP-1 (NP (NP-2 (NN a))) ) )", unary="same")
    assert tree == "(TOP (NP (NN a)))"
    assert counts["brackets removed under one of the same label"] == 2
    assert cleaned("(TOP (S (VP (NN a))))", unary="same")[0] == "(TOP (S (VP (NN a))))"


def test_joined_chains_can_be_split_again() -> None:
    text = "(TOP (S (VP (VP (VB go) (NP (NN home))))))"
    tree, counts = cleaned(text, unary="join")
    assert tree == "(TOP (S+VP+VP (VB go) (NP (NN home))))"
    assert counts == {"brackets joined with the one above": 2}
    (joined,) = read(tree)
    assert isinstance(joined, Tree)
    assert str(split_joined(joined)) == text


@given(trees)
def test_any_tree_joined_and_split_is_the_same(tree: Tree) -> None:
    joined = Cleaner(Counter(), functions=True, unary="join").clean(tree)
    assert isinstance(joined, Tree)
    assert split_joined(joined) == tree


@each_treebank()
def test_raw_trees_are_cleaned_as_their_cleaned_edition_has_them(path: Path) -> None:
    """The editions `raw` and `clean` of the treebanks beside this repository were made by other hands."""
    counts: Counter[str] = Counter()
    clean = path.with_name(path.name.replace(".raw.", ".clean."))
    content = clean.read_bytes()
    expected = (gzip.decompress(content) if clean.suffix == ".gz" else content).decode().split("\n")[:-1]
    for ours, theirs in zip(read_treebank([path], Cleaner(counts)), expected, strict=True):
        assert str(ours) == theirs
    assert bool(counts) == (".raw." in path.name)


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_files_may_have_carriage_returns_and_be_packed(tmp_path: Path) -> None:
    plain = tmp_path / "a.mrg"
    plain.write_bytes(f"{LINE}\r\n\r\n( (S (NP (NN cat))\r\n    (VP (VBZ sleeps))))\r\n".encode())
    packed = tmp_path / "b.mrg.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_treebank([plain, packed])) == [SLEEPS] * 4


def test_a_malformed_tree_stops_with_its_place_or_is_dropped_and_keeps_its_own(tmp_path: Path) -> None:
    file = write(tmp_path / "a.mrg", LINE, "(TOP (S (NN a))", LINE, "( (NP (-NONE- *)))", LINE)
    with pytest.raises(DataError, match=r"a\.mrg:2: 1 bracket is not closed before line 3.*task.invalid=drop"):
        list(read_treebank([file]))
    found = list(read_treebank([file], Cleaner(Counter()), "drop"))
    assert found == [SLEEPS, Rejected("malformed tree"), SLEEPS, Rejected("only traces"), SLEEPS]


def test_a_tree_of_traces_alone_stops_the_command_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.mrg", LINE, "( (NP", "  (-NONE- *)))", LINE)
    monkeypatch.setattr("sys.argv", ["treebank", str(file)])
    assert treebank_command() == 2
    assert f"error: {file}:3: the tree that ends here has only traces" in capsys.readouterr().err


def test_a_line_that_is_not_text_spoils_its_own_tree_only(tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_bytes(f"{LINE}\n( (S\n  (NN \xff)))\n{LINE}\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.mrg:3: invalid UTF-8"):
        list(read_treebank([file]))
    assert list(read_treebank([file], invalid="drop")) == [SLEEPS, Rejected("malformed tree"), SLEEPS]


@pytest.fixture(params=["parsed/mrg/wsj/{s}/wsj_{s}01.mrg", "{s}/a.mrg.gz", "combined/wsj_{s}01.mrg"])
def journal(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The three ways in which the sections of the Wall Street Journal are found to lie."""
    for section in range(25):
        path = tmp_path / request.param.format(s=f"{section:02}")
        write(path, f"(TOP (NP (NN s{section})))")
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(path.read_bytes()))
    if "wsj" in request.param:
        write(tmp_path / "parsed/mrg/brown/cf/cf01.mrg", "(TOP (NP (NN brown)))")
        write(tmp_path / "parsed/mrg/swbd/02/sw2005.mrg", "(TOP (NP (NN swbd)))")
    return tmp_path


def sections(path: Path, split: str) -> list[str]:
    files = treebank_files(path, split)  # type: ignore[arg-type]
    return [leaves(tree)[0].word for tree in read_treebank(files) if isinstance(tree, Tree)]


def test_the_standard_split_is_by_sections(journal: Path) -> None:
    assert sections(journal, "train") == [f"s{n}" for n in range(2, 22)]
    assert sections(journal, "valid") == ["s22"]
    assert sections(journal, "test") == ["s23"]


def test_without_a_split_all_files_are_read_in_order(journal: Path) -> None:
    files = treebank_files(journal)
    assert len(files) in (25, 27)
    assert files == sorted(files)


def test_a_missing_section_is_named(tmp_path: Path) -> None:
    for section in (2, 3, 22):
        write(tmp_path / f"wsj/{section:02}/a.mrg", LINE)
    assert sections(tmp_path, "valid") == ["cat"]
    with pytest.raises(DataError, match="sections 23 of the Wall Street Journal, which test needs, are not there"):
        treebank_files(tmp_path, "test")
    with pytest.raises(DataError, match="sections 04, 05, 06"):
        treebank_files(tmp_path, "train")


def test_what_is_no_treebank_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.mrg", LINE)
    assert treebank_files(file) == [file]
    with pytest.raises(DataError, match="is a file, expected a folder with the sections"):
        treebank_files(file, "train")
    with pytest.raises(DataError, match=r"no such file. Did you mean .*a\.mrg"):
        treebank_files(tmp_path / "b.mrg")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"pipe: is no file; write a pipe's trees to one"):
        treebank_files(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no file in this folder is named \.mrg"):
        treebank_files(tmp_path / "empty")
    write(tmp_path / "a.mrg.gz", "")
    with pytest.raises(DataError, match="two copies, it seems"):
        treebank_files(tmp_path)


@pytest.mark.parametrize(("options", "expected"), [([], "(TOP (S (NP (DT a)) (VP (VB b))))"), (["--words"], "a b")])
def test_a_command_prints_clean_trees_or_their_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, options: list[str], expected: str
) -> None:
    raw = tmp_path / "raw.mrg"
    raw.write_text("( (S (NP-SBJ-1 (DT a))\n  (VP (VB b) (NP (-NONE- *-1)))) )\n")
    monkeypatch.setattr("sys.argv", ["treebank", *options, str(raw)])
    assert treebank_command() == 0
    assert capsys.readouterr().out == f"{expected}\n"
    raw.write_text("(S (NP")
    assert treebank_command() == 2
    assert f"{raw}:1: 2 brackets are not closed" in capsys.readouterr().err
