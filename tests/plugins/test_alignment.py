"""Alignments, copied words and coverage from attention, against models that are known and plain loops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from harness.copying_model import Says, Strokes, generated
from harness.generators import generator_of
from harness.search_calls import find
from harness.shipped_plugins import generate_config, shipped
from s2s.decoding import BeamConfig, Hypothesis
from s2s.decoding.beam_search import BeamSearch
from s2s.errors import ConfigError
from s2s.generation.candidates import Counts
from s2s.generation.output_stages import OutputStage
from s2s.generation.segments import Segment
from s2s.generation.writing import Writer
from s2s.model import Seq2Seq
from s2s.plugin import load_plugins
from s2s_alignment.attention import coverage
from s2s_alignment.words import replace_unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

LINES = ["ab c def", "", "a", "gh gh e", "c d e f a"]


@pytest.mark.parametrize("tokens", [1, 20, 4000])
def test_a_copy_is_aligned_word_by_word(tokens: int) -> None:
    for line, output in zip(LINES, generated(Says(False), LINES, fields=["align"], tokens=tokens), strict=True):
        assert output.hyp == line
        assert output.best.align == [(i, i) for i in range(len(line.split()))]


def test_an_output_that_is_backwards_is_aligned_backwards() -> None:
    """The stroke of a word now stands behind its letters, before the next word."""
    lines = ["ab c", "def g h"]
    for line, output in zip(lines, generated(Says(True), lines, fields=["align"]), strict=True):
        n = len(line.split())
        assert output.hyp == line[::-1]
        of_letters, of_strokes = [(i, n - 1 - i) for i in range(n)], [(i, n - i) for i in range(1, n)]
        assert output.best.align == sorted(of_letters + of_strokes)


def test_alignments_are_only_made_where_they_are_asked_for() -> None:
    assert [output.best.align for output in generated(Says(False), LINES)] == [[]] * len(LINES)


def test_workers_tell_the_same() -> None:
    torch.set_num_threads(1)
    lines = ["ab c def", "a gh", "e"] * 12
    one, two = (generated(Says(False), lines, fields=["align"], workers=n) for n in (1, 2))
    assert one == two


@pytest.mark.parametrize(
    ("line", "expected"),
    [("ab z c", "ab z c"), ("azb c", "azb c"), ("zz zc", "zz zc"), ("ab", "ab"), ("z", "z")],
)
def test_words_with_unknown_symbols_are_copied(line: str, expected: str) -> None:
    assert [o.hyp for o in generated(Says(False), [line], replace_unk=True)] == [expected]
    assert [o.hyp for o in generated(Says(False), [line])] == [line.replace("z", "?")]


def test_what_belongs_to_no_word_is_aligned_with_none() -> None:
    class Tagged(Strokes):
        def source_offsets(self, src: str) -> Sequence[tuple[int, int] | None]:
            return [None, *super().source_offsets(src)[1:]]

    found = Hypothesis([4, 5, 1, 4, 1], 0.0, 0.0, [0.0] * 6, source_positions=[0, 1, 0, 2, 3])
    aligning = Writer(Tagged(), generate_config(), Counts(), [Aligning()])
    best = aligning.output(Segment("a b", [4, 5, 4, 6]), [found]).best
    assert (best.hyp, best.align) == ("a? ?", [(0, 0), (1, 1)])
    assert best.links == [(0, 1, 0, 1), (2, 3, 2, 2), (2, 3, 2, 4)]
    assert replace_unknown(Tagged(), "a b", found, "a? ?") == "a? b", (
        "the first unknown symbol looks at what is no word"
    )


class Aligning(OutputStage):
    computes_alignment = True


class Blind(Says):
    attention = Seq2Seq.attention


@pytest.mark.parametrize(
    "options", [{"fields": ["align"]}, {"replace_unk": True}, {"coverage": 0.2, "candidates": 4}, {"format": "aligned"}]
)
def test_without_attention_it_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="takes the attention of the model, which this architecture does not give"):
        generated(Blind(False), LINES, **options)


def test_coverage_is_the_equation() -> None:
    p = [[0.5, 0.25, 0.25], [0.75, 0.0, 0.25]]  # p[j][i]
    expected = sum(math.log(min(sum(p[j][i] for j in range(2)), 1.0)) for i in range(3))
    assert coverage(torch.tensor(p)) == pytest.approx(expected)
    assert -100 < coverage(torch.tensor([[1.0, 0.0]])) < -80, "bad, but it can be compared"


def transformer() -> Seq2Seq:
    entry = load_plugins().registry.get("arch", "transformer")
    torch.manual_seed(6)
    sizes = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2}
    model: Seq2Seq = entry.build(entry.config(**sizes, dropout=0.1), Strokes().vocab)
    for p in model.parameters():
        nn.init.normal_(p, std=0.6)  # so that attention is not flat
    return model.eval()


@pytest.mark.parametrize("beta", [0.02, 3.0])
def test_coverage_ranks_the_whole_beam_anew(beta: float) -> None:
    model, task = transformer(), Strokes()
    search = BeamSearch(BeamConfig(beam=6, max_len_b=4))
    src = [*task.encode_source(["ab cde"])[0], task.vocab.eos]
    rows = torch.tensor([src])
    (found,) = find(search, model, rows, rows == task.vocab.pad, task.vocab, nbest=6)
    expected = []
    for hypothesis in found:
        p = model.attention(rows, rows == 0, torch.tensor([[task.vocab.bos, *hypothesis.tokens]]), 2)
        assert p is not None
        covered = 0.0
        for i in range(len(src) - 1):
            covered += math.log(min(sum(p[0, j, i].item() for j in range(len(hypothesis.tokens) + 1)), 1.0))
        expected.append((hypothesis.score + beta * covered, hypothesis.tokens))
    expected.sort(key=lambda pair: -pair[0])
    config = generate_config(format="jsonl", nbest=2, candidates=6, coverage=beta, attention_layer=2)
    (output,) = generator_of(model, task, search, config, shipped())(["ab cde"])
    assert [candidate.tokens for candidate in output.nbest] == [tokens for _, tokens in expected[:2]]
    assert [candidate.score for candidate in output.nbest] == pytest.approx([score for score, _ in expected[:2]])
    if beta == 3.0:
        assert expected[0][1] != found[0].tokens, "it decides something here"
