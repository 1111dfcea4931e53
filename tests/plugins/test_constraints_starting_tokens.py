"""Constraints of a task that puts the code of a language before its targets, against all outputs by enumeration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from harness.capital_tasks import WithoutFiles
from harness.every_output import every_output
from harness.generators import generator_of
from harness.shipped_plugins import generate_config, shipped
from harness.table_model import Table
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.errors import ConfigError
from s2s.generation.candidates import Input
from s2s.registry import Choice
from s2s.task import Encoded, Example, Vocab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.generation import Output

CODES = {"de": (5,), "fr": (6, 4)}
VOCAB = Vocab(src=9, tgt=7, starting_tokens=(3, 2))
SEARCH = BeamConfig(beam=400, max_len_a=0.0, max_len_b=4, ban_unk=True)
MODEL = Table(VOCAB.tgt, seed=3, spread=1.0)


@dataclass(kw_only=True)
class Language:
    """Of the output; every input needs one."""

    language: str


class Coded(WithoutFiles):
    """Digits to digits: the code of the language stands before the target, as do later starting tokens."""

    fields = Language
    vocab = VOCAB

    def __init__(self, behind: int = 2) -> None:
        super().__init__(Choice(name="coded"))
        self.behind = behind
        """Tokens of `Vocab.starting_tokens` that targets lack"""

    def forced_tokens(self, example: Example) -> Sequence[int]:
        return CODES[example.fields["language"]]

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        started = [(*VOCAB.starting_tokens[self.behind :], *self.forced_tokens(one)) for one in examples]
        return [Encoded(ids(one.src), [*start, *ids(one.tgt)]) for one, start in zip(examples, started, strict=True)]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return list(map(ids, lines))

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join(map(str, ids))


def ids(text: str) -> list[int]:
    return list(map(int, text))


@cache
def texts(language: str) -> list[str]:
    """All outputs of known symbols, best first."""
    every = every_output(MODEL, [5, 6], SEARCH, VOCAB, (*VOCAB.starting_tokens, *CODES[language]))
    return ["".join(map(str, tokens)) for _, tokens in every if VOCAB.unk not in tokens]


def generate(task: Coded, one: Input, min_len: int = 0, **options: object) -> Output:
    search = BeamSearch(replace(SEARCH, min_len=min_len))
    generator = generator_of(MODEL, task, search, generate_config(**options), shipped())
    return next(generator([one]))


@pytest.mark.parametrize("behind", [0, 1, 2])
@pytest.mark.parametrize("language", CODES)
@pytest.mark.parametrize("required", ["4", "64", "5"])
def test_prefix_and_phrases_are_required_without_the_codes(language: str, required: str, behind: int) -> None:
    """For any input; a text may begin with the tokens of a code itself."""
    fields = {"language": language}
    prefixed = generate(Coded(behind), Input("56", prefix=required, fields=fields))
    assert prefixed.hyp == next(text for text in texts(language) if text.startswith(required))
    containing = generate(Coded(behind), Input("56", phrases=(required,), fields=fields))
    assert containing.hyp == next(text for text in texts(language) if required in text)


@pytest.mark.parametrize("behind", [0, 1, 2])
@pytest.mark.parametrize("language", CODES)
def test_bad_words_are_those_of_the_language_without_its_code(language: str, behind: int) -> None:
    long = [text for text in texts(language) if len(text) > 1]
    one, fields = Input("56", fields={"language": language}), {"language": language}
    for banned in (long[0][:2], "5"), ("64", "45"):
        output = generate(Coded(behind), one, bad_words=list(banned), min_len=2, input_fields=fields)
        assert output.hyp == next(t for t in long if not any(bad in t for bad in banned))


def test_bad_words_of_a_task_that_needs_a_field_for_them_name_the_option() -> None:
    with pytest.raises(ConfigError, match=r"bad_words: task=coded reads 'language' .*; give input_fields\.language=VA"):
        generate(Coded(), Input("56", fields={"language": "de"}), bad_words=["4"])
