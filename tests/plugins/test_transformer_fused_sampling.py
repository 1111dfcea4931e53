"""Sampling as a stream in C, and without the model from a file, against single steps.

Every number of one sample has the same bits. Of several, single steps sum attention in another order, since they
compute all of a sentence together; a sample of a stream has the bits that it has alone.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.allocated_memory import n_bytes_allocated
from harness.open_queue import CancellingQueue
from harness.packed_models import VARIANTS, model, needs_bytes, recorded_stream_calls, shortlist, source_rows
from harness.search_calls import find_queued, tempered, without
from harness.token_wishes import Wish
from harness.tree_texts import EOS, START, small
from s2s import Choice
from s2s.decoding import SampleConfig, SearchRequest, SourceSentence
from s2s.decoding.queue import FixedQueue
from s2s_cpu.library import constant, native_library
from s2s_cpu.packed_files import PackedFiles
from s2s_cpu.prepacked import has_linear
from s2s_parsing.linear import FORMS
from s2s_search.sampling import Sampling
from s2s_testing import VOCAB

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.decoding import Hypothesis
    from s2s.model import Seq2Seq
    from s2s.task import Vocab

pytestmark = [
    pytest.mark.skipif(not has_linear(), reason=native_library().reason),
    pytest.mark.usefixtures("plugin_operators"),
]
SENTENCES = [SourceSentence(i, row) for i, row in enumerate(source_rows(9))]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.3},
    {"temperature": 3.0, "seed": 5},
    {"top_k": 3},
    {"top_p": 0.61},
    {"top_k": 9, "top_p": 0.8, "temperature": 1.7, "ban_unk": True},
    {"max_len_b": 1},
]


class StepByStep(Sampling):
    """The same search, whose sentences join no stream."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return recorded_stream_calls(monkeypatch)


def outputs(
    search: Sampling, one: Seq2Seq, sentences: Sequence[SourceSentence] = SENTENCES, n_tokens: int = 20, **options: Any
) -> list[list[Hypothesis]]:
    """Sentences leave and others take their places, if there is room for a part of them."""
    return find_queued(search, one, FixedQueue(sentences, n_tokens), VOCAB, **({"nbest": 4} | options))


def config(**options: Any) -> SampleConfig:
    return SampleConfig(**({"max_len_a": 0.0, "max_len_b": 9} | options))


def assert_alike(found: list[list[Hypothesis]], expected: list[list[Hypothesis]], atol: float = 1e-5) -> None:
    """The same tokens, with log-probabilities that differ by rounding."""
    for hypotheses, others in zip(found, expected, strict=True):
        by_tokens = [sorted((h.tokens, h.token_log_probs, h.finished) for h in each) for each in (hypotheses, others)]
        for one, other in zip(*by_tokens, strict=True):
            assert one == (other[0], pytest.approx(other[1], rel=1e-5, abs=atol), other[2])


def from_file(
    one: Seq2Seq,
    search: Sampling,
    sentences: Sequence[SourceSentence] = SENTENCES,
    nbest: int = 4,
    vocab: Vocab = VOCAB,
    **options: Any,
) -> list[list[Hypothesis]]:
    queue, files = FixedQueue([], 1), PackedFiles(Choice())
    request = SearchRequest(model=one, vocab=vocab, queue=queue, device=torch.device("cpu"), **options)
    assert files.keep("model", request, {})
    found = files.find("model")
    assert found
    opened = found[1].search(search.config, vocab, nbest, constrained=True, listed=True)
    assert opened
    assert all(map(opened.accepts, sentences))
    results = [result for some in opened(FixedQueue(sentences, 20)) for result in some]
    return [result.hypotheses for result in sorted(results, key=lambda result: result.index)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_hold(options: dict[str, Any], quantization: Any, folder: Path, calls: list[str]) -> None:
    one, search = model(quantization, d_model=64), Sampling(config(**options))
    several, single = outputs(StepByStep(search.config), one), outputs(StepByStep(search.config), one, nbest=1)
    assert not calls
    assert outputs(search, one, nbest=1) == single
    assert calls[:3] == ["new", "admit", "run"]
    assert 1 < calls.count("admit") < len(SENTENCES)
    found = outputs(search, one)
    # Where a sum is rounded in another way, an activation may become another of the 8-bit integers, or of bf16.
    if quantization != "bf16" or not constant("s2s_rounds_rows_to_bf16"):
        assert_alike(found, several, atol=0.05 if quantization == "int8" else 1e-5)
    assert from_file(one, search) == found
    assert all(len(hypotheses) == 4 for hypotheses in found)
    assert all(one in hypotheses for (one,), hypotheses in zip(single, found, strict=True))


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {"BART"}))
def test_samples_of_any_model_are_those_of_single_steps(name: str, folder: Path, calls: list[str]) -> None:
    one, search = model(**VARIANTS[name]), Sampling(config())
    assert outputs(search, one, nbest=1) == outputs(StepByStep(search.config), one, nbest=1)
    assert "run" in calls
    found = outputs(search, one)
    assert_alike(found, outputs(StepByStep(search.config), one))
    assert from_file(one, search) == found


@pytest.mark.parametrize("nbest", [1, 3, 40])
@pytest.mark.parametrize("n_tokens", [1, 30, 1000])
def test_samples_depend_on_no_batch_and_no_order(n_tokens: int, nbest: int) -> None:
    one, search = model(), Sampling(config())
    alone = [outputs(search, one, [replace(sentence, index=0)], nbest=nbest)[0] for sentence in SENTENCES]
    assert outputs(search, one, n_tokens=n_tokens, nbest=nbest) == alone
    turned = [replace(sentence, index=8 - sentence.index) for sentence in SENTENCES[::-1]]
    assert outputs(search, one, turned, n_tokens=n_tokens, nbest=nbest) == alone[::-1]


def test_a_sentence_that_asks_for_fewer_samples_draws_the_first_ones(folder: Path) -> None:
    one, search = model(), Sampling(config())
    sentences = [replace(sentence, nbest=1 + sentence.index % 5) for sentence in SENTENCES]
    found = outputs(search, one, sentences)
    assert_alike(found, outputs(StepByStep(search.config), one, sentences))
    assert [len(hypotheses) for hypotheses in found] == [min(1 + i % 5, 4) for i in range(9)]
    assert from_file(one, search, sentences) == found


@pytest.mark.parametrize("n", [1, 2, 7])
def test_several_starting_tokens_are_fed(n: int, folder: Path, calls: list[str]) -> None:
    one, search = model(positions="learned", max_positions=20), Sampling(config(max_len_b=50))
    starts = [(5 + i, 4, 6, 4, 8, 5, 9)[: n if i % 2 else 1] for i in range(9)]
    sentences = [replace(one, starting_tokens=start) for one, start in zip(SENTENCES, starts, strict=True)]
    expected = outputs(StepByStep(search.config), one, sentences, nbest=1)
    assert outputs(search, one, sentences, nbest=1) == expected
    assert "run" in calls
    found = outputs(search, one, sentences)
    assert_alike(found, outputs(StepByStep(search.config), one, sentences))
    assert from_file(one, search, sentences) == found
    assert n == 1 or found != outputs(search, one)


def test_affine_transforms_hold_and_others_are_left_to_single_steps(calls: list[str]) -> None:
    one, search = model(), Sampling(config())
    colder = [tempered(0.5, VOCAB.tgt), without([7], VOCAB.tgt)]
    expected = outputs(StepByStep(search.config), one, transforms=colder, nbest=1)
    assert outputs(search, one, transforms=colder, nbest=1) == expected
    assert "run" in calls
    assert expected != outputs(search, one, nbest=1)
    calls.clear()
    outputs(search, one, transforms=[lambda logits, _: 2 * logits])
    assert not calls


@pytest.mark.parametrize(
    "options",
    [
        {"no_repeat_ngram_size": 1},
        {"no_repeat_ngram_size": 2, "min_len": 7},
        {"repetition_penalty": 2.0},
        {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "top_k": 5},
    ],
    ids=str,
)
def test_what_a_sample_has_already_counts(options: dict[str, Any], folder: Path, calls: list[str]) -> None:
    one, search = model(), Sampling(config(max_len_b=14, **options))
    single = outputs(StepByStep(search.config), one, nbest=1)
    assert not calls
    assert outputs(search, one, nbest=1) == single != outputs(Sampling(config(max_len_b=14)), one, nbest=1)
    found = outputs(search, one)
    assert_alike(found, outputs(StepByStep(search.config), one))
    assert from_file(one, search, SENTENCES) == found


def test_sentences_with_a_constraint_are_sampled_in_steps_beside_the_stream(calls: list[str]) -> None:
    one, search = model(), Sampling(config())
    wish = Wish(phrases=((6,),)).constraint(VOCAB.tgt)
    sentences = [replace(each, constraint=wish) if each.index % 3 else each for each in SENTENCES]
    found = outputs(search, one, sentences, nbest=1)
    assert "run" in calls
    assert_alike(found, outputs(StepByStep(search.config), one, sentences, nbest=1))
    plain = outputs(search, one, nbest=1)
    assert [one == other for one, other in zip(found, plain, strict=True)][::3] == [True] * 3


@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
def test_a_shortlist_holds(quantization: Any, folder: Path, calls: list[str]) -> None:
    one, search, lists = model(quantization, d_model=48), Sampling(config()), shortlist()
    single = outputs(StepByStep(search.config), one, shortlist=lists, nbest=1)
    assert not calls
    assert outputs(search, one, shortlist=lists, nbest=1) == single != outputs(search, one, nbest=1)
    assert "run" in calls
    found = outputs(search, one, shortlist=lists)
    assert all(one in hypotheses for (one,), hypotheses in zip(single, found, strict=True))
    alone = [outputs(search, one, [replace(each, index=0)], shortlist=lists)[0] for each in SENTENCES]
    assert found == alone
    assert from_file(one, search, shortlist=lists) == found


@pytest.mark.parametrize("n", [1, 5, 30])
def test_a_minimum_length_holds(n: int, folder: Path, calls: list[str]) -> None:
    one, search = model(), Sampling(config(min_len=n, temperature=3.0))
    single = outputs(StepByStep(search.config), one, nbest=1)
    assert not calls
    assert outputs(search, one, nbest=1) == single
    assert "run" in calls
    found = outputs(search, one)
    assert all(len(output.tokens) >= min(n, 9) for each in found for output in each)
    assert from_file(one, search) == found
    shorter = outputs(Sampling(config(temperature=3.0)), one)
    assert min(len(output.tokens) for each in shorter for output in each) < 5


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"min_len": 6}, {"max_len_b": 5}], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_a_constraint_of_tables_holds(name: str, options: dict[str, Any], folder: Path, calls: list[str]) -> None:
    written = small(FORMS[name]())
    vocab, constraint = written.vocab, written.constraint(6, 3)
    one, search = (
        model(vocab=vocab, d_model=16, share_embeddings="none"),
        Sampling(config(**({"max_len_b": 14} | options))),
    )
    sentences = [SourceSentence(i, [START] * n + [EOS]) for i, n in enumerate((3, 1, 5, 2, 4, 5, 1))]

    def sampled(search: Sampling, nbest: int) -> list[list[Hypothesis]]:
        return find_queued(search, one, FixedQueue(sentences, 9), vocab, constraint=constraint, nbest=nbest)

    single = sampled(StepByStep(search.config), 1)
    assert not calls
    assert sampled(search, 1) == single
    assert "run" in calls
    found = sampled(search, 5)
    assert from_file(one, search, sentences, 5, constraint=constraint, vocab=vocab) == found
    for sentence, trees in zip(sentences, found, strict=True):
        assert len(trees) == 5 or options
        for output in trees:
            written.tree(output.tokens, len(sentence.ids) - 1)  # raises if it is none
            assert len(output.tokens) >= options.get("min_len", 0)


def test_where_no_token_is_possible_there_is_no_sample(calls: list[str]) -> None:
    one, search = model(output_bias=True), Sampling(config())
    nothing = [without(range(VOCAB.tgt), VOCAB.tgt)]
    assert outputs(search, one, transforms=nothing) == [[]] * 9
    assert "run" in calls
    only_at_the_limit = [without([VOCAB.eos], VOCAB.tgt)]
    assert outputs(search, one, transforms=only_at_the_limit) == [[]] * 9


@torch.no_grad()
def test_samples_come_as_often_as_single_tokens_are_probable() -> None:
    """Chi-squared, of the first token and of the second behind the most probable first, with probabilities in fp64."""
    one, n = model("none", d_model=64), 20_000
    found = outputs(Sampling(config(max_len_b=2)), one, SENTENCES[:1], nbest=n)[0]
    src = torch.tensor([SENTENCES[0].ids])
    memory, banned = one.encode(src, src == VOCAB.pad), VOCAB.never_output

    def check(before: list[int], tokens: list[int]) -> None:
        state = one.start(memory)
        for token in [VOCAB.bos, *before]:
            every, state = one.step(torch.tensor([[token]]), state)
        logits = every[0, 0].double()
        logits[list(banned)] = -torch.inf
        expected = logits.softmax(-1) * len(tokens)
        counts = torch.tensor(tokens).bincount(minlength=VOCAB.tgt).double()
        assert counts[list(banned)].sum() == 0
        often = expected > 5
        statistic = ((counts - expected)[often] ** 2 / expected[often]).sum()
        degrees = int(often.sum()) - 1
        assert statistic < degrees + 4 * (2 * degrees) ** 0.5
        assert degrees > 3

    firsts = [[*one.tokens, VOCAB.eos][0] for one in found]
    check([], firsts)
    first = max((set(firsts) - {VOCAB.eos}), key=firsts.count)
    check([first], [[*one.tokens, VOCAB.eos][1] for one in found if one.tokens[:1] == [first]])


@pytest.mark.parametrize("seed", range(6))
def test_sentences_come_and_are_cancelled_at_any_step(seed: int) -> None:
    one, search = model(), Sampling(config())
    expected = outputs(search, one)
    queue = CancellingQueue(SENTENCES, random.Random(seed))
    request = SearchRequest(model=one, vocab=VOCAB, queue=queue, device=torch.device("cpu"), nbest=4)
    found = {result.index: result.hypotheses for some in search(request) for result in some}
    assert {i for i in range(9) if i not in queue.cancelled} <= found.keys()
    assert all(hypotheses == expected[i] for i, hypotheses in found.items())


def test_no_memory_is_lost() -> None:
    one, search = model(), Sampling(config())
    for _ in range(3):
        outputs(search, one)
    before = n_bytes_allocated()
    for _ in range(20):
        outputs(search, one)
    assert n_bytes_allocated() - before < 100_000
