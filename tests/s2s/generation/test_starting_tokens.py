"""Starting tokens that a task gives an input by its fields: the language of the output as a code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch

from harness.capital_tasks import WithoutFiles
from harness.every_output import every_output
from harness.generators import generator_of
from harness.table_model import JoiningTable, Table
from s2s.config import GenerateConfig
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.errors import PluginError
from s2s.generation.candidates import Input
from s2s.generation.scoring import score, score_ids
from s2s.task import Encoded, Example, Vocab

if TYPE_CHECKING:
    from collections.abc import Sequence

CODES = {"de": (5,), "fr": (6, 4), "any": ()}
VOCAB = Vocab(src=9, tgt=7, starting_tokens=(3,))


@dataclass(kw_only=True)
class Language:
    language: str = "any"
    """Of the output."""


class Coded(WithoutFiles):
    """Digits to digits: the code of the language stands before the target."""

    fields = Language
    vocab = VOCAB

    def forced_tokens(self, example: Example) -> Sequence[int]:
        return CODES[example.fields.get("language", "any")]

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        sides = ((self.ids(one.src), self.ids(one.tgt), self.forced_tokens(one)) for one in examples)
        return [Encoded(src, [*codes, *tgt]) for src, tgt, codes in sides]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [self.ids(line) for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join(map(str, ids))

    @staticmethod
    def ids(text: str) -> list[int]:
        return [int(digit) for digit in text]


def coded() -> Coded:
    return Coded(GenerateConfig())  # type: ignore[arg-type]  # any configuration


INPUTS = [("56", "de"), ("7", "any"), ("44", "fr"), ("8", "de"), ("7", "fr")]


@pytest.mark.parametrize("kind", [Table, JoiningTable])
def test_an_output_is_the_most_probable_one_after_the_code_of_its_input(kind: type[Table]) -> None:
    """Of all outputs, each run through `decode` alone; inputs with different numbers of codes share batches."""
    search, model = BeamConfig(beam=85, max_len_b=1), kind(VOCAB.tgt, seed=3)
    generator = generator_of(model, coded(), BeamSearch(search), GenerateConfig(nbest=3))
    outputs = list(generator(Input(src, fields={"language": language}) for src, language in INPUTS))
    for (src, language), output in zip(INPUTS, outputs, strict=True):
        expected = every_output(model, Coded.ids(src), search, VOCAB, (*VOCAB.starting_tokens, *CODES[language]))[:3]
        assert [one.tokens for one in output.nbest] == [tokens for _, tokens in expected]
        assert [one.score for one in output.nbest] == pytest.approx([best for best, _ in expected], abs=1e-5)
    assert outputs[1].tokens != outputs[4].tokens, "the same source, in two languages"


def test_the_score_of_an_output_as_a_text_is_that_of_the_search() -> None:
    model, task = Table(VOCAB.tgt, seed=3), coded()
    generator = generator_of(model, task, BeamSearch(BeamConfig(max_len_b=3)))
    outputs = list(generator(Example(src, fields={"language": language}) for src, language in INPUTS))
    examples = [
        Example(src, output.hyp, {"language": language})
        for (src, language), output in zip(INPUTS, outputs, strict=True)
    ]
    for output, scored in zip(outputs, score(model, task, examples, torch.device("cpu")), strict=True):
        assert scored.tokens == output.tokens
        assert scored.log_probs == pytest.approx(output.best.log_probs, abs=1e-5)


def test_pairs_of_ids_are_scored_after_starting_tokens_of_their_own() -> None:
    model, pair = Table(VOCAB.tgt, seed=3), Encoded([5, 6], [4, 1])
    starts = [(3,), (3, 5), (3, 6, 4)]
    together = score_ids(model, VOCAB, [pair] * 3, torch.device("cpu"), starts=starts)
    for scored, start in zip(together, starts, strict=True):
        (coded_pair,) = score_ids(model, VOCAB, [Encoded(pair.src, [*start[1:], *pair.tgt])], torch.device("cpu"))
        assert scored.log_probs == coded_pair.log_probs[len(start) - 1 :]


def test_a_target_that_does_not_begin_with_its_code_is_refused() -> None:
    class Forgetful(Coded):
        def encode(self, examples: Sequence[Example]) -> list[Encoded]:
            return [Encoded(self.ids(one.src), self.ids(one.tgt)) for one in examples]

    task = Forgetful(GenerateConfig())  # type: ignore[arg-type]
    examples = [Example("5", "4", {"language": "fr"})]
    with pytest.raises(PluginError, match=r"Forgetful\.encode: expected targets that begin .* \[6, 4\]"):
        list(score(Table(VOCAB.tgt), task, examples, torch.device("cpu")))
