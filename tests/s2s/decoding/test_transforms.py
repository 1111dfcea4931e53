"""Transforms of logits: every search finds what enumeration of all outputs finds, in C as step by step."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.reference_search import EOS, assert_same, batch_of, limit_of, penalty, sources
from harness.search_calls import StepByStep, find_queued, tempered
from harness.table_model import JoiningTable, Table
from s2s.backend.linear import prepack
from s2s.decoding import (
    AffineTransform,
    BeamConfig,
    BeamSearch,
    GreedyConfig,
    SampleConfig,
    SearchRequest,
    SourceSentence,
    greedy,
)
from s2s.decoding.queue import FixedQueue
from s2s.decoding.token_transforms import build_transforms
from s2s.decoding.transforms import RepetitionPenalty, Transforms
from s2s.errors import ConfigError, PluginError
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_search import DiverseBeamConfig
from s2s_search.diverse import DiverseBeamSearch
from s2s_search.sampling import Sampling
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

    from harness.reference_search import Scored
    from s2s.decoding import LogitsTransform, Search
    from s2s.model import Seq2Seq

VOCAB = Vocab(src=12, tgt=7)
N = VOCAB.tgt


class NoTwice:
    """The newest token never follows itself."""

    def __call__(self, logits: Tensor, output: Tensor) -> Tensor:
        if not output.size(-1):
            return logits
        newest = output[..., -1:]
        return logits.masked_fill(torch.arange(logits.size(-1)) == newest, -torch.inf)


def shortlist(*tokens: int) -> AffineTransform:
    bias = torch.full((N,), -torch.inf)
    bias[[*tokens, EOS]] = 0.0
    return AffineTransform(torch.ones(N), bias)


TRANSFORMS: dict[str, list[LogitsTransform]] = {
    "bias": [AffineTransform(torch.ones(N), torch.linspace(-2, 2, N))],
    "temperature": [tempered(0.5, N)],
    "shortlist": [shortlist(1, 4, 6)],
    "two affine": [tempered(1.7, N), shortlist(4, 5)],
    "repetition": [RepetitionPenalty(2.5)],
    "rewarded repetition": [RepetitionPenalty(0.4)],
    "no token twice": [NoTwice()],
    "all": [RepetitionPenalty(1.5), shortlist(1, 4, 5, 6), NoTwice(), tempered(2.0, N)],
}


def changed(logits: list[float], prefix: list[int], transforms: Sequence[LogitsTransform]) -> list[float]:
    """Number by number."""
    for one in transforms:
        if isinstance(one, AffineTransform):
            pairs = zip(one.scale.tolist(), one.bias.tolist(), strict=True)
            logits = [x * scale + bias for x, (scale, bias) in zip(logits, pairs, strict=True)]
        elif isinstance(one, RepetitionPenalty):
            factor = [one.penalty if token in prefix else 1.0 for token in range(N)]
            logits = [x / f if x > 0 else x * f for x, f in zip(logits, factor, strict=True)]
        else:
            logits = [-torch.inf if prefix[-1:] == [token] else x for token, x in enumerate(logits)]
    return logits


def next_log_probs(model: Seq2Seq, source: list[int], prefix: list[int], transforms: Sequence[Any]) -> list[float]:
    with torch.no_grad():
        hidden = model.decode(torch.tensor([[2, *prefix]]), model.encode(*batch_of([source])))
    logits = changed(model.project(hidden)[0, -1].double().tolist(), prefix, transforms)
    return torch.tensor(logits, dtype=torch.float64).log_softmax(-1).tolist()


def every_output(model: Seq2Seq, source: list[int], config: Any, transforms: Sequence[Any]) -> list[Scored]:
    """All outputs that are possible, best first."""
    outputs: list[Scored] = []
    tokens = [t for t in range(N) if t not in {0, 2, EOS}]
    for length in range(limit_of(config, source) + 1):
        for output in itertools.product(tokens, repeat=length):
            whole = [*output, EOS]
            log_prob = sum(next_log_probs(model, source, whole[:i], transforms)[t] for i, t in enumerate(whole))
            if log_prob > -torch.inf:
                outputs.append((log_prob / penalty(config, length + 1), list(output)))
    return sorted(outputs, reverse=True)


def found(search: Search, model: Seq2Seq, inputs: Sequence[list[int]], n_tokens: int, **options: Any) -> list[Any]:
    queue = FixedQueue([SourceSentence(i, [*ids, EOS]) for i, ids in enumerate(inputs)], n_tokens)
    return find_queued(search, model, queue, VOCAB, **options)


@pytest.mark.parametrize("transforms", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("kind", [Table, JoiningTable])
def test_a_wide_beam_finds_all_outputs_in_order(transforms: list[LogitsTransform], kind: type[Table]) -> None:
    config, model, inputs = BeamConfig(beam=85, max_len_b=1), kind(N, seed=3), [[5, 6], [7]]
    outputs = found(BeamSearch(config), model, inputs, 100, nbest=30, transforms=transforms)
    for hypotheses, source in zip(outputs, inputs, strict=True):
        assert_same(hypotheses, every_output(model, source, config, transforms)[:30])


SEARCHES: dict[str, tuple[Any, int]] = {
    "beam": (BeamSearch(BeamConfig(beam=3, max_len_b=3)), 3),
    "greedy": (greedy(GreedyConfig(max_len_b=3)), 1),
    "groups": (DiverseBeamSearch(DiverseBeamConfig(beam=4, num_beam_groups=2, max_len_b=3)), 2),
    "sampling": (Sampling(SampleConfig(max_len_b=3)), 3),
}


@pytest.mark.parametrize("transforms", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_every_search_reports_the_changed_distribution_in_every_batch(
    transforms: list[LogitsTransform], search: tuple[Any, int]
) -> None:
    """Among sentences that come and go, each output and each log-probability is what it is alone."""
    one, nbest = search
    model, inputs = JoiningTable(N, seed=4), sources(8, 5, VOCAB.src, seed=2)
    together = found(one, model, inputs, 9, nbest=nbest, transforms=transforms)
    assert together == [found(one, model, [source], 9, nbest=nbest, transforms=transforms)[0] for source in inputs]
    for hypotheses, source in zip(together, inputs, strict=True):
        for one_output in hypotheses:
            whole = [*one_output.tokens, EOS]
            expected = [next_log_probs(model, source, whole[:i], transforms)[t] for i, t in enumerate(whole)]
            assert one_output.token_log_probs == pytest.approx(expected, abs=1e-5)
            assert one_output.log_prob == pytest.approx(sum(expected), abs=1e-4)


def test_log_probabilities_of_a_model_are_normalised_once_they_are_changed() -> None:
    class LogProbs(Table):
        returns_log_probs = True

        def project(self, hidden: Tensor) -> Tensor:
            return hidden.log_softmax(-1)

    transforms = TRANSFORMS["two affine"]
    search = BeamSearch(BeamConfig(beam=3, max_len_b=3))
    expected = found(search, Table(N, seed=1), [[5, 6], [7]], 100, transforms=transforms)
    outputs = found(search, LogProbs(N, seed=1), [[5, 6], [7]], 100, transforms=transforms)
    assert [one.tokens for (one,) in outputs] == [one.tokens for (one,) in expected]
    for (one,), (other,) in zip(outputs, expected, strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


@pytest.mark.parametrize(
    ("options", "transforms"),
    [
        ({"repetition_penalty": 2.5}, TRANSFORMS["repetition"]),
        ({"temperature": 0.5}, TRANSFORMS["temperature"]),
        ({"temperature": 0.5, "repetition_penalty": 2.5}, [*TRANSFORMS["repetition"], *TRANSFORMS["temperature"]]),
    ],
)
def test_options_of_a_search_are_transforms_before_those_of_the_request(options: Any, transforms: Any) -> None:
    model, plain = JoiningTable(N, seed=6), BeamSearch(BeamConfig(max_len_b=3))
    own, further = BeamSearch(BeamConfig(max_len_b=3, **options)), shortlist(4, 5, 6)
    inputs = sources(4, 5, VOCAB.src)
    expected = found(plain, model, inputs, 9, transforms=[*transforms, further], nbest=3)
    assert found(own, model, inputs, 9, transforms=[further], nbest=3) == expected


@pytest.mark.parametrize("penalized", ["logits", "log_probs"])
@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("penalty_of_repetition", [1.0, 1.6])
def test_what_is_penalised_and_normalised_is_an_option(
    penalized: Any, renormalize: bool, penalty_of_repetition: float
) -> None:
    """Against enumeration; bos, 2, counts as a token that the output has."""
    changes: Any = {"repetition_penalty": penalty_of_repetition, "penalized": penalized, "renormalize": renormalize}
    config = BeamConfig(beam=85, max_len_a=0.0, max_len_b=3, min_len=1, **changes)
    model, source = JoiningTable(N, seed=3), [5, 6]

    def log_probs(prefix: list[int]) -> Tensor:
        with torch.no_grad():
            hidden = model.decode(torch.tensor([[2, *prefix]]), model.encode(*batch_of([source])))
            scores = model.project(hidden)[0, -1].double()
        scores = scores.log_softmax(-1) if penalized == "log_probs" else scores
        for token in {2, *prefix}:
            scores[token] *= penalty_of_repetition if scores[token] < 0 else 1 / penalty_of_repetition
        if renormalize:
            scores[[0, 2, *([] if prefix else [EOS])]] = -torch.inf
        keeps = penalized == "log_probs" and not renormalize and penalty_of_repetition != 1
        return scores if keeps else scores.log_softmax(-1)

    outputs: list[Scored] = []
    for length in (1, 2, 3):
        for output in itertools.product((1, 4, 5, 6), repeat=length):
            whole = [*output, EOS]
            log_prob = sum(log_probs(whole[:i])[t].item() for i, t in enumerate(whole))
            outputs.append((log_prob / penalty(config, length + 1), list(output)))
    (hypotheses,) = found(BeamSearch(config), model, [source], 9, nbest=85)
    assert_same(hypotheses, sorted(outputs, reverse=True)[:85])


TGT = 60


def small() -> Transformer:
    torch.manual_seed(5)
    config = TransformerConfig(n_encoder_layers=2, n_decoder_layers=2, d_model=32, d_ff=64, n_heads=4)
    model = Transformer(config, Vocab(src=TGT, tgt=TGT, joint=True)).eval()
    for parameter in model.parameters():
        parameter.data *= 1.3
    prepack(model, "native", "none")
    return model


@pytest.mark.usefixtures("plugin_operators")
@pytest.mark.parametrize("returns_log_probs", [False, True])
@pytest.mark.parametrize("beam", [1, 4])
def test_steps_in_c_change_logits_to_the_same_bits(beam: int, returns_log_probs: bool) -> None:
    draw, generator = random.Random(1), torch.Generator().manual_seed(2)
    bias = torch.randn(TGT, generator=generator)
    bias[10:20] = -torch.inf
    transforms = [tempered(0.7, TGT), AffineTransform(torch.ones(TGT), bias)]
    vocab, model = Vocab(src=TGT, tgt=TGT, joint=True), small()
    model.returns_log_probs = returns_log_probs
    inputs = [[draw.randrange(4, TGT) for _ in range(draw.choice([1, 5, 9]))] for _ in range(12)]

    def outputs(search: Search, transforms: Sequence[LogitsTransform]) -> list[Any]:
        queue = FixedQueue([SourceSentence(i, [*ids, EOS]) for i, ids in enumerate(inputs)], 30)
        return find_queued(search, model, queue, vocab, nbest=beam, transforms=transforms)

    config = BeamConfig(beam=beam, max_len_b=8)
    fused = outputs(BeamSearch(config), transforms)
    assert fused == outputs(StepByStep(config), transforms) != outputs(BeamSearch(config), [])
    assert not any(10 <= token < 20 for hypotheses in fused for one in hypotheses for token in one.tokens)


def test_affine_transforms_are_one_in_c_and_others_need_the_output() -> None:
    def made(transforms: Sequence[LogitsTransform]) -> Transforms:
        return Transforms(transforms, N, torch.device("cpu"))

    assert made([]).affine is None
    assert not made([]).needs_output
    whole = made([tempered(0.5, N), AffineTransform(torch.full((N,), 3.0), torch.ones(N))])
    assert whole.affine is not None
    assert (whole.affine.scale.tolist(), whole.affine.bias.tolist()) == ([6.0] * N, [1.0] * N)
    assert not whole.needs_output
    assert made([tempered(0.5, N), RepetitionPenalty(2.0)]).needs_output
    assert not made([tempered(0.5, N), RepetitionPenalty(2.0)]).are_known
    penalized = made([RepetitionPenalty(2.0), tempered(0.5, N), tempered(0.5, N)])
    assert penalized.needs_output
    assert penalized.are_known
    assert penalized.penalty == RepetitionPenalty(2.0)
    assert penalized.affine is not None
    assert penalized.affine.scale.tolist() == [4.0] * N


@pytest.mark.parametrize("wrong", [lambda x, y: x[..., 1:], lambda x, y: None], ids=["too few", "none"])
def test_what_is_no_logits_is_refused(wrong: Any) -> None:
    with pytest.raises(PluginError, match=r"expected logits \[1, 1, 7\]"):
        found(BeamSearch(BeamConfig()), JoiningTable(N), [[5]], 9, transforms=[wrong])


@pytest.mark.parametrize(
    ("scale", "bias"),
    [([1.0] * N, [0.0]), ([0.0] * N, [0.0] * N), ([1.0] * N, [torch.inf] * N), ([1.0] * N, [torch.nan] * N)],
)
def test_an_affine_transform_that_cannot_work_is_refused(scale: list[float], bias: list[float]) -> None:
    with pytest.raises(PluginError, match="expected positive scales and biases below inf"):
        AffineTransform(torch.tensor(scale), torch.tensor(bias))


def test_an_affine_transform_of_another_vocabulary_is_refused() -> None:
    """C would read beyond its end."""
    with pytest.raises(PluginError, match="expected 7 scales and biases"):
        found(BeamSearch(BeamConfig()), JoiningTable(N), [[5]], 9, transforms=[tempered(2.0, 6)])


@pytest.mark.parametrize("options", [{"repetition_penalty": 0.0}, {"temperature": 0.0}])
def test_options_that_cannot_work_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"search.{next(iter(options))}"):
        BeamConfig(**options)


def test_a_request_without_transforms_is_as_it_was() -> None:
    request = SearchRequest.from_batch(Table(N), *batch_of([[4]]), VOCAB)
    assert request.with_options(BeamConfig()) is request
    assert request.normalize


class Letters:
    """Encodes letters as their numbers from 4, and other symbols as unknown."""

    vocab = Vocab(src=40, tgt=40)

    def encode(self, examples: Sequence[Any]) -> list[Any]:
        ids = [[4 + ord(c) - ord("a") if "a" <= c <= "z" else self.vocab.unk for c in one.tgt] for one in examples]
        return [SimpleNamespace(tgt=one) for one in ids]


def built(*choices: Any) -> list[Any]:
    return build_transforms(choices, Letters(), load_plugins().registry)  # type: ignore[arg-type]


def test_options_of_the_command_name_tokens_by_texts(tmp_path: Path) -> None:
    (tmp_path / "target.txt").write_text("ab\n\nb😀\n")
    bias, shortlist = built(
        {"name": "bias", "texts": ["ac", "c"], "bias": -2.0},
        {"name": "shortlist", "file": str(tmp_path / "target.txt")},
    )
    assert bias.bias.nonzero()[:, 0].tolist() == [4, 6]
    assert bias.bias[[4, 6]].tolist() == [-2.0, -2.0]
    assert bias.scale.tolist() == shortlist.scale.tolist() == [1.0] * 40
    assert shortlist.bias.isfinite().nonzero()[:, 0].tolist() == [EOS, 4, 5]


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        ("bias", "bias needs texts"),
        ("shortlist", "shortlist needs a file"),
        (
            {"name": "shortlist", "file": "/nowhere"},
            r"^transforms: shortlist: /nowhere: No such file or directory; name",
        ),
        ({"name": "shortlist", "file": "."}, r"^transforms: shortlist: \.: Is a directory; name a file of texts$"),
        (
            {"name": "bias", "texts": ["a", "b😀"], "bias": 1.0},
            "bias: 'b😀' has symbols that are not in the vocabulary",
        ),
        ({"name": "bias", "texts": [""], "bias": 1.0}, "have no tokens"),
        ({"name": "bias", "texts": ["a"], "bias": 1e9}, "bias"),
        ("unheard", "unheard"),
        ({"texts": ["a"]}, "give a name"),
    ],
)
def test_options_of_the_command_that_cannot_work_are_refused(choice: Any, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        built(choice)


def test_a_shortlist_is_text(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"ab\xff\n")
    with pytest.raises(ConfigError, match=r"shortlist: .*x\.txt: not UTF-8 at byte 2; save it as UTF-8"):
        built({"name": "shortlist", "file": str(tmp_path / "x.txt")})
