"""Figures of attention as files: SVG and PDF show the lines and tokens that the page does."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import torch

from s2s import AttentionMap, ConfigError
from s2s_report import figure_files
from s2s_report.attention_lines import LEAST, figures
from s2s_report.figure_files import FigureFolder, as_pdf, as_svg

if TYPE_CHECKING:
    from pathlib import Path

    from s2s_report.attention_lines import Figure

TOKENS = ["the", "<b>&", "$x$", "</s>"]
NAMES = ["figure-3", "figure-4", "figure-5-head-1", "figure-5-head-2"]


def drawn() -> list[Figure]:
    torch.manual_seed(1)
    weights = torch.rand(2, 4, 4).softmax(-1)
    return list(figures(AttentionMap("encoder", 1, "src", "src", weights), TOKENS, TOKENS))


def test_an_svg_is_a_file_with_colours_of_its_own_and_a_line_for_each_weight() -> None:
    for figure in drawn():
        svg = as_svg(figure.drawing)
        elements = list(ElementTree.fromstring(svg).iter())
        assert [one.text for one in elements if one.tag.endswith("text")] == TOKENS * 2
        assert sum(one.tag.endswith("line") for one in elements) == len(figure.drawing.lines) > 0
        assert "var(" not in svg
        assert set(re.findall(r"stroke:(#\w+)", svg)) <= {"#0b5cad", "#b35900"}, "the first two heads"


def test_a_pdf_has_as_many_lines_and_is_the_same_when_it_is_made_again() -> None:
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    for figure in drawn():
        pdf = as_pdf(figure.drawing)
        assert pdf.startswith(b"%PDF-")
        streams = [
            zlib.decompress(part)
            for part in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
            if part[:1] == b"x"
        ]
        (page,) = [one for one in streams if b"BT" in one]
        assert page.count(b"\nS\n") == len(figure.drawing.lines), "strokes"
        assert pdf == as_pdf(figure.drawing)


def test_weights_that_the_page_leaves_out_are_in_no_file() -> None:
    weights = torch.tensor([[[1.0 - LEAST / 2, LEAST / 2], [0.5, 0.5]]])
    whole = list(figures(AttentionMap("encoder", 1, "src", "src", weights), ["a", "b"], ["a", "b"]))[-1]
    assert [(one.query, one.key) for one in whole.drawing.lines] == [(0, 0), (1, 0), (1, 1)]


def test_a_folder_has_the_files_of_each_sentence_and_writes_over_none(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    folder = tmp_path / "new" / "figures"
    for number in (1, 2):
        FigureFolder(str(folder), overwrite=number == 2).write(number, drawn())
    expected = {f"{n}-{name}.{kind}" for n in (1, 2) for name in NAMES for kind in ("svg", "pdf")}
    assert {path.name for path in folder.iterdir()} == expected
    with pytest.raises(ConfigError, match=r"figures_folder=\S+ has files already; give another folder, or overwrite"):
        FigureFolder(str(folder), overwrite=False)
    with pytest.raises(ConfigError, match="is a file; give a folder"):
        FigureFolder(str(folder / "1-figure-3.svg"), overwrite=True)


def test_without_matplotlib_there_are_svg_alone_and_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(figure_files, "can_draw", lambda: False)
    FigureFolder(str(tmp_path / "figures"), overwrite=False).write(1, drawn())
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".svg"}
    assert "PDF needs matplotlib" in caplog.text
