"""The curves that figures draw are the paper's numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from harness.benchmark_scripts import load_benchmark

if TYPE_CHECKING:
    from pathlib import Path

figures = load_benchmark("paper_figures")
CSV = """row,measure,n,mean,low,high,difference,p_sentences,p_seeds,values
eps = 0.1,ppl,2,9.5,9.0,10.0,,,,9 10
eps = 0.0,ppl,2,8.5,8.0,9.0,,,,8 9
eps = 0.0,bleu,2,20.0,,,,,,20 20
eps = 0.1,bleu,2,21.0,20.0,22.0,,,,20 22
eps = 0.2,bleu,0,,,,,,,
eps = 0.1,hours,2,1.0,1.0,1.0,,,,1 1
"""


def test_rates_are_equation_3_with_4000_updates_of_warm_up() -> None:
    for name, width in {"base": 512, "big": 1024}.items():
        rate = figures.learning_rates()[name]
        for step in (1, 1000, 4000, 100_000):
            assert rate(step) == pytest.approx(width**-0.5 * min(step**-0.5, step * 4000**-1.5))


def test_positions_are_sines_and_cosines_whose_products_depend_on_the_distance() -> None:
    table = figures.positions()
    assert table[7, 10].item() == pytest.approx(math.sin(7 / 10_000 ** (10 / 128)))
    assert table[7, 11].item() == pytest.approx(math.cos(7 / 10_000 ** (10 / 128)))
    products = table @ table.T
    assert products[3, 10].item() == pytest.approx(products[60, 67].item())
    assert products[5, 5].item() == pytest.approx(figures.WIDTH / 2)


def test_a_table_of_a_study_becomes_two_curves_over_eps(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(CSV)
    found = figures.smoothing(tmp_path / "table.csv")
    assert found == {
        "ppl": {0.0: (8.5, 8.0, 9.0), 0.1: (9.5, 9.0, 10.0)},
        "bleu": {0.0: (20.0, 20.0, 20.0), 0.1: (21.0, 20.0, 22.0)},
    }


def test_the_command_writes_a_picture_of_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    (tmp_path / "table.csv").write_text(CSV)
    assert figures.main([str(tmp_path / "out"), str(tmp_path / "table.csv")]) == 0
    pictures = {path.stem: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert pictures.keys() == {"learning_rate", "positions", "label_smoothing"}
    assert all("<svg" in text for text in pictures.values())
    (tmp_path / "table.csv").write_text("row,measure,mean\n")
    assert figures.main([str(tmp_path), str(tmp_path / "table.csv")]) == 2
    assert "has no rows called 'eps" in capsys.readouterr().err
