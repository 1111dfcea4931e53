"""benchmarks/recipe_regret.py on tables with known regrets: BLEU falls by one with each doubling."""

from __future__ import annotations

import importlib
from itertools import product
from math import log2
from typing import TYPE_CHECKING, Any

import pytest

from harness.folders import ROOT

if TYPE_CHECKING:
    from pathlib import Path

GRID = list(product((2000, 8000, 32_000), (2, 4), (256, 512, 1024), (1024, 2048), (8, 16)))
RATES = (0.0003, 0.0006, 0.0012)
IDEAL, TOP = (8000, 4, 512, 2048, 8), 40.0


@pytest.fixture
def regret(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, with the modules beside it."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("recipe_regret")


def doublings(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return sum(abs(log2(x) - log2(y)) for x, y in zip(a, b, strict=True))


def bleu(size: tuple[float, ...], rate: float) -> float:
    return TOP - doublings((*size, rate), (*IDEAL, RATES[0]))


def write(folder: Path, corpus: str) -> None:
    """In the form of the recorded runs, the unused columns of evals included."""
    runs = list(product(GRID, RATES))
    hyps = ("\t".join(f"{float(option)}" for option in (*size, rate)) for size, rate in runs)
    (folder / f"{corpus}.hyps").write_text("".join(f"{line}\n" for line in hyps))
    (folder / f"{corpus}.evals").write_text("".join(f"{bleu(*run)}\t1.0\t2.0\t34000\t0\t5\n" for run in runs))


def test_the_regret_of_a_recorded_size_is_its_distance_from_the_best(tmp_path: Path, regret: Any) -> None:
    write(tmp_path, "a")
    table = regret.read_table(tmp_path, "a")
    assert (len(table.bleu), len(table.sizes), table.best) == (len(GRID) * 3, len(GRID), TOP)
    for size in GRID:
        assert table.best - table.of(regret.Size(*size)) == pytest.approx(doublings(size, IDEAL))
        assert table.best - table.of(regret.Size(*size), 0.0011) == pytest.approx(doublings(size, IDEAL) + 2)


def test_a_size_between_recorded_ones_counts_as_the_nearest_or_the_mean_of_equals(tmp_path: Path, regret: Any) -> None:
    write(tmp_path, "a")
    table = regret.read_table(tmp_path, "a")
    assert regret.nearest(table.sizes, regret.Size(9000, 6, 400, 2000, 4)) == [regret.Size(*IDEAL)]
    between = regret.Size(4000, 4, 512, 2048, 8)
    assert [size.vocab for size in regret.nearest(table.sizes, between)] == [2000, 8000]
    assert table.best - table.of(between) == pytest.approx((0 + 2) / 2)


def test_beaten_is_the_share_of_runs_that_are_worse(tmp_path: Path, regret: Any) -> None:
    write(tmp_path, "a")
    table = regret.read_table(tmp_path, "a")
    assert table.beaten(TOP) == pytest.approx(1 - 1 / len(table.bleu))
    assert table.beaten(min(table.bleu)) == 0


def test_files_of_different_tables_are_refused(tmp_path: Path, regret: Any) -> None:
    write(tmp_path, "a")
    (tmp_path / "a.evals").write_text("20.0\n")
    with pytest.raises(ValueError, match=r"a\.hyps has 216 lines, a\.evals 1"):
        regret.read_table(tmp_path, "a")


def test_a_change_is_chosen_without_the_corpus_that_judges_it(regret: Any) -> None:
    regrets = {"as it is": {"x": 1.0, "y": 1.0, "z": 1.0}, "wider": {"x": 0.0, "y": 1.1, "z": 1.2}}
    assert regret.left_out(regrets) == {"x": ("as it is", 1.0), "y": ("wider", 1.1), "z": ("wider", 1.2)}


def test_the_tables_hold_the_regret_of_the_plan(
    tmp_path: Path, regret: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for corpus in regret.CORPORA:
        write(tmp_path, corpus)
    regret.main(str(tmp_path))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines() if line]
    by_policy = {(row[0], row[1]): row for row in rows}
    as_it_is = next(row for row in rows if row[0] == "as it is")
    for i, (corpus, (plan, rate)) in enumerate(regret.planned(regret.CORPORA).items()):
        size = regret.nearest([regret.Size(*size) for size in GRID], plan._replace(vocab=plan.vocab / 2))
        expected = sum(doublings(s, IDEAL) for s in size) / len(size)
        row = by_policy[corpus, "recipe=auto, half of its vocabulary a side"]
        assert float(row[5]) == float(as_it_is[1 + i]) == pytest.approx(expected, abs=0.006)
        own_rate = min(RATES, key=lambda r: abs(log2(r / rate)))
        assert float(row[7]) == pytest.approx(expected + log2(own_rate / RATES[0]), abs=0.006)
