"""s2s-generate and a program with documents: which format, what is refused, and that nothing is left half."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

import s2s
from harness.documents import Tags
from harness.folders import ROOT
from harness.tiny_runs import call, train_tiny
from s2s.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = "<!doctype html>\r\n<p>the <b>old dog</b> sees\n a cat<!-- x --></p><ul><li class=a>the cat<li>a dog</ul>\r\n"
RUN = ("run=x", "device=cpu", "workers=1", "matmul=exact")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With a tiny run, as working directory."""
    path = tmp_path_factory.mktemp("documents")
    train_tiny(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        yield path


@pytest.fixture(scope="module")
def model(folder: Path) -> s2s.TrainedModel:
    return s2s.load(folder / "runs" / "x", *RUN[1:])


def test_a_page_is_translated_by_its_extension(folder: Path, model: s2s.TrainedModel, capsys: Any) -> None:
    (folder / "a.html").write_bytes(PAGE.encode())
    code, _, err = call("s2s-generate", [*RUN, "input=a.html", "output=a.de.html"], capsys)
    assert (code, err.splitlines()[0][:8]) == (0, "3 inputs")
    output = (folder / "a.de.html").read_bytes().decode()
    assert Tags(output).counts == Tags(PAGE).counts
    expected = model.translate(["the old dog sees a cat", "the cat", "a dog"])
    plain = [re.sub("<[^>]*>", "", part) for part in re.split(r"<p>|</p>|<li[^>]*>|</ul>", output)]
    assert [text for text in plain if text.strip()] == expected
    assert model.translate_document(folder / "a.html") == output.encode()
    assert model.translate_document(PAGE.encode(), "html") == output.encode()


def test_an_explicit_format_wins(folder: Path, capsysbinary: Any) -> None:
    (folder / "a.txt").write_bytes(b"<b>the</b> dog\n")
    assert s2s.cli.generate.main([*RUN, "input=a.txt", "input_format=html", "--quiet"]) == 0  # type: ignore[attr-defined]
    assert capsysbinary.readouterr().out.count(b"<b>") == 1
    (folder / "a.html").write_bytes(PAGE.encode())
    assert s2s.cli.generate.main([*RUN, "input=a.html", "input_format=text", "output=b.html", "--quiet"]) == 0  # type: ignore[attr-defined]
    assert len((folder / "b.html").read_text().splitlines()) == PAGE.count("\n")


@pytest.mark.parametrize(("source", "target"), [("a.txt", "b.txt"), ("a.en", "b.de"), ("a", "b.txt")])
def test_other_files_have_lines(folder: Path, source: str, target: str, capsys: Any) -> None:
    (folder / source).write_bytes(PAGE.encode())
    assert call("s2s-generate", [*RUN, f"input={source}", f"output={target}"], capsys)[0] == 0
    assert len((folder / target).read_bytes().splitlines()) == PAGE.count("\n")


@pytest.mark.parametrize(
    ("source", "target", "option"),
    [("a.html", "b.txt", "input=a.html"), ("a.html", "b", "input=a.html"), ("a.html", "-", "input=a.html"),
     ("a.html", "b.xml", "input=a.html"), ("a.txt", "b.html", "output=b.html"), ("a.en", "b.html", "output=b.html")],
)  # fmt: skip
def test_markup_is_not_translated_as_text_unless_it_is_said(
    folder: Path, source: str, target: str, option: str, capsys: Any
) -> None:
    (folder / source).write_bytes(PAGE.encode())
    (folder / target).write_bytes(b"old")
    code, out, err = call("s2s-generate", [*RUN, f"input={source}", f"output={target}"], capsys)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert f"{option} has a name in ." in err
    assert "input_format=text for lines of text" in err
    assert (folder / target).read_bytes() == b"old"


@pytest.mark.parametrize("split", ["true", "false"])
def test_all_around_the_texts_of_a_file_keeps_its_bytes(folder: Path, split: str, capsys: Any) -> None:
    source = (
        "\ufeffthe dog\r\n\n \tthe cat\x0c\n\u200bthe dog\u200b\u2003\r\n\u2060\n\x85a dog\x85 \n"
        "3.50\n\u2028the cat\u2029\nthe dog"
    )
    if split == "true":  # else a line is one text
        source = source.replace("the cat", "the cat\r\ra dog\u2028the dog\x0ba dog\x85the\x1ccat")
    (folder / "a.txt").write_bytes(source.encode())
    assert (
        call("s2s-generate", [*RUN, "input=a.txt", "output=b.txt", f"split={split}", "overwrite=true"], capsys)[0] == 0
    )
    around = re.compile(r"(?:[^\S ]|[\u200b\u2060\ufeff])+| (?=\s)|(?<=\s) |^ | $")
    written = (folder / "b.txt").read_bytes().decode()
    assert around.findall(written) == around.findall(source)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("resume=true", "resume=true: a document is written as a whole"),
        ("shard=1/2", "shard=1/2: a document"),
        ("nbest=2", "nbest=2: a document"),
        ("raw=true", "raw=true: a document"),
        ("format=tsv", "format=tsv: a document"),
        ("output=a.html", "input and output are one file, a.html"),
        ("output=.", "output=.: name a file"),
        ("input=none.html", "none.html: no such file"),
        ("input=bad.xml", "bad.xml: no well-formed XML: line 1, column 5"),
        ("input_format=htm", "input_format=htm: no such format. Did you mean 'html'?"),
        ("input_format={name: html, x: 1}", "x: no such option"),
    ],
    ids=lambda text: text[:16],
)
def test_what_no_document_can_have_is_refused(folder: Path, option: str, message: str, capsys: Any) -> None:
    (folder / "a.html").write_bytes(PAGE.encode())
    (folder / "bad.xml").write_bytes(b"<a></b>")
    (folder / "old.html").write_bytes(b"old")
    form = ["input_format=xml"] if "bad" in option else ["input_format=html"]
    given = [*RUN, "input=a.html", "output=old.html", "overwrite=true", *form, option]
    code, out, err = call("s2s-generate", list({one.partition("=")[0]: one for one in given}.values()), capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert (folder / "old.html").read_bytes() == b"old"


def test_options_of_a_format(folder: Path, model: s2s.TrainedModel) -> None:
    pytest.importorskip("translate", reason="the extra `documents` is not installed")
    po = b'msgid "the dog"\nmsgstr "x"\n'
    assert model.translate_document(po, "po") == po
    assert model.translate_document(po, {"name": "po", "retranslate": True}) != po


def test_a_missing_library_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    (folder / "a.md").write_bytes(b"the dog\n")
    code, _, err = call("s2s-generate", [*RUN, "input=a.md", "output=b.md"], capsys)
    assert (code, err) == (
        2,
        "s2s-generate: error: documents of this format need markdown-it-py: pip install markdown-it-py\n",
    )


def test_a_program_names_the_format_of_bytes(folder: Path, model: s2s.TrainedModel) -> None:
    with pytest.raises(ConfigError, match="format: name one for bytes"):
        model.translate_document(b"<p>the dog</p>")
    with pytest.raises(ConfigError, match="no document format has files with such a name"):
        model.translate_document("a.unknown")
    with pytest.raises(DataError, match="no such file"):
        model.translate_document("none.html")


def test_the_page_about_documents_runs(folder: Path, capsys: Any) -> None:
    pytest.importorskip("translate", reason="the extra `documents` is not installed")
    (folder / "runs" / "mine").symlink_to("x")
    page = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(block, "documents.md", "exec"), {})
    (folder / "app.po").write_bytes(b'msgid "the dog"\nmsgstr ""\n')
    (shell,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for command in shell.splitlines():
        name, *arguments = shlex.split(command)
        code, _, err = call(name, [*arguments, "device=cpu", "workers=1"], capsys)
        assert code == 0, err
    assert len((folder / "app.de.po").read_bytes()) > len((folder / "app.po").read_bytes())
