"""What a metric need not write itself, and resampling, with a metric that counts equal lines."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from s2s.errors import ConfigError, PluginError
from s2s.metrics import Metric, PairedTest, Score, compare
from s2s.metrics.resampling import bootstrap, interval, paired_p_value, resamples

if TYPE_CHECKING:
    from collections.abc import Sequence


class Matches(Metric):
    """Share of lines that are equal to one of their references."""

    name = "matches"

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        hits = [hyp in of for hyp, *of in zip(hyps, *refs, strict=True)]
        return Score(self.name, sum(hits) / len(hits), f"matches|{samples}|{seed}")


METRIC, REFS = Matches(), [["a", "b", "c", "d"], ["a", "x", "c", "y"]]


def test_more_is_better_unless_a_metric_says_otherwise() -> None:
    score = METRIC(["a", "x", "?", "?"], REFS)
    assert score == Score("matches", 0.5, "matches|0|12345", None, None, higher_is_better=True, detail={})
    assert METRIC.higher_is_better is True


class Errors(Matches):
    """Lower is better, which only the metric says."""

    name = "errors"
    higher_is_better = False

    def __call__(self, *given: Any, **others: Any) -> Score:
        return replace(super().__call__(*given, **others), name="another", value=np.float32(0.5))  # type: ignore[arg-type]


def test_a_score_has_the_name_and_direction_of_its_metric_and_a_plain_number() -> None:
    score = Errors().scored(["a", "x", "?", "?"], REFS)
    assert (score.name, score.value, score.higher_is_better) == ("errors", 0.5, False)
    assert type(score.value) is float
    assert [c.score.higher_is_better for c in compare(Errors(), {"one": ["a", "x", "?", "?"]}, REFS, 0)] == [False]


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (0.5, r"metric matches: Wrong.__call__: expected an s2s.metrics.Score, got float"),
        (Score("matches", 0.5, "", higher_is_better=False), "Wrong.higher_is_better is True, and that of its scores"),
    ],
    ids=["a number", "another direction"],
)
def test_what_is_no_score_of_the_metric_is_refused(found: Any, error: str) -> None:
    class Wrong(Matches):
        def __call__(self, *_: Any, **__: Any) -> Any:
            return found

    with pytest.raises(PluginError, match=error):
        Wrong().scored(["a", "x", "?", "?"], REFS)


def test_no_difference_from_nan_is_significant() -> None:
    class Undefined(Matches):
        def __call__(self, *given: Any, **others: Any) -> Score:
            return replace(super().__call__(*given, **others), value=math.nan)

    _, other = compare(Undefined(), {"one": ["a", "x", "?", "?"], "other": ["?", "x", "?", "?"]}, REFS, 20)
    assert other.p_value is not None
    assert math.isnan(other.p_value)


def test_sentences_are_scored_one_by_one_and_texts_against_each_other() -> None:
    assert METRIC.per_sentence(["a", "x", "?", "d"], REFS) == [{"score": float(hit)} for hit in (1, 1, 0, 1)]
    assert METRIC.pairwise(["a", "b", "a"]) == [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]


@pytest.mark.parametrize("hyps", [["a", "b", "c"], ["a", "b", "c", "d", "e"]], ids=["fewer", "more"])
def test_sentences_without_a_reference_are_an_error(hyps: list[str]) -> None:
    with pytest.raises(ValueError, match="zip"):
        METRIC.per_sentence(hyps, REFS)


def test_systems_are_compared_with_the_first() -> None:
    systems = {"base": list("ab??"), "same": list("ax??"), "better": list("abcd")}
    base, same, better = compare(METRIC, systems, REFS, samples=50, seed=3)
    assert (base.system, base.score.value, base.difference, base.p_value) == ("base", 0.5, None, None)
    assert (same.difference, same.p_value) == (0.0, 1.0)
    assert better.difference == 0.5
    assert better.p_value == paired_p_value(METRIC, systems["base"], systems["better"], REFS, PairedTest(50, 3))
    assert base.score.signature == "matches|50|3"
    assert [c.p_value for c in compare(METRIC, systems, REFS, samples=0)] == [None] * 3
    assert compare(METRIC, {"only": list("abcd")}, REFS)[0].score.signature == "matches|1000|12345"


class Forgetful(Matches):
    """Gives no p-value for any system."""

    def p_values(self, *_: Any) -> list[float]:
        return []


def test_a_metric_that_gives_too_few_p_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        compare(Forgetful(), {"base": list("ab??"), "other": list("abcd")}, REFS)


def test_no_resample_of_equal_outputs_strays() -> None:
    assert paired_p_value(METRIC, list("ab??"), list("ab??"), REFS, PairedTest(10, 1)) == 1 / 11


@pytest.mark.parametrize(("samples", "seed"), [(-1, 1), (0, 0), (10, -3)])
def test_numbers_of_samples_and_seeds_that_mean_nothing_are_refused(samples: int, seed: int) -> None:
    with pytest.raises(ConfigError, match=f"samples={samples} seed={seed}: give samples from 0 up and a seed from 1"):
        compare(METRIC, {"x": list("abcd")}, REFS, samples, seed)


@pytest.mark.parametrize("n", [1, 39, 40, 41, 79, 80, 1000])
def test_an_interval_leaves_out_one_in_forty_at_either_end(n: int) -> None:
    values = [float(i) for i in range(n)]
    random.Random(1).shuffle(values)
    inside = sorted(values)[n // 40 : n - n // 40]
    assert interval(np.array(values)) == (inside[0], inside[-1])


def test_every_resample_is_scored_by_its_sums() -> None:
    stats = np.array([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]])
    score = lambda sums: float(sums[0] / sums[1])  # noqa: E731
    drawn = np.random.default_rng(5).choice(3, size=(20, 3), replace=True)
    assert np.array_equal(np.stack(list(resamples(3, 20, 5))), drawn)
    assert bootstrap(stats, score, 20, 5).tolist() == [score(stats[rows].sum(0)) for rows in drawn]


def test_the_p_value_is_the_share_of_resamples_that_stray_further() -> None:
    draw = random.Random(2)
    refs = [[draw.choice("ab") for _ in range(30)]]
    base, system = ([draw.choice("ab") for _ in refs[0]] for _ in range(2))
    share = lambda lines, rows: sum(lines[i] == refs[0][i] for i in rows) / len(rows)  # noqa: E731
    every = range(30)
    observed = abs(share(system, every) - share(base, every))
    assert observed > 0
    differences = [abs(share(system, rows) - share(base, rows)) for rows in resamples(30, 200, 9)]
    mean = sum(differences) / len(differences)
    strays = sum(difference - mean > observed for difference in differences)
    assert 0 < strays < 200
    assert paired_p_value(METRIC, base, system, refs, PairedTest(200, 9)) == (strays + 1) / 201
