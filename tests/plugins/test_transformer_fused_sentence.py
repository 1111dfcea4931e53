"""The search of a sentence as one call, against encoder, start and single steps: every number has the same bits."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from harness.packed_models import VARIANTS, model, needs_bytes, source_rows
from harness.search_calls import StepByStep, find_queued
from s2s.decoding import BeamConfig, BeamSearch, ConstraintSet, GreedyConfig, SourceSentence, greedy
from s2s.decoding.queue import FixedQueue
from s2s.decoding.token_constraints import MinLength
from s2s_cpu import replacing, sentence_search
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_linear
from s2s_testing import VOCAB
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from s2s.decoding import Hypothesis
    from s2s.model import Seq2Seq

pytestmark = [
    pytest.mark.skipif(not has_linear(), reason=native_library().reason),
    pytest.mark.usefixtures("plugin_operators"),
]

ROWS = source_rows(9)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of functions in C that were called for a sentence as a whole."""
    names, call = list[str](), sentence_search.call

    def recorded(name: str, *arguments: Any) -> None:
        names.append(name)
        call(name, *arguments)

    monkeypatch.setattr(sentence_search, "call", recorded)
    return names


def outputs(search: BeamSearch, one: Seq2Seq, **options: Any) -> list[list[Hypothesis]]:
    """Of each sentence alone"""
    queue = FixedQueue((SourceSentence(i, row) for i, row in enumerate(ROWS)), 1)
    return find_queued(search, one, queue, VOCAB, **({"nbest": search.config.beam} | options))


def expected(config: BeamConfig, one: Seq2Seq, **options: Any) -> list[list[Hypothesis]]:
    return outputs(StepByStep(config), one, **options)


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {"BART"}))
def test_a_sentence_as_one_call_is_that_of_single_steps(name: str, calls: list[str]) -> None:
    one, config = model(**VARIANTS[name]), BeamConfig(beam=3, max_len_a=1.0, max_len_b=4)
    assert outputs(BeamSearch(config), one) == expected(config, one)
    assert calls == ["s2s_search_sentence"] * len(ROWS)


def test_a_norm_before_the_encoder_is_called(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is torch's own, which rounds in another way."""
    one, search = model(**VARIANTS["BART"]), BeamSearch(BeamConfig(max_len_b=4))
    found = outputs(search, one)
    assert not calls
    monkeypatch.setattr(one, "sentence_search", lambda *_: None)
    assert outputs(search, one) == found


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4, "stop": "first_k", "alpha": 0.0},
        {"beam": 4, "stop": "heuristic", "length_penalty": "power", "alpha": 1.0},
        {"beam": 6, "stop": "exact", "alpha": 2.0, "length_penalty": "power"},
        {"beam": 12, "ban_unk": True},
        {"beam": 4, "temperature": 0.7, "max_len_a": 0.0, "max_len_b": 40},
        {"beam": 2, "max_len_a": 0.0, "max_len_b": 1},
    ],
    ids=str,
)
def test_options_of_the_search_hold_for_a_sentence_as_one_call(
    options: dict[str, Any], quantization: Any, calls: list[str]
) -> None:
    one, config = model(quantization, d_model=64), BeamConfig(**({"max_len_b": 4} | options))
    found = outputs(BeamSearch(config), one)
    assert found == expected(config, one)
    assert len(calls) == len(ROWS)
    assert len({hypothesis.finished for hypotheses in found for hypothesis in hypotheses}) > 1 or config.beam < 4


def test_a_greedy_sentence_is_one_call(calls: list[str]) -> None:
    one = model()
    search = greedy(GreedyConfig(max_len_b=4))
    assert outputs(search, one) == expected(search.config, one)
    assert len(calls) == len(ROWS)


@pytest.mark.parametrize("sharing", ["shared", "target", "none"])
def test_source_tokens_are_read_in_the_prepacked_weight(
    sharing: Any, monkeypatch: pytest.MonkeyPatch, calls: list[str]
) -> None:
    options, config = {"d_model": 48, "share_embeddings": sharing}, BeamConfig(max_len_b=4)
    kept = expected(config, model(**options))
    monkeypatch.setattr(replacing, "LARGE_TABLE_BYTES", 1)
    freed = model(**options)
    assert (freed.embeddings.source_table is None) == (sharing == "shared")
    assert outputs(BeamSearch(config), freed) == kept
    assert len(calls) == len(ROWS)


class OtherPenalty(BeamSearch):
    """Rewards long outputs."""

    def penalty(self, length: Tensor) -> Tensor:
        return length**3


class OtherStart(Transformer):
    """Overrides what comes before the steps."""

    def start(self, memory: Any) -> Any:
        return super().start(memory)


def hooked(one: Transformer) -> None:
    one.encoder[0].register_forward_hook(lambda _module, _args, out: 2 * out)


def other_class(one: Transformer) -> None:
    one.__class__ = OtherStart


def other_method(one: Transformer) -> None:
    one.encode = lambda src, pad: Transformer.encode(one, src.roll(1, 1), pad)  # type: ignore[method-assign]


@pytest.mark.parametrize("change", [hooked, other_class, other_method])
def test_a_changed_model_is_called(change: Callable[[Transformer], None], calls: list[str]) -> None:
    one, config = model(), BeamConfig(max_len_b=4)
    change(one)
    assert outputs(BeamSearch(config), one) == expected(config, one)
    assert not calls


OWN = {name for name, _ in inspect.getmembers(BeamSearch, inspect.isfunction) if not name.startswith("_")}
NOT_REPLACED = {"begin", "extend_penalties", "penalty", "search_alone"}
REPLACED = sorted(OWN & vars(BeamSearch).keys() - NOT_REPLACED)


@pytest.mark.parametrize("name", REPLACED)
def test_an_overridden_method_is_called(name: str, calls: list[str]) -> None:
    one, config, names = model(), BeamConfig(max_len_b=4), list[str]()

    def method(self: BeamSearch, *given: Any) -> Any:
        names.append(name)
        return getattr(BeamSearch, name)(self, *given)

    assert outputs(type("Derived", (BeamSearch,), {name: method})(config), one) == expected(config, one)
    assert not calls
    assert name in names


def test_an_overridden_penalty_is_that_of_a_sentence_as_one_call(calls: list[str]) -> None:
    one, config = model(), BeamConfig(max_len_b=4)
    usual, longer = expected(config, one), outputs(OtherPenalty(config), one)
    assert [hypotheses[0].score for hypotheses in longer] != [hypotheses[0].score for hypotheses in usual]
    assert len(calls) == len(ROWS)


def test_constrained_and_large_searches_are_taken_step_by_step(
    monkeypatch: pytest.MonkeyPatch, calls: list[str]
) -> None:
    one, config = model(), BeamConfig(max_len_b=4)
    at_least = ConstraintSet(None, [MinLength(3, VOCAB.tgt, VOCAB.eos)])
    assert outputs(BeamSearch(config), one, constraint=at_least) == expected(config, one, constraint=at_least)
    monkeypatch.setattr(sentence_search, "MAX_NODE_BYTES", 1)
    assert outputs(BeamSearch(config), one) == expected(config, one)
    assert not calls


def test_tokens_outside_of_the_vocabulary_are_not_read() -> None:
    queue = FixedQueue([SourceSentence(0, [VOCAB.src, VOCAB.eos])], 9)
    with pytest.raises(IndexError):
        find_queued(BeamSearch(BeamConfig()), model(), queue, VOCAB)


def test_sentences_that_others_may_join_are_not_searched_alone(calls: list[str]) -> None:
    one, search = model(), BeamSearch(BeamConfig(max_len_b=4))
    queue = FixedQueue((SourceSentence(i, row) for i, row in enumerate(ROWS)), 1000)
    assert find_queued(search, one, queue, VOCAB, nbest=4) == outputs(search, one)
    assert len(calls) == len(ROWS), "of the second search"
