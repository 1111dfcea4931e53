"""Guided alignment: EM against enumeration, symmetrisation, the loss against a loop, and an aligner on known links."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from harness.benchmark_scripts import load_benchmark
from harness.tiny_runs import SMALL, call, train_tiny
from s2s import Encoded, Example, make_batch
from s2s.cli import train
from s2s.errors import ConfigError, DataError
from s2s.model import evaluating
from s2s.nn import LabelSmoothed, LabelSmoothedConfig
from s2s.task import Task, Vocab
from s2s_guided_alignment import GuidedAlignmentConfig
from s2s_guided_alignment.alignments import LearntAlignments, WordAlignments
from s2s_guided_alignment.diagonal import DiagonalModel, diagonal_prior
from s2s_guided_alignment.objective import GuidedAlignment, alignment_loss
from s2s_guided_alignment.symmetrization import grow_diag_final_and
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer
from s2s_translation import TranslationConfig
from s2s_translation.task import Translation

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [([0, 1], [0, 1]), ([1], [2]), ([2, 0, 1], [1, 0]), ([0, 0], [2, 2, 1])]
TENSION, NULL = 2.0, 0.2


def enumerated(pairs: list[tuple[list[int], list[int]]], t: Any, t_null: Any) -> tuple[Any, Any, float]:
    """Expected counts and the log-likelihood, from every alignment of every pair, one after the other."""
    counts, null_counts, total = np.zeros((3, 3)), np.zeros(3), 0.0
    for src, tgt in pairs:
        weights = {}
        for a in itertools.product(range(-1, len(src)), repeat=len(tgt)):
            p = 1.0
            for i, j in enumerate(a):
                z = sum(math.exp(-TENSION * abs((i + 1) / len(tgt) - (k + 1) / len(src))) for k in range(len(src)))
                near = math.exp(-TENSION * abs((i + 1) / len(tgt) - (j + 1) / len(src)))
                p *= NULL * t_null[tgt[i]] if j < 0 else (1 - NULL) * near / z * t[src[j], tgt[i]]
            weights[a] = p
        z = sum(weights.values())
        total += math.log(z)
        for a, p in weights.items():
            for i, j in enumerate(a):
                (null_counts if j < 0 else counts[src[j]])[tgt[i]] += p / z
    return counts, null_counts, total


def test_em_is_that_of_enumeration() -> None:
    model = DiagonalModel(TENSION, NULL, alpha=0)
    t, t_null, likelihoods = np.full((3, 3), 1 / 3), np.full(3, 1 / 3), []
    arrays = [(np.array(src), np.array(tgt)) for src, tgt in PAIRS]
    for n in range(1, 4):
        counts, null_counts, likelihood = enumerated(PAIRS, t, t_null)
        t, t_null = counts / counts.sum(1, keepdims=True), null_counts / null_counts.sum()
        likelihoods.append(likelihood)
        model.fit(arrays, 3, n)
        mine = np.zeros(9)
        mine[model.keys] = model.table
        np.testing.assert_allclose(mine.reshape(3, 3), t, atol=1e-12)
        np.testing.assert_allclose(model.from_null, t_null, atol=1e-12)
    assert likelihoods == sorted(likelihoods)


def test_posteriors_are_those_of_single_tokens() -> None:
    model = DiagonalModel(TENSION, NULL)
    model.fit([(np.array(src), np.array(tgt)) for src, tgt in PAIRS], 3, 2)
    posteriors = model.posteriors(np.array([2, 0, 1]), np.array([1, 0]))
    np.testing.assert_allclose(posteriors.sum(1), 1)
    t = dict(zip(model.keys.tolist(), model.table, strict=True))
    joint = [
        NULL * model.from_null[1],
        *(diagonal_prior(3, 2, TENSION, NULL)[0, j] * t[e * 3 + 1] for j, e in enumerate((2, 0, 1))),
    ]
    np.testing.assert_allclose(posteriors[0], np.array(joint) / sum(joint))


def test_the_prior_is_largest_on_the_diagonal() -> None:
    prior = diagonal_prior(4, 4, 4.0, 0.08)
    assert prior.argmax(1).tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(prior.sum(1), 0.92)


def test_tokens_that_were_never_seen_together_are_not_aligned() -> None:
    model = DiagonalModel()
    model.fit([(np.array([1]), np.array([2]))], 9, 2)
    assert not model.align(np.array([5]), np.array([6])).any()
    assert model.align(np.array([]), np.array([2], np.int64)).shape == (1, 0)


def matrix(links: set[tuple[int, int]]) -> Any:
    m = np.zeros((4, 4), bool)
    for i, j in links:
        m[i, j] = True
    return m


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        ({(0, 0), (1, 1)}, {(0, 0)}, {(0, 0), (1, 1)}),  # a diagonal neighbour
        ({(0, 0), (0, 1)}, {(0, 0)}, {(0, 0), (0, 1)}),  # a neighbour of one free token
        ({(0, 0), (3, 3)}, {(0, 0)}, {(0, 0), (3, 3)}),  # both free: final-and
        ({(0, 0), (0, 3)}, {(0, 0)}, {(0, 0)}),  # one is aligned already, and it is no neighbour
        ({(2, 1)}, {(1, 2)}, {(2, 1), (1, 2)}),  # no intersection
        (set(), set(), set()),
    ],
)
def test_directions_are_symmetrised(forward: Any, backward: Any, expected: Any) -> None:
    assert (grow_diag_final_and(matrix(forward), matrix(backward)) == matrix(expected)).all()


def test_a_symmetrised_alignment_lies_between_intersection_and_union() -> None:
    draw = np.random.default_rng(1)
    for _ in range(200):
        forward, backward = draw.random((2, 5, 6)) < 0.3
        result = grow_diag_final_and(forward, backward)
        assert not (forward & backward & ~result).any()
        assert not (result & ~(forward | backward)).any()
        rest = (forward | backward) & ~result
        assert all(result[i].any() or result[:, j].any() for i, j in np.argwhere(rest))


def test_the_loss_is_that_of_a_loop_over_links() -> None:
    torch.manual_seed(1)
    attention = torch.rand(2, 3, 4, dtype=torch.float64).softmax(-1).requires_grad_()
    aligned = (torch.rand(2, 3, 4) < 0.4).double()
    aligned[0, 1] = 0
    loss, n = alignment_loss(attention, aligned)
    total = 0.0
    for b, i, j in itertools.product(range(2), range(3), range(4)):
        if aligned[b, i, j]:
            total -= math.log(attention[b, i, j].item()) / aligned[b, i].sum().item()
    assert loss.item() == pytest.approx(total)
    assert n.item() == sum(bool(row.sum()) for rows in aligned for row in rows)


class Corpus(Task):
    """A task of numbers as words; what is not needed is left out."""

    vocab = Vocab(src=120, tgt=120, joint=True)

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs

    def corpora(self, split: str) -> Any:
        return [("main", 1.0)]

    def examples(self, split: str, corpus: str) -> Any:
        return (Example(*pair) for pair in self.pairs)

    def encode(self, examples: Any) -> list[Encoded]:
        return [Encoded(*(list(map(int, side.split())) for side in (one.src, one.tgt))) for one in examples]

    def encode_source(self, lines: Any) -> list[list[int]]:
        return [list(map(int, line.split())) for line in lines]

    def detokenize(self, ids: Any, src: str) -> str:
        return " ".join(map(str, ids))

    dependencies = learn = load = None  # type: ignore[assignment]


def test_an_aligner_finds_known_links() -> None:
    """The benchmark's language: under 10% AER, of which one direction alone and the diagonal alone have more."""
    bench = load_benchmark("alignment")
    pairs = bench.aligned_pairs(1500, 1)
    names = {word: i for i, word in enumerate(sorted({w for one in pairs for w in (*one.src, *one.tgt)}), 4)}
    ids = [(" ".join(str(names[w]) for w in one.src), " ".join(str(names[w]) for w in one.tgt)) for one in pairs]
    task = Corpus(ids)
    task.vocab = Vocab(src=len(names) + 4, tgt=len(names) + 4, joint=True)
    align = LearntAlignments(GuidedAlignmentConfig(), task)
    encoded, true = task.encode(list(task.examples("train", ""))), [one.links for one in pairs]

    def rate(matrices: Any) -> float:
        return bench.aer([{(j, i) for i, j in zip(*m.nonzero(), strict=True)} for m in matrices], true)

    both = rate(align(*one) for one in encoded)
    forward = rate(align.forward.align(np.array(one.src), np.array(one.tgt)) for one in encoded)
    nearest = rate(diagonal_prior(len(one.src), len(one.tgt), 4, 0.1) > 0.25 for one in encoded)
    assert both < 10
    src, tgt = np.array(encoded[0].src), np.array(encoded[0].tgt)
    links = grow_diag_final_and(align.forward.align(src, tgt), align.backward.align(tgt, src).T)
    np.testing.assert_array_equal(align(encoded[0].src, encoded[0].tgt), links)
    assert align.remembered(tuple(encoded[0].src), tuple(encoded[0].tgt)).nbytes == 4 * links.sum(), "not [T, S]"
    assert both < forward
    assert forward < nearest


def test_error_rates_are_those_of_och_and_ney() -> None:
    bench = load_benchmark("alignment")
    assert bench.aer([{(0, 0), (1, 1)}], [{(0, 0), (1, 1)}]) == 0
    assert bench.aer([{(0, 0)}, {(0, 1)}], [{(0, 0), (1, 1)}, {(0, 2)}]) == pytest.approx(100 * (1 - 2 / 5))


def test_alignments_of_words_are_those_of_their_tokens(tmp_path: Path) -> None:
    task = Corpus([("5 6", "7 8"), ("5", "7")])
    file = tmp_path / "links"
    file.write_text("0-1 1-0\n\n")
    align = WordAlignments({"main": str(file)}, task)
    assert align([5, 6], [7, 8]).tolist() == [[False, True], [True, False]]
    assert not align([5], [7]).any()
    assert not align([9], [9]).any()


def test_all_tokens_of_a_word_have_its_links_and_previous_sentences_none(tmp_path: Path) -> None:
    """Words of subwords are counted by the sign for a blank."""
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("the older dog eats\nthe cat sees dogs\n\nolder cats eat\n" * 5)
    files = [str(tmp_path / f"a.{side}") for side in ("en", "de")]
    task = Translation(TranslationConfig(name="translation", train=files, vocab_size=30, context=1))
    (tmp_path / "tokens").mkdir()
    task.learn(tmp_path / "tokens")
    (tmp_path / "links").write_text("0-0 1-2 3-3\n0-1 2-2\n2-0\n" * 5)
    align = WordAlignments({"a": str(tmp_path / "links")}, task)
    links = [{(0, 0), (1, 2), (3, 3)}, {(0, 1), (2, 2)}, {(2, 0)}]
    for one, expected in zip(task.usable(), links, strict=False):
        (pair,) = task.encode([one])
        own = task.cut_context(pair.src, 0)
        begins = [[task.src.pieces[i].startswith("▁") for i in ids] for ids in (own, pair.tgt)]
        src, tgt = ([sum(begin[: n + 1]) - 1 for n in range(len(begin))] for begin in begins)
        matrix = [[(e, f) in expected for e in src] for f in tgt]
        n_before = len(pair.src) - len(own)
        assert align(pair.src, pair.tgt)[:, n_before:].tolist() == matrix
        assert not align(pair.src, pair.tgt)[:, :n_before].any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-1\n", "ends before line 2"),
        ("0-0\n\n0-0\n", "continues behind line 2"),
        ("0:1\n\n", "is no link such as 0-1"),
    ],
)
def test_bad_files_of_alignments_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "links").write_text(text)
    with pytest.raises(DataError, match=message):
        WordAlignments({"main": str(tmp_path / "links")}, Corpus([("5 6", "7 8"), ("5", "7")]))
    with pytest.raises(ConfigError, match="there is no such training corpus; main"):
        WordAlignments({"mian": "x"}, Corpus([]))


def transformer(**options: Any) -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        name="transformer", d_model=16, d_ff=16, n_heads=4, n_encoder_layers=2, n_decoder_layers=3, **options
    )
    return Transformer(config, Vocab(src=20, tgt=20, joint=True))


@pytest.mark.parametrize(("layer", "heads"), [(None, None), (None, 1), (1, 2), (3, 4)])
def test_attention_for_alignments_is_the_mean_of_the_chosen_heads(layer: int | None, heads: int | None) -> None:
    model = transformer(alignment_layer=layer, alignment_heads=heads)
    batch = make_batch([([5, 6, 7], [8, 9]), ([5], [6])], model.vocab)
    with evaluating(model):
        maps = [one for one in model.attention_maps(batch.src, batch.src_pad, batch.tgt_in) if one.kind == "cross"]
        expected = maps[(layer or 2) - 1].weights[:, : heads or 4].mean(1)
        hidden, attention = model.forward_with_attention(batch.src, batch.src_pad, batch.tgt_in)
        torch.testing.assert_close(attention, expected)
        torch.testing.assert_close(model.attention(batch.src, batch.src_pad, batch.tgt_in), expected)
        torch.testing.assert_close(hidden, model(*batch.inputs), rtol=1e-4, atol=1e-5)


def objective(model: Any, pairs: list[tuple[list[int], list[int]]], **options: Any) -> GuidedAlignment:
    texts = [(" ".join(map(str, src)), " ".join(map(str, tgt))) for src, tgt in pairs]
    task = Corpus(texts)
    task.vocab = model.vocab
    context: Any = SimpleNamespace(task=task, vocab=model.vocab)
    return GuidedAlignment(GuidedAlignmentConfig(name="guided_alignment", **options), context)


def test_the_objective_is_the_sum_of_both_losses_and_guides_the_heads_alone() -> None:
    model = transformer(alignment_heads=1, dropout=0.0)
    pairs = [([5, 6, 7], [8, 9]), ([5], [8]), ([6, 7], [9, 8])]
    batch = make_batch(pairs, model.vocab)
    guided = objective(model, pairs, weight=0.5)
    sums = guided(model, batch)
    plain = LabelSmoothed(LabelSmoothedConfig(eps=0.1))(model, batch)
    attention = model.attention(batch.src, batch.src_pad, batch.tgt_in)
    extra, n = alignment_loss(attention, guided.alignment_matrix(batch))
    assert n.item() > 0
    assert sums.loss.item() == pytest.approx(plain.loss.item() + 0.5 * extra.item(), rel=1e-4)
    model.zero_grad()
    extra.backward()
    q = model.decoder[1].cross_attention.q.weight.grad
    assert q[:4].abs().sum() > 0
    assert q[4:].abs().sum() == 0
    assert model.decoder[2].attention.qkv.weight.grad is None or not model.decoder[2].attention.qkv.weight.grad.any()


def test_the_matrix_has_no_link_of_end_and_padding() -> None:
    model = transformer()
    pairs = [([5, 6, 7], [8, 9, 9]), ([5], [8])]
    batch = make_batch(pairs, model.vocab)
    guided = objective(model, pairs)
    aligned = guided.alignment_matrix(batch)
    for row, (src, tgt) in enumerate(pairs):
        assert (aligned[row, : len(tgt), : len(src)].numpy() == guided.align(src, tgt)).all()
        assert not aligned[row, len(tgt) :].any()
        assert not aligned[row, :, len(src) :].any()


def test_a_split_batch_has_the_same_sums() -> None:
    model = transformer(dropout=0.0)
    pairs = [([5, 6, 7], [8, 9, 9]), ([5], [8]), ([7, 7], [9])]
    guided = objective(model, pairs)
    whole = guided(model, make_batch(pairs, model.vocab))
    parts = [guided(model, make_batch([pair], model.vocab)) for pair in pairs]
    assert whole.loss.item() == pytest.approx(sum(part.loss.item() for part in parts), rel=1e-4)
    assert whole.normaliser == sum(part.normaliser for part in parts)


def test_it_trains_resumes_and_aligns(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    train_tiny(tmp_path, "objective=guided_alignment", "arch.alignment_heads=1")
    monkeypatch.chdir(tmp_path)
    again = [*SMALL, "objective=guided_alignment", "arch.alignment_heads=1", "train.steps=6", "run=x", "--quiet"]
    assert train.main(again) == 0
    code, out, err = call("s2s-generate", ["run=x", "input=a.en", "format=aligned", "--quiet"], capsys)
    assert code == 0, err
    assert " ||| " in out


@pytest.mark.slow
def test_guided_attention_aligns_better(tmp_path: Path, monkeypatch: Any) -> None:
    """A smaller form of the benchmark."""
    monkeypatch.chdir(tmp_path)
    bench = load_benchmark("alignment")
    import s2s

    pairs, test = bench.aligned_pairs(2000, 1), bench.aligned_pairs(100, 2)
    for side in ("src", "tgt"):
        (tmp_path / side).write_text("".join(f"{' '.join(getattr(pair, side))}\n" for pair in pairs))
    rates = {}
    for name, options in (("plain", {}), ("guided", bench.GUIDED)):
        s2s.train(**{**bench._options(tmp_path, name), "train.steps": 200, "arch.d_model": 32}, **options)
        rates[name] = bench._aer_of_model(s2s.load(str(tmp_path / name)), test)
    assert rates["guided"] < rates["plain"] - 10
