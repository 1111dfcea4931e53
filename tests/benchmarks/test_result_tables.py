"""The tables of benchmarks/results against the studies and the scripts that make them."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest
import yaml

from harness.benchmark_scripts import load_benchmark
from harness.folders import ROOT
from s2s_study.cells import Cell, Line
from s2s_study.t_test import holm, welch
from s2s_study.table import FORMATS, table

RESULTS = ROOT / "benchmarks" / "results"
TABLES = {
    "table2/table.csv": "table2_cpu",
    "table2/multi30k.csv": "table2_multi30k",
    "table3/table.csv": "table3_cpu",
    "table4/table.csv": "table4_treebank",
    "attention_score/table.csv": "attention_score_cpu",
    "figures/label_smoothing.csv": "label_smoothing_cpu",
}


def lines(file: str) -> list[dict[str, str]]:
    with (RESULTS / file).open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def study(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "study" / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("file", TABLES)
def test_the_study_makes_every_row_with_no_fewer_seeds(file: str) -> None:
    made = study(TABLES[file])
    rows = made["rows"]
    assert list(dict.fromkeys(line["row"] for line in lines(file))) == list(rows)
    for line in lines(file):
        seeds = (rows[line["row"]] or {}).get("seeds", made["seeds"])
        assert int(line["n"]) <= len(seeds), line["row"]


@pytest.mark.parametrize("file", TABLES)
def test_means_differences_and_p_follow_from_the_values(file: str) -> None:
    values = {(line["row"], line["measure"]): [float(x) for x in line["values"].split()] for line in lines(file)}
    first = lines(file)[0]["row"]
    for line in lines(file):
        own, base = values[line["row"], line["measure"]], values[first, line["measure"]]
        if own:
            assert float(line["mean"]) == pytest.approx(sum(own) / len(own))
        if line["difference"]:
            assert float(line["difference"]) == pytest.approx(sum(own) / len(own) - sum(base) / len(base))
        if line["p_seeds"]:
            assert float(line["p_seeds"]) == pytest.approx(welch(own, base))
    for measure in {line["measure"] for line in lines(file) if line.get("p_holm")}:
        tested = [line for line in lines(file) if line["measure"] == measure and line["p_seeds"]]
        corrected = holm([float(line["p_seeds"]) for line in tested])
        assert [float(line["p_holm"]) for line in tested] == pytest.approx(corrected)


def number(text: str) -> float | None:
    return float(text) if text else None


def line_of(cells: list[dict[str, str]], measures: list[str], seeds: dict[str, list[int]]) -> Line:
    """A row as the study had it when it wrote the file."""
    facts = ("low", "high", "difference", "p_seeds", "p_holm", "published")
    made = {
        one["measure"]: Cell(tuple(map(float, one["values"].split())), **{fact: number(one[fact]) for fact in facts})
        for one in cells
        if one["measure"] in measures
    }
    name = cells[0]["row"]
    return Line(name, made, max(len(cell.values) for cell in made.values()), len(seeds[name]))


@pytest.mark.parametrize("measures", [["bleu", "parameters", "flops"], ["ppl"]], ids=["bleu", "ppl"])
def test_the_page_of_table_3_shows_the_verdicts_of_its_figures(measures: list[str]) -> None:
    made = study("table3_cpu")
    seeds = {name: row.get("seeds", made["seeds"]) for name, row in made["rows"].items()}
    rows = [[one for one in lines("table3/table.csv") if one["row"] == name] for name in made["rows"]]
    text = FORMATS["md"](table("", measures, [line_of(cells, measures, seeds) for cells in rows], []))
    page = (RESULTS / "table3" / "README.md").read_text(encoding="utf-8")
    shown = [line for line in text.splitlines() if line.startswith("|")]
    assert "\n".join(shown) in page


def long_sources(kind: str) -> list[dict[str, Any]]:
    """The rows of the tables decode_long and decode_longest in this number type: before those of each, its options."""
    files = (RESULTS / "speed" / "epyc_zen4" / f"decode_{case}_{kind}.jsonl" for case in ("long", "longest"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("kind", ["fp32", "int8"])
def test_long_sources_were_measured_with_the_options_of_their_tables(kind: str) -> None:
    tables = load_benchmark("tables").TABLES
    made = [tables[f"decode_{case}_{kind}"] for case in ("long", "longest")]
    expected = [dict(option.split("=") for option in (*table.command[1:], *table.full)) for table in made]
    found = [row["options"] for row in long_sources(kind) if "options" in row]
    assert [options | {"out": ""} for options in found] == [options | {"out": ""} for options in expected]


@pytest.mark.parametrize("kind", ["fp32", "int8"])
def test_the_page_of_long_sources_has_the_figures_of_its_files(kind: str) -> None:
    rows = [row for row in long_sources(kind) if "case" in row]
    ratios = {row["case"]: row["ratio"]["ctranslate2"] for row in rows}
    section = (RESULTS / "decode" / "README.md").read_text(encoding="utf-8").partition("### Long sources")[2]
    for size in ("tiny", "width 128", "small"):
        found = [
            ", ".join(f"{ratio:.2f}" for case, ratio in ratios.items() if case.startswith(f"{size} long {n} "))
            for size, n in ((size.replace(" ", ""), n) for n in (100, 300, 1000, 4000))
        ]
        assert f"| {size} | {kind} | {' | '.join(found)} |\n" in section
    pairs = [[int(n) for n in row["same"]["ctranslate2"].split("/")] for row in rows]
    n_same, n_all = map(sum, zip(*pairs, strict=True))
    assert f"{n_same} of {n_all} outputs in {kind}" in section
