"""Forced scoring against searches, enumeration and float64, the same in any batches."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import pytest
import torch

from harness.capital_tasks import Capitals
from harness.search_calls import find
from harness.table_model import Table
from s2s.cli.scoring.total import Total
from s2s.decoding import BeamConfig, GreedyConfig, SampleConfig
from s2s.decoding.beam_search import BeamSearch, greedy
from s2s.errors import DataError
from s2s.generation.scoring import score, score_ids
from s2s.plugin import load_plugins
from s2s.task import Encoded, Example, Vocab
from s2s_search.sampling import Sampling
from s2s_testing.incremental import regular

if TYPE_CHECKING:
    from s2s.model import Seq2Seq

CPU = torch.device("cpu")
VOCAB = Vocab(src=12, tgt=12, joint=True)


def transformer(**options: object) -> Seq2Seq:
    entry = load_plugins().registry.get("arch", "transformer")
    torch.manual_seed(3)
    sizes = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2}
    return entry.build(entry.config(**{**sizes, "dropout": 0.3, **options}), VOCAB)


def ids(n: int, seed: int) -> list[int]:
    return regular(VOCAB, (n,), seed=seed).tolist()


def pairs() -> list[Encoded]:
    """Of many lengths, in no order; some sides are empty."""
    return [Encoded(ids(i * 7 % 11, seed=i), ids(i * 5 % 9, seed=99 + i)) for i in range(40)]


def slow(model: Seq2Seq, pair: Encoded) -> list[float]:
    """In float64, one prefix after the other, each by itself."""
    model = model.double().eval()
    src = torch.tensor([[*pair.src, VOCAB.eos]])
    memory = model.encode(src, src == VOCAB.pad)
    target, found = [*pair.tgt, VOCAB.eos], []
    for t, token in enumerate(target):
        logits = model.project(model.decode(torch.tensor([[VOCAB.bos, *target[:t]]]), memory))[0, -1]
        found.append((logits - logits.max()).softmax(-1)[token].log().item())
    model.float()
    return found


@pytest.mark.parametrize("tokens", [1, 60, 4000])
def test_every_symbol_has_the_probability_of_an_independent_computation(tokens: int) -> None:
    model = transformer()
    found = list(score_ids(model, VOCAB, pairs(), CPU, tokens))
    assert [one.tokens for one in found] == [pair.tgt for pair in pairs()]
    assert model.training, "the model is left as it was"
    with torch.no_grad():
        for pair, one in zip(pairs(), found, strict=True):
            assert one.log_probs == pytest.approx(slow(model, pair), abs=1e-5)
            assert one.log_prob == pytest.approx(sum(one.log_probs))


@pytest.mark.parametrize(
    "search",
    [
        BeamSearch(BeamConfig(beam=4)),
        lambda *args: greedy(GreedyConfig())(*args),
        Sampling(SampleConfig()),
    ],
    ids=["beam", "greedy", "sample"],
)
def test_outputs_of_a_search_have_the_probabilities_that_it_gave_them(search: object) -> None:
    model = transformer(dropout=0.0).eval()
    rows = [[*ids(n, seed=n), VOCAB.eos] for n in (3, 3, 3)]
    src = torch.tensor(rows)
    outputs = find(search, model, src, src == VOCAB.pad, VOCAB)  # type: ignore[arg-type]
    for row, hypotheses in zip(rows, outputs, strict=True):
        for hypothesis in hypotheses:
            (one,) = score_ids(model, VOCAB, [Encoded(row[:-1], hypothesis.tokens)], CPU)
            assert one.log_probs == pytest.approx(hypothesis.token_log_probs, abs=1e-5)
            assert one.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-5)


def test_the_probabilities_of_all_outputs_and_of_all_longer_ones_sum_to_one() -> None:
    model, source = Table(7), [4, 5]
    others = [i for i in range(7) if i != VOCAB.eos]
    outputs = [list(tgt) for n in range(4) for tgt in itertools.product(others, repeat=n)]
    found = list(score_ids(model, Vocab(src=7, tgt=7), [Encoded(source, tgt) for tgt in outputs], CPU))
    whole = sum(math.exp(one.log_prob) for one in found)
    unfinished = sum(math.exp(sum(one.log_probs[:-1])) for one in found if len(one.tokens) == 3)
    longer = sum(
        math.exp(sum(one.log_probs[:-1])) * (1 - math.exp(one.log_probs[-1])) for one in found if len(one.tokens) == 3
    )
    assert 0 < longer < unfinished
    assert whole + longer == pytest.approx(1)


def test_the_order_is_kept_over_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Table(12)
    expected = list(score_ids(model, VOCAB, pairs(), CPU))
    monkeypatch.setattr("s2s.generation.scoring.WINDOW", 7)
    assert list(score_ids(model, VOCAB, pairs(), CPU, tokens=50)) == expected


def test_no_more_than_a_window_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.generation.scoring.WINDOW", 5)
    read = []
    stream = (read.append(i) or Encoded([4], [5]) for i in range(100))  # type: ignore[func-returns-value]
    next(score_ids(Table(12), VOCAB, stream, CPU))
    assert len(read) == 5


def test_nothing_gives_nothing() -> None:
    assert list(score_ids(Table(12), VOCAB, [], CPU)) == []


@pytest.mark.parametrize(("pair", "side"), [(([4] * 8, [4]), "source"), (([4], [4] * 8), "target")])
def test_what_is_too_long_for_the_model_is_named(pair: tuple[list[int], list[int]], side: str) -> None:
    model = transformer(positions="learned", max_positions=8)
    with pytest.raises(DataError, match=f"pair 2: its {side} has 9 tokens with the end token, but this model takes 8"):
        list(score_ids(model, VOCAB, [Encoded([4] * 7, [5] * 7), Encoded(*pair)], CPU))


class Refusing(Capitals):
    """Takes letters alone."""

    def encode(self, examples: list[Example]) -> list[Encoded]:  # type: ignore[override]
        for example in examples:
            if not example.tgt.isalpha():
                raise DataError(f"{example.tgt!r} has other signs than letters; write it anew")
        return [Encoded(*self.encode_source([example.src, example.tgt])) for example in examples]


def test_texts_are_scored_as_the_task_writes_them() -> None:
    task, model = Refusing(), Table(30)
    examples = [Example("ab", "cd"), Example("x", "yz")]
    assert list(score(model, task, examples, CPU)) == list(score_ids(model, task.vocab, task.encode(examples), CPU))


def test_a_text_that_the_task_refuses_is_named() -> None:
    with pytest.raises(DataError, match="pair 3: '4' has other signs than letters"):
        list(score(Table(30), Refusing(), [Example("a", "b"), Example("a", "c"), Example("a", "4")], CPU))


def test_perplexities_are_of_tokens_and_of_words_ends_counted() -> None:
    total = Total()
    for pair, text in ((Encoded([4], [4, 5, 6]), "one two"), (Encoded([5], []), "")):
        (one,) = score_ids(Table(12), VOCAB, [pair], CPU)
        total.add(one, text)
    assert (total.sentences, total.n_tokens, total.words) == (2, 5, 4)
    assert total.ppl == pytest.approx(math.exp(-total.log_prob / 5))
    assert total.word_ppl == pytest.approx(math.exp(-total.log_prob / 4))
    assert Total(1, 1, 1, -1e4).ppl == math.inf
