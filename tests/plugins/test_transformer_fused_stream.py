"""The search of sentences that come and go, in C, against encoder, start and single steps: every number has the same
bits."""

from __future__ import annotations

import inspect
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from harness.allocated_memory import n_bytes_allocated
from harness.open_queue import CancellingQueue, OpenQueue
from harness.packed_models import SEARCH_OPTIONS, VARIANTS, model, needs_bytes, recorded_stream_calls, source_rows
from harness.search_calls import InBatches, StepByStep, find_queued
from harness.token_wishes import Wish
from s2s.decoding import BeamConfig, BeamSearch, ConstraintSet, GreedyConfig, SearchRequest, SourceSentence, greedy
from s2s.decoding.queue import FixedQueue
from s2s.decoding.token_constraints import MinLength, NoRepeatNgram
from s2s.nn import Linear
from s2s_constraints.bad_words import BadWords
from s2s_cpu import replacing
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_int8_linear, has_linear
from s2s_testing import VOCAB
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor

    from s2s.decoding import Hypothesis
    from s2s.model import Seq2Seq

pytestmark = [
    pytest.mark.skipif(not has_linear(), reason=native_library().reason),
    pytest.mark.usefixtures("plugin_operators"),
]

ROWS = source_rows(9)
Starts = Sequence[Sequence[int]]
"""Of each row, its starting tokens, if they are not the vocabulary's"""
PLAIN: Starts = [()] * 9
REPEATS: list[dict[str, Any]] = [
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3, "min_len": 8, "beam": 1},
    {"repetition_penalty": 1.7},
    {"repetition_penalty": 0.6},
    {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "temperature": 0.6, "ban_unk": True},
    {"repetition_penalty": 1.4, "penalized": "log_probs"},
    {"repetition_penalty": 1.4, "penalized": "log_probs", "renormalize": True},
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return recorded_stream_calls(monkeypatch)


def outputs(search: BeamSearch, one: Seq2Seq, starts: Starts = PLAIN, **options: Any) -> list[list[Hypothesis]]:
    """Sentences leave and others take their places, since there is room for a third of them."""
    pairs = enumerate(zip(ROWS, starts, strict=True))
    queue = FixedQueue((SourceSentence(i, row, starting_tokens=start) for i, (row, start) in pairs), 20)
    return find_queued(search, one, queue, VOCAB, **({"nbest": search.config.beam} | options))


def expected(config: BeamConfig, one: Seq2Seq, **options: Any) -> list[list[Hypothesis]]:
    return outputs(StepByStep(config), one, **options)


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {"BART"}))
def test_a_stream_finds_what_single_steps_find(name: str, calls: list[str]) -> None:
    one, config = model(**VARIANTS[name]), BeamConfig(beam=3, max_len_a=1.0, max_len_b=4)
    assert outputs(BeamSearch(config), one) == expected(config, one)
    assert calls[:3] == ["new", "admit", "run"]
    assert calls.count("admit") > 1
    assert calls.count("admit") < len(ROWS)


def test_a_norm_before_the_encoder_is_called(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is torch's own, which rounds in another way."""
    one, search = model(**VARIANTS["BART"]), BeamSearch(BeamConfig(max_len_b=4))
    found = outputs(search, one)
    assert not calls
    monkeypatch.setattr(one, "stream_search", lambda *_: None)
    assert outputs(search, one) == found


@pytest.mark.parametrize("stop", ["best", "first_k", "heuristic"])
@pytest.mark.parametrize("name", ["paper", "Marian", "bias, unscaled", "T5", "SSRU"])
def test_several_starting_tokens_are_fed_to_a_stream(name: str, stop: Any, calls: list[str]) -> None:
    """Beside sentences with one, in a batch that others join."""
    one, config = model(**VARIANTS[name]), BeamConfig(beam=3, stop=stop, max_len_a=1.0, max_len_b=4)
    starts = [(), (VOCAB.bos, 5), (7,), (6, 5, 4, 8), (), (VOCAB.bos, 9), (4, 4, 4), (5,) * 9, (6, 5)]
    found = outputs(BeamSearch(config), one, starts)
    assert "run" in calls
    calls.clear()
    assert found == expected(config, one, starts=starts)
    assert not calls
    plain = expected(config, one)
    assert [found[i] == plain[i] for i in (0, 4, 3, 7)] == [True, True, False, False]


def test_starting_tokens_count_in_what_a_model_takes(calls: list[str]) -> None:
    one = model(positions="learned", max_positions=12)
    config = BeamConfig(beam=2, max_len_a=0.0, max_len_b=100)
    starts = [(VOCAB.bos, *[4 + i] * i) for i in range(9)]
    found = outputs(BeamSearch(config), one, starts)
    assert "run" in calls
    assert found == expected(config, one, starts=starts)
    assert (
        max(len(hypothesis.tokens) + len(start) for one, start in zip(found, starts, strict=True) for hypothesis in one)
        == 12
    )


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
@pytest.mark.parametrize("options", SEARCH_OPTIONS, ids=str)
def test_options_of_the_search_hold_for_a_stream(options: dict[str, Any], quantization: Any, calls: list[str]) -> None:
    one, config = model(quantization, d_model=64), BeamConfig(**({"max_len_b": 4} | options))
    found = outputs(BeamSearch(config), one)
    assert found == expected(config, one)
    assert "run" in calls
    assert len({hypothesis.finished for hypotheses in found for hypothesis in hypotheses}) > 1 or config.beam < 4


@pytest.mark.parametrize("stop", ["best", "exact", "first_k", "heuristic"])
def test_each_sentence_has_as_many_outputs_as_are_wanted_of_it(stop: Any, calls: list[str]) -> None:
    one, config = model(), BeamConfig(beam=4, max_len_b=4, stop=stop)
    wanted = [1 + i % 4 for i in range(len(ROWS))]
    queue = FixedQueue(
        (SourceSentence(i, row, nbest=n) for i, (row, n) in enumerate(zip(ROWS, wanted, strict=True))), 20
    )
    found = find_queued(BeamSearch(config), one, queue, VOCAB, nbest=4)
    assert "run" in calls
    by_number = {n: expected(config, one, nbest=n) for n in set(wanted)}
    assert found == [by_number[n][i] for i, n in enumerate(wanted)]


def test_a_sentence_is_done_when_the_outputs_that_are_wanted_of_it_are_found(calls: list[str]) -> None:
    one, search = model(), BeamSearch(BeamConfig(beam=4, max_len_b=4))

    def n_steps(nbest: int) -> int:
        calls.clear()
        sentences = (SourceSentence(i, row, nbest=nbest) for i, row in enumerate(ROWS))
        find_queued(search, one, OpenQueue(sentences, 1000), VOCAB, nbest=4)
        return calls.count("run")

    assert n_steps(1) < n_steps(4)


def test_a_greedy_search_is_a_stream(calls: list[str]) -> None:
    one = model()
    search = greedy(GreedyConfig(max_len_b=4))
    assert outputs(search, one) == expected(search.config, one)
    assert "run" in calls


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
    assert "run" in calls


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
    one.encode = lambda src, pad: Transformer.encode(one, src.masked_fill(src == 5, 6), pad)  # type: ignore[method-assign]


@pytest.mark.parametrize("change", [hooked, other_class, other_method])
def test_a_changed_model_is_called(change: Callable[[Transformer], None], calls: list[str]) -> None:
    one, config = model(), BeamConfig(max_len_b=4)
    change(one)
    assert outputs(BeamSearch(config), one) == expected(config, one)
    assert not calls


def test_hooks_of_the_decoder_are_called(calls: list[str]) -> None:
    one, config = model(), BeamConfig(max_len_b=4)
    before = outputs(BeamSearch(config), one)
    calls.clear()
    one.decoder[0].feed_forward.register_forward_hook(lambda _module, _args, out: 2 * out)
    found = outputs(BeamSearch(config), one)
    assert found == expected(config, one)
    assert found != before
    assert not calls


@pytest.mark.parametrize("search", [BeamSearch, InBatches, StepByStep])
def test_hooks_of_all_modules_are_called_and_change_nothing(search: type[BeamSearch], calls: list[str]) -> None:
    one, config, seen = model(), BeamConfig(max_len_b=4), set[nn.Module]()
    before = outputs(search(config), one)
    hook = register_module_forward_hook(lambda module, *_: seen.add(module))
    calls.clear()
    try:
        found = outputs(search(config), one)
    finally:
        hook.remove()
    assert not calls
    parts = [part for layer in (*one.encoder, *one.decoder) for part in layer.children()]
    assert seen >= {*parts, *(part for each in parts for part in each.modules() if isinstance(part, Linear))}
    for ours, theirs in zip(found, before, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-5)
    assert outputs(search(config), one) == before


OWN = {name for name, _ in inspect.getmembers(BeamSearch, inspect.isfunction) if not name.startswith("_")}
NOT_REPLACED = {"begin", "extend_penalties", "penalty"}
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


def test_an_overridden_penalty_is_that_of_a_stream(calls: list[str]) -> None:
    one, config = model(), BeamConfig(max_len_b=4)
    usual, longer = expected(config, one), outputs(OtherPenalty(config), one)
    assert [hypotheses[0].score for hypotheses in longer] != [hypotheses[0].score for hypotheses in usual]
    assert "run" in calls


@pytest.mark.parametrize("seed", range(12))
def test_sentences_come_and_are_cancelled_at_any_step(seed: int, calls: list[str]) -> None:
    """In a random order and batch, with a random beam and model."""
    draw = random.Random(seed)
    quantization: Any = draw.choice(["none", "bf16", "int8"] if has_int8_linear() else ["none"])
    one = model(quantization, **VARIANTS[draw.choice(sorted(VARIANTS.keys() - {"BART"}))])
    stop: Any = draw.choice(["best", "exact", "first_k", "heuristic"])
    beam, room = draw.choice([1, 2, 4, 5, 13]), draw.choice([1, 9, 25])
    config = BeamConfig(beam=beam, stop=stop, max_len_a=draw.choice([0.0, 1.0]), max_len_b=room)
    starts = [draw.choices(range(VOCAB.tgt), k=draw.choice([0, 0, 1, 2, 5])) for _ in ROWS]
    kept = expected(config, one, starts=starts)
    order = draw.sample(range(len(ROWS)), len(ROWS))
    queue = CancellingQueue([SourceSentence(i, ROWS[i], starting_tokens=starts[i]) for i in order], draw)
    request = SearchRequest(model=one, vocab=VOCAB, queue=queue, device=torch.device("cpu"), nbest=beam)
    found = [result for results in BeamSearch(config)(request) for result in results]
    assert all(result.hypotheses == kept[result.index] for result in found)
    numbers = [result.index for result in found]
    assert len(numbers) == len(set(numbers))
    assert set(numbers) | queue.cancelled == set(range(len(ROWS)))
    assert "run" in calls


def test_cancelled_sentences_have_no_result(calls: list[str]) -> None:
    class Cancelling(OpenQueue):
        def take_cancelled(self) -> list[int]:
            return [1, 3] if "cancel" not in calls else []

    queue = Cancelling([SourceSentence(i, row) for i, row in enumerate(ROWS)], 1000)
    request = SearchRequest(model=model(), vocab=VOCAB, queue=queue, device=torch.device("cpu"))
    found = [result.index for results in BeamSearch(BeamConfig())(request) for result in results]
    assert sorted(found) == [i for i in range(len(ROWS)) if i not in (1, 3)]
    assert calls.count("cancel") == 1


def test_sentences_with_a_constraint_are_searched_beside_the_stream(calls: list[str]) -> None:
    one, config = model(), BeamConfig(max_len_b=4)
    own = {1: {"constraint": Wish(phrases=((6,),)).constraint(VOCAB.tgt)}, 3: {"starting_tokens": (VOCAB.bos, 5)}}

    def found(search: BeamSearch, room: int) -> list[list[tuple[list[int], float]]]:
        sentences = (SourceSentence(i, row, **own.get(i, {})) for i, row in enumerate(ROWS))  # type: ignore[arg-type]
        each = find_queued(search, one, FixedQueue(sentences, room), VOCAB, nbest=4)
        return [[(h.tokens, pytest.approx(h.score, rel=1e-5)) for h in hypotheses] for hypotheses in each]

    alone = found(StepByStep(config), 1)
    for room in (1, 25, 1000):
        calls.clear()
        assert found(BeamSearch(config), room) == alone
        assert "run" in calls
    assert found(StepByStep(config), 1000) == alone
    plain = outputs(BeamSearch(config), one)
    assert [[h.tokens for h in hypotheses] for hypotheses in plain][1] != [tokens for tokens, _ in alone[1]]


def test_with_a_constraint_that_has_no_tables_there_is_no_stream(calls: list[str]) -> None:
    one, config = model(), BeamConfig(max_len_b=4)
    for others in ([BadWords([[5]], VOCAB.tgt)], [NoRepeatNgram(2, VOCAB.tgt), NoRepeatNgram(3, VOCAB.tgt)]):
        rules = ConstraintSet(None, [MinLength(3, VOCAB.tgt, VOCAB.eos), *others])
        assert outputs(BeamSearch(config), one, constraint=rules) == expected(config, one, constraint=rules)
    assert not calls


@pytest.mark.parametrize("starts", [PLAIN, [(), (VOCAB.bos, 5), (7,), (6, 5, 4, 8)] * 3], ids=["bos", "several"])
@pytest.mark.parametrize("options", REPEATS, ids=str)
def test_what_an_output_has_already_counts(options: dict[str, Any], starts: Starts, calls: list[str]) -> None:
    one, config = model(), BeamConfig(**({"beam": 3, "max_len_a": 0.0, "max_len_b": 12} | options))
    found = outputs(BeamSearch(config), one, starts[: len(ROWS)])
    assert calls[:3] == ["new", "admit", "run"]
    calls.clear()
    single = expected(config, one, starts=starts[: len(ROWS)])
    assert not calls
    if config.penalized == "logits":
        assert found == single
    else:  # torch rounds log-probabilities in another way
        assert [[h.tokens for h in some] for some in found] == [[h.tokens for h in some] for some in single]
        numbers = [[[*h.token_log_probs, h.score] for some in each for h in some] for each in (found, single)]
        assert numbers[0] == [pytest.approx(of_one, abs=1e-5) for of_one in numbers[1]]
    assert found != outputs(BeamSearch(BeamConfig(beam=3, max_len_a=0.0, max_len_b=12)), one, starts[: len(ROWS)])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_sequence_of_tokens_is_repeated(n: int, calls: list[str]) -> None:
    one = model()
    limits = {"max_len_a": 0.0, "max_len_b": 30, "min_len": 14}
    config = BeamConfig(beam=4, no_repeat_ngram_size=n, **limits)
    for hypothesis in (h for some in outputs(BeamSearch(config), one) for h in some):
        grams = [tuple(hypothesis.tokens[i : i + n]) for i in range(len(hypothesis.tokens) - n + 1)]
        assert len(set(grams)) == len(grams) > 10
    assert "run" in calls
    plain = outputs(BeamSearch(BeamConfig(beam=4, **limits)), one)
    assert any(h.tokens[-n:] == h.tokens[-2 * n : -n] for some in plain for h in some), "else nothing is forbidden"


def test_a_sequence_may_come_again_after_512_tokens(calls: list[str]) -> None:
    one = model()
    config = BeamConfig(beam=1, max_len_a=0.0, max_len_b=580, min_len=580, no_repeat_ngram_size=3)
    found = outputs(BeamSearch(config), one, nbest=1)
    assert "run" in calls
    assert found == expected(config, one, nbest=1)
    distances = set[int]()
    for tokens in (h.tokens for some in found for h in some):
        last = dict[tuple[int, ...], int]()
        for i in range(len(tokens) - 2):
            gram = tuple(tokens[i : i + 3])
            distances |= {i - last[gram]} if gram in last else set()
            last[gram] = i
    assert distances
    assert min(distances) > 512 - 3


def test_a_minimum_length_alone_leaves_the_stream(calls: list[str]) -> None:
    one, config = model(), BeamConfig(max_len_b=4)
    at_least = ConstraintSet(None, [MinLength(3, VOCAB.tgt, VOCAB.eos)])
    assert outputs(BeamSearch(config), one, constraint=at_least) == expected(config, one, constraint=at_least)
    assert calls[:3] == ["new", "admit", "run"]


def test_tokens_outside_of_the_vocabulary_are_not_read() -> None:
    queue = FixedQueue([SourceSentence(0, [VOCAB.src, VOCAB.eos])], 9)
    with pytest.raises(IndexError):
        find_queued(BeamSearch(BeamConfig()), model(), queue, VOCAB)


class Watched(OpenQueue):
    """A queue that sees the most memory in use, beyond that before the first step."""

    def __init__(self, sentences: Iterable[SourceSentence], n_tokens: int) -> None:
        super().__init__(sentences, n_tokens)
        self.before, self.most = n_bytes_allocated(), 0

    def take_cancelled(self) -> list[int]:
        self.most = max(self.most, n_bytes_allocated() - self.before)
        return []


def watched(one: Transformer, config: BeamConfig) -> tuple[int, int]:
    """The most memory that a search takes, and the tokens of its longest output."""
    if not n_bytes_allocated():
        pytest.skip("this allocator does not say what is in use")
    queue = Watched([SourceSentence(i, row) for i, row in enumerate(ROWS)], 1000)
    found = find_queued(BeamSearch(config), one, queue, VOCAB)
    return queue.most, max(len(hypotheses[0].tokens) for hypotheses in found)


def test_memory_grows_with_the_tokens_in_use_not_with_the_limit(calls: list[str]) -> None:
    """For 60,000 tokens, encodings of positions alone would take 7.7 MB, and nodes 1 GB; the search ends after 700."""
    most, longest = watched(model(), BeamConfig(max_len_a=0.0, max_len_b=60_000))
    assert longest < 100
    assert most < 4 * 2**20
    assert "run" in calls


def test_dead_nodes_are_used_again(calls: list[str]) -> None:
    """All 300 * 9 * 8 tokens that are ever live would take 11.5 MB."""
    config = BeamConfig(beam=8, stop="exact", alpha=9.0, max_len_a=0.0, max_len_b=300)
    most, longest = watched(model(), config)
    assert longest > 250
    assert most < 6 * 2**20
    assert "run" in calls


def test_a_stream_frees_its_memory_also_if_it_is_not_finished() -> None:
    if not n_bytes_allocated():
        pytest.skip("this allocator does not say what is in use")
    one, search = model(), BeamSearch(BeamConfig(beam=8, max_len_b=100))

    def begin() -> None:
        queue = FixedQueue([SourceSentence(i, row) for i, row in enumerate(ROWS)], 20)
        next(iter(search(SearchRequest(model=one, vocab=VOCAB, queue=queue, device=torch.device("cpu")))))

    begin()
    before = n_bytes_allocated()
    for _ in range(10):
        begin()
    assert n_bytes_allocated() - before < 2**16, "one has several hundred KB"
