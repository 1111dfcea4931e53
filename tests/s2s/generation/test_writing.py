"""Hypotheses as texts, and the parts of an input as one output."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.capital_tasks import Capitals
from s2s.config import GenerateConfig
from s2s.decoding import Hypothesis
from s2s.errors import PluginError
from s2s.generation.candidates import EMPTY_CANDIDATE, Candidate, Counts, Input, Output
from s2s.generation.output_stages import OutputStage
from s2s.generation.segments import Segment
from s2s.generation.writing import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.text import Link

FOUND = [Hypothesis([4], -1.0, -1.0, [-0.5, -0.5]), Hypothesis([5, 6], -2.0, -2.0, [-1.0, -0.5, -0.5])]
SEGMENT = Segment("ab", [4, 5])


class Stage(OutputStage):
    """Adds a sign to each text, ranks as it is told."""

    def __init__(
        self,
        sign: str = "",
        ranking: list[tuple[int, float]] | None = None,
        aligns: bool = False,
    ) -> None:
        self.sign, self.ranking, self.computes_alignment = sign, ranking, aligns

    def text(self, src: str, found: Hypothesis, text: str) -> str:
        return f"{text}{self.sign}"

    def rerank(self, texts: Sequence[str], found: Sequence[Hypothesis]) -> list[tuple[int, float]] | None:
        return self.ranking


def writer(*stages: OutputStage, **options: object) -> Writer:
    return Writer(Capitals(), GenerateConfig(format="jsonl", **options), Counts(), stages)  # type: ignore[arg-type]


@pytest.mark.parametrize(("nbest", "hyps"), [(1, ["A!?"]), (2, ["A!?", "BC!?"]), (3, ["A!?", "BC!?"])])
def test_stages_write_texts_one_after_the_other_best_first(nbest: int, hyps: list[str]) -> None:
    output = writer(Stage("!"), Stage("?"), nbest=nbest).output(SEGMENT, FOUND)
    assert output.src == "ab"
    assert [one.hyp for one in output.nbest] == hyps
    assert [(one.score, one.tokens, one.log_probs) for one in output.nbest] == [
        (found.score, found.tokens, found.token_log_probs) for found in FOUND[:nbest]
    ]


def test_the_first_stage_that_ranks_decides() -> None:
    stages = [Stage(), Stage(ranking=[(1, 7.0), (0, 6.0)]), Stage(ranking=[(0, 9.0)])]
    output = writer(*stages, nbest=2).output(SEGMENT, FOUND)
    assert [(one.hyp, one.score) for one in output.nbest] == [("BC", 7.0), ("A", 6.0)]


@pytest.mark.parametrize("ranking", [[], [(0, 1.0), (0, 1.0)], [(2, 1.0)], [(-1, 1.0), (0, 1.0)]], ids=str)
def test_a_ranking_of_other_outputs_is_refused(ranking: list[tuple[int, float]]) -> None:
    indices = re.escape(str([i for i, _ in ranking]))
    with pytest.raises(PluginError, match=rf"^Stage.rerank: expected indices from 0 to 1, .*, got {indices}$"):
        writer(Stage(ranking=ranking), nbest=2).output(SEGMENT, FOUND)


@pytest.mark.parametrize("nan", [{"score": math.nan}, {"token_log_probs": [math.nan, -0.5]}], ids=str)
def test_scores_that_are_nan_are_refused_and_the_search_is_named(nan: dict[str, Any]) -> None:
    write = Writer(Capitals(), GenerateConfig(), Counts(), [], "MySearch")
    with pytest.raises(PluginError, match=r"^MySearch, or what processes its results, gave an output of 'ab' .* NaN"):
        write.output(SEGMENT, [FOUND[0], replace(FOUND[1], **nan)])
    assert write.output(SEGMENT, [replace(FOUND[0], score=-math.inf)]).score == -math.inf


def test_pieces_are_written_where_they_are_asked_for() -> None:
    assert writer(fields=["pieces"]).output(SEGMENT, FOUND[1:]).best.pieces == ["B", "C"]
    assert writer().output(SEGMENT, FOUND[1:]).best.pieces == []


def test_links_join_the_characters_of_tokens_if_they_are_asked_for() -> None:
    aligned = replace(FOUND[1], source_positions=[1, 0])
    best = writer(Stage(aligns=True), fields=["align"]).output(SEGMENT, [aligned]).best
    assert best.links == [(0, 2, 0, 1), (0, 2, 1, 2)], "the task gives each source token its word"
    assert best.align == [(0, 0)]
    assert writer(Stage()).output(SEGMENT, [aligned]).best.links == []
    assert writer(Stage()).output(replace(SEGMENT, align=True), [aligned]).best.links == best.links


def test_what_has_no_output_is_told_of_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    class Falling(Capitals):
        def fallback(self, src: str) -> str:
            return f"({src})"

    write = Writer(Falling(), GenerateConfig(), Counts(), [Stage("!")])
    with caplog.at_level(logging.WARNING):
        outputs = [write.output(Segment(text, [4]), []) for text in ("x" * 61, "y")]
    assert [(one.hyp, one.score) for one in outputs] == [(f"({'x' * 61})", -math.inf), ("(y)", -math.inf)]
    assert write.counts.unanswered == 2
    (record,) = caplog.records
    assert f"for {'x' * 60!r}: the task's" in record.getMessage()
    write.join_segments(Input("y"), [Segment("y", [4])], [outputs[1]])
    assert (write.counts.inputs, write.counts.empty, write.counts.tokens) == (1, 0, 0)


def test_outputs_are_counted_with_their_ends_and_empty_inputs_apart() -> None:
    write = writer()
    assert write.join_segments(Input("whole"), [SEGMENT], [write.output(SEGMENT, FOUND)]).src == "whole"
    assert (write.counts.inputs, write.counts.empty, write.counts.tokens) == (1, 0, 2)
    write.join_segments(Input(""), [Segment("", [])], [Output("", [EMPTY_CANDIDATE])])
    assert (write.counts.inputs, write.counts.empty, write.counts.tokens) == (2, 1, 2)


def test_tokens_are_counted_where_the_search_gives_no_probabilities_of_them() -> None:
    write = writer()
    output = write.output(SEGMENT, [replace(FOUND[1], token_log_probs=[])])
    write.join_segments(Input("whole"), [SEGMENT], [output])
    assert write.counts.tokens == len(FOUND[1].tokens) + 1


def part(src: str, *hyps: str, links: Sequence[Link] = ()) -> Output:
    candidates = [
        Candidate(hyp, -float(k + 1), [k], [-1.0, -1.0], [hyp], links=list(links if k == 0 else ()))
        for k, hyp in enumerate(hyps)
    ]
    return Output(src, candidates)


def test_parts_are_joined_rank_by_rank_the_last_for_all_further_ones() -> None:
    write = writer()
    parts = [part("a.", "A", "a", "α"), part("b.", "B")]
    output = write.join_segments(Input("a. b."), [Segment("a.", [4]), Segment("b.", [5], before=" ")], parts)
    assert output.parts == parts
    assert output.src == "a. b."
    assert [one.hyp for one in output.nbest] == ["A B", "a B", "α B"]
    assert [one.score for one in output.nbest] == [-2.0, -3.0, -4.0]
    assert [one.tokens for one in output.nbest] == [[0, 0], [1, 0], [2, 0]]
    assert output.nbest[2].pieces == ["α", "B"]
    assert output.best.log_probs == [-1.0] * 4
    assert write.counts.tokens == 4, "with an end of each part"


@pytest.mark.parametrize(
    ("src", "parts", "align"),
    [
        ("a b", ["", "a", " ", "b"], [(0, 0), (1, 2)]),
        ("ab", ["", "a", "", "b"], [(0, 0), (0, 2)]),
        ("a bc d", ["", "a b", "", "c d"], [(0, 0), (1, 2)]),
        (" a. b", [" ", "a.", " ", "b"], [(0, 0), (1, 2)]),
        ("a a a", ["", "a", " ", "a"], [(0, 0), (1, 2)]),
        ("* a # b", ["* ", "a", " # ", "b"], [(0, 0), (1, 1), (2, 3), (3, 4)]),
        ("a—b", ["", "a", "—", "b"], [(0, 0), (0, 1)]),
    ],
)
def test_aligned_words_are_numbered_as_in_the_whole(src: str, parts: list[str], align: list[tuple[int, int]]) -> None:
    """The first words of both parts are aligned; the first output has two words."""
    segments = [Segment(parts[1], [4], before=parts[0]), Segment(parts[3], [4], before=parts[2])]
    outputs = [part(one.src, hyp, links=[(0, 1, 0, 1)]) for one, hyp in zip(segments, ("x y", "z"), strict=True)]
    best = writer().join_segments(Input(src), segments, outputs).best
    assert best.align == align
    assert len(best.hyp.split()) > align[-1][1]


def test_outputs_that_are_cut_or_without_text_are_counted() -> None:
    class Wordless(Capitals):
        def detokenize(self, ids: Sequence[int], src: str) -> str:
            return "" if 4 in ids else super().detokenize(ids, src)

    write = Writer(Wordless(), GenerateConfig(), Counts(), [])
    cut, wordless = replace(FOUND[1], finished=False), FOUND[0]
    for hypotheses in ([cut], [wordless], [cut], [FOUND[1]]):
        output = write.join_segments(Input("ab"), [SEGMENT], [write.output(SEGMENT, hypotheses)])
        assert output.best.finished is hypotheses[0].finished
    assert (write.counts.unfinished, write.counts.blank, write.counts.empty) == (2, 1, 0)
    assert ", 2 outputs cut at the limit, 1 outputs empty in" in write.counts.describe({}, 1.0)


def test_an_output_of_several_parts_is_finished_if_all_are() -> None:
    write, segments = writer(), [SEGMENT, replace(SEGMENT, before=" ")]
    for last in (True, False):
        parts = [write.output(SEGMENT, FOUND), write.output(SEGMENT, [replace(FOUND[0], finished=last)])]
        assert write.join_segments(Input("ab ab"), segments, parts).best.finished is last


def test_an_output_that_is_no_text_names_its_maker() -> None:
    class Silent(Stage):
        def text(self, src: str, found: Hypothesis, text: str) -> str: ...  # type: ignore[empty-body]

    class Pieces(Capitals):
        def detokenize(self, ids: Sequence[int], src: str) -> Any:
            return ["a"]

    with pytest.raises(PluginError, match=r"^Silent\.text: expected a text, got NoneType$"):
        writer(Stage("!"), Silent()).output(SEGMENT, FOUND)
    with pytest.raises(PluginError, match=r"^Pieces\.detokenize: expected a text, got list$"):
        Writer(Pieces(), GenerateConfig(), Counts(), []).output(SEGMENT, FOUND)


@pytest.mark.parametrize(
    ("n_read", "n_written", "is_text", "n_short"),
    [(40, 9, True, 1), (40, 10, True, 0), (7, 1, True, 0), (8, 1, True, 1), (40, 1, False, 0)],
)
def test_an_output_much_shorter_than_its_text_is_counted(
    n_read: int, n_written: int, is_text: bool, n_short: int
) -> None:
    """Tokens of the output include eos. The output of a task such as parsing may be of any length."""
    write = writer()
    write.task.running_text = is_text
    found = Candidate("X", -1.0, [5] * (n_written - 1), [])
    write.join_segments(Input("ab"), [replace(SEGMENT, ids=[4] * n_read)], [Output("ab", [found])])
    assert write.counts.short == n_short


@pytest.mark.parametrize(
    ("counts", "doubted"),
    [
        (Counts(inputs=1000, blank=110), True),
        (Counts(inputs=1000, blank=4, short=7), True),
        (Counts(inputs=1000, blank=3, short=7), False),
        (Counts(inputs=5, blank=5), False),
        (Counts(inputs=20, blank=1), True),
    ],
)
def test_many_outputs_without_text_are_a_warning(counts: Counts, doubted: bool) -> None:
    doubt = counts.doubt("search.alpha=1")
    assert bool(doubt) is doubted
    assert (
        f"of {counts.inputs:,} outputs, {counts.blank:,} are empty and {counts.short:,} much shorter" in doubt
    ) is doubted
    assert ("prefer short outputs; try search.alpha=1" in doubt) is doubted
    assert "prefer short" not in counts.doubt("")
