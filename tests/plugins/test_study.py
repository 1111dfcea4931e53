"""Rows, trials, statistics and tables of a study, each against a second truth."""

from __future__ import annotations

import csv
import io
import itertools
import math
from html.parser import HTMLParser
from typing import Any

import pytest

from s2s import ConfigError
from s2s_study import StudyConfig, TuneConfig
from s2s_study.cells import Cell, Line, corrected
from s2s_study.halving import rungs, survivors
from s2s_study.rows import rows_of, trials
from s2s_study.t_test import half_width, holm, t_quantile, two_sided, welch
from s2s_study.table import FORMATS, Table, table

PUBLISHED = {1: 12.706, 2: 4.303, 4: 2.776, 10: 2.228, 30: 2.042, 10**6: 1.960}
"""Two-sided 5% points of Student's t, from any printed table"""


@pytest.mark.parametrize(("nu", "t"), PUBLISHED.items())
def test_quantiles_are_those_of_the_printed_tables(nu: int, t: float) -> None:
    assert t_quantile(nu) == pytest.approx(t, abs=6e-4)


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 5.0, 80.0])
def test_tails_are_the_closed_forms_for_one_and_two_degrees_of_freedom(t: float) -> None:
    assert two_sided(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-12)
    assert two_sided(-t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)


def test_the_interval_of_a_mean_is_t_times_its_standard_error() -> None:
    assert half_width([1.0, 3.0]) == pytest.approx(12.7062 * math.sqrt(2) / math.sqrt(2), rel=1e-4)
    assert half_width([5.0]) is None


def test_welchs_test_of_equal_groups_is_students() -> None:
    """With as many values and as much variance on both sides nu is 2 (n - 1), and the test the classical one."""
    a, b = [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]
    assert welch(a, b) == pytest.approx(two_sided(1 / math.sqrt(2 / 3), 4))
    assert welch(a, a) == pytest.approx(1.0)
    assert welch([1.0], b) is None
    assert (welch([1.0, 1.0], [1.0, 1.0]), welch([1.0, 1.0], [2.0, 2.0])) == (1.0, 0.0)


def test_holms_correction_finds_what_its_stepwise_test_finds() -> None:
    """Holm (1979): from the smallest p on, reject while p <= level / (number of tests left)."""
    p_values = [0.04, 0.001, 0.03, 0.0125, 0.6, 0.0124]
    for level in (0.001, 0.006, 0.05, 0.06, 0.07, 0.12, 0.5, 0.7):
        left, rejected = sorted(p_values), []
        while left and left[0] <= level / len(left):
            rejected.append(left.pop(0))
        corrected = holm(p_values)
        assert sorted(p for p, q in zip(p_values, corrected, strict=True) if q <= level + 1e-12) == rejected
    assert (holm([0.2]), holm([]), holm([0.9, 0.9])) == ([0.2], [], [1.0, 1.0])


def compared(measure_values: dict[str, tuple[float, ...]], published: dict[str, float]) -> list[Line]:
    """Lines of one measure with what the first line's values and published value make of the others."""
    base = measure_values["base"]
    lines = []
    for name, values in measure_values.items():
        gap = published[name] - published["base"] if name in published and name != "base" else None
        mean = sum(values) / len(values) - sum(base) / len(base)
        tested = {} if name == "base" else {"difference": mean, "p_seeds": welch(values, base), "published": gap}
        lines.append(Line(name, {"bleu": Cell(values, **tested)}, len(values), len(values)))
    return corrected(lines, ["bleu"])


def test_a_verdict_needs_a_corrected_p_and_takes_its_side_from_what_was_published() -> None:
    values = {
        "base": (20.0, 20.5, 19.5),
        "worse": (10.0, 10.4, 9.8),
        "better": (30.0, 30.4, 29.8),
        "far": (30.1, 30.4, 29.8),
        "near": (20.1, 20.4, 19.8),
        "new": (40.0, 40.2, 40.4),
        "alone": (10.0,),
    }
    published = {"base": 25.0, "worse": 24.0, "better": 24.0, "far": 25.0, "near": 24.0, "alone": 24.0}
    cells = {line.name: line.cells["bleu"] for line in compared(values, published)}
    assert {name: cell.verdict for name, cell in cells.items()} == {
        "base": "",
        "worse": "agrees",
        "better": "contradicts",
        "far": "contradicts",
        "near": "open",
        "new": "",
        "alone": "open",
    }
    assert cells["alone"].p_holm is None


def test_five_barely_different_rows_are_open_where_one_is_not() -> None:
    rows = {"base": (1.0, 2.0, 3.0), **dict.fromkeys("abcde", (4.0, 5.0, 6.0))}
    published = {"base": 1.0, **dict.fromkeys("abcde", 2.0)}
    verdicts = [line.cells["bleu"].verdict for line in compared(rows, published)[1:]]
    alone = compared({"base": rows["base"], "a": rows["a"]}, published)[1].cells["bleu"]
    assert (verdicts, alone.verdict) == (["open"] * 5, "agrees")


def tune(**options: Any) -> TuneConfig:
    return TuneConfig(**{"method": "random", "space": {"train.clip": [1]}, **options})


def test_a_grid_is_every_combination() -> None:
    space = {"arch.dropout": [0.0, 0.1], "schedule.warmup": [10, 20, 30]}
    found = [tuple(trial.values()) for trial in trials(tune(method="grid", space=space))]
    assert found == list(itertools.product(*space.values()))


def test_draws_lie_in_their_ranges_and_repeat_with_the_seed() -> None:
    space = {"schedule.lr": {"low": 1e-4, "high": 1e-2, "log": True}, "arch.n_heads": {"low": 1, "high": 4}}
    found = list(trials(tune(space=space, trials=200)))
    rates = sorted(trial["schedule.lr"] for trial in found)
    assert 1e-4 <= rates[0] < 2e-4 < 5e-3 < rates[-1] <= 1e-2
    assert 7e-4 < rates[100] < 1.5e-3, "half of them lie below the geometric mean"
    assert {trial["arch.n_heads"] for trial in found} == {1, 2, 3, 4}
    assert found == list(trials(tune(space=space, trials=200)))
    assert found != list(trials(tune(space=space, trials=200, seed=2)))


def test_trials_are_rows_laid_over_the_given_ones() -> None:
    rows = {"small": {"arch": "transformer_tiny"}, "deep": {"arch": {"n_encoder_layers": 4}}}
    config = StudyConfig(rows=rows, tune=tune(method="grid", space={"arch.dropout": [0.0, 0.2]}))
    assert [(row.name, row.settings["arch"]) for row in rows_of(config)] == [
        ("small, arch.dropout=0", {"base": "transformer_tiny", "dropout": 0.0}),
        ("small, arch.dropout=0.2", {"base": "transformer_tiny", "dropout": 0.2}),
        ("deep, arch.dropout=0", {"n_encoder_layers": 4, "dropout": 0.0}),
        ("deep, arch.dropout=0.2", {"n_encoder_layers": 4, "dropout": 0.2}),
    ]


def test_trials_that_are_nearly_equal_are_all_tried() -> None:
    space = {"schedule.lr": {"low": 0.001, "high": 0.00102}}
    rows = rows_of(StudyConfig(tune=tune(space=space, trials=9)))
    names = [row.name for row in rows]
    assert len({name: row.settings["schedule"]["lr"] for name, row in zip(names, rows, strict=True)}) == 9
    assert len(names[0]) < len(max(names, key=len)), "only as many digits as they need"
    fewer = [row.name for row in rows_of(StudyConfig(tune=tune(space=space, trials=5)))]
    assert fewer == names[:5], "further trials do not rename them"


def test_a_round_number_differs_from_one_that_was_rounded_to_it() -> None:
    config = StudyConfig(tune=tune(method="grid", space={"train.clip": [0.50001, 0.5]}))
    assert [row.name for row in rows_of(config)] == ["train.clip=0.5", "train.clip=0.50000000000000000"]


def test_a_trial_that_is_drawn_again_is_one_row() -> None:
    rows = rows_of(StudyConfig(tune=tune(space={"train.clip": [1.0, 2.0]}, trials=9)))
    assert sorted(row.name for row in rows) == ["train.clip=1", "train.clip=2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": {"a": {"init_from_row": "b"}, "b": {}}}, "init_from_row=b: no row above it"),
        ({"rows": {"a": [1]}}, "expected a mapping of options"),
        ({"rows": {"a": {"commands": "true"}}}, "commands=true: expected a list of commands"),
        ({"rows": {"a": {"commands": ["true"]}, "b": {"ensemble_of": "a"}}}, "that row has commands, and no run"),
        ({"rows": {"a": {"evaluate": {"sentence": 3}}}}, "evaluate.sentence: no such option. Did you mean 'sentences'"),
        ({"tune": tune(method="grid", space={"x": {"low": 1}})}, "a grid needs a list"),
        ({"tune": tune(space={"x": {"low": 1}})}, "expected a list of values, or {low"),
        ({"tune": tune(), "rows": {"a": {}, "b": {"ensemble_of": "a"}}}, "cannot be tuned"),
        ({"rows": {"a": {"seeds": 2}}}, "a: seeds=2: give a list of one or more, each once"),
        ({"rows": {"a": {"seeds": []}}}, "a: seeds=.*: give a list of one or more"),
        ({"rows": {"a": {"seeds": [1, 1]}}}, "each once"),
        ({"rows": {"a": {}, "b": {"ensemble_of": "a", "seeds": [1]}}}, "an ensemble has those of a; leave seeds out"),
        ({"rows": {"a": {"published": 27.3}}}, "published=27.3: expected measures and numbers"),
        ({"rows": {"a": {"published": {"bleu": "27.3"}}}}, "expected measures and numbers"),
    ],
)
def test_a_mistake_in_rows_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rows_of(StudyConfig(**options))


@pytest.mark.parametrize(("n", "steps", "expected"), [(9, 900, [100, 300, 900]), (3, 90, [30, 90]), (1, 50, [50])])
def test_rungs_multiply_until_all_updates(n: int, steps: int, expected: list[int]) -> None:
    assert rungs(tune(), n, steps) == expected
    assert rungs(tune(first=20), n, 100) == [20, 60, 100]


def test_the_best_third_survives_and_failed_trials_do_not() -> None:
    def result(nll: float | None, **values: float) -> dict[str, Any]:
        return {"values": {"nll": nll, **values}, "scores": {"bleu": {"higher_is_better": True}}}

    results = {
        name: [result(nll, bleu=nll or 0)] for name, nll in zip("abcdef", [3, 1, 2, 5, math.nan, 4], strict=True)
    }
    assert survivors(tune(), results) == ["b", "c"]
    assert survivors(tune(measure="bleu", eta=6), {**results, "e": [None], "d": [None, result(9)]}) == ["f"]
    with pytest.raises(ConfigError, match="no trial gives it"):
        survivors(tune(), {"a": [None], "b": [result(None)]})


LINES = [
    Line(
        "base", {"ppl": Cell((4.0, 5.0), 1.0, 8.0), "bleu": Cell((20.0, 22.0)), "parameters": Cell((65e6, 65e6))}, 2, 2
    ),
    Line(
        "d_k=16 & 50%",
        {"ppl": Cell(()), "bleu": Cell((19.0,), difference=-2.0, p_sentences=0.01), "parameters": Cell(())},
        1,
        2,
    ),
]


@pytest.fixture
def made() -> Table:
    return table("T_1", ["ppl", "bleu", "parameters"], LINES, ["bleu: a|b"])


def test_the_table_shows_means_intervals_differences_and_what_is_missing(made: Table) -> None:
    assert made.head == ["", "PPL", "BLEU", "difference", "p (sentences)", "parameters, millions"]
    assert made.body[0] == ["base", "4.50 [1.00, 8.00]", "21.0", "", "", "65"]
    assert made.body[1] == ["d_k=16 & 50% (1 of 2 runs)", "–", "19.0", "−2.0", "0.010", "–"]


def test_a_table_with_seeds_shows_corrected_p_published_differences_and_verdicts() -> None:
    lines = compared({"base": (20.0, 20.5), "worse": (10.0, 10.4), "more": (20.1, 20.3)}, {"base": 25.8, "worse": 24.9})
    made = table("T", ["bleu"], lines, [])
    assert made.head == ["", "BLEU", "difference", "p (seeds)", "published", "verdict"]
    p = lines[1].cells["bleu"].p_seeds
    assert p
    assert made.body[1][2:] == ["−10.1", f"{2 * p:.3f}", "−0.9", "agrees"]
    assert made.body[2][4:] == ["", ""], "nothing is published of it"
    csv_rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](made))))
    assert [row["verdict"] for row in csv_rows] == ["", "agrees", ""]


def test_comma_separated_values_hold_every_number_unrounded(made: Table) -> None:
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](made))))
    assert len(rows) == 6
    assert (rows[0]["mean"], rows[0]["high"], rows[0]["values"]) == ("4.5", "8.0", "4.0 5.0")
    assert (rows[4]["row"], rows[4]["n"], rows[4]["difference"]) == ("d_k=16 & 50%", "1", "-2.0")


def test_markdown_has_as_many_cells_in_every_line(made: Table) -> None:
    lines = [line for line in FORMATS["md"](made).splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert len(lines) == 4


def test_latex_escapes_what_it_would_read_as_commands(made: Table) -> None:
    text = FORMATS["tex"](made)
    assert r"d\_k=16 \& 50\% (1 of 2 runs) & -- & 19.0 & $-$2.0 & 0.010 & -- \\" in text
    assert text.count(r"\begin{") == text.count(r"\end{") == 2


def test_html_is_well_formed_and_holds_the_same_cells(made: Table) -> None:
    class Reader(HTMLParser):
        open: tuple[str, ...] = ()
        cells: tuple[str, ...] = ()

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            if tag not in ("meta",):
                self.open = (*self.open, tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open[-1] == tag
            self.open = self.open[:-1]

        def handle_data(self, data: str) -> None:
            if self.open and self.open[-1] == "td":
                self.cells = (*self.cells, data)

    reader = Reader()
    reader.feed(FORMATS["html"](made))
    assert reader.open == ()
    assert list(reader.cells) == [text for row in made.body for text in row if text]
